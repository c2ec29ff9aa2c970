//! What it takes to start the procs of a job: what is asked for, and the environment they are given.
use super::{output::Tagging, reporting::Reporting, tree::MARK};
use crate::{handle::AddJobError, rendezvous::SERVED_VERSION};
use peal_core::termination::Wish;
use peal_model::{Nspace, Rank};
use peal_wire::{BufferType, GDS_HASH, variable};
use std::{ffi::OsString, path::PathBuf, process::Stdio, time::Duration};
use thiserror::Error;
use tokio::process::{Child, Command};

/// What follows an abnormal end of a proc unless the handlers of its event wish something else (`run.on_abort`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnAbort {
    /// The job is ended, as `mpirun` does.
    #[default]
    Terminate,
    /// The other procs go on.
    Continue,
}

impl OnAbort {
    /// What becomes of the job where no handler wishes anything.
    pub(crate) fn wish(self) -> Wish {
        match self {
            OnAbort::Terminate => Wish::Termination,
            OnAbort::Continue => Wish::NoTermination,
        }
    }
}

/// Who is started again when procs are to be (`run.restart`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RestartOf {
    /// Those procs.
    #[default]
    Ranks,
    /// All procs of their job.
    Job,
}

/// Whether procs are kept in control groups (`run.control_groups`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ControlGroups {
    /// Where that is possible.
    #[default]
    Try,
    /// They are not.
    Off,
}

/// A job to be started.
#[derive(Clone, Debug)]
pub struct JobRequest {
    /// Its name.
    pub nspace: Nspace,
    /// How many procs.
    pub size: u32,
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The node's name.
    pub hostname: String,
    /// What follows an abnormal end.
    pub on_abort: OnAbort,
    /// How long hosted handlers have to wish something else.
    pub action_timeout: Duration,
    /// How long procs that are to end have before they are killed.
    pub grace: Duration,
    /// Who is started again with a proc that is.
    pub restart: RestartOf,
    /// Whether its procs are kept in control groups.
    pub control_groups: ControlGroups,
    /// Whether lines of output say which proc wrote them.
    pub tagging: Tagging,
    /// What is logged of it.
    pub reporting: Reporting,
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
        source: std::io::Error,
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
    fn new(request: &JobRequest, rank: Rank, source: std::io::Error) -> LaunchError {
        use rustix::io::Errno;
        match Errno::from_io_error(&source) {
            Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM) => {
                let why = format!("{source} after {} were started; see `ulimit -n` and `ulimit -u`", rank.0);
                LaunchError::Size { size: request.size, why }
            }
            _ => LaunchError::Program { program: PathBuf::from(&request.program), source },
        }
    }
}

/// The variable that tells a proc from which checkpoint it goes on, if from one.
const CHECKPOINT: &str = "PEAL_CHECKPOINT";

/// Starts one proc in a process group of its own, with its mark, and the checkpoint from which it goes on.
pub(crate) fn spawn(
    request: &JobRequest,
    rank: Rank,
    uri: &str,
    (mark, checkpoint): (&str, Option<&str>),
) -> Result<Child, LaunchError> {
    let mut command = Command::new(&request.program);
    command.args(&request.args).process_group(0).kill_on_drop(true);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_encoded_bytes().starts_with(b"PMIX_")) {
        command.env_remove(name);
    }
    command.envs(environment(&request.nspace, &request.hostname, rank, uri));
    // We may be a proc ourselves.
    let marks = std::env::var(MARK).map_or_else(|_| mark.to_owned(), |above| format!("{above} {mark}"));
    command.env(MARK, marks).env_remove(CHECKPOINT);
    command.envs(checkpoint.map(|checkpoint| (CHECKPOINT, checkpoint)));
    command.stdin(standard_input(rank)).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().map_err(|source| LaunchError::new(request, rank, source))
}

/// The variables by which a client finds its server (`pmix-wire.md`, section 1.1).
pub fn environment(nspace: &Nspace, hostname: &str, rank: Rank, uri: &str) -> Vec<(&'static str, String)> {
    let mut variables = vec![
        (variable::NAMESPACE, nspace.to_string()),
        (variable::RANK, rank.0.to_string()),
        (variable::SERVER_URI, uri.to_owned()),
        (variable::SECURITY_MODE, "native".to_owned()),
        // Everything travels in messages; the alternatives are shared memory with layouts of their own.
        (variable::GDS_MODULE, GDS_HASH.to_owned()),
        (variable::BUFFER_TYPE, BufferType::NonDescribed.name().to_owned()),
        (variable::HOSTNAME, hostname.to_owned()),
        (variable::VERSION, SERVED_VERSION.to_owned()),
    ];
    variables.extend(variable::OLDER_SERVER_URIS.iter().map(|name| (*name, uri.to_owned())));
    variables
}

/// The first proc reads what is piped into `peal run`. A terminal it does not get: it is in another process group, and the
/// terminal would stop it.
fn standard_input(rank: Rank) -> Stdio {
    use std::io::IsTerminal;
    if rank == Rank(0) && !std::io::stdin().is_terminal() { Stdio::inherit() } else { Stdio::null() }
}
