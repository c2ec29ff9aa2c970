//! The hook of the provision of nodes (`PMIX_JOB_CTRL_PROVISION`). RFC "Job control and
//! monitoring".
use super::{BuiltInRule, Hook, HookSubject, bytes_of};
use crate::{Amendment, Info, counted};
use serde::{Deserialize, Serialize};

/// A request for nodes, as its policies see it. A policy that grants has the nodes provided, and
/// pushes the answer to the requester.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ProvisionSubject {
    /// Names of the nodes; ranges are resolved.
    pub nodes: Vec<String>,
    /// Image for the nodes (`PMIX_JOB_CTRL_PROVISION_IMAGE`), if given.
    pub image: Option<String>,
    /// Directives of the whole job-control request.
    pub directives: Vec<Info>,
}

impl HookSubject for ProvisionSubject {
    fn hook(&self) -> Hook {
        Hook::Provision
    }

    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::PolicyOnly
    }

    fn summary(&self, _targets: usize) -> String {
        counted(self.nodes.len(), "node")
    }

    fn directives(&self) -> &[Info] {
        &self.directives
    }

    // The directives are those of the job-control request, which was decided before.
    fn amend(&mut self, _amendment: Amendment) {}

    // The policy provides the nodes, so it alone can say which.
    fn is_answered_by_policy(&self) -> bool {
        true
    }

    fn bytes(&self) -> usize {
        let texts = self.nodes.iter().chain(&self.image);
        texts
            // Empty texts take memory, too.
            .map(|text| text.len().saturating_add(size_of::<String>()))
            .fold(bytes_of(&self.directives), usize::saturating_add)
    }
}
