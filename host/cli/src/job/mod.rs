//! `peal job`: jobs of a running server, and their records.
mod environment;
mod record;
mod recorder;

pub use record::{RecordedJob, recorded};
pub use recorder::{JobRecorder, RecorderCommand};

use crate::{
    admin,
    args::{DryRunArgs, EnvironmentArgs, JobListArgs, JobSubcommand, OutputFormat},
    listing::{ListColumn, ListItem, ListSelection, listed, names},
    output, plain, units, usage_error,
    users::{self, WithUserName},
};
use anyhow::{Result, bail};
use peal_model::counted;
use peal_server::admin::{AdminReply, AdminRequest, JobStatus, NewJob};
use std::process::ExitCode;

/// Runs the command.
pub fn run(command: JobSubcommand) -> Result<ExitCode> {
    match command {
        JobSubcommand::Register(args) => {
            // These checks come before the request: otherwise the job stays registered although its
            // environment cannot be printed.
            if args.print.rank.is_some_and(|rank| rank >= args.procs) {
                return Err(usage_error(rank_message(args.procs)));
            }
            if args.print.format.output == OutputFormat::Text
                && args.nspace.as_str().contains(environment::is_special)
            {
                let name = args.nspace.as_str();
                let problem = format!(
                    "a shell would misread the name {name:?} in `env $(..)`: use -o json, or another name"
                );
                return Err(usage_error(problem));
            }
            let job = NewJob {
                nspace: args.nspace.to_string(),
                size: args.procs,
                uid: args.uid,
                gid: args.gid,
            };
            let call = AdminRequest::Register(job);
            let (reply, _) = admin::request_change(args.at, call, args.dry_run)?;
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
            let (nspace, rank, pid) = (args.nspace.as_str(), args.rank, args.pid);
            let would = format!("watch process {pid} as rank {rank} of job {nspace}");
            match admin::request_change(args.at, call, args.dry_run)?.0 {
                AdminReply::Started => done(&would, args.dry_run),
                reply => admin::unexpected(&reply),
            }
        }
        JobSubcommand::Deregister(args) => {
            let call = AdminRequest::Deregister {
                nspace: args.nspace.to_string(),
            };
            let would = format!("remove job {}", args.nspace.as_str());
            match admin::request_change(args.at, call, args.dry_run)?.0 {
                AdminReply::Deregistered => done(&would, args.dry_run),
                reply => admin::unexpected(&reply),
            }
        }
        JobSubcommand::List(args) => list(args),
        JobSubcommand::Record(args) => record::record(args),
    }
}

/// Ends a request that prints nothing but, in a dry run, what it would do.
fn done(would: &str, dry_run: DryRunArgs) -> Result<ExitCode> {
    if dry_run.dry_run {
        output::print(&format!("would {}\n", plain(would)))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print(reply: AdminReply, how: &EnvironmentArgs) -> Result<ExitCode> {
    let AdminReply::Registered(job) = reply else {
        return admin::unexpected(&reply);
    };
    if let OutputFormat::Data(form) = how.format.output {
        output::print(&form.document(&job)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if how.rank.is_some_and(|rank| rank >= job.size) {
        bail!(rank_message(job.size));
    }
    environment::print(&mut output::stdout(), &job, how.rank)?;
    Ok(ExitCode::SUCCESS)
}

fn rank_message(size: u32) -> String {
    format!(
        "--rank: ranks of a job of {} go from 0 to {}",
        counted(size, "proc"),
        size.saturating_sub(1)
    )
}

impl ListItem for JobStatus {
    const COLUMNS: &'static [ListColumn<JobStatus>] = &[
        ListColumn::<JobStatus>::text("job", |job| job.nspace.clone()),
        ListColumn::<JobStatus>::text("user", |job| users::shown(job.uid)),
        ListColumn::<JobStatus>::number("group", |job| Some(job.gid.into()), units::count).wide(),
        ListColumn::<JobStatus>::number(
            "elapsed",
            |job| job.elapsed.map(|seconds| seconds as f64),
            units::seconds,
        ),
        ListColumn::<JobStatus>::number("procs", |job| Some(job.size.into()), units::count),
        ListColumn::<JobStatus>::number("expected", |job| Some(job.expected.into()), units::count),
        ListColumn::<JobStatus>::number(
            "connected",
            |job| Some(job.connected.into()),
            units::count,
        ),
        ListColumn::<JobStatus>::number(
            "finalized",
            |job| Some(job.finalized.into()),
            units::count,
        ),
        ListColumn::<JobStatus>::number("lost", |job| Some(job.lost.into()), units::count),
    ];
}

fn list(args: JobListArgs) -> Result<ExitCode> {
    let selection = ListSelection {
        user: args.user.user,
        order: args.order.sort,
        ..ListSelection::default()
    };
    let (reply, _) = admin::request(args.at, &AdminRequest::Jobs)?;
    let AdminReply::Jobs { jobs } = reply else {
        return admin::unexpected(&reply);
    };
    let jobs = jobs.into_iter();
    let mut jobs: Vec<JobStatus> = jobs
        .filter(|job| selection.has_user(Some(job.uid)))
        .collect();
    selection.sort(&mut jobs);
    output::print(&match args.format.output {
        OutputFormat::Data(form) => {
            let jobs = jobs.iter().map(|job| WithUserName::new(job, job.uid));
            form.document(&jobs.collect::<Vec<_>>())?
        }
        OutputFormat::Name => names(jobs.iter().map(|job| &job.nspace)),
        format => listed(&jobs, format),
    })?;
    Ok(ExitCode::SUCCESS)
}
