//! Completion as shells ask for it.
use crate::{peal, run};
use std::process::Command;

/// Returns the command by which bash asks for candidates for the last one of these words, which follow the
/// name of the program.
pub fn completing(words: &[&str]) -> Command {
    let mut command = peal(["--", "peal"]);
    command
        .args(words)
        .env("PEAL_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    command
}

/// Returns the candidates of a command made by [`completing`].
#[track_caller]
pub fn candidates(command: &mut Command) -> Vec<String> {
    let done = run(command).expect_status(0);
    assert_eq!(done.stderr, "", "completion prints no errors");
    done.stdout.lines().map(str::to_owned).collect()
}
