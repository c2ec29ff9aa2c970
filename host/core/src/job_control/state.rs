//! States of job-control requests, as requesters see them.
use std::fmt;

/// The state of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlState {
    /// Permitted, not begun.
    Accepted,
    /// In progress.
    Running,
    /// Done for all targets.
    Done,
    /// Not done, or not for all targets.
    Failed,
    /// Cancelled before it was done.
    Cancelled,
    /// Denied.
    Denied,
}

impl ControlState {
    /// All states.
    pub const ALL: [ControlState; 6] = [
        ControlState::Accepted,
        ControlState::Running,
        ControlState::Done,
        ControlState::Failed,
        ControlState::Cancelled,
        ControlState::Denied,
    ];

    /// Returns the name of the state.
    pub fn name(self) -> &'static str {
        match self {
            ControlState::Accepted => "accepted",
            ControlState::Running => "running",
            ControlState::Done => "done",
            ControlState::Failed => "failed",
            ControlState::Cancelled => "cancelled",
            ControlState::Denied => "denied",
        }
    }

    /// Returns true if the state does not change any more.
    pub fn is_final(self) -> bool {
        !matches!(self, ControlState::Accepted | ControlState::Running)
    }
}

impl fmt::Display for ControlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
