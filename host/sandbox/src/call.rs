//! Arguments and results of a call of an event handler.
use crate::{CallUsage, DeferredControl, DeferredLog, LimitKind, Role};
use peal_model::{ChainResult, Event, Info, Range, RegistrationChange, Status, UserIdentity};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// One event for one registration. Cloning is cheap: large parts are shared.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct EventCall {
    /// Number of the event among those of its server, for records; 0 where events are not counted.
    pub number: u64,
    /// Number of the registration that the event matches.
    pub registration: u64,
    /// Tag that the module gave the registration ([`ModuleRegistration::tag`]); 0 if the module did
    /// not make it.
    pub tag: u32,
    /// The event itself.
    pub event: Arc<Event>,
    /// User and group of the source as the kernel reports them; `None` for events of the resource
    /// manager.
    pub identity: Option<UserIdentity>,
    /// Results of the handlers before this one in the chain, oldest first. The sandbox keeps no
    /// reference after it returns, so `Arc::make_mut` adds a result without a copy.
    pub steps: Arc<Vec<ChainResult>>,
}

/// Result of a call of a handler. A failed call has a status of Peal's own.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct HandlerResult {
    /// Returned status, or the status of the failure (`PEAL_ERR_MODULE_...`).
    pub status: Status,
    /// Pushed infos; empty if the call failed.
    pub infos: Vec<Info>,
    /// Events to be raised now that the handler has returned; empty if the call failed.
    pub notifications: Vec<Notification>,
    /// Requested changes of its registrations, in this order; empty if the call failed.
    pub changes: Vec<RegistrationChange>,
    /// Job control to be requested now that the handler has returned; empty if the call failed.
    pub controls: Vec<DeferredControl>,
    /// Log requests to be made now that the handler has returned; empty if the call failed.
    pub reports: Vec<DeferredLog>,
    /// The failure, if the call failed.
    pub failure: Option<CallFailure>,
    /// Resources that the call used.
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
    /// Number of the request as returned to the module, unique in this process.
    pub request: u64,
    /// Code of the event.
    pub code: Status,
    /// Range of the event; never `PMIX_RANGE_PROC_LOCAL`.
    pub range: Range,
    /// Infos of the event.
    pub infos: Vec<Info>,
}

/// Kind of failure of a call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum FailureKind {
    /// The guest trapped, or used a host call in a way that the contract forbids.
    Trapped,
    /// The call exceeded its time.
    Timeout,
    /// The instance requested more memory than its limit.
    Memory,
    /// The call exceeded its output limit.
    Output,
    /// The call exceeded its number of host calls.
    HostCalls,
    /// The call used up its fuel.
    Fuel,
    /// The module was not called because it is quarantined.
    Quarantined,
    /// The module could not be called.
    Unavailable,
}

impl FailureKind {
    /// Returns the status that takes the place of the one that the handler did not return.
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

/// Failure of a call.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CallFailure {
    /// Kind of the failure.
    pub kind: FailureKind,
    /// Limit that the call exceeded, if any.
    pub limit: Option<LimitKind>,
    /// Reason in plain text.
    pub reason: String,
    /// Functions of the guest that were running, innermost first; empty if none was.
    pub backtrace: Vec<String>,
    /// Resources that the call had used up to the failure.
    pub(crate) usage: CallUsage,
}

impl CallFailure {
    pub(crate) fn new(
        kind: FailureKind,
        limit: Option<LimitKind>,
        reason: impl Into<String>,
    ) -> CallFailure {
        let mut usage = CallUsage::default();
        let backtrace = Vec::new();
        limit.into_iter().for_each(|limit| usage.hits.insert(limit));
        CallFailure {
            kind,
            limit,
            reason: reason.into(),
            backtrace,
            usage,
        }
    }

    /// Creates the failure of a call that could not be made.
    pub fn unavailable(reason: impl Into<String>) -> CallFailure {
        CallFailure::new(FailureKind::Unavailable, None, reason)
    }

    /// Reports whether the module caused the failure, as opposed to other modules or the state of
    /// the host.
    pub(crate) fn is_caused_by_module(&self) -> bool {
        let is_its_own_doing = !matches!(
            self.kind,
            FailureKind::Unavailable | FailureKind::Quarantined
        );
        is_its_own_doing && !self.limit.is_some_and(LimitKind::is_shared)
    }

    /// Creates the failure of a call in a role that the module does not export.
    pub(crate) fn no_role(role: Role) -> CallFailure {
        CallFailure::unavailable(format!("module has no role {}", role.name()))
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
