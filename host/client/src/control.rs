//! Typed requests for job control, and the directives that encode them (`PMIx_Job_control`, RFC
//! "Job control and monitoring"). [`crate::job_control_result`] holds the results.
use crate::{Client, ClientError, JobControlResult, call::Call};
use peal_core::job_control::{
    CHECK, CheckpointMethod, Depth, GRACE, PREEMPT, RequestSelector, Subdirectories, TopDirectory,
};
use peal_model::{
    CommandCode, DataArray, Info, InfoFlags, Key, KeyName, Proc, Text, Value, code, key,
};
use std::{
    ffi::OsString,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// Action on procs, or declaration about the requester.
///
/// The server answers PAUSE, RESUME, SIGNAL, TERMINATE, KILL and CANCEL when the action is
/// complete. It answers CHECKPOINT, RESTART, PROVISION and preemption when it has accepted them;
/// [`Client::control_status`] returns their further state.
#[derive(Clone, PartialEq, Debug)]
pub enum Control {
    /// Stops the procs until they are resumed (`PMIX_JOB_CTRL_PAUSE`).
    Pause,
    /// Resumes paused procs (`PMIX_JOB_CTRL_RESUME`).
    Resume,
    /// Sends the procs a signal of this number, 1 to 64 (`PMIX_JOB_CTRL_SIGNAL`).
    Signal(u8),
    /// Asks the procs to end, and kills those that do not (`PMIX_JOB_CTRL_TERMINATE`).
    Terminate,
    /// Kills the procs at once (`PMIX_JOB_CTRL_KILL`).
    Kill,
    /// Requests that the procs save their state (`PMIX_JOB_CTRL_CHECKPOINT`).
    Checkpoint {
        /// Name of the checkpoint.
        name: String,
        /// Method by which the procs are notified. `None`: the first that they have declared and
        /// the host environment supports.
        method: Option<CheckpointMethod>,
        /// Time for the checkpoint, in whole seconds; `None`: the default of the server. It is sent
        /// as `PMIX_TIMEOUT`, since `PMIX_JOB_CTRL_CHECKPOINT_TIMEOUT` has the same key string as
        /// the signal.
        timeout: Option<Duration>,
    },
    /// Ends the procs, and starts them again under the same names (`PMIX_JOB_CTRL_RESTART`).
    Restart {
        /// Checkpoint from which the procs continue; `None`: they start from the beginning.
        checkpoint: Option<String>,
    },
    /// Cancels requests that are not complete (`PMIX_JOB_CTRL_CANCEL`).
    Cancel(RequestSelector),
    /// Prepares nodes (`PMIX_JOB_CTRL_PROVISION`).
    Provision {
        /// Names of the nodes, which may contain ranges, as in `node[01-16]`.
        nodes: String,
        /// Image for the nodes (`PMIX_JOB_CTRL_PROVISION_IMAGE`).
        image: Option<String>,
    },
    /// Preempts the procs: they receive an alert, have a grace period, and then the action is
    /// carried out. They must be preemptible.
    Preempt {
        /// Action after the grace period.
        action: Preemption,
        /// Grace period in whole seconds; `None`: the default of the server.
        grace: Option<Duration>,
    },
    /// Declares that the requester's job can be preempted (`PMIX_JOB_CTRL_PREEMPTIBLE`). The
    /// request takes no targets.
    Preemptible,
    /// Declares the methods by which a checkpoint of the requester can be requested, the best first
    /// (`PMIX_JOB_CTRL_CHECKPOINT_METHOD`).
    CheckpointMethods(Vec<CheckpointMethod>),
    /// Removes files and directories when the targets have ended (`PMIX_REGISTER_CLEANUP`,
    /// `PMIX_REGISTER_CLEANUP_DIR`).
    Cleanup(CleanupRequest),
}

/// Action on preempted procs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preemption {
    /// Pauses the procs.
    Pause,
    /// Asks the procs to end, and kills those that do not.
    Terminate,
    /// Kills the procs at once.
    Kill,
}

impl Preemption {
    /// All actions.
    pub const ALL: [Preemption; 3] = [Preemption::Pause, Preemption::Terminate, Preemption::Kill];

    /// Returns the name of the action in the directive.
    pub fn name(self) -> &'static str {
        match self {
            Preemption::Pause => "pause",
            Preemption::Terminate => "terminate",
            Preemption::Kill => "kill",
        }
    }
}

/// Files and directories that are removed when procs have ended. Paths must be absolute.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CleanupRequest {
    /// Files to remove.
    pub files: Vec<PathBuf>,
    /// Directories to remove, with their contents.
    pub directories: Vec<PathBuf>,
    /// Depth of the removal in the directories (`PMIX_CLEANUP_RECURSIVE`).
    pub depth: Depth,
    /// Subdirectories that are removed (`PMIX_CLEANUP_EMPTY`).
    pub subdirectories: Subdirectories,
    /// Fate of the directories themselves (`PMIX_CLEANUP_LEAVE_TOPDIR`).
    pub top: TopDirectory,
    /// Names that are not removed (`PMIX_CLEANUP_IGNORE`).
    pub ignored: Vec<OsString>,
}

/// Job-control request with the id that its requester gave it.
#[derive(Clone, PartialEq, Debug)]
pub struct ControlRequest {
    /// Requested action.
    pub control: Control,
    /// Id of the request (`PMIX_JOB_CTRL_ID`), by which it can be queried and cancelled.
    pub id: Option<String>,
    /// Further directives, for which this crate has no type.
    pub other_directives: Vec<Info>,
}

impl From<Control> for ControlRequest {
    fn from(control: Control) -> ControlRequest {
        ControlRequest {
            control,
            id: None,
            other_directives: Vec::new(),
        }
    }
}

impl ControlRequest {
    /// Adds a directive for which this crate has no type. An example is `PMIX_LOG_EMAIL`, which
    /// sends mail at the request and when it has ended.
    pub fn with(mut self, directive: Info) -> ControlRequest {
        self.other_directives.push(directive);
        self
    }

    /// Returns the directives that encode the request.
    fn encode(self) -> Result<Vec<Info>, ClientError> {
        let ControlRequest {
            control,
            id,
            other_directives: more,
        } = self;
        if let Control::Cleanup(cleanup) = &control {
            cleanup.check()?;
        }
        let mut directives = control.directives();
        directives.extend(id.map(|id| text(key::PMIX_JOB_CTRL_ID, &id)));
        directives.extend(more);
        Ok(directives)
    }
}

impl Control {
    /// Turns the action into a request with this id.
    pub fn called(self, id: impl Into<String>) -> ControlRequest {
        ControlRequest {
            id: Some(id.into()),
            ..self.into()
        }
    }

    /// Returns the directives that encode the action.
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
                infos.extend(method.map(declaration));
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
                let methods = DataArray::infos(methods.iter().copied().map(declaration));
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
    /// Checks the paths for commas, which separate paths in the directives and cannot be quoted.
    ///
    /// # Errors
    ///
    /// [`ClientError::CommaInPath`] for the first path or name with a comma.
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
    /// Controls procs (`PMIx_Job_control`); without targets, the caller's own job. If the action
    /// failed for some of the procs, [`JobControlResult::not_done`] names them. If it failed for
    /// all, [`ClientError::Refused`] holds the reasons. [`Client::job_control`] takes actions for
    /// which this crate has no type.
    ///
    /// ```no_run
    /// # async fn example(client: peal_client::Client) -> Result<(), peal_client::ClientError> {
    /// use peal_client::{CheckpointMethod, Control, ControlState};
    /// use peal_model::code;
    ///
    /// let methods = [CheckpointMethod::Event(code::PMIX_JCTRL_CHECKPOINT), CheckpointMethod::Signal(12)];
    /// client.control(&[], Control::CheckpointMethods(methods.to_vec())).await?;
    /// client.control(&client.peers(), Control::Pause).await?;
    /// // Not awaited: the result is used when it is needed.
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
        let request: ControlRequest = request.into();
        self.request_control(targets, &request.encode()?).await
    }

    /// Asks the server whether it would carry out a request, which changes nothing. Policies decide as
    /// for the request. [`JobControlResult::reached`] has the procs, [`JobControlResult::reached_names`] the
    /// requests or nodes.
    ///
    /// # Errors
    ///
    /// Fails if the request would be refused, or if the server cannot check requests: only servers of
    /// Peal can.
    pub async fn check_control(
        &self,
        targets: &[Proc],
        request: impl Into<ControlRequest>,
    ) -> Result<JobControlResult, ClientError> {
        let request: ControlRequest = request.into();
        let directives = DataArray::infos(request.encode()?);
        let check = Info {
            flags: InfoFlags::REQUIRED,
            ..Info::new(CHECK, Value::DataArray(directives))
        };
        let result = self.request_control(targets, &[check]).await?;
        // Another server has not understood the directive.
        if !result.infos.iter().any(|info| info.key == CHECK) {
            return Err(ClientError::UnfitAnswer {
                call: Call(CommandCode::JobControl),
            });
        }
        Ok(result)
    }

    async fn request_control(
        &self,
        targets: &[Proc],
        directives: &[Info],
    ) -> Result<JobControlResult, ClientError> {
        match self.job_control(targets, directives).await {
            Ok(infos) => Ok(JobControlResult::from_infos(infos)),
            // This status is an error code, so that a partial success comes as a refusal.
            Err(ClientError::Refused {
                status: code::PMIX_ERR_PARTIAL_SUCCESS,
                infos,
                ..
            }) => Ok(JobControlResult::from_infos(infos)),
            Err(error) => Err(error),
        }
    }
}

/// Encodes a checkpoint method as a directive.
fn declaration(method: CheckpointMethod) -> Info {
    match method {
        CheckpointMethod::Event(code) => {
            Info::new(key::PMIX_JOB_CTRL_CHECKPOINT_EVENT, Value::Status(code))
        }
        CheckpointMethod::Signal(number) => signal(key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL, number),
    }
}

/// Encodes the selected requests as the Standard does: a null string means all.
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

/// Encodes a path, which may have any bytes.
pub(crate) fn path_value(path: &Path) -> Value {
    Value::String(Some(Text::from_bytes(path.as_os_str().as_bytes())))
}

/// Rounds a time up to whole seconds.
pub(crate) fn whole_seconds(time: Duration) -> u32 {
    // Never down: zero means no limit, as in `PMIX_TIMEOUT` (PMIx Standard).
    let seconds = time
        .as_secs()
        .saturating_add(u64::from(time.subsec_nanos() > 0));
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

pub(crate) fn signed(time: Duration) -> i32 {
    i32::try_from(whole_seconds(time)).unwrap_or(i32::MAX)
}
