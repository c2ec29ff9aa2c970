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
    /// Extent, of which records of older releases have none.
    #[serde(default, skip_serializing_if = "ControlExtent::is_full")]
    pub extent: ControlExtent,
}

/// Extent to which a job-control request is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub enum ControlExtent {
    /// It is decided by policies, checked and carried out.
    #[default]
    Full,
    /// It is decided by policies and checked.
    Check,
}

impl ControlExtent {
    fn is_full(&self) -> bool {
        *self == ControlExtent::Full
    }
}

impl HookSubject for JobControlSubject {
    fn hook(&self) -> Hook {
        Hook::JobControl
    }

    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::OwnTargets { users: &[] }
    }

    fn summary(&self, targets: usize) -> String {
        let control = format!("job control of {}", counted(targets, "target"));
        match self.extent {
            ControlExtent::Full => control,
            ControlExtent::Check => format!("check of {control}"),
        }
    }

    fn directives(&self) -> &[Info] {
        &self.directives
    }

    fn amend(&mut self, amendment: Amendment) {
        replace(&mut self.directives, amendment.infos);
    }
}
