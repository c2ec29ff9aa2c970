//! Reasons why a group by invitation was not formed.
use peal_model::{Proc, Status, code};
use std::fmt;

/// Reason why an invited proc is not in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Absence {
    /// The proc declined.
    Declined,
    /// The proc has ended.
    Ended,
    /// The proc did not answer in time.
    Silent,
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Absence::Declined => "has declined",
            Absence::Ended => "has ended",
            Absence::Silent => "has not answered in time",
        })
    }
}

/// Reason why a group by invitation was not formed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotFormed {
    /// These procs do not join, and the group is not formed without them.
    Absent(Vec<(Proc, Absence)>),
    /// This proc, the leader, has aborted the construct.
    CalledOff(Proc),
    /// This proc, the leader, has ended.
    LeaderEnded(Proc),
}

impl NotFormed {
    /// Returns the status of the Standard for this reason.
    pub fn status(&self) -> Status {
        match self {
            NotFormed::Absent(_) | NotFormed::CalledOff(_) => code::PMIX_GROUP_CONSTRUCT_ABORT,
            NotFormed::LeaderEnded(_) => code::PMIX_GROUP_LEADER_FAILED,
        }
    }
}

impl fmt::Display for NotFormed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotFormed::Absent(absent) => {
                let all: Vec<String> = absent
                    .iter()
                    .map(|(proc, why)| format!("{proc} {why}"))
                    .collect();
                f.write_str(&all.join(", "))
            }
            NotFormed::CalledOff(leader) => write!(f, "leader {leader} has aborted the construct"),
            NotFormed::LeaderEnded(leader) => write!(f, "leader {leader} has ended"),
        }
    }
}
