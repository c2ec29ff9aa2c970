//! The hook of groups and invitations.
use super::{BuiltInRule, Hook, HookSubject, bytes_of, replace};
use crate::{Amendment, Info, counted};
use serde::{Deserialize, Serialize};
use std::fmt;

/// An operation on a group, as its policies see it. The targets of the request are the procs that
/// it names.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupSubject {
    /// Kind of the operation.
    pub kind: GroupOperationKind,
    /// Name of the group; `None` if an answer to an invitation does not name it.
    pub name: Option<String>,
    /// Directives. For an invitation and its answer, the infos of their event.
    pub directives: Vec<Info>,
}

/// Kind of a group operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum GroupOperationKind {
    /// Construct, with the requester as a member: by a call, or after all invited procs have
    /// joined.
    Construct,
    /// Destruct.
    Destruct,
    /// Invitation of other procs.
    Invite,
    /// Acceptance of an invitation.
    Join,
}

impl fmt::Display for GroupOperationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            GroupOperationKind::Construct => "construct",
            GroupOperationKind::Destruct => "destruct",
            GroupOperationKind::Invite => "invite",
            GroupOperationKind::Join => "join",
        })
    }
}

impl HookSubject for GroupSubject {
    fn hook(&self) -> Hook {
        Hook::Group
    }

    // Procs whose jobs are unknown may be on other servers. A proc of another user cannot take
    // part there, because each user has a name space of groups.
    fn rule(&self) -> BuiltInRule<'_> {
        BuiltInRule::NoForeignTargets
    }

    fn summary(&self, targets: usize) -> String {
        let kind = self.kind;
        let name = self.name.as_deref().unwrap_or("(no name)");
        format!("{kind} of group {name:?} with {}", counted(targets, "proc"))
    }

    fn directives(&self) -> &[Info] {
        &self.directives
    }

    fn amend(&mut self, amendment: Amendment) {
        match self.kind {
            GroupOperationKind::Construct | GroupOperationKind::Destruct => {
                replace(&mut self.directives, amendment.infos);
            }
            // The infos are those of an event, which was decided before.
            GroupOperationKind::Invite | GroupOperationKind::Join => {}
        }
    }

    fn bytes(&self) -> usize {
        // The held call, or event, has a copy beside that of the policies.
        bytes_of(&self.directives).saturating_mul(2)
    }
}
