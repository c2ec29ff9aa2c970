//! The same C program under Peal and under the host environment on the C library's own server
//! (`tests/c/host.c`).
use crate::{Done, c_program, libpmix::Release, peal, run};
use std::process::Command;

/// Run of a program, for tests with `#[needs(libpmix)]`.
#[derive(Clone, Copy)]
pub struct ProgramComparison {
    /// Program with its arguments, as tables name it.
    pub program: &'static str,
    /// Number of its procs.
    pub procs: &'static str,
    /// Exit status under both servers.
    pub exit_status: i32,
    /// Minimum number of lines that it prints.
    pub lines: usize,
}

impl ProgramComparison {
    /// Creates a run of this program with this number of procs.
    pub const fn new(
        program: &'static str,
        procs: &'static str,
        exit_status: i32,
        lines: usize,
    ) -> ProgramComparison {
        ProgramComparison {
            program,
            procs,
            exit_status,
            lines,
        }
    }

    /// Returns the lines that it prints under Peal, by rank.
    #[track_caller]
    pub fn under_peal(&self) -> Vec<String> {
        self.printed(peal([
            "run",
            "-n",
            self.procs,
            "--on-abort",
            "continue",
            "--",
        ]))
    }

    /// Returns the lines that it prints under Peal on this library, by rank.
    #[track_caller]
    pub fn on(&self, library: &Release) -> Vec<String> {
        let mut command = peal(["run", "-n", self.procs, "--on-abort", "continue", "--"]);
        library.of(&mut command);
        self.printed(command)
    }

    /// Returns the lines that it prints under the C server.
    #[track_caller]
    pub fn under_the_c_server(&self) -> Vec<String> {
        let mut command = Command::new(c_program("host"));
        command.arg(self.procs);
        self.printed(command)
    }

    #[track_caller]
    fn printed(&self, mut command: Command) -> Vec<String> {
        let mut words = self.program.split(' ');
        let done: Done = run(command
            .arg(c_program(words.next().unwrap_or_default()))
            .args(words));
        done.expect_status(self.exit_status).by_rank()
    }

    /// Returns the lines under both servers, Peal's first. Fails if there are fewer than expected.
    #[track_caller]
    pub fn under_both(&self) -> (Vec<String>, Vec<String>) {
        let ours = self.under_peal();
        let theirs = self.under_the_c_server();
        assert!(
            ours.len() >= self.lines,
            "{} printed next to nothing: {ours:?}",
            self.program
        );
        (ours, theirs)
    }
}

/// Parts of a line that may differ: on the C library, and on Peal.
#[derive(Clone, Copy)]
pub struct PermittedDifference<'a> {
    /// Part as printed with the C library.
    pub libpmix: &'a str,
    /// Part as printed with Peal.
    pub peal: &'a str,
}

/// Compares two outputs of a program. Each permitted difference must occur.
#[track_caller]
pub fn compare_lines(
    program: &str,
    ours: &[String],
    theirs: Vec<String>,
    differences: &[PermittedDifference<'_>],
) {
    let mut seen = vec![false; differences.len()];
    let expected: Vec<String> = theirs
        .into_iter()
        .map(|line| {
            let permitted = differences.iter().zip(&mut seen);
            permitted.fold(line, |line, (difference, seen)| {
                *seen |= line.contains(difference.libpmix);
                line.replace(difference.libpmix, difference.peal)
            })
        })
        .collect();
    for (ours, expected) in ours.iter().zip(&expected) {
        assert_eq!(
            ours, expected,
            "{program}: a difference that the table of differences does not allow"
        );
    }
    assert_eq!(
        ours.len(),
        expected.len(),
        "{program}: one of them printed more"
    );
    for (difference, seen) in differences.iter().zip(seen) {
        assert!(
            seen,
            "{program}: this permitted difference no longer occurs: {}",
            difference.libpmix
        );
    }
}
