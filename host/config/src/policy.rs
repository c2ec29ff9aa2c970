//! What holds where policies decide nothing, hook by hook.
use crate::{settings::Policy, values::PolicyDefault};
use peal_model::Hook;

impl Policy {
    /// What holds where all policies of a hook pass.
    pub fn default_of(&self, hook: Hook) -> PolicyDefault {
        match hook {
            Hook::Connection => self.connection,
            Hook::Event => self.event,
            Hook::JobControl => self.job_control,
            Hook::Monitor => self.monitor,
            Hook::Provision => self.provision,
            Hook::Log => self.log,
            Hook::Group => self.group,
            Hook::Spawn => self.spawn,
            Hook::Publish => self.publish,
            Hook::Lookup => self.lookup,
            Hook::Query => self.query,
        }
    }
}
