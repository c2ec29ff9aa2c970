//! Status and event codes, which share one number space in the Standard.
use crate::names::STATUS_NAMES;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A status or event code (`pmix_status_t`). Zero is success, negative numbers are errors and
/// events. Numbers from -3000 down are free for users, those from -1000000 down are Peal's own.
/// PMIx Standard, section "Return status".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Status(pub i32);

impl Status {
    /// Code of a default registration inside `libpmix`, and in its DEREGEVENTS message.
    pub const DEFAULT_HANDLER: Status = Status(i32::MIN);
    /// Status of a handler that trapped; Peal's own.
    pub const PEAL_ERR_MODULE_TRAPPED: Status = Status(-1_000_001);
    /// Status of a handler that exceeded its time; Peal's own.
    pub const PEAL_ERR_MODULE_TIMEOUT: Status = Status(-1_000_002);
    /// Status of a handler that exceeded its memory; Peal's own.
    pub const PEAL_ERR_MODULE_MEMORY: Status = Status(-1_000_003);
    /// Status of a handler that exceeded its output; Peal's own.
    pub const PEAL_ERR_MODULE_OUTPUT: Status = Status(-1_000_004);
    /// Status of a handler that could not be called (no instance available, queue full); Peal's
    /// own.
    pub const PEAL_ERR_MODULE_UNAVAILABLE: Status = Status(-1_000_005);
    /// Status of a handler that exceeded its number of host calls; Peal's own.
    pub const PEAL_ERR_MODULE_HOST_CALLS: Status = Status(-1_000_006);
    /// Event code: the server runs another module set; Peal's own.
    pub const PEAL_MODULES_DEPLOYED: Status = Status(-1_000_101);
    /// Event code: a change of the module set failed; Peal's own.
    pub const PEAL_MODULES_REFUSED: Status = Status(-1_000_102);
    /// Event code: a module was quarantined because it failed too often; Peal's own.
    pub const PEAL_MODULE_QUARANTINED: Status = Status(-1_000_103);
    /// Event code, for the requester: an accepted job-control request has ended; Peal's own.
    pub const PEAL_JOB_CONTROL_ENDED: Status = Status(-1_000_104);
    /// Event code: another process, such as one of a newer release, goes on with the server; Peal's own.
    pub const PEAL_SERVER_CONTINUED: Status = Status(-1_000_105);
    /// Status of a handler that used up its fuel; Peal's own.
    pub const PEAL_ERR_MODULE_FUEL: Status = Status(-1_000_007);
    /// Status of a handler that was not called because it is quarantined; Peal's own.
    pub const PEAL_ERR_MODULE_QUARANTINED: Status = Status(-1_000_008);

    const PEAL_NAMES: [(Status, &'static str); 13] = [
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
        (Status::PEAL_SERVER_CONTINUED, "PEAL_SERVER_CONTINUED"),
        (Status::PEAL_ERR_MODULE_FUEL, "PEAL_ERR_MODULE_FUEL"),
        (
            Status::PEAL_ERR_MODULE_QUARANTINED,
            "PEAL_ERR_MODULE_QUARANTINED",
        ),
    ];

    /// Returns true for `PMIX_SUCCESS` and for the internal "operation succeeded", which libraries
    /// treat alike.
    pub fn is_success(self) -> bool {
        self == crate::code::PMIX_SUCCESS || self == crate::code::PMIX_OPERATION_SUCCEEDED
    }

    /// Returns the Standard's name, or Peal's own, if the code has one.
    pub fn name(self) -> Option<&'static str> {
        // The generated table is sorted by number.
        if let Ok(at) = STATUS_NAMES.binary_search_by_key(&self.0, |entry| entry.0) {
            return STATUS_NAMES.get(at).map(|entry| entry.1);
        }
        Self::PEAL_NAMES
            .iter()
            .find(|entry| entry.0 == self)
            .map(|entry| entry.1)
    }

    /// Returns the code of a name: one of the Standard's, one of Peal's own, or a plain number.
    pub fn from_name(name: &str) -> Option<Status> {
        // Sites use numbers that have no name.
        if let Ok(number) = name.parse::<i32>() {
            return Some(Status(number));
        }
        // `STATUS_NAMES` has one name for each number. Older names are only in this table.
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

    /// Returns `Ok` for a success, otherwise the status as an error.
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
