//! `peal`: command-line tool, with one subcommand for each task.
mod admin;
mod args;
mod artifact_fetcher;
mod attach;
mod audit;
mod audit_signer;
mod audit_trail;
mod call_replay;
mod chain;
mod cluster;
mod compiler;
mod completion;
mod config;
mod config_command;
mod confinement;
mod confirm;
mod console;
mod ctl;
mod data_format;
mod describe;
mod doctor;
mod error_text;
mod event;
mod group;
mod handover;
mod helper;
mod interrupts;
mod job;
mod job_guard;
mod job_options;
mod listing;
mod log;
mod messages;
mod module;
mod monitor;
mod node;
mod output;
mod process_setup;
mod ps;
mod reload;
mod run;
mod serve;
mod server_signals;
mod service_manager;
mod short_text;
mod sort_value;
mod stats;
mod stdin;
mod successor;
mod supervisor;
mod table;
mod telemetry;
mod tenant;
mod tool;
mod top;
mod trace;
mod transcript;
mod troubles;
mod units;
mod upgrade;
mod users;
mod wait_message;

use anyhow::Context;
use args::{Args, ChainCommand, PealCommand};
use clap::{CommandFactory, FromArgMatches, error::ErrorKind};
use error_text::error_text;
use peal_model::plain;
use peal_server::admin::AdminRequest;
use std::{fmt::Display, fs, io::Write, path::Path, process::ExitCode};

/// Exit status if Peal itself failed, for example by an invalid configuration or module (as `env`
/// and `timeout` have it).
const FAILED: u8 = 125;

fn main() -> ExitCode {
    if let Some(completed) = completion::answer() {
        return completed;
    }
    let args = parse();
    let done = trace::set_up(&args.trace).and_then(|()| dispatch(args.command));
    done.unwrap_or_else(|error| match error.downcast::<clap::Error>() {
        // clap exits with 2 for a wrong command line.
        Ok(wrong) => wrong.exit(),
        Err(error) => {
            print_line(&error_text(&error));
            ExitCode::from(FAILED)
        }
    })
}

/// Parses the command line. Exits where it is wrong, and after help.
fn parse() -> Args {
    // Made once: the definition of all commands takes a millisecond.
    let mut command = Args::command();
    let words = args::normalize_np(&command, std::env::args_os());
    let parsed = command.try_get_matches_from_mut(words);
    let parsed = parsed.and_then(|mut matches| {
        let args = Args::from_arg_matches_mut(&mut matches);
        args.map_err(|error| error.format(&mut command))
    });
    parsed.unwrap_or_else(|error| error.exit())
}

/// Returns the error for a command line that is invalid in a way that clap cannot check.
fn usage_error(problem: impl Display) -> anyhow::Error {
    Args::command()
        .error(ErrorKind::ValueValidation, problem)
        .into()
}

fn dispatch(command: PealCommand) -> anyhow::Result<ExitCode> {
    match command {
        PealCommand::Run(run) => run::run(run),
        PealCommand::Attach(attach) => attach::attach(attach),
        PealCommand::Serve(serve) => serve::serve(serve),
        PealCommand::Upgrade(upgrade) => upgrade::upgrade(upgrade),
        PealCommand::Status(status) => stats::status(status),
        PealCommand::Stats(stats) => stats::stats(stats),
        PealCommand::Top(args) => top::run(args),
        PealCommand::Job(command) => job::run(command),
        PealCommand::Event(command) => event::run(command),
        PealCommand::Log(args) => log::run(args),
        PealCommand::Ctl(command) => ctl::run(command),
        PealCommand::Ps(args) => ps::run(args),
        PealCommand::Group(command) => group::run(command),
        PealCommand::Monitor(command) => monitor::run(command),
        PealCommand::Chain(ChainCommand::Show(show)) => chain::show(show),
        PealCommand::Drain(drain) => admin::end(drain, AdminRequest::Drain),
        PealCommand::Stop(stop) => admin::end(stop, AdminRequest::Stop),
        PealCommand::Reload(server) => reload::request(server),
        PealCommand::Module(command) => module::run(command),
        PealCommand::Audit(command) => audit::run(command),
        PealCommand::Describe(command) => describe::run(command),
        PealCommand::Config(command) => config_command::run(command),
        PealCommand::Doctor(args) => doctor::run(args),
        PealCommand::Cluster(command) => cluster::run(command),
        PealCommand::HostServer => serve::serve_launcher(),
        PealCommand::JobGuard => job_guard::watch(),
        PealCommand::Helper(args) => helper::help(args),
        PealCommand::Console(args) => console::work(args),
        PealCommand::CallReplay(args) => call_replay::work(args),
        PealCommand::AuditSigner(args) => audit_signer::sign(args),
        PealCommand::Compiler(args) => compiler::work(args),
        PealCommand::Compile(args) => compiler::compile(args),
        PealCommand::ArtifactFetcher(args) => artifact_fetcher::work(args),
        PealCommand::Tenant(args) => tenant::run(args),
        PealCommand::Completions { shell } => completion::script(shell),
        PealCommand::ManPages { directory } => man_pages(&directory),
    }
}

/// Writes the manual pages of all commands into a directory.
fn man_pages(directory: &Path) -> anyhow::Result<ExitCode> {
    fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Args::command(), directory))
        .with_context(|| format!("cannot write manual pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// Explanation of a status that comes without a reason.
const REASON_IN_TRACE: &str =
    "the reason is in the trace of the server, which its administrators can read";

/// Prints lines to standard error. A write error is ignored, since there is no other place to
/// report it.
fn print_line(text: &str) {
    let lines: String = text
        .lines()
        .map(|line| format!("{}{line}\n", messages::PREFIX))
        .collect();
    let _ = messages::StandardErrorWriter.write_all(lines.as_bytes());
}
