//! Job control: parsing and checking of requests before any effect, and their state until the end.
//!
//! [`read()`] makes a [`ParsedJobControl`] of directives. The ledger keeps each accepted request
//! until its end and for some time after.

mod action;
mod checkpoint;
mod checkpoint_request;
mod cleanup;
mod directive;
mod error;
mod ledger;
mod method;
mod node_pattern;
pub mod nodes;
mod parse;
mod server_work;
mod state;

use crate::targets::ResolvedTargets;
pub use action::JobAction;
pub(crate) use checkpoint::{Checkpoint, Trigger};
pub use checkpoint_request::{CheckpointOrder, PreemptionOrder};
pub use cleanup::{Cleanup, Depth, Subdirectories, TopDirectory};
pub(crate) use directive::is_name;
pub use directive::{CHECK, ExtendedDirectives, GRACE, PREEMPT};
pub use error::JobControlError;
pub use ledger::{
    ControlId, ControlPart, ControlUpcallId, JobControlEnd, JobControlOperation, OPERATION,
    REQUEST, STATE,
};
pub(crate) use ledger::{
    ControlReply, JobControlLedger, LedgerEntry, PendingWork, RequestStage, Requestor,
};
pub use method::{CheckpointMethod, Declaration};
pub(crate) use method::{Declared, methods_are_valid};
pub use parse::{ParsedJobControl, RequestSelector, RequestedAction, read};
use peal_model::{DataArray, Info, KeyName, Proc, Status, Value, code, key};
use serde::{Deserialize, Serialize};
pub(crate) use server_work::ServerWork;
pub use server_work::{ProcsOfMethods, ServerCheckpoint};
pub use state::ControlState;

/// Key of an info in a reply that reports a proc for which an action was not done: an array of
/// infos.
pub const OUTCOME: KeyName = KeyName("peal.jctrl.outcome");
/// Key of the status, in an [`OUTCOME`] and in the event by which a proc reports its checkpoint.
pub const STATUS: KeyName = KeyName("peal.jctrl.status");

/// Longest reason of another server, in bytes.
const MAX_REASON: usize = 256;

/// An action that the host environment carries out.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct JobControl {
    /// The action.
    pub action: JobAction,
    /// Single known procs of this node, each once, in order.
    pub targets: Vec<Proc>,
    /// The directives of the request, for host environments that support further optional ones.
    pub directives: Vec<Info>,
}

/// An operation on procs of which some are on other nodes.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ControlOverNodes {
    /// The operation.
    pub operation: JobControlOperation,
    /// The targets.
    pub targets: ResolvedTargets,
    /// All directives.
    pub directives: Vec<Info>,
}

/// The result of a [`ControlOverNodes`].
#[derive(Clone, PartialEq, Debug)]
pub enum ControlResult {
    /// The launcher of the job has answered.
    OfLauncher {
        /// The status.
        status: Status,
        /// Infos for the requester.
        infos: Vec<Info>,
    },
    /// The launcher does not control procs: the servers have to.
    OfServers,
}

/// A proc for which an action was not done.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NotDone {
    /// The proc.
    pub proc: Proc,
    /// The status.
    pub status: Status,
    /// The reason, as text.
    pub reason: String,
}

impl NotDone {
    /// Reports the same for each of these procs.
    pub(crate) fn each(
        procs: impl IntoIterator<Item = Proc>,
        status: Status,
        reason: &str,
    ) -> Vec<NotDone> {
        let not_done = procs.into_iter().map(|proc| NotDone {
            proc,
            status,
            reason: reason.to_owned(),
        });
        not_done.collect()
    }

    /// Cuts the reason, which another server has given.
    pub(crate) fn with_short_reason(mut self) -> NotDone {
        let end = self.reason.floor_char_boundary(MAX_REASON);
        self.reason.truncate(end);
        self
    }

    /// Returns the info for requesters.
    pub fn info(&self) -> Info {
        let infos = [
            Info::new(key::PMIX_PROCID, Value::Proc(self.proc.clone())),
            Info::new(STATUS, Value::Status(self.status)),
            crate::policy::reason(&self.reason),
        ];
        Info::new(OUTCOME, Value::DataArray(DataArray::infos(infos)))
    }
}

/// Returns the status of an action on this number of procs: `PMIX_ERR_PARTIAL_SUCCESS` if it was
/// done for some of them only.
pub fn status_of(procs: usize, not_done: &[NotDone]) -> Status {
    match not_done.first() {
        None => code::PMIX_SUCCESS,
        Some(first) if not_done.len() >= procs => first.status,
        Some(_) => code::PMIX_ERR_PARTIAL_SUCCESS,
    }
}
