//! Record of one call of an instance: its subject, the host calls of the guest and the end of the
//! call. The records of an instance from its start on suffice to replay it.
use crate::call_data::CallSubject;
use crate::host_calls::HostCall;
use crate::instance_state::CallOutput;
use crate::{CallFailure, CallUsage};
use peal_model::{ModuleRegistration, PolicyOutcome, Status};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Record of one call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CallRecord {
    /// Number of the instance in this process, from 1; 0 if there was none and nothing was called.
    pub instance: u64,
    /// Number of the call in its instance; 0 is the start.
    pub number: u64,
    /// Subject of the call; none for a start or a stop.
    pub subject: CallSubject,
    /// Host calls of the guest.
    pub host_calls: Vec<HostCall>,
    /// Growths of memories and tables that were refused and that a replay might grant, by index
    /// from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_growths: Vec<u32>,
    /// End of the call.
    pub end: CallEnd,
    /// Resources that the call used.
    pub usage: CallUsage,
    /// Elapsed time.
    pub time: Duration,
    /// Bytes of the instance's memories and tables after the call.
    pub memory: u64,
}

/// End of a call.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CallEnd {
    /// The guest returned.
    Returned {
        /// Returned value.
        answer: Returned,
        /// Output.
        output: CallOutput,
    },
    /// The call failed, or could not be made.
    Failed(CallFailure),
}

/// Returned value of a guest.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Returned {
    /// No value: a start or a stop.
    Nothing,
    /// Result of `lifecycle.init`: the requested registrations, or why the module does not start.
    Init(Result<Vec<ModuleRegistration>, String>),
    /// Status of a handler or channel.
    Status(Status),
    /// Outcome of a policy.
    Outcome(PolicyOutcome),
}

/// Recorder of a module's calls. It runs on the thread of each call, after the call, which waits
/// for it.
pub trait Recorder: Send + Sync {
    /// Returns true if the calls of an instance are to be recorded, from its start on. It is only
    /// asked for modules that handle events and do nothing else: calls of policies and channels are
    /// always recorded.
    fn samples(&self, instance: u64) -> bool;
    /// Takes the record of a call.
    fn record(&self, record: CallRecord);
}

impl From<&()> for Returned {
    fn from((): &()) -> Returned {
        Returned::Nothing
    }
}

impl From<&Status> for Returned {
    fn from(status: &Status) -> Returned {
        Returned::Status(*status)
    }
}
