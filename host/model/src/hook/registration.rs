//! The registration for events, the second subject of the hook of events.
use super::{BuiltInRule, Hook, HookSubject, bytes_of, replace};
use crate::{Amendment, Info, Status, counted};
use serde::{Deserialize, Serialize};

/// A registration for events, as the policies of events see it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct RegistrationSubject {
    /// Codes; empty for all.
    pub codes: Vec<Status>,
    /// Directives: filters by key.
    pub directives: Vec<Info>,
}

impl HookSubject for RegistrationSubject {
    fn hook(&self) -> Hook {
        Hook::Event
    }

    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::GrantAlways
    }

    fn summary(&self, _targets: usize) -> String {
        format!("registration for {}", counted(self.codes.len(), "code"))
    }

    fn directives(&self) -> &[Info] {
        &self.directives
    }

    fn amend(&mut self, amendment: Amendment) {
        replace(&mut self.directives, amendment.infos);
    }

    fn bytes(&self) -> usize {
        // The held request has a copy of the codes beside that of the policies.
        let codes = size_of_val(self.codes.as_slice()).saturating_mul(2);
        bytes_of(&self.directives).saturating_add(codes)
    }
}
