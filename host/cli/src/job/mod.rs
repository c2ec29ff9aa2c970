//! `peal job`: the jobs of a running server, and what is recorded of them.
mod keeper;
mod record;

pub use keeper::{Command, Keeper};

use crate::{
    admin,
    args::{Ask, JobCommand, Print},
};
use anyhow::{Result, bail};
use peal_model::counted;
use peal_server::admin::{Call, NewJob, Registered, Reply};
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Does what is asked.
pub fn run(command: JobCommand) -> Result<ExitCode> {
    match command {
        JobCommand::Register(args) => {
            if args.print.rank.is_some_and(|rank| rank >= args.procs) {
                bail!(rank_message(args.procs));
            }
            let job = NewJob { nspace: args.nspace, size: args.procs, uid: args.uid, gid: args.gid };
            let (reply, _) = admin::ask(args.at, &Call::Register(job))?;
            print(reply, &args.print)
        }
        JobCommand::Environment(args) => {
            let (reply, _) = admin::ask(args.at, &Call::Environment { nspace: args.nspace })?;
            print(reply, &args.print)
        }
        JobCommand::Deregister(args) => {
            let (reply, _) = admin::ask(args.at, &Call::Deregister { nspace: args.nspace })?;
            match reply {
                Reply::Deregistered => Ok(ExitCode::SUCCESS),
                reply => admin::unexpected(&reply),
            }
        }
        JobCommand::List(args) => list(args),
        JobCommand::Record(args) => record::record(args),
    }
}

fn print(reply: Reply, how: &Print) -> Result<ExitCode> {
    let Reply::Registered(job) = reply else { return admin::unexpected(&reply) };
    let mut out = io::stdout().lock();
    if how.json {
        serde_json::to_writer_pretty(&mut out, &job)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    match how.rank {
        Some(rank) if rank < job.size => write_rank(&mut out, &job, rank)?,
        Some(_) => bail!(rank_message(job.size)),
        None => {
            for rank in 0..job.size {
                writeln!(out, "# rank {rank}")?;
                write_rank(&mut out, &job, rank)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn rank_message(size: u32) -> String {
    format!("--rank: ranks of a job of {} go from 0 to {}", counted(size, "proc"), size.saturating_sub(1))
}

fn write_rank(out: &mut impl Write, job: &Registered, rank: u32) -> io::Result<()> {
    job.of_rank(rank).try_for_each(|(name, value)| writeln!(out, "{name}={value}"))
}

fn list(args: Ask) -> Result<ExitCode> {
    let (reply, _) = admin::ask(args.at, &Call::Jobs)?;
    let Reply::Jobs { jobs } = reply else { return admin::unexpected(&reply) };
    let mut out = io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &jobs)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(
        out,
        "{:>6} {:>8} {:>9} {:>9} {:>9} {:>6}  job",
        "procs", "user", "expected", "connected", "finalized", "lost"
    )?;
    for job in jobs {
        let nspace = job.nspace.escape_debug();
        let (size, uid, expected, connected) = (job.size, job.uid, job.expected, job.connected);
        writeln!(
            out,
            "{size:>6} {uid:>8} {expected:>9} {connected:>9} {:>9} {:>6}  {nspace}",
            job.finalized, job.lost
        )?;
    }
    Ok(ExitCode::SUCCESS)
}
