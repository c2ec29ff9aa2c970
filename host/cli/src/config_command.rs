//! `peal config`: what is wrong with the configuration, what holds, and where that comes from.
use crate::{
    args::{Check, ConfigCommand, Show},
    config,
};
use anyhow::Result;
use peal_config::{Problems, Resolved, docs};
use std::{io::Write, process::ExitCode};

/// The configuration is wrong.
const WRONG: u8 = 1;

/// Does what is asked.
pub fn run(command: ConfigCommand) -> Result<ExitCode> {
    let mut out = crate::output::stdout();
    match command {
        ConfigCommand::Check(check) => {
            return Ok(match checked(check) {
                Ok(resolved) => {
                    let files = resolved.files.iter().map(|file| format!(" {}", file.display())).collect::<String>();
                    let files = if files.is_empty() { " no file was read" } else { &files };
                    writeln!(out, "all is well, {} modules:{files}", resolved.modules.len())?;
                    ExitCode::SUCCESS
                }
                Err(problems) => {
                    crate::say(&problems.to_string());
                    ExitCode::from(WRONG)
                }
            });
        }
        ConfigCommand::Show(Show { config, json }) => {
            let view = config::load(config, [])?.view();
            if json {
                serde_json::to_writer_pretty(&mut out, &view)?;
                writeln!(out)?;
            } else {
                write!(out, "{view}")?;
            }
        }
        ConfigCommand::Example => write!(out, "{}", docs::example())?,
        ConfigCommand::Reference => write!(out, "{}", docs::reference())?,
    }
    Ok(ExitCode::SUCCESS)
}

fn checked(check: Check) -> Result<Resolved, Problems> {
    let mut args = check.config;
    args.config = check.file.or(args.config);
    let resolved = config::load(args, [])?;
    config::check(&resolved)?;
    Ok(resolved)
}
