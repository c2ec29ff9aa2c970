//! The same C program under Peal and under the host on the C library's own server (`tests/c/host.c`).
use crate::{Done, c_program, peal, run};
use std::process::Command;

/// A run of a program, for tests that say `#[needs(libpmix)]`.
pub struct ProgramComparison {
    /// With its arguments, as tables call it.
    pub program: &'static str,
    /// How many procs run it.
    pub procs: &'static str,
    /// What both servers' programs end with.
    pub exit_status: i32,
    /// How much it prints at least.
    pub lines: usize,
}

impl ProgramComparison {
    /// So many procs of this program.
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

    /// What it prints under Peal, by rank.
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

    /// What it prints under the C server.
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

    /// Both, Peal's first, which must be something.
    #[track_caller]
    pub fn under_both(&self) -> (Vec<String>, Vec<String>) {
        let (ours, theirs) = (self.under_peal(), self.under_the_c_server());
        assert!(
            ours.len() >= self.lines,
            "{} printed next to nothing: {ours:?}",
            self.program
        );
        (ours, theirs)
    }
}
