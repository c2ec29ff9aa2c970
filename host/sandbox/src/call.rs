//! What goes into a call of a handler and what comes out.
use crate::{CallUsage, DeferredControl, DeferredLog, LimitKind, Role};
use peal_model::{ChainResult, Event, Info, Range, Status, UserIdentity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// One event for one registration. Cheap to clone: what is large is shared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EventCall {
    /// The number of the event among those of its server, for records; 0 where nobody counts.
    pub number: u64,
    /// Which registration it is for.
    pub registration: u64,
    /// The tag that the module gave that registration ([`ModuleRegistration::tag`]); 0 where it did not make it.
    pub tag: u32,
    /// What happened.
    pub event: Arc<Event>,
    /// User and group of the source as the kernel tells them; none for events of the resource manager.
    pub identity: Option<UserIdentity>,
    /// What those before in the chain returned, oldest first. The sandbox keeps no reference when it returns, so
    /// `Arc::make_mut` adds to it without copying.
    pub steps: Arc<Vec<ChainResult>>,
}

/// What a handler did. A handler that failed has a result as well, with a status of Peal's own.
#[derive(Clone, PartialEq, Debug)]
pub struct HandlerResult {
    /// What it returned, or how it failed (`PEAL_ERR_MODULE_...`).
    pub status: Status,
    /// What it pushed; nothing if it failed.
    pub infos: Vec<Info>,
    /// The events that it raised, to be sent now that it has returned; none if it failed.
    pub notifications: Vec<Notification>,
    /// How it wants its registrations changed, in this order; not at all if it failed.
    pub changes: Vec<RegistrationChange>,
    /// The job control that it asked for, to be done now that it has returned; none if it failed.
    pub controls: Vec<DeferredControl>,
    /// What it wants logged now that it has returned; nothing if it failed.
    pub reports: Vec<DeferredLog>,
    /// How it failed, if it did.
    pub failure: Option<CallFailure>,
    /// What it has used.
    pub usage: CallUsage,
}

impl From<CallFailure> for HandlerResult {
    fn from(failure: CallFailure) -> HandlerResult {
        HandlerResult {
            status: failure.kind.status(),
            infos: Vec::new(),
            notifications: Vec::new(),
            changes: Vec::new(),
            controls: Vec::new(),
            reports: Vec::new(),
            usage: failure.usage,
            failure: Some(failure),
        }
    }
}

/// An event that a module raised.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Notification {
    /// The number that the module was told, unique in this process.
    pub request: u64,
    /// What happened.
    pub code: Status,
    /// Whom it is meant for; never `PMIX_RANGE_PROC_LOCAL`.
    pub range: Range,
    /// What else is known.
    pub infos: Vec<Info>,
}

/// What a module wishes to be registered for.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ModuleRegistration {
    /// Chosen by the module, to be told it with each call for this registration ([`EventCall::tag`]).
    pub tag: u32,
    /// The name under which its results appear.
    pub name: Option<String>,
    /// For which codes; none means a default registration.
    pub codes: Vec<Status>,
    /// Placement words and filters.
    pub directives: Vec<Info>,
}

/// How a module wants its registrations changed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum RegistrationChange {
    /// It wants one more.
    Register(ModuleRegistration),
    /// It wants the one of this number to end, if that is its own.
    Deregister(u64),
}

/// In what way a call failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum FailureKind {
    /// It trapped, or used the host in a way that cannot be.
    Trapped,
    /// It ran longer than it may.
    Timeout,
    /// It wanted more memory than it may have.
    Memory,
    /// It pushed more than it may.
    Output,
    /// It made more host calls than it may.
    HostCalls,
    /// It used up its fuel.
    Fuel,
    /// It was not called: it has failed too often.
    Quarantined,
    /// It could not be run.
    Unavailable,
}

impl FailureKind {
    /// The status that stands in for the one the handler did not return.
    pub fn status(self) -> Status {
        match self {
            FailureKind::Trapped => Status::PEAL_ERR_MODULE_TRAPPED,
            FailureKind::HostCalls => Status::PEAL_ERR_MODULE_HOST_CALLS,
            FailureKind::Timeout => Status::PEAL_ERR_MODULE_TIMEOUT,
            FailureKind::Memory => Status::PEAL_ERR_MODULE_MEMORY,
            FailureKind::Output => Status::PEAL_ERR_MODULE_OUTPUT,
            FailureKind::Fuel => Status::PEAL_ERR_MODULE_FUEL,
            FailureKind::Quarantined => Status::PEAL_ERR_MODULE_QUARANTINED,
            FailureKind::Unavailable => Status::PEAL_ERR_MODULE_UNAVAILABLE,
        }
    }
}

/// How a call failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallFailure {
    /// In what way.
    pub kind: FailureKind,
    /// The limit that it hit, if it was one.
    pub limit: Option<LimitKind>,
    /// What exactly, for people.
    pub reason: String,
    /// The guest's functions that were running, innermost first; empty where none was.
    pub backtrace: Vec<String>,
    /// What the call had used by then.
    pub(crate) usage: CallUsage,
}

impl CallFailure {
    pub(crate) fn new(
        kind: FailureKind,
        limit: Option<LimitKind>,
        reason: impl Into<String>,
    ) -> CallFailure {
        let (mut usage, backtrace) = (CallUsage::default(), Vec::new());
        limit.into_iter().for_each(|limit| usage.hits.insert(limit));
        CallFailure {
            kind,
            limit,
            reason: reason.into(),
            backtrace,
            usage,
        }
    }

    /// A call that could not be made.
    pub(crate) fn unavailable(reason: impl Into<String>) -> CallFailure {
        CallFailure::new(FailureKind::Unavailable, None, reason)
    }

    /// Whether it tells something about the module, and not only about what others use or want of it.
    pub(crate) fn is_its_own(&self) -> bool {
        let is_its_own_doing = !matches!(
            self.kind,
            FailureKind::Unavailable | FailureKind::Quarantined
        );
        is_its_own_doing && !self.limit.is_some_and(LimitKind::is_shared)
    }

    /// A call in a role that the module does not fill.
    pub(crate) fn no_role(role: Role) -> CallFailure {
        CallFailure::unavailable(format!("it is no {}", role.name()))
    }
}

impl fmt::Display for CallFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if self.backtrace.is_empty() {
            Ok(())
        } else {
            write!(f, " (in {})", self.backtrace.join(" < "))
        }
    }
}
