//! `peal module`: one file per verb.
mod inspect;

use crate::args::ModuleCommand;
use anyhow::Result;
use std::process::ExitCode;

/// Does what is asked of modules.
pub fn run(command: ModuleCommand) -> Result<ExitCode> {
    match command {
        ModuleCommand::Inspect(args) => inspect::inspect(&args),
    }
}
