//! Calls of construct and destruct, and the contribution of a proc.
use super::{GroupKey, GroupRefusal};
use crate::request_id::RequestId;
use peal_model::{Info, JobInfo, NamedProcs, Proc, RankData};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};

/// A call of construct or destruct.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupCall {
    /// The request that waits for the reply.
    pub to: RequestId,
    /// The group.
    pub key: GroupKey,
    /// The caller.
    pub proc: Proc,
    /// The contribution to a construct; none for a destruct.
    pub construct: Option<Arc<ConstructRequest>>,
    /// The infos of the call that the host environment gets, if it carries out the operation.
    pub infos: Vec<Info>,
    /// The timeout of the call.
    pub timeout: Option<Duration>,
    /// The refusal, if policies deny the call.
    pub refusal: Option<GroupRefusal>,
}

/// The contribution of a proc to a construct.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ConstructRequest {
    /// The role in which it takes part.
    pub role: ConstructRole,
    /// The directives for the group.
    pub directives: ConstructDirectives,
    /// Further members (`PMIX_GROUP_ADD_MEMBERS`).
    pub additions: Vec<Proc>,
    /// The order of the members (`PMIX_GROUP_FINAL_MEMBERSHIP_ORDER`).
    pub order: Option<Vec<Proc>>,
    /// Infos for the other members (`PMIX_GROUP_INFO`).
    pub infos: Vec<Info>,
    /// The values that it has put for procs of other servers.
    pub data: Option<RankData>,
    /// Its job.
    pub job: Option<Arc<JobInfo>>,
}

impl ConstructRequest {
    /// Returns a contribution with this role and nothing else.
    pub fn of(role: ConstructRole) -> ConstructRequest {
        let additions = Vec::new();
        let infos = Vec::new();
        ConstructRequest {
            role,
            directives: ConstructDirectives::default(),
            additions,
            order: None,
            infos,
            data: None,
            job: None,
        }
    }

    /// Returns true if the caller counts on a proc as a participant.
    pub(super) fn counts_on(&self, proc: &Proc) -> bool {
        let names = match &self.role {
            ConstructRole::Leader(named) => named.iter().any(|named| named.covers(proc)),
            // These callers name no procs, so any caller for the group may be one of those they
            // wait for.
            ConstructRole::Bootstrap(_) | ConstructRole::Member => true,
        };
        names || self.additions.iter().any(|added| added.covers(proc))
    }
}

/// The role of a proc in a construct.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ConstructRole {
    /// The proc names all leaders, itself included.
    Leader(NamedProcs),
    /// The proc knows the number of leaders, itself included (`PMIX_GROUP_BOOTSTRAP`).
    Bootstrap(usize),
    /// The proc was added by a leader and names no other proc.
    Member,
}

/// The directives of a construct. Those of any leader hold for all participants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a directive of its own, and all combinations make sense"
)]
pub struct ConstructDirectives {
    /// Assigns a context id (`PMIX_GROUP_ASSIGN_CONTEXT_ID`).
    pub context_id: bool,
    /// All members are on one node (`PMIX_GROUP_LOCAL_ONLY`).
    pub local_only: bool,
    /// Continues without procs that end before their call (`PMIX_GROUP_OPTIONAL`).
    pub optional: bool,
    /// Continues without procs that end after their call, too (`PMIX_GROUP_FT_COLLECTIVE`).
    pub fault_tolerant: bool,
    /// Notifies members when one of them ends (`PMIX_GROUP_NOTIFY_TERMINATION`).
    pub notify: bool,
    /// The caller decides about the construct when a participant fails (`PMIX_GROUP_LEADER`).
    pub leads: bool,
}

impl ConstructDirectives {
    /// Returns the directives that either requests.
    pub(super) fn and(self, other: ConstructDirectives) -> ConstructDirectives {
        ConstructDirectives {
            context_id: self.context_id || other.context_id,
            local_only: self.local_only || other.local_only,
            optional: self.optional || other.optional,
            fault_tolerant: self.fault_tolerant || other.fault_tolerant,
            notify: self.notify || other.notify,
            leads: self.leads || other.leads,
        }
    }
}
