//! What one call of an instance was: what it was about, what the guest asked of the host, and how it ended. A whole instance,
//! from its start on, can be replayed from its records.
use crate::call_data::CallSubject;
use crate::host_calls::HostCall;
use crate::instance_state::CallOutput;
use crate::{CallFailure, CallUsage, ModuleRegistration};
use peal_model::{PolicyOutcome, Status};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// One call of an instance.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CallRecord {
    /// The number of the instance in this process, from 1; 0 where none could be had, so that nothing was called.
    pub instance: u64,
    /// Which of its calls this is; 0 is its start.
    pub number: u64,
    /// What it was about; nothing for a start and a stop.
    pub subject: CallSubject,
    /// What the guest asked of the host.
    pub host_calls: Vec<HostCall>,
    /// Which of its memories' and tables' growths were refused because of what others use, counted from 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_growths: Vec<u32>,
    /// How it ended.
    pub end: CallEnd,
    /// What it used.
    pub usage: CallUsage,
    /// How long it took.
    pub time: Duration,
    /// Bytes of the instance's memories and tables after it.
    pub memory: u64,
}

/// How a call ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CallEnd {
    /// The guest returned.
    Returned {
        /// What.
        answer: Returned,
        /// What it handed over before.
        output: CallOutput,
    },
    /// It was cut off, or could not be made.
    Failed(CallFailure),
}

/// What a guest returned.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum Returned {
    /// It started, or stopped.
    Nothing,
    /// From its `init`: what it wishes to be registered for, or why it will not start.
    Init(Result<Vec<ModuleRegistration>, String>),
    /// From a handler or channel.
    Status(Status),
    /// From a policy.
    Outcome(PolicyOutcome),
}

/// Takes the records of a module's calls. Called on the thread of each call, behind it; as long as it takes, so long that waits.
pub trait Recorder: Send + Sync {
    /// Whether the calls of this instance are wanted, from its start on. Asked where a module handles events and does nothing
    /// else; what policies and channels do is always wanted.
    fn samples(&self, instance: u64) -> bool;
    /// A call was made.
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
