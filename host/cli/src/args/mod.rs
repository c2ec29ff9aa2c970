//! Command line of `peal`.
mod attach;
mod audit;
mod change;
mod cluster;
mod control;
mod describe;
mod doctor;
mod events;
mod groups;
mod job;
mod log;
mod modules;
mod monitor;
mod number;
mod output;
mod placement;
mod processes;
mod registry;
mod run;
mod selection;
mod shipped;
mod signing;
mod top;
mod trace;

pub use attach::AttachArgs;
pub use audit::{
    AuditCommand, AuditExport, AuditFilter, AuditList, AuditReplay, AuditReport, AuditShow,
    AuditSource, AuditStats, AuditVerify,
};
pub use change::{ConfirmArgs, DryRunArgs};
pub use cluster::{ClusterArgs, ClusterCommand, ClusterDev, ClusterInit, ClusterStatus};
pub use control::{CtlAct, CtlCancel, CtlCommand, CtlEnd, CtlOptions, CtlSignal, CtlStatus};
pub use describe::{DescribeCommand, DescribeJob, DescribeModule, DescribeRecord};
pub use doctor::DoctorArgs;
pub use events::{ChainCommand, ChainShow, EventCommand, EventNotify, EventWatch, ToolArgs};
pub use groups::{GroupCommand, GroupShow};
pub use job::{EnvironmentArgs, JobListArgs, JobRecordArgs, JobSubcommand};
pub use log::Log;
pub use modules::{
    Build, Inspect, ModuleAdd, ModuleBench, ModuleChangeArgs, ModuleCommand, ModuleDeploy,
    ModuleDev, ModuleDiff, ModuleListArgs, ModuleRollback, ModuleTest, New,
};
pub use monitor::{MonitorCommand, MonitorFile, MonitorUsage, Ps};
pub use output::{
    DataFormat, FactFormats, ListFormats, OutputArgs, OutputFormat, RecordFormats, StreamFormats,
    TableFormats,
};
pub use processes::{
    ArtifactFetcherArgs, AuditSignerArgs, CallReplayArgs, CompileArgs, CompilerArgs, ConsoleArgs,
    HelperArgs, TenantArgs,
};
pub use registry::{Pull, Push};
pub use run::{AppArgs, Run, normalize_np};
pub use selection::{SortArgs, StateArgs, UserArgs};
pub use signing::{Keygen, PASSWORD_VARIABLE, PasswordArgs, Sign, Verify};
pub use top::Top;
pub use trace::{LogFormat, TraceArgs};

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use peal_config::SettingOverride;
use std::path::PathBuf;

/// Run PMIx programs whose events are handled by sandboxed WebAssembly components
#[derive(Parser)]
#[command(name = "peal", version, max_term_width = 100, after_help = EXIT_STATUS)]
pub struct Args {
    /// Trace on standard error.
    #[command(flatten)]
    pub trace: TraceArgs,
    /// Command to execute.
    #[command(subcommand)]
    pub command: PealCommand,
}

const EXIT_STATUS: &str = "\
Place --config, --set, --socket, --pid, --nspace, --uri and --output before or after the command.

Exit status:
  0    success; `peal run` and `peal attach` return the status of the job or program instead (128 + N: killed by signal N)
  1    `peal config check`, `peal status` or `peal cluster status` found a problem, `peal ctl` did not complete for all targets, a named job or group is not there, or a confirmation was declined
  2    invalid command line
  3    with --cluster, a node did not answer
  78   `peal serve` has an invalid configuration
  125  Peal failed
  126  the program cannot be executed
  127  the program does not exist

Environment:
  PEAL_LOG     trace filter; replaces trace.filter unless empty, and is replaced by -v and -q, as in PEAL_LOG=info or PEAL_LOG=peal_server=debug,peal::guest=info
  PEAL_CONFIG  configuration file if --config is absent; empty for none
  PEAL_...     settings, as in PEAL_EVENTS_RING_SIZE=2048 for events.ring_size";

/// Commands of `peal`.
#[derive(Subcommand)]
pub enum PealCommand {
    /// Run a program as a job
    ///
    /// Starts N procs of PROGRAM under an embedded PMIx server and waits for their end. Programs
    /// linked with libpmix, Open MPI programs included, find the server through their environment.
    /// Components given by --handler receive the events of the job. Handlers of the configuration
    /// receive all events.
    #[command(after_help = run::RUN_EXAMPLES)]
    Run(Run),
    /// Run a program of another server's job with handlers between program and server
    ///
    /// Start this command in place of PROGRAM with mpirun, prterun, `peal run` or another launcher
    /// of PMIx programs. PROGRAM connects to its server through a proxy. Components given by
    /// --handler receive incoming events before PROGRAM. An event that a handler completes
    /// (PMIX_EVENT_ACTION_COMPLETE) does not reach PROGRAM. Signals are forwarded to PROGRAM, and
    /// the exit status is that of PROGRAM.
    #[command(after_help = attach::ATTACH_EXAMPLES)]
    Attach(AttachArgs),
    /// Serve the jobs and tools of this node until stopped
    ///
    /// `peal job register` registers a job; an external launcher starts its procs. SIGTERM and
    /// SIGINT drain the server: it exits when its clients have disconnected. A second signal stops
    /// it immediately. SIGHUP reloads the configuration.
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArgs),
    /// Show the state of a running server
    ///
    /// The output includes problems: failed writes to the audit trail or the store, an invalid
    /// configuration that was not applied, quarantined modules, and invalid modules of users. Exit
    /// status: 0 without problems, 1 with problems, 125 if no server answers.
    Status(StatusArgs),
    /// Show the metrics of a running server
    Stats(StatsArgs),
    /// Show live what a running server does: jobs, events, chains, denials, sinks and users
    #[command(after_help = top::TOP_EXAMPLES)]
    Top(Top),
    /// Register externally started jobs with a running server
    #[command(subcommand)]
    Job(JobSubcommand),
    /// Raise and watch events of a running server
    #[command(subcommand)]
    Event(EventCommand),
    /// Log a message through a running server
    ///
    /// Connects to the server as a tool and calls PMIx_Log. The server's admin defines the channels
    /// and the permissions.
    #[command(after_help = log::LOG_EXAMPLES)]
    Log(Log),
    /// Control procs of running jobs: pause, resume, signal, terminate, restart or checkpoint them
    ///
    /// Connects to the server as a tool and calls PMIx_Job_control.
    #[command(subcommand, after_help = control::CTL_EXAMPLES)]
    Ctl(CtlCommand),
    /// Show running jobs, their procs and resource usage
    #[command(after_help = monitor::PS_EXAMPLES)]
    Ps(Ps),
    /// Show groups of procs and their members
    ///
    /// Connects to the server as a tool and calls PMIx_Query_info.
    #[command(subcommand, after_help = groups::GROUP_EXAMPLES)]
    Group(GroupCommand),
    /// Monitor files and the resource usage of procs and nodes
    #[command(subcommand)]
    Monitor(MonitorCommand),
    /// Show the chains of event handlers
    #[command(subcommand)]
    Chain(ChainCommand),
    /// Have a process of the installed release go on with a running server, its clients and its jobs
    Upgrade(UpgradeArgs),
    /// Drain a running server: refuse new jobs and connections, exit after the last connection
    Drain(ShutdownArgs),
    /// Stop a running server immediately
    Stop(ShutdownArgs),
    /// Reload the configuration of a running server
    Reload(ReloadArgs),
    /// Create, test, sign and manage modules
    #[command(subcommand)]
    Module(ModuleCommand),
    /// List, verify, replay and report records of the audit trail
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Describe a module, a job, a denial or an event: everything that is known about it
    #[command(subcommand, after_help = describe::DESCRIBE_EXAMPLES)]
    Describe(DescribeCommand),
    /// Check and show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Examine this system for what keeps Peal from working, and say what to do
    ///
    /// Examines kernel, control groups, permissions, temporary files, the engine, the libpmix that
    /// programs load, ports, clock and the running server. It changes nothing. Run it as the user
    /// that starts the server.
    #[command(after_help = doctor::DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Set up and check the NATS servers on which the servers of a cluster meet
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Serve the jobs of a launcher that has started this command with a socket as its standard
    /// input
    #[command(hide = true)]
    HostServer,
    /// Kill the procs of the parent, `peal run`, if it ends before them
    #[command(hide = true)]
    JobGuard,
    /// Look into processes and act as users for the parent server, which its confinement prevents
    #[command(hide = true)]
    Helper(HelperArgs),
    /// Sign what extends the audit trail of the parent server, which does not have the key
    #[command(hide = true)]
    AuditSigner(AuditSignerArgs),
    /// Compile user components for the parent server, each in a separate process
    #[command(hide = true)]
    Compiler(CompilerArgs),
    /// Compile one component for the parent process
    #[command(hide = true)]
    Compile(CompileArgs),
    /// Fetch artefacts from registries for the parent server, which its confinement prevents
    #[command(hide = true)]
    ArtifactFetcher(ArtifactFetcherArgs),
    /// Run the modules of one user for the server
    #[command(hide = true)]
    Tenant(TenantArgs),
    /// Serve the web console for the parent server
    #[command(hide = true)]
    Console(ConsoleArgs),
    /// Replay a recorded call for the web console
    #[command(hide = true)]
    CallReplay(CallReplayArgs),
    /// Print a completion script for a shell
    Completions {
        /// Name of the shell
        shell: clap_complete::Shell,
    },
    /// Write a manual page for each command
    ManPages {
        /// Directory of the pages, which is created
        #[arg(value_hint = clap::ValueHint::DirPath)]
        directory: PathBuf,
    },
}

const SERVE_EXAMPLES: &str = "\
Examples:
  peal serve --config /etc/peal/peal.toml
  peal serve --socket /run/user/1000/peal/admin.sock
  peal job register demo -n 2 && env $(peal job environment demo --rank 0) ./app & env $(peal job environment demo --rank 1) ./app";

/// Options that select the configuration.
#[derive(ClapArgs, Clone, Default)]
pub struct ConfigArgs {
    /// Read the configuration from FILE (docs/src/reference/peal.example.toml has every key)
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub config: Option<PathBuf>,
    /// Override a setting, as in --set events.ring_size=2048. Takes precedence over files and
    /// environment
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting_override)]
    pub set: Vec<SettingOverride>,
}

fn setting_override(text: &str) -> Result<SettingOverride, String> {
    SettingOverride::set(text)
        .ok_or_else(|| "it should be KEY=VALUE, as in events.ring_size=2048".to_owned())
}

/// `peal serve`.
#[derive(ClapArgs)]
pub struct ServeArgs {
    /// Socket and configuration of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Serve at the admin socket SOCKET for the supervisor at the other end of the standard input
    #[arg(long, value_name = "SOCKET", hide = true)]
    pub supervised: Option<PathBuf>,
    /// Go on with the server that runs at the admin socket, with its clients and jobs, and end its process
    #[arg(long = "continue")]
    pub goes_on: bool,
    /// Check that a server of this configuration would start, and exit: modules are verified and compiled
    #[arg(long, conflicts_with = "goes_on")]
    pub check: bool,
}

/// `peal upgrade`.
#[derive(ClapArgs)]
pub struct UpgradeArgs {
    /// Socket and configuration of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// Options that select a server by its admin socket.
#[derive(ClapArgs, Clone, Default)]
pub struct ServerArgs {
    /// Use the admin socket PATH; default: admin.socket of the configuration
    #[arg(long, value_name = "PATH", value_hint = clap::ValueHint::FilePath)]
    pub socket: Option<PathBuf>,
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// `peal status`.
#[derive(ClapArgs)]
pub struct StatusArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// `peal stats`.
#[derive(ClapArgs)]
pub struct StatsArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Print what each user holds of limited resources, the share of one user, and refusals. Users
    /// that may not administer the server see their own
    #[arg(long, conflicts_with = "cluster")]
    pub by_user: bool,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
    /// Selection of the cluster.
    #[command(flatten)]
    pub nodes: ClusterArgs,
}

/// `peal drain` and `peal stop`.
#[derive(ClapArgs)]
pub struct ShutdownArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Wait until the server has exited
    #[arg(long)]
    pub wait: bool,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
    /// Confirmation.
    #[command(flatten)]
    pub confirm: ConfirmArgs,
}

/// `peal reload` and `peal module reload`.
#[derive(ClapArgs)]
pub struct ReloadArgs {
    /// Selection of the server.
    #[command(flatten)]
    pub at: ServerArgs,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal config`.
#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print all errors in the configuration and its modules
    ///
    /// Reads the file, modules.d beside it, the environment and --set like other commands. Inspects
    /// the components without compiling or running them. Exit status: 0 without errors, 1 with
    /// errors.
    Check(ConfigCheckArgs),
    /// Print every setting with its value and origin
    Show(ConfigShowArgs),
    /// Print a commented configuration file with every key
    Example,
    /// Print tables of all keys, and of the settings that correspond to OpenPMIx names, in Markdown
    Reference,
    /// Print the JSON Schema of a kind of file, with which editors complete and check
    #[command(after_help = SCHEMA_HELP)]
    Schema {
        /// Kind of file
        #[arg(value_name = "KIND", value_enum, default_value_t = SchemaKind::Config)]
        kind: SchemaKind,
    },
}

const SCHEMA_HELP: &str = "\
Examples:
  peal config schema > /etc/peal/peal.schema.json       # and `#:schema ./peal.schema.json` as first line of peal.toml
  peal config schema cases > tests/cases.schema.json    # `#:schema ./cases.schema.json` in tests/*.toml

Editors with taplo read that line (Even Better TOML in VS Code, taplo's language server elsewhere).";

/// Kinds of files with a JSON Schema.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaKind {
    /// peal.toml
    Config,
    /// A file of modules.d, or of a directory of user modules
    Module,
    /// peal-module.toml of a project
    Project,
    /// Cases of `peal module test`
    Cases,
}

/// `peal config check`.
#[derive(ClapArgs)]
pub struct ConfigCheckArgs {
    /// Configuration file; default: as for other commands
    #[arg(value_name = "FILE", conflicts_with = "config", value_hint = clap::ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// `peal config show`.
#[derive(ClapArgs)]
pub struct ConfigShowArgs {
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}
