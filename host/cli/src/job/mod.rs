//! `peal job`: jobs of a running server, and their records.
mod environment;
mod record;
mod recorder;

pub use record::RecordedJob;
pub use recorder::{JobRecorder, RecorderCommand};

use crate::{
    admin,
    args::{EnvironmentArgs, JobSubcommand, QueryArgs},
    units, usage_error,
};
use anyhow::{Result, bail};
use peal_model::counted;
use peal_server::admin::{AdminReply, AdminRequest, NewJob};
use std::{io::Write, process::ExitCode};

/// Runs the command.
pub fn run(command: JobSubcommand) -> Result<ExitCode> {
    match command {
        JobSubcommand::Register(args) => {
            // These checks come before the request: otherwise the job stays registered although its
            // environment cannot be printed.
            if args.print.rank.is_some_and(|rank| rank >= args.procs) {
                return Err(usage_error(rank_message(args.procs)));
            }
            if !args.print.json && args.nspace.as_str().contains(environment::is_special) {
                let name = args.nspace.as_str();
                let problem = format!(
                    "a shell would misread the name {name:?} in `env $(..)`: use --json, or another name"
                );
                return Err(usage_error(problem));
            }
            let job = NewJob {
                nspace: args.nspace.to_string(),
                size: args.procs,
                uid: args.uid,
                gid: args.gid,
            };
            let (reply, _) = admin::request(args.at, &AdminRequest::Register(job))?;
            print(reply, &args.print)
        }
        JobSubcommand::Environment(args) => {
            let (reply, _) = admin::request(
                args.at,
                &AdminRequest::Environment {
                    nspace: args.nspace.to_string(),
                },
            )?;
            print(reply, &args.print)
        }
        JobSubcommand::Started(args) => {
            let call = AdminRequest::Started {
                nspace: args.nspace.to_string(),
                rank: args.rank,
                pid: args.pid,
            };
            let (reply, _) = admin::request(args.at, &call)?;
            match reply {
                AdminReply::Started => Ok(ExitCode::SUCCESS),
                reply => admin::unexpected(&reply),
            }
        }
        JobSubcommand::Deregister(args) => {
            let (reply, _) = admin::request(
                args.at,
                &AdminRequest::Deregister {
                    nspace: args.nspace.to_string(),
                },
            )?;
            match reply {
                AdminReply::Deregistered => Ok(ExitCode::SUCCESS),
                reply => admin::unexpected(&reply),
            }
        }
        JobSubcommand::List(args) => list(args),
        JobSubcommand::Record(args) => record::record(args),
    }
}

fn print(reply: AdminReply, how: &EnvironmentArgs) -> Result<ExitCode> {
    let AdminReply::Registered(job) = reply else {
        return admin::unexpected(&reply);
    };
    let mut out = crate::output::stdout();
    if how.json {
        serde_json::to_writer_pretty(&mut out, &job)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    if how.rank.is_some_and(|rank| rank >= job.size) {
        bail!(rank_message(job.size));
    }
    environment::print(&mut out, &job, how.rank)?;
    Ok(ExitCode::SUCCESS)
}

fn rank_message(size: u32) -> String {
    format!(
        "--rank: ranks of a job of {} go from 0 to {}",
        counted(size, "proc"),
        size.saturating_sub(1)
    )
}

fn list(args: QueryArgs) -> Result<ExitCode> {
    let (reply, _) = admin::request(args.at, &AdminRequest::Jobs)?;
    let AdminReply::Jobs { jobs } = reply else {
        return admin::unexpected(&reply);
    };
    let mut out = crate::output::stdout();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &jobs)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{:>6} {:>12} {:>9} {:>9} {:>9} {:>6}  job",
        "procs", "user", "expected", "connected", "finalized", "lost"
    )?;
    for job in jobs {
        let nspace = job.nspace.escape_debug();
        let size = job.size;
        let user = units::user(job.uid);
        let expected = job.expected;
        let connected = job.connected;
        writeln!(
            out,
            "{size:>6} {user:>12} {expected:>9} {connected:>9} {:>9} {:>6}  {nspace}",
            job.finalized, job.lost
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
