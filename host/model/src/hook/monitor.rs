//! The hook of monitors of procs, files and resource usage.
use super::{BuiltInRule, Hook, HookSubject, bytes_of, replace};
use crate::{Amendment, Info, counted};
use serde::{Deserialize, Serialize};
use std::slice;

/// A request to monitor, as its policies see it. The targets of the request are the procs
/// concerned.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MonitorSubject {
    /// The monitor.
    pub monitor: Info,
    /// Directives.
    pub directives: Vec<Info>,
}

impl HookSubject for MonitorSubject {
    fn hook(&self) -> Hook {
        Hook::Monitor
    }

    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::OwnTargets { users: &[] }
    }

    fn summary(&self, targets: usize) -> String {
        format!("monitor of {}", counted(targets, "target"))
    }

    fn infos(&self) -> &[Info] {
        slice::from_ref(&self.monitor)
    }

    fn directives(&self) -> &[Info] {
        &self.directives
    }

    fn amend(&mut self, amendment: Amendment) {
        replace(&mut self.directives, amendment.infos);
    }

    fn bytes(&self) -> usize {
        // The held request has a copy of the monitor beside that of the policies.
        bytes_of(self.infos())
            .saturating_mul(2)
            .saturating_add(bytes_of(&self.directives))
    }
}
