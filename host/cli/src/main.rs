//! `peal`: one verb per thing a person does.
mod args;
mod component;
mod config;
mod config_command;
mod inspect;
mod modules;
mod run;
mod transcript;

use args::{Args, Command, ModuleCommand};
use clap::{CommandFactory, Parser};
use std::{io::Write, process::ExitCode};

/// Peal itself failed: a bad configuration, a module that does not load (as `env` and `timeout` do it).
const FAILED: u8 = 125;

fn main() -> ExitCode {
    let args = Args::parse();
    set_up_tracing();
    let done = match args.command {
        Command::Run(run) => run::run(run),
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

/// Warnings go to standard error; `PEAL_LOG` says what else, as in `PEAL_LOG=peal_server=debug,peal::guest=info`.
fn set_up_tracing() {
    use std::io::IsTerminal;
    let filter = tracing_subscriber::EnvFilter::try_from_env("PEAL_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}
