//! Control of procs in types: what can be asked for, and the directives that say so (`PMIx_Job_control`, RFC "Job control and monitoring").
//! In [`crate::job_control_result`] is what comes back.
use crate::{Client, ClientError, JobControlResult};
use peal_core::job_control::{
    CheckpointMethod, Depth, GRACE, PREEMPT, RequestSelector, Subdirectories, TopDirectory,
};
use peal_model::{DataArray, Info, Key, KeyName, Proc, Text, Value, code, key};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// What is to be done to procs, or to be known of the requester.
///
/// PAUSE, RESUME, SIGNAL, TERMINATE, KILL and CANCEL are answered when it has been done; CHECKPOINT, RESTART, PROVISION and a preemption when they
/// are accepted: [`Client::control_status`] tells of their end.
#[derive(Clone, PartialEq, Debug)]
pub enum Control {
    /// Stop them from running until they are resumed (`PMIX_JOB_CTRL_PAUSE`).
    Pause,
    /// Let them run again (`PMIX_JOB_CTRL_RESUME`).
    Resume,
    /// Send them a signal of this number, 1 to 64 (`PMIX_JOB_CTRL_SIGNAL`).
    Signal(u8),
    /// Ask them to end, and end them if they do not (`PMIX_JOB_CTRL_TERMINATE`).
    Terminate,
    /// End them at once (`PMIX_JOB_CTRL_KILL`).
    Kill,
    /// Have them save their state (`PMIX_JOB_CTRL_CHECKPOINT`).
    Checkpoint {
        /// What the checkpoint shall be called.
        name: String,
        /// By which way they are told; none: the first that they have declared and the host supports.
        method: Option<CheckpointMethod>,
        /// How long they have, in whole seconds (`PMIX_TIMEOUT`: `PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT` has the key of the signal); none: as
        /// long as the server gives.
        timeout: Option<Duration>,
    },
    /// End them, and start them again as who they were (`PMIX_JOB_CTRL_RESTART`).
    Restart {
        /// The checkpoint from which they are to go on; none: from their beginning.
        checkpoint: Option<String>,
    },
    /// Let requests go that are not done (`PMIX_JOB_CTRL_CANCEL`).
    Cancel(RequestSelector),
    /// Prepare nodes (`PMIX_JOB_CTRL_PROVISION`).
    Provision {
        /// Their names, which may have ranges in them, as in `node[01-16]`.
        nodes: String,
        /// What is to be on them (`PMIX_JOB_CTRL_PROVISION_IMAGE`).
        image: Option<String>,
    },
    /// Have them make room: they are alerted, have a grace period, and then it is done to them. They must be preemptible.
    Preempt {
        /// What is done.
        action: Preemption,
        /// How long they have, in whole seconds; none: as long as the server gives.
        grace: Option<Duration>,
    },
    /// Declare that the requester's job can be preempted (`PMIX_JOB_CTRL_PREEMPTIBLE`). Nobody is a target of that.
    Preemptible,
    /// Declare by which ways the requester can be told to make a checkpoint, the best first (`PMIX_JOB_CTRL_CHECKPOINT_METHOD`).
    CheckpointMethods(Vec<CheckpointMethod>),
    /// Have files and directories removed when the targets have ended (`PMIX_REGISTER_CLEANUP`, `PMIX_REGISTER_CLEANUP_DIR`).
    Cleanup(CleanupRequest),
}

/// What is done to procs that are to make room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preemption {
    /// They are paused.
    Pause,
    /// They are asked to end, and ended if they do not.
    Terminate,
    /// They are ended at once.
    Kill,
}

impl Preemption {
    /// All there are.
    pub const ALL: [Preemption; 3] = [Preemption::Pause, Preemption::Terminate, Preemption::Kill];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Preemption::Pause => "pause",
            Preemption::Terminate => "terminate",
            Preemption::Kill => "kill",
        }
    }
}

/// What is to be removed when procs have ended. Paths must be absolute.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CleanupRequest {
    /// Files.
    pub files: Vec<PathBuf>,
    /// Directories, with what is in them.
    pub directories: Vec<PathBuf>,
    /// How deep it goes in the directories (`PMIX_CLEANUP_RECURSIVE`).
    pub depth: Depth,
    /// What of the directories is removed (`PMIX_CLEANUP_EMPTY`).
    pub subdirectories: Subdirectories,
    /// Whether the directories themselves go (`PMIX_CLEANUP_LEAVE_TOPDIR`).
    pub top: TopDirectory,
    /// Names of what is left alone (`PMIX_CLEANUP_IGNORE`).
    pub ignored: Vec<OsString>,
}

/// A request, and what its requester calls it.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlRequest {
    /// What is asked for.
    pub control: Control,
    /// Its name (`PMIX_JOB_CTRL_ID`), by which it can be asked about and cancelled.
    pub id: Option<String>,
    /// Directives that have no type here.
    pub more: Vec<Info>,
}

impl From<Control> for ControlRequest {
    fn from(control: Control) -> ControlRequest {
        ControlRequest {
            control,
            id: None,
            more: Vec::new(),
        }
    }
}

impl ControlRequest {
    /// The same with a directive that has no type here, such as `PMIX_LOG_EMAIL`, which has mail sent when it is asked for and when it has ended.
    pub fn with(mut self, directive: Info) -> ControlRequest {
        self.more.push(directive);
        self
    }
}

impl Control {
    /// The same as a request of this name.
    pub fn called(self, id: impl Into<String>) -> ControlRequest {
        ControlRequest {
            id: Some(id.into()),
            ..self.into()
        }
    }

    /// The directives that ask for it.
    pub fn directives(&self) -> Vec<Info> {
        match self {
            Control::Pause => vec![set(key::PMIX_JOB_CTRL_PAUSE)],
            Control::Resume => vec![set(key::PMIX_JOB_CTRL_RESUME)],
            Control::Signal(number) => vec![signal(key::PMIX_JOB_CTRL_SIGNAL, *number)],
            Control::Terminate => vec![set(key::PMIX_JOB_CTRL_TERMINATE)],
            Control::Kill => vec![set(key::PMIX_JOB_CTRL_KILL)],
            Control::Checkpoint {
                name,
                method,
                timeout,
            } => {
                let mut infos = vec![text(key::PMIX_JOB_CTRL_CHECKPOINT, name)];
                infos.extend(method.map(told));
                infos.extend(
                    timeout
                        .map(|timeout| Info::new(key::PMIX_TIMEOUT, Value::Int(signed(timeout)))),
                );
                infos
            }
            Control::Restart { checkpoint } => {
                vec![Info::new(
                    key::PMIX_JOB_CTRL_RESTART,
                    maybe(checkpoint.as_deref()),
                )]
            }
            Control::Cancel(which) => {
                vec![Info::new(key::PMIX_JOB_CTRL_CANCEL, which_value(which))]
            }
            Control::Provision { nodes, image } => {
                let image = image
                    .iter()
                    .map(|image| text(key::PMIX_JOB_CTRL_PROVISION_IMAGE, image));
                [text(key::PMIX_JOB_CTRL_PROVISION, nodes)]
                    .into_iter()
                    .chain(image)
                    .collect()
            }
            Control::Preempt { action, grace } => {
                let grace =
                    grace.map(|grace| Info::new(GRACE, Value::Uint32(whole_seconds(grace))));
                [text(PREEMPT, action.name())]
                    .into_iter()
                    .chain(grace)
                    .collect()
            }
            Control::Preemptible => vec![set(key::PMIX_JOB_CTRL_PREEMPTIBLE)],
            Control::CheckpointMethods(methods) => {
                let methods = DataArray::infos(methods.iter().copied().map(told));
                vec![Info::new(
                    key::PMIX_JOB_CTRL_CHECKPOINT_METHOD,
                    Value::DataArray(methods),
                )]
            }
            Control::Cleanup(cleanup) => cleanup.directives(),
        }
    }
}

impl CleanupRequest {
    /// Refuses what would become other paths: commas separate paths, and there is no way to quote one.
    fn check(&self) -> Result<(), ClientError> {
        let names = self
            .ignored
            .iter()
            .map(|name| (Path::new(name), key::PMIX_CLEANUP_IGNORE));
        let files = self
            .files
            .iter()
            .map(|path| (path.as_path(), key::PMIX_REGISTER_CLEANUP));
        let directories = self
            .directories
            .iter()
            .map(|path| (path.as_path(), key::PMIX_REGISTER_CLEANUP_DIR));
        match files
            .chain(directories)
            .chain(names)
            .find(|(path, _)| path.as_os_str().as_bytes().contains(&b','))
        {
            Some((path, key)) => Err(ClientError::CommaInPath {
                path: path.to_owned(),
                key: key.0,
            }),
            None => Ok(()),
        }
    }

    fn directives(&self) -> Vec<Info> {
        let paths = |key: KeyName, paths: &[PathBuf]| {
            paths
                .iter()
                .map(|path| Info::new(Key::from(key), path_value(path)))
                .collect::<Vec<_>>()
        };
        let mut infos = paths(key::PMIX_REGISTER_CLEANUP, &self.files);
        infos.extend(paths(key::PMIX_REGISTER_CLEANUP_DIR, &self.directories));
        infos.extend((self.depth == Depth::Recursive).then(|| set(key::PMIX_CLEANUP_RECURSIVE)));
        infos.extend(
            (self.subdirectories == Subdirectories::OnlyEmpty)
                .then(|| set(key::PMIX_CLEANUP_EMPTY)),
        );
        infos
            .extend((self.top == TopDirectory::Leave).then(|| set(key::PMIX_CLEANUP_LEAVE_TOPDIR)));
        if !self.ignored.is_empty() {
            let names: Vec<&[u8]> = self.ignored.iter().map(|name| name.as_bytes()).collect();
            let names = Value::String(Some(Text::from_bytes(&names.join(&b','))));
            infos.push(Info::new(key::PMIX_CLEANUP_IGNORE, names));
        }
        infos
    }
}

impl Client {
    /// Controls procs (`PMIx_Job_control`); without targets, our own job. [`JobControlResult::not_done`] names those to whom it was not done,
    /// if it was done to others; where it was done to nobody, [`ClientError::Refused`] holds the reasons. What has no type here can be asked
    /// for by [`Client::job_control`].
    ///
    /// ```no_run
    /// # async fn example(client: peal_client::Client) -> Result<(), peal_client::ClientError> {
    /// use peal_client::{CheckpointMethod, Control, ControlState};
    /// use peal_model::code;
    ///
    /// let methods = [CheckpointMethod::Event(code::PMIX_JCTRL_CHECKPOINT), CheckpointMethod::Signal(12)];
    /// client.control(&[], Control::CheckpointMethods(methods.to_vec())).await?;
    /// client.control(&client.peers(), Control::Pause).await?;
    /// // Not waited for: the answer is looked at when it is needed.
    /// let resumed = tokio::spawn({
    ///     let client = client.clone();
    ///     async move { client.control(&client.peers(), Control::Resume).await }
    /// });
    /// let checkpoint = Control::Checkpoint { name: "night.1".to_owned(), method: None, timeout: None };
    /// client.control(&[], checkpoint.called("checkpoint before the move")).await?;
    /// let status = client.control_status("checkpoint before the move").await?;
    /// println!("{}", status.is_some_and(|status| status.state == ControlState::Done));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn control(
        &self,
        targets: &[Proc],
        request: impl Into<ControlRequest>,
    ) -> Result<JobControlResult, ClientError> {
        let ControlRequest { control, id, more } = request.into();
        if let Control::Cleanup(cleanup) = &control {
            cleanup.check()?;
        }
        let mut directives = control.directives();
        directives.extend(id.map(|id| text(key::PMIX_JOB_CTRL_ID, &id)));
        directives.extend(more);
        match self.job_control(targets, &directives).await {
            Ok(infos) => Ok(JobControlResult::told(infos)),
            Err(ClientError::Refused {
                status: code::PMIX_ERR_PARTIAL_SUCCESS,
                infos,
                ..
            }) => Ok(JobControlResult::told(infos)),
            Err(error) => Err(error),
        }
    }
}

/// How a proc is told to make a checkpoint.
fn told(method: CheckpointMethod) -> Info {
    match method {
        CheckpointMethod::Event(code) => {
            Info::new(key::PMIX_JOB_CTRL_CHECKPOINT_EVENT, Value::Status(code))
        }
        CheckpointMethod::Signal(number) => signal(key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL, number),
    }
}

/// As the Standard has it: no text stands for all.
pub(crate) fn which_value(which: &RequestSelector) -> Value {
    match which {
        RequestSelector::Named(id) => Value::string(id),
        RequestSelector::All => Value::String(None),
    }
}

fn set(key: KeyName) -> Info {
    Info::new(key, Value::Bool(true))
}

fn text(key: KeyName, value: &str) -> Info {
    Info::new(key, Value::string(value))
}

fn maybe(value: Option<&str>) -> Value {
    value.map_or(Value::String(None), Value::string)
}

fn signal(key: KeyName, number: u8) -> Info {
    Info::new(key, Value::Int(i32::from(number)))
}

/// A path, whatever bytes it has.
pub(crate) fn path_value(path: &Path) -> Value {
    Value::String(Some(Text::from_bytes(path.as_os_str().as_bytes())))
}

/// A time in whole seconds: never less than was asked for.
pub(crate) fn whole_seconds(time: Duration) -> u32 {
    let seconds = time
        .as_secs()
        .saturating_add(u64::from(time.subsec_nanos() > 0));
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

pub(crate) fn signed(time: Duration) -> i32 {
    i32::try_from(whole_seconds(time)).unwrap_or(i32::MAX)
}
