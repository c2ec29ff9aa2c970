//! `peal module`: one file per verb.
mod bench;
mod inspect;
mod test;
mod tried;

use crate::args::ModuleCommand;
use anyhow::Result;
use std::process::ExitCode;

/// Does what is asked of modules.
pub fn run(command: ModuleCommand) -> Result<ExitCode> {
    match command {
        ModuleCommand::Inspect(args) => inspect::inspect(&args),
        ModuleCommand::Test(args) => test::test(&args),
        ModuleCommand::Bench(args) => bench::bench(&args),
    }
}
