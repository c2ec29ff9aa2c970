//! What a handler says of an event, or a log channel of a request: a status, and infos for whoever comes after it.
use crate::{Info, Value, bindings::call, status, tree::lower_info};

/// What a handler did about an event, or a log channel about a request. RFC 0002, "PMIx Event Notification".
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Outcome {
    status: i32,
    infos: Vec<Info>,
}

impl Outcome {
    /// Nothing was done.
    pub fn no_action() -> Outcome {
        Outcome::status(status::PMIX_EVENT_NO_ACTION_TAKEN)
    }

    /// Something was done; others may do more.
    pub fn partial() -> Outcome {
        Outcome::status(status::PMIX_EVENT_PARTIAL_ACTION_TAKEN)
    }

    /// Something will be done later.
    pub fn deferred() -> Outcome {
        Outcome::status(status::PMIX_EVENT_ACTION_DEFERRED)
    }

    /// All is done: ends this owner's chain. No other status does.
    pub fn complete() -> Outcome {
        Outcome::status(status::PMIX_EVENT_ACTION_COMPLETE)
    }

    /// It was logged.
    pub fn success() -> Outcome {
        Outcome::status(status::PMIX_SUCCESS)
    }

    /// Any status, as one of [`crate::status`] or a number that programs agreed upon.
    pub fn status(status: i32) -> Outcome {
        Outcome {
            status,
            infos: Vec::new(),
        }
    }

    /// The same, with one more info for those that come after.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Outcome {
        self.infos.push(Info::new(key, value));
        self
    }

    /// The same, with one more info, which may have flags.
    pub fn with_info(mut self, info: Info) -> Outcome {
        self.infos.push(info);
        self
    }

    /// Its status.
    pub fn code(&self) -> i32 {
        self.status
    }

    /// What it says beside its status.
    pub fn infos(&self) -> &[Info] {
        &self.infos
    }

    /// The value that it says under this key; the last of several.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.infos
            .iter()
            .rfind(|info| info.key == key)
            .map(|info| &info.value)
    }

    /// Hands the infos to the host and returns the status.
    pub(crate) fn deliver(self) -> i32 {
        for info in self.infos {
            let (info, arrays) = lower_info(info);
            call::push(&info, &arrays);
        }
        self.status
    }
}

impl From<Result<(), i32>> for Outcome {
    fn from(result: Result<(), i32>) -> Outcome {
        result.map_or_else(Outcome::status, |()| Outcome::success())
    }
}
