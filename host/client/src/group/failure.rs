//! Why a group to which somebody invited is not there.
use peal_model::{Proc, Status, code};
use std::fmt;

/// Why somebody who was invited is not in a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Absence {
    /// They declined.
    Declined,
    /// They have ended.
    Ended,
    /// They had not answered when time was over.
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

/// Why a group to which somebody invited is not there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NotFormed {
    /// These do not come, and nobody wants it without them.
    Absent(Vec<(Proc, Absence)>),
    /// This proc, who led, has called it off.
    CalledOff(Proc),
    /// This proc, who led, has ended.
    LeaderEnded(Proc),
}

impl NotFormed {
    /// The status that says it in the Standard's terms.
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
            NotFormed::CalledOff(leader) => write!(f, "{leader}, who led, has called it off"),
            NotFormed::LeaderEnded(leader) => write!(f, "{leader}, who led, has ended"),
        }
    }
}
