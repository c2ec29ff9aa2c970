//! `peal`: one verb per thing a person does.
mod admin;
mod args;
mod attach;
mod audit;
mod chain;
mod compiler;
mod config;
mod config_command;
mod ctl;
mod error_text;
mod event;
mod feed;
mod group;
mod interrupts;
mod job;
mod log;
mod manager;
mod module;
mod monitor;
mod node;
mod observer;
mod output;
mod process_setup;
mod ps;
mod recorded;
mod reload;
mod run;
mod serve;
mod stats;
mod table;
mod tool;
mod trace;
mod transcript;
mod troubles;
mod units;
mod wait_message;
mod wall;

use args::{Args, ChainCommand, Command};
use clap::{CommandFactory, Parser, error::ErrorKind};
use clap_complete::Shell;
use error_text::error_text;
use peal_server::admin::Call;
use std::{
    fmt::Display,
    io::{self, Write},
    process::ExitCode,
};

/// Peal itself failed: a bad configuration, a module that does not load (as `env` and `timeout` do it).
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let args = Args::parse_from(args::spelled(std::env::args_os()));
    let done = trace::set_up().and_then(|()| obey(args.command));
    done.unwrap_or_else(|error| match error.downcast::<clap::Error>() {
        Ok(wrong) => wrong.exit(),
        Err(error) => {
            say(&error_text(&error));
            ExitCode::from(FAILED)
        }
    })
}

/// A command line that is wrong in a way that its parser cannot tell.
fn usage_error(problem: impl Display) -> anyhow::Error {
    Args::command()
        .error(ErrorKind::ValueValidation, problem)
        .into()
}

fn obey(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Run(run) => run::run(run),
        Command::Attach(attach) => attach::attach(attach),
        Command::Serve(serve) => serve::serve(serve),
        Command::Status(status) => stats::status(status),
        Command::Stats(stats) => stats::stats(stats),
        Command::Job(command) => job::run(command),
        Command::Event(command) => event::run(command),
        Command::Log(args) => log::run(args),
        Command::Ctl(command) => ctl::run(command),
        Command::Ps(args) => ps::run(args),
        Command::Group(command) => group::run(command),
        Command::Monitor(command) => monitor::run(command),
        Command::Chain(ChainCommand::Show(show)) => chain::show(show),
        Command::Drain(drain) => admin::end(drain, Call::Drain),
        Command::Stop(stop) => admin::end(stop, Call::Stop),
        Command::Reload(server) => reload::ask(server),
        Command::Module(command) => module::run(command),
        Command::Audit(command) => audit::run(command),
        Command::Config(command) => config_command::run(command),
        Command::ProcessObserver => observer::observe(),
        Command::Compiler(args) => compiler::work(args),
        Command::Compile(args) => compiler::compile(args),
        Command::Completions { shell } => completions(shell),
    }
}

/// Prints the completions for a shell.
fn completions(shell: Shell) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "peal", &mut script);
    let mut out = output::stdout();
    out.write_all(&script)?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// The meaning of a status that says nothing more to whoever asked.
const REASON_IN_TRACE: &str =
    "the reason is in the trace of the server, which its administrators can read";

/// Tells whoever reads our standard error. If nobody does, there is nobody to tell.
fn say(text: &str) {
    let lines: String = text.lines().map(|line| format!("peal: {line}\n")).collect();
    let _ = io::stderr().write_all(lines.as_bytes());
}

/// A text without what could end a line or move the cursor.
fn plain(text: &str) -> String {
    text.chars()
        .flat_map(|of| {
            if of.is_control() {
                of.escape_debug().collect::<Vec<_>>()
            } else {
                vec![of]
            }
        })
        .collect()
}
