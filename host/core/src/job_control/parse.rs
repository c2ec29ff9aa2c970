//! Parsing of job-control requests, complete before any effect.
use super::{
    CheckpointMethod, Cleanup, Declaration, Depth, JobAction, JobControlError, JobControlOperation,
    PreemptionOrder, Subdirectories, TopDirectory, checkpoint_request,
    cleanup::{add_names, add_paths},
    directive::{GRACE, PREEMPT, flag, last_act, mail, maybe_text, seconds, text},
    method,
};
use crate::targets::{self, JobRanks, ResolvedTargets};
use peal_model::{Info, InfoFlags, KeyName, Nspace, Proc, key};
use std::{collections::BTreeSet, ffi::OsString, path::PathBuf, time::Duration};

/// Maximum length of a description of nodes, in bytes.
const MAX_NODES: usize = 4096;

/// A valid request. RFC "Job control and monitoring".
#[derive(Clone, PartialEq, Debug)]
pub struct ParsedJobControl {
    /// The requester's name for it (`PMIX_JOB_CTRL_ID`).
    pub name: Option<String>,
    /// The requested action.
    pub action: RequestedAction,
    /// Infos for mails about the request and its end (`PMIX_LOG_EMAIL`).
    pub mail: Option<Vec<Info>>,
    /// All directives.
    pub directives: Vec<Info>,
}

/// The action of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum RequestedAction {
    /// An operation on procs.
    Operate {
        /// The operation.
        operation: JobControlOperation,
        /// The targets.
        targets: ResolvedTargets,
    },
    /// Nodes are provisioned.
    Provision {
        /// A description of the nodes, such as `node[01-16]`.
        nodes: String,
        /// The image.
        image: Option<String>,
    },
    /// Other requests are cancelled.
    Cancel(RequestSelector),
    /// The requester declares something about itself, or registers files to remove.
    Declare {
        /// The declaration.
        declaration: Declaration,
        /// The files to remove.
        cleanup: Option<Cleanup>,
    },
}

/// A selection of requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestSelector {
    /// The requester's request of this name.
    Named(String),
    /// All requests of the requester.
    All,
}

/// Parses a request of `caller`, if the requester has a name. `ranks` returns those of a known job.
///
/// # Errors
///
/// Fails if a directive is invalid, contradicts another one, or names an unknown target.
pub fn read(
    caller: Option<&Proc>,
    targets: &[Proc],
    directives: Vec<Info>,
    ranks: impl Fn(&Nspace) -> Option<JobRanks>,
) -> Result<ParsedJobControl, JobControlError> {
    let mut words = DirectiveSet::default();
    for info in &directives {
        words.take(info)?;
    }
    // Resolved only for actions that have targets, so that others do not fail by them.
    let targets = || resolve_targets(caller, targets, &ranks);
    let name = words.name.take();
    let mail = words.mail.take();
    Ok(ParsedJobControl {
        name,
        action: words.action(targets)?,
        mail,
        directives,
    })
}

/// The parsed directives.
#[derive(Default)]
struct DirectiveSet {
    name: Option<String>,
    mail: Option<Vec<Info>>,
    verb: Option<(&'static str, Verb)>,
    declaration: Declaration,
    cleanup: CleanupDirectives,
    image: Option<String>,
    event: Option<CheckpointMethod>,
    numbers: Vec<u64>,
    timeout: Option<Duration>,
    grace: Option<Duration>,
}

#[derive(PartialEq)]
enum Verb {
    Act(JobAction),
    Checkpoint(String),
    Preempt(JobAction),
    Provision(String),
    Cancel(RequestSelector),
}

#[derive(Default)]
struct CleanupDirectives {
    files: BTreeSet<PathBuf>,
    directories: BTreeSet<PathBuf>,
    /// The key of a directive about the removal of directories.
    how: Option<&'static str>,
    depth: Depth,
    subdirectories: Subdirectories,
    top: TopDirectory,
    ignored: BTreeSet<OsString>,
}

impl DirectiveSet {
    fn take(&mut self, info: &Info) -> Result<(), JobControlError> {
        let is = |key: KeyName| info.key == key;
        if is(key::PMIX_JOB_CTRL_ID) {
            self.name = Some(text(info, key::PMIX_JOB_CTRL_ID)?);
        } else if is(key::PMIX_JOB_CTRL_PREEMPTIBLE) {
            self.declaration.preemptible = Some(flag(info, key::PMIX_JOB_CTRL_PREEMPTIBLE)?);
        } else if is(key::PMIX_JOB_CTRL_CHECKPOINT_METHOD) {
            self.declaration.methods = Some(method::methods(&info.value)?);
        } else if is(key::PMIX_JOB_CTRL_CHECKPOINT_EVENT) {
            self.event = Some(method::event(&info.value)?);
        } else if is(key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL) {
            // Two directives have this key. `checkpoint_request` distinguishes their numbers.
            self.numbers
                .push(seconds(info, key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL.0)?);
        } else if is(key::PMIX_TIMEOUT) {
            self.timeout = Some(Duration::from_secs(seconds(info, key::PMIX_TIMEOUT.0)?))
                .filter(|time| !time.is_zero());
        } else if is(key::PMIX_JOB_CTRL_PROVISION_IMAGE) {
            self.image = Some(text(info, key::PMIX_JOB_CTRL_PROVISION_IMAGE)?);
        } else if is(GRACE) {
            self.grace = Some(Duration::from_secs(seconds(info, GRACE.0)?));
        } else if is(key::PMIX_LOG_EMAIL) {
            self.mail = Some(mail(&info.value)?);
        } else if let Some(verb) = verb(info)? {
            return self.set_verb(verb);
        // An unknown directive that is optional goes to the host environment with all others.
        } else if !self.cleanup.take(info)?
            && !is_known(info)
            && info.flags.contains(InfoFlags::REQUIRED)
        {
            return Err(JobControlError::Unsupported(info.key.clone()));
        }
        Ok(())
    }

    fn set_verb(&mut self, (key, verb): (KeyName, Option<Verb>)) -> Result<(), JobControlError> {
        let Some(verb) = verb else { return Ok(()) };
        match &self.verb {
            // The same action given twice is no contradiction.
            Some((first, other)) if *other != verb => Err(JobControlError::Several {
                first,
                second: key.0,
            }),
            _ => {
                self.verb = Some((key.0, verb));
                Ok(())
            }
        }
    }

    /// Returns the action that the directives request together.
    fn action(
        self,
        targets: impl FnOnce() -> Result<ResolvedTargets, JobControlError>,
    ) -> Result<RequestedAction, JobControlError> {
        self.check_context()?;
        let DirectiveSet {
            verb,
            declaration,
            cleanup,
            image,
            event,
            numbers,
            timeout,
            grace,
            ..
        } = self;
        Ok(match verb {
            Some((_, Verb::Act(action))) => RequestedAction::Operate {
                operation: JobControlOperation::Act(action),
                targets: targets()?,
            },
            Some((_, Verb::Checkpoint(checkpoint))) => {
                let order = checkpoint_request::of(checkpoint, event, &numbers, timeout)?;
                RequestedAction::Operate {
                    operation: JobControlOperation::Checkpoint(order),
                    targets: targets()?,
                }
            }
            Some((_, Verb::Preempt(action))) => RequestedAction::Operate {
                operation: JobControlOperation::Preempt(PreemptionOrder { action, grace }),
                targets: targets()?,
            },
            Some((_, Verb::Provision(nodes))) => RequestedAction::Provision { nodes, image },
            Some((_, Verb::Cancel(which))) => RequestedAction::Cancel(which),
            None if cleanup.is_requested() => RequestedAction::Declare {
                declaration,
                cleanup: Some(cleanup.of(targets()?)?),
            },
            None if declaration.is_empty() => return Err(JobControlError::Nothing),
            None => RequestedAction::Declare {
                // RFC "Job control and monitoring": targets of a declaration mean nothing, so they
                // are not resolved.
                declaration,
                cleanup: None,
            },
        })
    }

    /// Checks that each directive belongs to the requested action, because others would be ignored.
    fn check_context(&self) -> Result<(), JobControlError> {
        let declared = [
            (
                self.declaration.preemptible.is_some(),
                key::PMIX_JOB_CTRL_PREEMPTIBLE,
            ),
            (
                self.declaration.methods.is_some(),
                key::PMIX_JOB_CTRL_CHECKPOINT_METHOD,
            ),
            (!self.cleanup.files.is_empty(), key::PMIX_REGISTER_CLEANUP),
            (
                !self.cleanup.directories.is_empty(),
                key::PMIX_REGISTER_CLEANUP_DIR,
            ),
        ];
        // One request has one reply, so an action and a declaration cannot be combined.
        if let (Some((first, _)), Some((_, second))) =
            (&self.verb, declared.iter().find(|(is_given, _)| *is_given))
        {
            return Err(JobControlError::Several {
                first,
                second: second.0,
            });
        }
        let verb = self.verb.as_ref().map(|(_, verb)| verb);
        let checkpoints = matches!(verb, Some(Verb::Checkpoint(_)));
        for (is_given, key, belongs, requires) in [
            (
                self.event.is_some(),
                key::PMIX_JOB_CTRL_CHECKPOINT_EVENT.0,
                checkpoints,
                "pmix.jctrl.ckpt",
            ),
            (
                !self.numbers.is_empty(),
                key::PMIX_JOB_CTRL_CHECKPOINT_SIGNAL.0,
                checkpoints,
                "pmix.jctrl.ckpt",
            ),
            (
                self.image.is_some(),
                key::PMIX_JOB_CTRL_PROVISION_IMAGE.0,
                matches!(verb, Some(Verb::Provision(_))),
                "pmix.jctrl.pvn",
            ),
            (
                self.grace.is_some(),
                GRACE.0,
                matches!(verb, Some(Verb::Preempt(_))),
                PREEMPT.0,
            ),
        ] {
            if is_given && !belongs {
                return Err(JobControlError::Misplaced { key, requires });
            }
        }
        match self.cleanup.how {
            // These directives apply to directories only.
            Some(key) if self.cleanup.directories.is_empty() => Err(JobControlError::Misplaced {
                key,
                requires: "pmix.reg.cleanupdir",
            }),
            _ => Ok(()),
        }
    }
}

impl CleanupDirectives {
    fn is_requested(&self) -> bool {
        !self.files.is_empty() || !self.directories.is_empty()
    }

    /// Takes a directive if it is about cleanup. Several directives of paths or names add up.
    fn take(&mut self, info: &Info) -> Result<bool, JobControlError> {
        let is = |key: KeyName| info.key == key;
        if is(key::PMIX_REGISTER_CLEANUP) {
            add_paths(&mut self.files, &info.value, key::PMIX_REGISTER_CLEANUP.0)?;
        } else if is(key::PMIX_REGISTER_CLEANUP_DIR) {
            add_paths(
                &mut self.directories,
                &info.value,
                key::PMIX_REGISTER_CLEANUP_DIR.0,
            )?;
        } else if is(key::PMIX_CLEANUP_IGNORE) {
            add_names(&mut self.ignored, &info.value)?;
            // Remembered for the check that directories are named, too.
            self.how = Some(key::PMIX_CLEANUP_IGNORE.0);
        } else if is(key::PMIX_CLEANUP_RECURSIVE) {
            if self.take_flag(info, key::PMIX_CLEANUP_RECURSIVE)? {
                self.depth = Depth::Recursive;
            }
        } else if is(key::PMIX_CLEANUP_EMPTY) {
            if self.take_flag(info, key::PMIX_CLEANUP_EMPTY)? {
                self.subdirectories = Subdirectories::OnlyEmpty;
            }
        } else if is(key::PMIX_CLEANUP_LEAVE_TOPDIR) {
            if self.take_flag(info, key::PMIX_CLEANUP_LEAVE_TOPDIR)? {
                self.top = TopDirectory::Leave;
            }
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn take_flag(&mut self, info: &Info, key: KeyName) -> Result<bool, JobControlError> {
        self.how = Some(key.0);
        flag(info, key)
    }

    fn of(self, targets: ResolvedTargets) -> Result<Cleanup, JobControlError> {
        // The procs of other nodes are cleaned up after there.
        let procs = match targets.elsewhere.into_iter().next() {
            Some(proc) if targets.local.is_empty() => {
                return Err(JobControlError::CleanupElsewhere(proc));
            }
            _ => targets.local,
        };
        let CleanupDirectives {
            files,
            directories,
            depth,
            subdirectories,
            top,
            ignored,
            ..
        } = self;
        let cleanup = Cleanup {
            procs,
            files,
            directories,
            depth,
            subdirectories,
            top,
            ignored,
        };
        cleanup.check_consistency()?;
        Ok(cleanup)
    }
}

/// Returns the action that a directive requests; none if its value is false.
fn verb(info: &Info) -> Result<Option<(KeyName, Option<Verb>)>, JobControlError> {
    let act = |key: KeyName, action: JobAction| {
        Ok(Some((key, flag(info, key)?.then_some(Verb::Act(action)))))
    };
    let is = |key: KeyName| info.key == key;
    let (key, verb) = if is(key::PMIX_JOB_CTRL_PAUSE) {
        return act(key::PMIX_JOB_CTRL_PAUSE, JobAction::Pause);
    } else if is(key::PMIX_JOB_CTRL_RESUME) {
        return act(key::PMIX_JOB_CTRL_RESUME, JobAction::Resume);
    } else if is(key::PMIX_JOB_CTRL_TERMINATE) {
        return act(key::PMIX_JOB_CTRL_TERMINATE, JobAction::Terminate);
    } else if is(key::PMIX_JOB_CTRL_KILL) {
        return act(key::PMIX_JOB_CTRL_KILL, JobAction::Kill);
    } else if is(key::PMIX_JOB_CTRL_SIGNAL) {
        let key = key::PMIX_JOB_CTRL_SIGNAL;
        (
            key,
            Verb::Act(JobAction::Signal(method::signal(&info.value, key.0)?)),
        )
    } else if is(key::PMIX_JOB_CTRL_RESTART) {
        let key = key::PMIX_JOB_CTRL_RESTART;
        (
            key,
            Verb::Act(JobAction::Restart {
                checkpoint: maybe_text(info, key)?,
            }),
        )
    } else if is(key::PMIX_JOB_CTRL_CHECKPOINT) {
        let key = key::PMIX_JOB_CTRL_CHECKPOINT;
        (key, Verb::Checkpoint(text(info, key)?))
    } else if is(PREEMPT) {
        (PREEMPT, Verb::Preempt(last_act(info)?))
    } else if is(key::PMIX_JOB_CTRL_PROVISION) {
        let key = key::PMIX_JOB_CTRL_PROVISION;
        let expected =
            "a description of nodes such as node[01-16], a PMIX_STRING of at most 4096 bytes";
        let nodes = info
            .value
            .as_str()
            .filter(|nodes| !nodes.is_empty() && nodes.len() <= MAX_NODES);
        (
            key,
            Verb::Provision(
                nodes
                    .ok_or(JobControlError::BadDirective {
                        key: key.0,
                        expected,
                    })?
                    .to_owned(),
            ),
        )
    } else if is(key::PMIX_JOB_CTRL_CANCEL) {
        let key = key::PMIX_JOB_CTRL_CANCEL;
        (
            key,
            Verb::Cancel(
                // RFC "Job control and monitoring": NULL cancels all requests of the requester.
                maybe_text(info, key)?.map_or(RequestSelector::All, RequestSelector::Named),
            ),
        )
    } else {
        return Ok(None);
    };
    Ok(Some((key, Some(verb))))
}

/// Returns true if a directive can be ignored, because it is known and changes nothing.
fn is_known(info: &Info) -> bool {
    info.key == key::PMIX_JOB_CTRL_SEP && info.value.as_bool() == Some(false)
}

/// Returns the single targets. Without targets, the caller's namespace is meant.
fn resolve_targets(
    caller: Option<&Proc>,
    named: &[Proc],
    ranks: &impl Fn(&Nspace) -> Option<JobRanks>,
) -> Result<ResolvedTargets, JobControlError> {
    let own: Vec<Proc> = caller
        .map(|caller| Proc::all(caller.nspace.clone()))
        .into_iter()
        .collect();
    let named = if named.is_empty() { &own } else { named };
    if named.is_empty() {
        return Err(JobControlError::NoTargets);
    }
    Ok(targets::resolve(named, ranks)?)
}
