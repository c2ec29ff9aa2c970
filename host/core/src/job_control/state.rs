//! How far requests are, in the words that requesters are told.
use std::fmt;

/// How far a request is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ControlState {
    /// It was granted and waits.
    Accepted,
    /// It is being done.
    Running,
    /// It has been done.
    Done,
    /// It was not done, or not to all.
    Failed,
    /// It was let go before it was done.
    Cancelled,
    /// It was not allowed.
    Denied,
}

impl ControlState {
    /// All there are.
    pub const ALL: [ControlState; 6] = [
        ControlState::Accepted,
        ControlState::Running,
        ControlState::Done,
        ControlState::Failed,
        ControlState::Cancelled,
        ControlState::Denied,
    ];

    /// Its word.
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

    /// Whether nothing more will come of it.
    pub fn is_final(self) -> bool {
        !matches!(self, ControlState::Accepted | ControlState::Running)
    }
}

impl fmt::Display for ControlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
