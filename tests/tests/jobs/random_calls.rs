//! Functions of Peal's `libpmix.so.2` in random order with random arguments, from a C program with
//! AddressSanitizer: under a server, without one, and as a tool that connects to none. The calls
//! follow from a seed; `PEAL_CALLS_SEED` and `PEAL_CALLS_SECONDS` make a long run (`cargo xtask
//! soak`). The functions that need no server are called by the fuzz target `calls` as well.
use peal_needs::needs;
use peal_tests::{Done, c_program, libpmix::Release, peal, run, run_within};
use std::{
    collections::BTreeSet,
    env,
    process::Command,
    time::{Duration, Instant},
};

/// Options of the sanitizer: leaks are errors, and an error is the exit status of a proc.
const OPTIONS: &str = "detect_leaks=1:exitcode=9";
/// Time limit of a run, of which most are done within a second.
const LONGEST: Duration = Duration::from_secs(300);
/// Number of procs under a server.
const PROCS: u64 = 3;
/// Number of calls in each thread and phase.
const CALLS: &str = "300";
/// Number of runs in ordinary tests.
const RUNS: u64 = 3;

/// Runs until the time is over, or a few times if none is set. Each run has another seed.
fn repeat(mut run: impl FnMut(&str)) {
    let number = |name| {
        let text = env::var(name).ok()?;
        Some(text.parse::<u64>().expect("a number"))
    };
    let seed = number("PEAL_CALLS_SEED").unwrap_or(1);
    let limit = number("PEAL_CALLS_SECONDS").map(Duration::from_secs);
    let began = Instant::now();
    let mut runs = 0;
    while limit.map_or(runs < RUNS, |limit| began.elapsed() < limit) {
        let seed = seed + 100_000 * runs;
        println!("seed {seed}");
        run(&seed.to_string());
        runs += 1;
    }
}

fn program() -> Command {
    let mut command = Command::new(c_program("sanitized/random"));
    command.env("ASAN_OPTIONS", OPTIONS);
    command
}

/// Checks the lines of a run. A proc that pulls output repeats lines of others.
#[track_caller]
fn expect_lines(done: &Done, expected: &[String]) {
    let is_line = |line: &&str| line.starts_with("rank ");
    let lines: BTreeSet<&str> = done.stdout.lines().filter(is_line).collect();
    let expected: BTreeSet<&str> = expected.iter().map(String::as_str).collect();
    assert_eq!(lines, expected, "{}", done.stderr);
    assert!(!done.stderr.contains("panicked at"), "{}", done.stderr);
}

/// Returns the lines of a proc that was initialized.
fn served(rank: u64) -> [String; 4] {
    [
        "before init: 0 calls succeeded",
        "initialized: some calls succeeded",
        "finalize: 0",
        "after finalize: 0 calls succeeded",
    ]
    .map(|line| format!("rank {rank}: {line}"))
}

#[needs(prepared, libpmix, sanitizer)]
#[test]
fn random_calls_under_a_server_get_statuses() {
    repeat(|seed| {
        let mut command = peal(["run", "-n", &PROCS.to_string(), "--"]);
        command.arg(c_program("sanitized/random"));
        command
            .args([seed, CALLS, "4"])
            .env("ASAN_OPTIONS", OPTIONS);
        let done = run_within(LONGEST, Release::peal().of(&mut command)).expect_status(0);
        let expected: Vec<String> = (0..PROCS).flat_map(served).collect();
        expect_lines(&done, &expected);
    });
}

#[needs(prepared, libpmix, sanitizer)]
#[test]
fn random_calls_without_a_server_get_statuses() {
    repeat(|seed| {
        let mut command = program();
        command.args([seed, CALLS, "1"]);
        let done = run(Release::peal().of(&mut command)).expect_status(0);
        let expected = [
            "rank 0: before init: 0 calls succeeded",
            // `PMIX_ERR_UNREACH`
            "rank 0: init: -25",
            "rank 0: without init: 0 calls succeeded",
        ];
        expect_lines(&done, &expected.map(str::to_owned));
    });
}

#[needs(prepared, libpmix, sanitizer)]
#[test]
fn random_calls_of_an_unconnected_tool_get_statuses() {
    repeat(|seed| {
        let mut command = program();
        command.args([seed, CALLS, "4", "alone"]);
        let done = run(Release::peal().of(&mut command)).expect_status(0);
        expect_lines(&done, &served(0));
    });
}
