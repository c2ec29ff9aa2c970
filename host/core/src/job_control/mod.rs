//! Job control: what a request asks for, read and checked whole before anything happens to any proc, and what becomes of it.
//!
//! [`read()`] makes an [`ParsedJobControl`] of directives; the ledger keeps each request that was accepted until its end, and a while beyond.

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
mod state;

pub use action::JobAction;
pub(crate) use checkpoint::{Checkpoint, Trigger};
pub use checkpoint_request::CheckpointOrder;
pub use cleanup::{Cleanup, Depth, Subdirectories, TopDirectory};
pub use error::JobControlError;
pub use ledger::{ControlId, JobControlEnd, JobControlOperation, OPERATION, REQUEST, STATE};
pub(crate) use ledger::{JobControlLedger, LedgerEntry, PendingWork, RequestStage, Requestor};
pub(crate) use method::Declared;
pub use method::{CheckpointMethod, Declaration};
pub use parse::{GRACE, PREEMPT, ParsedJobControl, RequestSelector, RequestedAction, read};
use peal_model::{DataArray, Info, KeyName, Proc, Status, Value, code, key};
pub use state::ControlState;

/// Under this key an answer says of a proc that it was not done to it, and why: an array of infos.
pub const OUTCOME: KeyName = KeyName("peal.jctrl.outcome");
/// In that array, and in the event by which a proc tells of its checkpoint: the status that says so.
pub const STATUS: KeyName = KeyName("peal.jctrl.status");

/// What the host environment is to do.
#[derive(Clone, PartialEq, Debug)]
pub struct JobControl {
    /// What is to be done.
    pub action: JobAction,
    /// To whom: single procs, each once and known, in their order.
    pub targets: Vec<Proc>,
    /// All directives, for hosts that know more of the optional ones.
    pub directives: Vec<Info>,
}

/// A proc to which it could not be done.
#[derive(Clone, PartialEq, Debug)]
pub struct NotDone {
    /// Which.
    pub proc: Proc,
    /// The status that says why.
    pub status: Status,
    /// Why, in words.
    pub reason: String,
}

impl NotDone {
    /// As requesters are told.
    pub fn info(&self) -> Info {
        let infos = [
            Info::new(key::PMIX_PROCID, Value::Proc(self.proc.clone())),
            Info::new(STATUS, Value::Status(self.status)),
            crate::policy::reason(&self.reason),
        ];
        Info::new(OUTCOME, Value::DataArray(DataArray::infos(infos)))
    }
}

/// How well it went for so many procs: `PMIX_ERR_PARTIAL_SUCCESS` where some are not done.
pub fn status_of(procs: usize, not_done: &[NotDone]) -> Status {
    match not_done.first() {
        None => code::PMIX_SUCCESS,
        Some(first) if not_done.len() >= procs => first.status,
        Some(_) => code::PMIX_ERR_PARTIAL_SUCCESS,
    }
}
