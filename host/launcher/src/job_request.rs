//! Requests for jobs to be started, and the start of one proc.
use super::{
    binding::{Binding, BindingError, BindingRule},
    environment::{self, EnvironmentSetting},
    output::JobOutput,
    process_tree::MARK,
    reporting::Reporting,
};
use peal_core::{
    choice::{ControlGroups, OnAbort, RestartScope},
    job::{AppSpec, JobPlacement, JobSpec},
};
use peal_model::{Nspace, Proc, Rank, Text, UserIdentity};
use peal_server::AddJobError;
use std::{ffi::OsString, io, path::PathBuf, process::Stdio, time::Duration};
use thiserror::Error;
use tokio::process::{Child, Command};

/// Procs that receive the standard input of their job. The input of all others is empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StdinTarget {
    /// No proc.
    NoRank,
    /// The proc of this rank.
    Rank(Rank),
    /// All procs.
    All,
}

impl StdinTarget {
    /// Returns true if the proc of this rank receives the input.
    fn reaches(self, rank: Rank) -> bool {
        match self {
            StdinTarget::NoRank => false,
            StdinTarget::Rank(one) => one == rank,
            StdinTarget::All => true,
        }
    }
}

/// Application of a job to be started.
#[derive(Clone, Debug)]
pub struct AppRequest {
    /// Path or name of the program.
    pub program: OsString,
    /// Arguments of the program, without its name.
    pub args: Vec<OsString>,
    /// Number of procs.
    pub procs: u32,
    /// Working directory. None means that of `peal`.
    pub wdir: Option<PathBuf>,
    /// Changes of the environment, applied in this order.
    pub settings: Vec<EnvironmentSetting>,
    /// Name of the process set of these procs, if they form one.
    pub process_set: Option<Text>,
}

impl AppRequest {
    /// Creates an application with default settings.
    pub fn new(program: impl Into<OsString>, args: Vec<OsString>, procs: u32) -> AppRequest {
        AppRequest {
            program: program.into(),
            args,
            procs,
            wdir: None,
            settings: Vec::new(),
            process_set: None,
        }
    }

    /// Returns the program and its arguments as one line.
    pub(crate) fn command(&self) -> String {
        let words = std::iter::once(&self.program)
            .chain(&self.args)
            .map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// Job to be started.
#[derive(Clone, Debug)]
pub struct JobRequest {
    /// Name of the job.
    pub nspace: Nspace,
    /// Applications. Their procs have consecutive ranks, in this order.
    pub apps: Vec<AppRequest>,
    /// Proc that spawns the job, if one does.
    pub parent: Option<Proc>,
    /// Number of procs of the jobs that were started before by this host environment.
    pub offset: u32,
    /// Name of the node.
    pub hostname: String,
    /// Options that spawned jobs inherit.
    pub options: JobOptions,
    /// Destinations of the output.
    pub output: JobOutput,
    /// Procs that receive the standard input.
    pub input: StdinTarget,
    /// Log messages about the job.
    pub reporting: Reporting,
}

/// Options of jobs. Spawned jobs have those of the job that they are modelled on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobOptions {
    /// Action after an abnormal end.
    pub on_abort: OnAbort,
    /// Time that hosted handlers have to request another action.
    pub action_timeout: Duration,
    /// Time between an abnormal end and the request to the other procs to end.
    pub termination_delay: Duration,
    /// Time between the request to end and the kill.
    pub grace: Duration,
    /// Procs that a restart includes.
    pub restart: RestartScope,
    /// Use of control groups.
    pub control_groups: ControlGroups,
    /// Topology of the node as XML of hwloc, if procs get it.
    pub topology: Option<Text>,
    /// Processors of the procs, if they are bound to some.
    pub binding: Option<BindingRule>,
    /// Maximum number of spawned jobs that run at the same time.
    pub max_spawned: usize,
    /// Number of bytes of each proc's last output, for each stream, that are kept for later pulls.
    pub output_backlog_bytes: usize,
}

impl Default for JobOptions {
    fn default() -> JobOptions {
        JobOptions {
            on_abort: OnAbort::default(),
            action_timeout: Duration::from_secs(5),
            termination_delay: Duration::from_millis(200),
            grace: Duration::from_secs(3),
            restart: RestartScope::default(),
            control_groups: ControlGroups::default(),
            topology: None,
            binding: None,
            max_spawned: 64,
            output_backlog_bytes: 16_384,
        }
    }
}

impl JobRequest {
    /// Creates a request for a job of one application with default options.
    pub fn new(nspace: Nspace, app: AppRequest, hostname: impl Into<String>) -> JobRequest {
        JobRequest {
            nspace,
            apps: vec![app],
            parent: None,
            offset: 0,
            hostname: hostname.into(),
            options: JobOptions::default(),
            output: JobOutput::default(),
            input: StdinTarget::NoRank,
            reporting: Reporting::default(),
        }
    }

    /// Returns the number of procs.
    pub fn size(&self) -> u32 {
        self.apps
            .iter()
            .fold(0, |sum, app| sum.saturating_add(app.procs))
    }

    /// Returns the processors of the procs by rank; none if they are not bound.
    ///
    /// # Errors
    ///
    /// Names the first rank that cannot be placed.
    pub fn bindings(&self) -> Result<Option<Vec<Binding>>, BindingError> {
        let ranks = self.offset..self.offset.saturating_add(self.size());
        let rule = self.options.binding.as_ref();
        rule.map(|rule| rule.bind(ranks)).transpose()
    }

    /// Returns the command lines of all applications as one line.
    pub fn command(&self) -> String {
        command(&self.apps)
    }

    /// Returns the description of the job for its server.
    pub(crate) fn spec(&self, identity: UserIdentity, bindings: Option<&[Binding]>) -> JobSpec {
        let apps = self.apps.iter().map(|app| AppSpec {
            size: app.procs,
            command: Some(app.command()),
            wdir: app
                .wdir
                .clone()
                .or_else(|| std::env::current_dir().ok())
                .map(|dir| dir.to_string_lossy().into_owned()),
        });
        JobSpec {
            nspace: self.nspace.clone(),
            apps: apps.collect(),
            hostname: self.hostname.clone(),
            identity,
            parent: self.parent.clone(),
            offset: self.offset,
            slots: std::thread::available_parallelism()
                .map_or(1, |cores| u32::try_from(cores.get()).unwrap_or(u32::MAX)),
            topology: self.options.topology.clone(),
            processors: bindings.map(|all| all.iter().map(Binding::described).collect()),
            placement: JobPlacement::ThisNode,
        }
    }
}

/// Returns the application of a rank.
pub(crate) fn app_of(apps: &[AppRequest], rank: Rank) -> Option<&AppRequest> {
    let mut after = 0_u32;
    apps.iter().find(|app| {
        after = after.saturating_add(app.procs);
        rank.0 < after
    })
}

/// Returns the command lines of the applications as one line, separated by colons.
pub(crate) fn command(apps: &[AppRequest]) -> String {
    apps.iter()
        .map(AppRequest::command)
        .collect::<Vec<_>>()
        .join(" : ")
}

/// Failure to start a job.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The program cannot be started.
    #[error("cannot start {program:?}: {source}")]
    Program {
        /// Program of the request.
        program: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The working directory cannot be used.
    #[error("cannot start in {wdir:?}: {source}; name an existing directory")]
    Wdir {
        /// Directory of the request.
        wdir: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The output file cannot be opened.
    #[error("cannot write output to {path:?}: {source}")]
    Output {
        /// File or directory.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The server refuses the job.
    #[error(transparent)]
    Job(#[from] AddJobError),
    /// This number of procs is not possible on the node.
    #[error("a job of {size} procs cannot be started: {why}")]
    Size {
        /// Number of procs of the request.
        size: u32,
        /// Reason, and what would help.
        why: String,
    },
}

impl LaunchError {
    /// Creates the error for a proc that the system did not start. Exhausted system resources are a
    /// matter of the job's size, not of the program.
    fn new(request: &JobRequest, app: &AppRequest, rank: Rank, source: io::Error) -> LaunchError {
        use rustix::io::Errno;
        match Errno::from_io_error(&source) {
            Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM) => {
                let why = format!(
                    "{source} after {} procs were started; see `ulimit -n` and `ulimit -u`",
                    rank.0
                );
                LaunchError::Size {
                    size: request.size(),
                    why,
                }
            }
            _ => LaunchError::Program {
                program: PathBuf::from(&app.program),
                source,
            },
        }
    }
}

/// Environment variable with the checkpoint from which a restarted proc continues, if there is
/// one.
const CHECKPOINT: &str = "PEAL_CHECKPOINT";

/// Starts one proc of a job in its own process group and on its processors, with its mark and, if it is
/// restarted, the checkpoint from which it continues.
pub(crate) fn spawn(
    (request, job): (&JobRequest, &JobSpec),
    rank: Rank,
    uri: &str,
    (mark, checkpoint): (&str, Option<&str>),
    binding: Option<&Binding>,
) -> Result<Child, LaunchError> {
    let app = app_of(&request.apps, rank).ok_or_else(|| LaunchError::Size {
        size: request.size(),
        why: format!("no application for rank {rank}"),
    })?;
    let mut command = Command::new(&app.program);
    // In a group of its own, a proc and its children can be signalled together, and a Ctrl-C at the
    // terminal reaches `peal` alone.
    command.args(&app.args).process_group(0).kill_on_drop(true);
    if let Some(wdir) = &app.wdir {
        // Checked here, since `spawn` reports an unusable directory like an unusable program.
        std::fs::read_dir(wdir).map_err(|source| LaunchError::Wdir {
            wdir: wdir.clone(),
            source,
        })?;
        command.current_dir(wdir);
    }
    // In this order: settings of the request may set what was removed here, but must not replace
    // the variables by which the proc finds its server.
    environment::remove_inherited(&mut command);
    app.settings
        .iter()
        .for_each(|setting| setting.apply(&mut command));
    command.envs(peal_server::client_environment(
        &request.nspace,
        &request.hostname,
        rank,
        uri,
    ));
    command.envs(environment::of_open_mpi(job, rank, app));
    // `peal` may itself be a proc of an outer job: its mark has to remain for that job.
    let marks =
        std::env::var(MARK).map_or_else(|_| mark.to_owned(), |above| format!("{above} {mark}"));
    // An inherited checkpoint would make a first start look like a restart.
    command.env(MARK, marks).env_remove(CHECKPOINT);
    command.envs(checkpoint.map(|checkpoint| (CHECKPOINT, checkpoint)));
    let input = if request.input.reaches(rank) {
        Stdio::piped()
    } else {
        Stdio::null()
    };
    command
        .stdin(input)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let started = match binding {
        Some(binding) => binding.start(|| command.spawn()),
        None => command.spawn(),
    };
    started.map_err(|source| LaunchError::new(request, app, rank, source))
}
