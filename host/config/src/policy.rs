//! Defaults of the policy hooks.
use crate::settings::Policy;
use peal_core::defaults::HookDefault;
use peal_model::Hook;

impl Policy {
    /// Returns the default of a hook, which applies if all its policies pass.
    pub fn default_of(&self, hook: Hook) -> HookDefault {
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
