//! C programs on Peal's `libpmix.so.2` with tools that find errors of memory. AddressSanitizer is in
//! the programs alone: of the library it sees the C heap. Valgrind sees all that the library does.
//! Both report what is lost at the end.
use peal_needs::needs;
use peal_tests::{c_program, libpmix::Release, peal, run_within};
use std::{path::Path, process::Command, time::Duration};

/// Status of a proc in which a tool finds an error.
const FOUND: &str = "9";
/// Time limit of a program, which is many times slower than by itself.
const LONGEST: Duration = Duration::from_secs(200);

/// Runs with AddressSanitizer: number of procs, program and its arguments.
const SANITIZED: [(&str, &str); 8] = [
    ("4", "job"),
    ("2", "publish"),
    ("4", "group whole"),
    ("4", "group leaves 1"),
    ("2", "misuse"),
    ("3", "cached order"),
    ("2", "contents codes"),
    ("2", "cycle 5"),
];

/// Runs under valgrind. `misuse` is not among them: a child that it forks ends without freeing
/// anything, which valgrind reports.
const UNDER_VALGRIND: [(&str, &str); 4] = [
    ("2", "job"),
    ("2", "group whole"),
    ("2", "random 1 100 3"),
    ("2", "unpaced 300"),
];

/// Options of valgrind. Threads that end with the process leave memory that is possibly lost.
const VALGRIND: [&str; 6] = [
    "valgrind",
    "--quiet",
    "--leak-check=full",
    "--show-leak-kinds=definite",
    "--errors-for-leak-kinds=definite",
    "--num-callers=30",
];

/// Returns the command that runs this many procs of what follows.
fn job(procs: &str) -> Command {
    let mut command = peal(["run", "-n", procs, "--on-abort", "continue", "--"]);
    Release::peal().of(&mut command);
    command
}

/// Runs a program to its end, with the arguments of this line.
#[track_caller]
fn expect_no_error(mut command: Command, program: &Path, line: &str) {
    command.arg(program).args(line.split(' ').skip(1));
    let done = run_within(LONGEST, &mut command);
    assert_eq!(
        done.status,
        Some(0),
        "{line}\n{}\n{}",
        done.stdout,
        done.stderr
    );
}

/// Returns the name of the program of a line.
fn name(line: &str) -> &str {
    line.split(' ').next().unwrap_or(line)
}

#[needs(prepared, libpmix, sanitizer)]
#[test]
fn address_sanitizer_finds_no_error() {
    for (procs, line) in SANITIZED {
        let mut command = job(procs);
        command.env("ASAN_OPTIONS", format!("detect_leaks=1:exitcode={FOUND}"));
        let program = c_program("sanitized").join(name(line));
        expect_no_error(command, &program, line);
    }
}

#[needs(prepared, libpmix, valgrind)]
#[test]
fn valgrind_finds_no_error() {
    for (procs, line) in UNDER_VALGRIND {
        let mut command = job(procs);
        command
            .args(VALGRIND)
            .arg(format!("--error-exitcode={FOUND}"));
        expect_no_error(command, &c_program(name(line)), line);
    }
}
