//! Status and event codes: one number space in the Standard.
use crate::names::STATUS_NAMES;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A status or event code (`pmix_status_t`). Zero is success, negative numbers are errors and events; from -3000 down
/// they are free for users, from -1000000 down they are Peal's own. PMIx Standard, section "Return status".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Status(pub i32);

impl Status {
    /// The code by which a default registration is known inside `libpmix`, and in its DEREGEVENTS message.
    pub const DEFAULT_HANDLER: Status = Status(i32::MIN);
    /// A handler ended abnormally (trap); Peal's own.
    pub const PEAL_ERR_MODULE_TRAPPED: Status = Status(-1_000_001);
    /// A handler ran past its time; Peal's own.
    pub const PEAL_ERR_MODULE_TIMEOUT: Status = Status(-1_000_002);
    /// A handler asked for more memory than it may have; Peal's own.
    pub const PEAL_ERR_MODULE_MEMORY: Status = Status(-1_000_003);
    /// A handler returned more than it may; Peal's own.
    pub const PEAL_ERR_MODULE_OUTPUT: Status = Status(-1_000_004);
    /// A handler could not be run at all (no instance to be had, queue full); Peal's own.
    pub const PEAL_ERR_MODULE_UNAVAILABLE: Status = Status(-1_000_005);
    /// A handler called its host more often than it may; Peal's own.
    pub const PEAL_ERR_MODULE_HOST_CALLS: Status = Status(-1_000_006);
    /// Event: other modules have taken the place of those that a server ran; Peal's own.
    pub const PEAL_MODULES_DEPLOYED: Status = Status(-1_000_101);
    /// Event: other modules were to take the place of those that a server runs, and could not; Peal's own.
    pub const PEAL_MODULES_REFUSED: Status = Status(-1_000_102);
    /// Event: a module is not called any more since it failed too often; Peal's own.
    pub const PEAL_MODULE_QUARANTINED: Status = Status(-1_000_103);
    /// Event, for the requester: a job-control request that was accepted has ended; Peal's own.
    pub const PEAL_JOB_CONTROL_ENDED: Status = Status(-1_000_104);
    /// A handler used up its fuel; Peal's own.
    pub const PEAL_ERR_MODULE_FUEL: Status = Status(-1_000_007);
    /// A handler was not called: it has failed too often; Peal's own.
    pub const PEAL_ERR_MODULE_QUARANTINED: Status = Status(-1_000_008);

    const PEAL_NAMES: [(Status, &'static str); 12] = [
        (Status::PEAL_JOB_CONTROL_ENDED, "PEAL_JOB_CONTROL_ENDED"),
        (Status::PEAL_ERR_MODULE_TRAPPED, "PEAL_ERR_MODULE_TRAPPED"),
        (Status::PEAL_ERR_MODULE_TIMEOUT, "PEAL_ERR_MODULE_TIMEOUT"),
        (Status::PEAL_ERR_MODULE_MEMORY, "PEAL_ERR_MODULE_MEMORY"),
        (Status::PEAL_ERR_MODULE_OUTPUT, "PEAL_ERR_MODULE_OUTPUT"),
        (
            Status::PEAL_ERR_MODULE_UNAVAILABLE,
            "PEAL_ERR_MODULE_UNAVAILABLE",
        ),
        (
            Status::PEAL_ERR_MODULE_HOST_CALLS,
            "PEAL_ERR_MODULE_HOST_CALLS",
        ),
        (Status::PEAL_MODULES_DEPLOYED, "PEAL_MODULES_DEPLOYED"),
        (Status::PEAL_MODULES_REFUSED, "PEAL_MODULES_REFUSED"),
        (Status::PEAL_MODULE_QUARANTINED, "PEAL_MODULE_QUARANTINED"),
        (Status::PEAL_ERR_MODULE_FUEL, "PEAL_ERR_MODULE_FUEL"),
        (
            Status::PEAL_ERR_MODULE_QUARANTINED,
            "PEAL_ERR_MODULE_QUARANTINED",
        ),
    ];

    /// Whether this is `PMIX_SUCCESS` (or the internal "operation succeeded", which libraries treat alike).
    pub fn is_success(self) -> bool {
        self == crate::code::PMIX_SUCCESS || self == crate::code::PMIX_OPERATION_SUCCEEDED
    }

    /// The Standard's name, if it has one.
    pub fn name(self) -> Option<&'static str> {
        if let Ok(at) = STATUS_NAMES.binary_search_by_key(&self.0, |entry| entry.0) {
            return STATUS_NAMES.get(at).map(|entry| entry.1);
        }
        Self::PEAL_NAMES
            .iter()
            .find(|entry| entry.0 == self)
            .map(|entry| entry.1)
    }

    /// The code of this name: a name of the Standard, one of Peal's own, or a plain number.
    pub fn from_name(name: &str) -> Option<Status> {
        if let Ok(number) = name.parse::<i32>() {
            return Some(Status(number));
        }
        let standard = crate::names::STATUS_ALIASES
            .iter()
            .find(|entry| entry.0 == name)
            .map(|entry| Status(entry.1));
        standard.or_else(|| {
            Self::PEAL_NAMES
                .iter()
                .find(|entry| entry.1 == name)
                .map(|entry| entry.0)
        })
    }

    /// `Ok` for a success, else the status as an error.
    pub fn ok(self) -> Result<(), Status> {
        if self.is_success() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "{name} ({})", self.0),
            None => write!(f, "{}", self.0),
        }
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
