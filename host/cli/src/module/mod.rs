//! `peal module`: one file per verb.
mod build;
mod inspect;
mod new;

use crate::args::ModuleCommand;
use anyhow::Result;
use std::process::ExitCode;

/// Does what is asked of modules.
pub fn run(command: ModuleCommand) -> Result<ExitCode> {
    match command {
        ModuleCommand::New(args) => new::new(&args),
        ModuleCommand::Build(args) => build::build(&args),
        ModuleCommand::Inspect(args) => inspect::inspect(&args),
    }
}
