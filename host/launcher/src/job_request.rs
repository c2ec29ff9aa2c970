//! What it takes to start the procs of a job: what is asked for, and how one proc is started.
use super::{
    environment::{self, EnvironmentSetting},
    output::JobOutput,
    process_tree::MARK,
    reporting::Reporting,
};
use peal_core::{
    choice::{ControlGroups, OnAbort, RestartScope},
    job::{AppSpec, JobSpec},
};
use peal_model::{Nspace, Proc, Rank, Text, UserIdentity};
use peal_server::AddJobError;
use std::{ffi::OsString, io, path::PathBuf, process::Stdio, time::Duration};
use thiserror::Error;
use tokio::process::{Child, Command};

/// Which procs get what is pushed to the standard input of their job; the others read nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StdinTarget {
    /// None.
    Nobody,
    /// This one.
    Rank(Rank),
    /// Every one of them.
    All,
}

impl StdinTarget {
    fn reaches(self, rank: Rank) -> bool {
        match self {
            StdinTarget::Nobody => false,
            StdinTarget::Rank(one) => one == rank,
            StdinTarget::All => true,
        }
    }
}

/// An application of a job to be started.
#[derive(Clone, Debug)]
pub struct AppRequest {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// How many procs.
    pub procs: u32,
    /// Where they start; where `peal` did, if nothing is said.
    pub wdir: Option<PathBuf>,
    /// What changes in their environment, in this order.
    pub settings: Vec<EnvironmentSetting>,
    /// What the set of these procs is called, if it has a name.
    pub process_set: Option<Text>,
}

impl AppRequest {
    /// A program without anything special.
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

    /// The words that it is started by.
    pub(crate) fn command(&self) -> String {
        let words = std::iter::once(&self.program)
            .chain(&self.args)
            .map(|word| word.to_string_lossy());
        words.collect::<Vec<_>>().join(" ")
    }
}

/// A job to be started.
#[derive(Clone, Debug)]
pub struct JobRequest {
    /// Its name.
    pub nspace: Nspace,
    /// What it runs: their procs have the ranks one after the other.
    pub apps: Vec<AppRequest>,
    /// The proc that spawns it, if one does.
    pub parent: Option<Proc>,
    /// How many procs the jobs have that it belongs to and that were started before.
    pub offset: u32,
    /// The node's name.
    pub hostname: String,
    /// How it is kept.
    pub keeping: JobOptions,
    /// Where its output goes.
    pub output: JobOutput,
    /// Who gets its input.
    pub input: StdinTarget,
    /// What is logged of it.
    pub reporting: Reporting,
}

/// How the jobs of a host are kept: the same for those that are spawned as for the first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JobOptions {
    /// What follows an abnormal end.
    pub on_abort: OnAbort,
    /// How long hosted handlers have to wish something else.
    pub action_timeout: Duration,
    /// How long the other procs go on after an abnormal end before they are told to end.
    pub termination_delay: Duration,
    /// How long procs that are to end have before they are killed.
    pub grace: Duration,
    /// Who is started again with a proc that is.
    pub restart: RestartScope,
    /// Whether procs are kept in control groups.
    pub control_groups: ControlGroups,
    /// How many jobs there may be at the same time that procs have spawned.
    pub max_spawned: usize,
    /// How many bytes of what a proc wrote last to each output are kept for those who pull it later.
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
            max_spawned: 64,
            output_backlog_bytes: 16_384,
        }
    }
}

impl JobRequest {
    /// A job of one application that is kept as usual.
    pub fn new(nspace: Nspace, app: AppRequest, hostname: impl Into<String>) -> JobRequest {
        JobRequest {
            nspace,
            apps: vec![app],
            parent: None,
            offset: 0,
            hostname: hostname.into(),
            keeping: JobOptions::default(),
            output: JobOutput::default(),
            input: StdinTarget::Nobody,
            reporting: Reporting::default(),
        }
    }

    /// How many procs it has.
    pub fn size(&self) -> u32 {
        self.apps
            .iter()
            .fold(0, |sum, app| sum.saturating_add(app.procs))
    }

    /// The words that it is started by.
    pub fn command(&self) -> String {
        command(&self.apps)
    }

    /// What its server is told of it.
    pub(crate) fn spec(&self, identity: UserIdentity) -> JobSpec {
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
        }
    }
}

/// The application of a rank.
pub(crate) fn app_of(apps: &[AppRequest], rank: Rank) -> Option<&AppRequest> {
    let mut after = 0_u32;
    apps.iter().find(|app| {
        after = after.saturating_add(app.procs);
        rank.0 < after
    })
}

/// The words that a job is started by.
pub(crate) fn command(apps: &[AppRequest]) -> String {
    apps.iter()
        .map(AppRequest::command)
        .collect::<Vec<_>>()
        .join(" : ")
}

/// Why a job could not be started.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The program could not be started.
    #[error("cannot start {program:?}: {source}")]
    Program {
        /// The program as given.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// It was to start where that is not possible.
    #[error("cannot start in {wdir:?}: {source}; give a directory that is there")]
    Wdir {
        /// The directory as given.
        wdir: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// What it writes cannot be kept where it was to be.
    #[error("cannot keep output in {path:?}: {source}")]
    Output {
        /// The file or directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The server does not take the job.
    #[error(transparent)]
    Job(#[from] AddJobError),
    /// The node has no room for so many procs.
    #[error("a job of {size} procs cannot be started: {why}")]
    Size {
        /// How many procs were asked for.
        size: u32,
        /// Why not.
        why: String,
    },
}

impl LaunchError {
    fn new(request: &JobRequest, app: &AppRequest, rank: Rank, source: io::Error) -> LaunchError {
        use rustix::io::Errno;
        match Errno::from_io_error(&source) {
            Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM) => {
                let why = format!(
                    "{source} after {} were started; see `ulimit -n` and `ulimit -u`",
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

/// The variable that tells a proc from which checkpoint it goes on, if from one.
const CHECKPOINT: &str = "PEAL_CHECKPOINT";

/// Starts one proc of a job in a process group of its own, with its mark, and the checkpoint from which it goes on.
pub(crate) fn spawn(
    (request, job): (&JobRequest, &JobSpec),
    rank: Rank,
    uri: &str,
    (mark, checkpoint): (&str, Option<&str>),
) -> Result<Child, LaunchError> {
    let app = app_of(&request.apps, rank).ok_or_else(|| LaunchError::Size {
        size: request.size(),
        why: format!("it has no application for rank {rank}"),
    })?;
    let mut command = Command::new(&app.program);
    command.args(&app.args).process_group(0).kill_on_drop(true);
    if let Some(wdir) = &app.wdir {
        // Else what is wrong with it would be said of the program.
        std::fs::read_dir(wdir).map_err(|source| LaunchError::Wdir {
            wdir: wdir.clone(),
            source,
        })?;
        command.current_dir(wdir);
    }
    environment::inherited(&mut command);
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
    // We may be a proc ourselves.
    let marks =
        std::env::var(MARK).map_or_else(|_| mark.to_owned(), |above| format!("{above} {mark}"));
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
    command
        .spawn()
        .map_err(|source| LaunchError::new(request, app, rank, source))
}
