//! The same C program under Peal and under the host environment on the C library's own server
//! (`tests/c/host.c`).
use crate::{Done, c_program, peal, run};
use std::process::Command;

/// Run of a program, for tests with `#[needs(libpmix)]`.
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
