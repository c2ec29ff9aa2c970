//! `peal`: one verb per thing a person does.
mod admin;
mod args;
mod component;
mod config;
mod config_command;
mod inspect;
mod job;
mod modules;
mod node;
mod reload;
mod run;
mod serve;
mod stats;
mod trace;
mod transcript;

use args::{Args, Command, ModuleCommand};
use clap::{CommandFactory, Parser};
use peal_server::admin::Call;
use std::{io::Write, process::ExitCode};

/// Peal itself failed: a bad configuration, a module that does not load (as `env` and `timeout` do it).
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let args = Args::parse();
    trace::set_up();
    let done = match args.command {
        Command::Run(run) => run::run(run),
        Command::Serve(serve) => serve::serve(serve),
        Command::Status(status) => stats::status(status),
        Command::Stats(stats) => stats::stats(stats),
        Command::Job(command) => job::run(command),
        Command::Drain(drain) => admin::end(drain, Call::Drain),
        Command::Stop(stop) => admin::end(stop, Call::Stop),
        Command::Reload(server) => reload::ask(server),
        Command::Module(ModuleCommand::Inspect(inspect)) => inspect::inspect(&inspect),
        Command::Config(command) => config_command::run(command),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Args::command(), "peal", &mut std::io::stdout());
            Ok(ExitCode::SUCCESS)
        }
    };
    done.unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        ExitCode::from(FAILED)
    })
}

/// Tells whoever reads our standard error. If nobody does, there is nobody to tell.
fn say(text: &str) {
    let lines: String = text.lines().map(|line| format!("peal: {line}\n")).collect();
    let _ = std::io::stderr().write_all(lines.as_bytes());
}
