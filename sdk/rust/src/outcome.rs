//! Outcome of an event handler or a log channel: a status, and infos for later modules of the
//! chain.
use crate::{Info, Value, bindings::call, status, tree::lower_info};

/// Outcome of a handler's or a log channel's call. RFC 0002, "PMIx Event Notification".
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Outcome {
    status: i32,
    infos: Vec<Info>,
}

impl Outcome {
    /// Creates an outcome: no action was taken.
    pub fn no_action() -> Outcome {
        Outcome::status(status::PMIX_EVENT_NO_ACTION_TAKEN)
    }

    /// Creates an outcome: an action was taken; others may take more.
    pub fn partial() -> Outcome {
        Outcome::status(status::PMIX_EVENT_PARTIAL_ACTION_TAKEN)
    }

    /// Creates an outcome: an action will be taken later.
    pub fn deferred() -> Outcome {
        Outcome::status(status::PMIX_EVENT_ACTION_DEFERRED)
    }

    /// Creates an outcome: all actions were taken. This status alone ends the chain of its owner.
    pub fn complete() -> Outcome {
        Outcome::status(status::PMIX_EVENT_ACTION_COMPLETE)
    }

    /// Creates an outcome: the request was logged.
    pub fn success() -> Outcome {
        Outcome::status(status::PMIX_SUCCESS)
    }

    /// Creates an outcome with any status: one of [`crate::status`], or a number that programs
    /// agreed upon.
    pub fn status(status: i32) -> Outcome {
        Outcome {
            status,
            infos: Vec::new(),
        }
    }

    /// Adds an info for later modules of the chain.
    pub fn with(mut self, key: impl Into<String>, value: impl Into<Value>) -> Outcome {
        self.infos.push(Info::new(key, value));
        self
    }

    /// Adds an info, which may have flags.
    pub fn with_info(mut self, info: Info) -> Outcome {
        self.infos.push(info);
        self
    }

    /// Returns the status.
    pub fn code(&self) -> i32 {
        self.status
    }

    /// Returns the infos.
    pub fn infos(&self) -> &[Info] {
        &self.infos
    }

    /// Returns the value of a key; the last of several.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.infos
            .iter()
            .rfind(|info| info.key == key)
            .map(|info| &info.value)
    }

    /// Pushes the infos to the host and returns the status.
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
