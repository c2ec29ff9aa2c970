//! The hook of job control.
use super::{BuiltInRule, Hook, HookSubject, replace};
use crate::{Amendment, Info, counted};
use serde::{Deserialize, Serialize};

/// A job-control request, as its policies see it. The targets of the request are the procs to be
/// controlled.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct JobControlSubject {
    /// Directives.
    pub directives: Vec<Info>,
}

impl HookSubject for JobControlSubject {
    fn hook(&self) -> Hook {
        Hook::JobControl
    }

    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::OwnTargets { users: &[] }
    }

    fn summary(&self, targets: usize) -> String {
        format!("job control of {}", counted(targets, "target"))
    }

    fn directives(&self) -> &[Info] {
        &self.directives
    }

    fn amend(&mut self, amendment: Amendment) {
        replace(&mut self.directives, amendment.infos);
    }
}
