//! Command line of `peal job`.
use super::{
    ClusterArgs, ConfigArgs, DryRunArgs, FactFormats, OutputArgs, ServerArgs, SortArgs,
    TableFormats, UserArgs,
    number::{MAX_PID, whole},
};
use crate::completion;
use clap::{Args as ClapArgs, Subcommand};
use clap_complete::ArgValueCandidates;
use peal_config::words;
use peal_model::Nspace;
use peal_server::admin::{JobStatus, MAX_JOB_SIZE};

/// `peal job`.
#[derive(Subcommand)]
pub enum JobSubcommand {
    /// Register a job and print the environment with which its procs find the server
    Register(JobRegisterArgs),
    /// Print the environment of a registered job
    Environment(JobEnvironment),
    /// Report the process that was started as a proc of a registered job
    ///
    /// Otherwise the server learns of a process when it connects. After this command the server
    /// monitors the process, `peal ps` shows it and `peal ctl` reaches it before it connects. If it
    /// ends before it connects, other procs stop waiting for it. The process must run as the user
    /// of the job.
    #[command(after_help = STARTED_EXAMPLES)]
    Started(JobStartedArgs),
    /// Deregister a job that has no connected procs
    Deregister(Deregister),
    /// List the jobs and the states of their procs
    List(JobListArgs),
    /// Show the record of a job, in the order of time
    ///
    /// The record contains the start and end of the job and its procs, the events that affected it,
    /// job control requests, and messages logged to the channel job_record. The store (store.path)
    /// keeps it after the end of job and server. Of several jobs with one name, the last one is
    /// shown.
    Record(JobRecordArgs),
}

/// `peal job record`.
#[derive(ClapArgs)]
pub struct JobRecordArgs {
    /// Name of the job
    #[arg(add = ArgValueCandidates::new(completion::jobs), value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
    /// Selection of the cluster.
    #[command(flatten)]
    pub nodes: ClusterArgs,
}

/// `peal job register`.
#[derive(ClapArgs)]
pub struct JobRegisterArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Name of the job
    #[arg(value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// Register N procs
    #[arg(short = 'n', long = "procs", value_name = "N", default_value_t = 1, value_parser = whole(1..=MAX_JOB_SIZE))]
    pub procs: u32,
    /// Let the procs run as the user with the number UID; requires root; default: the caller
    #[arg(long, value_name = "UID", value_parser = whole(0..=u32::MAX - 1))]
    pub uid: Option<u32>,
    /// Let the procs run with the Unix group GID; requires root; default: the group of the user
    #[arg(long, value_name = "GID", value_parser = whole(0..=u32::MAX - 1))]
    pub gid: Option<u32>,
    /// Output format.
    #[command(flatten)]
    pub print: EnvironmentArgs,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal job environment`.
#[derive(ClapArgs)]
pub struct JobEnvironment {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Name of the job
    #[arg(add = ArgValueCandidates::new(completion::jobs), value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// Output format.
    #[command(flatten)]
    pub print: EnvironmentArgs,
}

/// Output format of the environment of a job.
#[derive(ClapArgs)]
pub struct EnvironmentArgs {
    /// Print only the environment of RANK, as lines for `env`
    #[arg(long, value_name = "RANK", value_parser = whole(0..=MAX_JOB_SIZE - 1), conflicts_with = "output")]
    pub rank: Option<u32>,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

const STARTED_EXAMPLES: &str = "\
Examples:
  env $(peal job environment demo --rank 0) ./app & peal job started demo 0 $!";

/// `peal job started`.
#[derive(ClapArgs)]
pub struct JobStartedArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Name of the job
    #[arg(add = ArgValueCandidates::new(completion::jobs), value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// Rank of the proc
    #[arg(value_name = "RANK", value_parser = whole(0..=MAX_JOB_SIZE - 1))]
    pub rank: u32,
    /// Process id
    #[arg(value_name = "PID", value_parser = whole(1..=MAX_PID))]
    pub pid: u32,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal job deregister`.
#[derive(ClapArgs)]
pub struct Deregister {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Name of the job
    #[arg(add = ArgValueCandidates::new(completion::jobs), value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal job list`.
#[derive(ClapArgs)]
pub struct JobListArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<TableFormats>,
    /// Selection by user.
    #[command(flatten)]
    pub user: UserArgs,
    /// Order of the jobs.
    #[command(flatten)]
    pub order: SortArgs<JobStatus>,
}
