//! `peal module`: one file for each subcommand.
mod acceptance;
mod add;
mod available;
mod bench;
mod build;
mod call_list;
mod call_steps;
mod candidate;
mod case_results;
mod deploy;
mod deploy_dry_run;
mod deployed;
mod deployed_cluster;
mod dev;
mod diff;
mod inspect;
mod keygen;
mod new;
mod password;
mod registry;
mod sign;
mod test;
mod verify;

pub use deployed::{modules, write_changes};

use crate::{args::ModuleCommand, reload};
use anyhow::Result;
use peal_server::admin::ModuleCall;
use std::process::ExitCode;

/// Runs the command.
pub fn run(command: ModuleCommand) -> Result<ExitCode> {
    match command {
        ModuleCommand::New(args) => new::new(&args),
        ModuleCommand::Build(args) => build::build(&args),
        ModuleCommand::Dev(args) => dev::dev(args),
        ModuleCommand::Inspect(args) => inspect::inspect(&args),
        ModuleCommand::Keygen(args) => keygen::keygen(&args),
        ModuleCommand::Sign(args) => sign::sign(&args),
        ModuleCommand::Verify(args) => verify::verify(args),
        ModuleCommand::Push(args) => registry::push(&args),
        ModuleCommand::Pull(args) => registry::pull(&args),
        ModuleCommand::Deploy(args) => deploy::deploy(args),
        ModuleCommand::List(args) if args.available => available::list(&args),
        ModuleCommand::List(args) => deployed::list(args),
        ModuleCommand::Add(args) => add::add(args),
        ModuleCommand::Reload(args) => reload::request(args),
        ModuleCommand::Disable(args) => deployed::change(args, |name| ModuleCall::Disable { name }),
        ModuleCommand::Enable(args) => deployed::change(args, |name| ModuleCall::Enable { name }),
        ModuleCommand::Reset(args) => deployed::change(args, |name| ModuleCall::Reset { name }),
        ModuleCommand::Diff(args) => diff::show(args),
        ModuleCommand::Promote(args) => deployed::change(args, |name| ModuleCall::Promote { name }),
        ModuleCommand::Rollback(args) => deployed::rollback(args),
        ModuleCommand::Test(args) => test::test(&args),
        ModuleCommand::Bench(args) => bench::bench(&args),
    }
}
