//! What can be said on the command line.
mod attach;
mod audit;
mod control;
mod events;
mod groups;
mod log;
mod modules;
mod monitor;
mod number;
mod placement;
mod run;
mod signing;

pub use attach::AttachArgs;
pub use audit::{
    AuditCommand, AuditExport, AuditFilter, AuditList, AuditReplay, AuditReport, AuditShow,
    AuditSource, AuditStats, AuditVerify,
};
pub use control::{CtlAct, CtlAsk, CtlCancel, CtlCommand, CtlSignal, CtlStatus};
pub use events::{ChainCommand, ChainShow, EventCommand, EventNotify, EventWatch, ToolArgs};
pub use groups::{GroupCommand, GroupShow};
pub use log::Log;
pub use modules::{
    Build, Inspect, ModuleBench, ModuleCommand, ModuleDiff, ModuleNameArgs, ModuleRollback,
    ModuleTest, New,
};
pub use monitor::{MonitorCommand, MonitorFile, MonitorUsage, Ps};
pub use run::{AppArgs, Run, normalize_np};
pub use signing::{Keygen, PASSWORD_VARIABLE, PasswordArgs, Sign, Verify};

use clap::{Args as ClapArgs, Parser, Subcommand};
use number::{MAX_PID, whole};
use peal_config::{SettingOverride, words};
use peal_model::Nspace;
use peal_sandbox::CodeTarget;
use peal_server::admin::MAX_JOB_SIZE;
use std::path::PathBuf;

/// Runs PMIx programs, with sandboxed WebAssembly components handling their events.
#[derive(Parser)]
#[command(name = "peal", version, max_term_width = 100, after_help = EXIT_STATUS)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: PealCommand,
}

const EXIT_STATUS: &str = "\
--config, --set, --socket, --pid, --nspace, --uri and --json stand before the verb or behind it.

Exit status:
  that of the job for `peal run`, of the program for `peal attach` (128 and more: ended by a signal), otherwise 0;
  1 if `peal config check` or `peal status` found something wrong, or `peal ctl` did not do all;
  125 if Peal itself failed, 126 if the program cannot be executed, 127 if it is not there; 2 for a wrong command line.

Environment:
  PEAL_LOG     what to trace on standard error, instead of trace.filter unless it is empty, as in PEAL_LOG=info or PEAL_LOG=peal_server=debug,peal::guest=info
  PEAL_CONFIG  the configuration file, unless --config names one; empty for none
  PEAL_...     settings, as in PEAL_EVENTS_RING_SIZE=2048 for events.ring_size";

/// The verbs.
#[derive(Subcommand)]
pub enum PealCommand {
    /// Run a program as a job
    ///
    /// Starts N procs of PROGRAM under an embedded PMIx server and waits for them. Programs linked with libpmix, and so
    /// every Open MPI program, find the server through their environment. The components given by --handler see the
    /// events that concern the job; those of the configuration see all events.
    #[command(after_help = run::RUN_EXAMPLES)]
    Run(Run),
    /// Run a program of a job that another server runs, with handlers between the two
    ///
    /// Started in place of PROGRAM by mpirun, prterun, `peal run` or whatever starts PMIx programs. PROGRAM finds its server as
    /// ever; what the two say to each other passes through here, and the components given by --handler see the events that come,
    /// before PROGRAM does. What one completes (PMIX_EVENT_ACTION_COMPLETE) does not come to PROGRAM. Signals are passed on, and
    /// the exit status is that of PROGRAM.
    #[command(after_help = attach::ATTACH_EXAMPLES)]
    Attach(AttachArgs),
    /// Serve the jobs and tools of this node until told to stop
    ///
    /// Jobs are registered by `peal job register`; whoever registered one starts its procs. SIGTERM and SIGINT let those who
    /// are connected finish (a second one does not), SIGHUP reads the configuration again.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Show which server is running and how it is
    ///
    /// Tells what is wrong with it, too: an audit trail or a store that cannot be written, a configuration that cannot be used so
    /// that what ran before does, modules that are quarantined, modules of users that cannot be used. Exit status: 0 if all is
    /// well, 1 if something is wrong, 125 if no server answers.
    Status(QueryArgs),
    /// Show what a running server counts and measures
    Stats(QueryArgs),
    /// Let jobs that others start connect to a running server
    #[command(subcommand)]
    Job(JobSubcommand),
    /// Raise events at a running server, and watch them
    #[command(subcommand)]
    Event(EventCommand),
    /// Have a running server log a message
    ///
    /// Attaches to the server as a tool of yours and says PMIx_Log. Which channels there are, and what may be logged, the server's
    /// admin decides.
    #[command(after_help = log::LOG_EXAMPLES)]
    Log(Log),
    /// Control procs of running jobs: pause, resume, end, restart them, have them make checkpoints
    ///
    /// Attaches to the server as a tool of yours and says PMIx_Job_control.
    #[command(subcommand, after_help = control::CTL_EXAMPLES)]
    Ctl(CtlCommand),
    /// Show the jobs that run, their procs, and what these use
    #[command(after_help = monitor::PS_EXAMPLES)]
    Ps(Ps),
    /// Show the groups that procs have formed, and who is in them
    ///
    /// Attaches to the server as a tool of yours and asks it (PMIx_Query_info).
    #[command(subcommand, after_help = groups::GROUP_EXAMPLES)]
    Group(GroupCommand),
    /// Watch files, and what procs and nodes use of resources
    #[command(subcommand)]
    Monitor(MonitorCommand),
    /// Look at the chains of handlers through which events pass
    #[command(subcommand)]
    Chain(ChainCommand),
    /// Have a running server take no more jobs and connections, and end when the last connection has ended
    Drain(ShutdownArgs),
    /// Have a running server end now
    Stop(ShutdownArgs),
    /// Have a running server read its configuration again
    Reload(ServerArgs),
    /// Make, try and look at modules
    #[command(subcommand)]
    Module(ModuleCommand),
    /// See what modules did and who decided what, verify and replay it
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Look into processes for the server that started this one, which cannot behind its wall
    #[command(hide = true)]
    Observe,
    /// Compile what users install for the server that started this one, each component in a process of its own
    #[command(hide = true)]
    Compiler(CompilerArgs),
    /// Compile one component for the process that started this one
    #[command(hide = true)]
    Compile(CompileArgs),
    /// Print a script that completes peal's command line
    Completions {
        /// For which shell.
        shell: clap_complete::Shell,
    },
}

const SERVE_EXAMPLES: &str = "\
Examples:
  peal serve --config /etc/peal/peal.toml
  peal serve --socket /run/user/1000/peal/admin.sock
  peal job register demo -n 2 && env $(peal job environment demo --rank 0) ./app & env $(peal job environment demo --rank 1) ./app";

/// Where the configuration comes from; for every verb that needs one.
#[derive(ClapArgs, Clone, Default)]
pub struct ConfigArgs {
    /// A configuration file (docs/src/reference/peal.example.toml has every key)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// A setting, as in --set events.ring_size=2048; overrides files and environment
    #[arg(long, value_name = "KEY=VALUE", value_parser = given)]
    pub set: Vec<SettingOverride>,
}

fn given(text: &str) -> Result<SettingOverride, String> {
    SettingOverride::set(text)
        .ok_or_else(|| "KEY=VALUE is wanted, as in events.ring_size=2048".to_owned())
}

/// `peal compiler`.
#[derive(ClapArgs, Clone)]
pub struct CompilerArgs {
    /// The directory of compiled code.
    #[arg(long)]
    pub cache_dir: PathBuf,
    /// Longest time of the compilation of one component, in milliseconds.
    #[arg(long)]
    pub timeout_ms: u64,
    /// Most memory that it may take, in bytes.
    #[arg(long)]
    pub memory_bytes: u64,
    /// Confine it to the directory of compiled code, by the kernel
    #[arg(long)]
    pub confined: bool,
}

/// `peal compile`.
#[derive(ClapArgs)]
pub struct CompileArgs {
    /// Where the code goes, and the limits.
    #[command(flatten)]
    pub at: CompilerArgs,
    /// The kind of code, as JSON.
    #[arg(long, value_parser = code_target)]
    pub target: CodeTarget,
}

fn code_target(text: &str) -> Result<CodeTarget, serde_json::Error> {
    serde_json::from_str(text)
}

/// `peal serve`.
#[derive(ClapArgs)]
pub struct ServeArgs {
    /// Where it listens and where the configuration comes from.
    #[command(flatten)]
    pub at: ServerArgs,
}

/// Which server is meant; for every verb that asks one.
#[derive(ClapArgs, Clone, Default)]
pub struct ServerArgs {
    /// The admin socket; without it that of the configuration (admin.socket), or the usual one
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Where the configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `peal status`, `peal stats`, `peal job list`.
#[derive(ClapArgs)]
pub struct QueryArgs {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal drain` and `peal stop`.
#[derive(ClapArgs)]
pub struct ShutdownArgs {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Return only when the server has ended
    #[arg(long)]
    pub wait: bool,
}

/// What can be done with jobs of a running server.
#[derive(Subcommand)]
pub enum JobSubcommand {
    /// Let the procs of a job connect, and print the environment by which each of them finds the server
    Register(JobRegisterArgs),
    /// Print the environment of a registered job again
    Environment(JobEnvironment),
    /// Name the process that was started as a proc of a registered job
    ///
    /// A server learns of the processes of such jobs when they connect, and tells the other procs when one of them ends. One that is
    /// named here is watched, shown by `peal ps` and reached by `peal ctl` before it has connected, and when it ends without having
    /// done so, nobody waits for it any longer. It must run as the user of the job.
    #[command(after_help = STARTED_EXAMPLES)]
    Started(JobStartedArgs),
    /// Forget a job that was registered; none of its procs may be connected
    Deregister(Deregister),
    /// Show the jobs and how far their procs are
    List(QueryArgs),
    /// Show what is recorded of a job, in the order of time
    ///
    /// How it and its procs started and ended, the events that affected it, what was done to it by somebody's will, and what was
    /// logged to it (channel job_record). The record is in the store (store.path), where it outlives job and server; of several jobs
    /// of one name it is that of the last.
    Record(JobRecordArgs),
}

/// `peal job record`.
#[derive(ClapArgs)]
pub struct JobRecordArgs {
    /// The job's name
    #[arg(value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// Where the configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal job register`.
#[derive(ClapArgs)]
pub struct JobRegisterArgs {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// The job's name
    #[arg(value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// How many procs
    #[arg(short = 'n', long = "procs", value_name = "N", default_value_t = 1, value_parser = whole(1..=MAX_JOB_SIZE))]
    pub procs: u32,
    /// The user that they run as, if it is not the caller; for root
    #[arg(long, value_name = "UID", value_parser = whole(0..=u32::MAX - 1))]
    pub uid: Option<u32>,
    /// Their group, if it is not that of the user; for root
    #[arg(long, value_name = "GID", value_parser = whole(0..=u32::MAX - 1))]
    pub gid: Option<u32>,
    /// What is printed.
    #[command(flatten)]
    pub print: EnvironmentArgs,
}

/// `peal job environment`.
#[derive(ClapArgs)]
pub struct JobEnvironment {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// The job's name
    #[arg(value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// What is printed.
    #[command(flatten)]
    pub print: EnvironmentArgs,
}

/// What is printed of the environment of a job.
#[derive(ClapArgs)]
pub struct EnvironmentArgs {
    /// Print the environment of this rank alone, as lines for `env`
    #[arg(long, value_name = "RANK", value_parser = whole(0..=MAX_JOB_SIZE - 1))]
    pub rank: Option<u32>,
    /// Print JSON
    #[arg(long, conflicts_with = "rank")]
    pub json: bool,
}

const STARTED_EXAMPLES: &str = "\
Examples:
  env $(peal job environment demo --rank 0) ./app & peal job started demo 0 $!";

/// `peal job started`.
#[derive(ClapArgs)]
pub struct JobStartedArgs {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// The job's name
    #[arg(value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
    /// The proc's rank
    #[arg(value_name = "RANK", value_parser = whole(0..=MAX_JOB_SIZE - 1))]
    pub rank: u32,
    /// The process id
    #[arg(value_name = "PID", value_parser = whole(1..=MAX_PID))]
    pub pid: u32,
}

/// `peal job deregister`.
#[derive(ClapArgs)]
pub struct Deregister {
    /// Which server is meant.
    #[command(flatten)]
    pub at: ServerArgs,
    /// The job's name
    #[arg(value_name = "NSPACE", value_parser = words::nspace)]
    pub nspace: Nspace,
}

/// What can be done with the configuration.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Tell everything that is wrong with the configuration and its modules
    ///
    /// Reads the file and modules.d beside it, the environment and --set as the other verbs do, and looks at the components
    /// without compiling or running them. Ends with 0 if all is well and with 1 if not.
    Check(ConfigCheckArgs),
    /// Print every setting, its value, and where that comes from
    Show(ConfigShowArgs),
    /// Print a file with every key, commented
    Example,
    /// Print tables of every key, and of Peal's settings for names of OpenPMIx, in Markdown
    Reference,
}

/// `peal config check`.
#[derive(ClapArgs)]
pub struct ConfigCheckArgs {
    /// The configuration file; the usual one if none is given
    #[arg(value_name = "FILE", conflicts_with = "config", value_hint = clap::ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Where the configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print JSON: whether all is well, the files, and each problem with its place
    #[arg(long)]
    pub json: bool,
}

/// `peal config show`.
#[derive(ClapArgs)]
pub struct ConfigShowArgs {
    /// Where the configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}
