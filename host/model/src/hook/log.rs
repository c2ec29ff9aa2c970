//! The hook of log requests.
use super::{BuiltInRule, Hook, HookSubject, replace};
use crate::{Amendment, Info, counted};
use serde::{Deserialize, Serialize};

/// A log request, as its policies see it, before a channel is chosen.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LogSubject {
    /// Data: each info under the key of a channel, or payload for all channels.
    pub data: Vec<Info>,
    /// Directives.
    pub directives: Vec<Info>,
}

impl HookSubject for LogSubject {
    fn hook(&self) -> Hook {
        Hook::Log
    }

    // The admin lists the log channels that exist, and a request cannot name others.
    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::Grant
    }

    fn summary(&self, _targets: usize) -> String {
        format!("log request of {}", counted(self.data.len(), "info"))
    }

    fn infos(&self) -> &[Info] {
        &self.data
    }

    fn directives(&self) -> &[Info] {
        &self.directives
    }

    fn amend(&mut self, amendment: Amendment) {
        replace(&mut self.directives, amendment.infos);
        replace(&mut self.data, amendment.data);
    }

    fn log_data(&self) -> Option<&[Info]> {
        Some(&self.data)
    }
}
