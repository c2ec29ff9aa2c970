//! What a proc calls, and what it brings to a construct.
use super::{GroupKey, GroupRefusal};
use crate::server::RequestId;
use peal_model::{Info, JobInfo, NamedProcs, Proc, RankData};
use std::{sync::Arc, time::Duration};

/// A call of construct or destruct.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupCall {
    /// Who waits for the answer.
    pub to: RequestId,
    /// Which group.
    pub key: GroupKey,
    /// Who calls.
    pub proc: Proc,
    /// What it brings to a construct; nothing to a destruct.
    pub what: Option<Arc<ConstructRequest>>,
    /// How long it may take.
    pub timeout: Option<Duration>,
    /// Why the caller may not.
    pub refusal: Option<GroupRefusal>,
}

/// What a proc brings to a construct.
#[derive(Clone, PartialEq, Debug)]
pub struct ConstructRequest {
    /// As what it takes part.
    pub role: ConstructRole,
    /// What it wants of the group.
    pub wishes: ConstructDirectives,
    /// Who else is to be in it (`PMIX_GROUP_ADD_MEMBERS`).
    pub additions: Vec<Proc>,
    /// The order that its members shall have (`PMIX_GROUP_FINAL_MEMBERSHIP_ORDER`).
    pub order: Option<Vec<Proc>>,
    /// What the others are to know of it (`PMIX_GROUP_INFO`).
    pub infos: Vec<Info>,
    /// What it has put for others.
    pub data: Option<RankData>,
    /// Its job.
    pub job: Option<Arc<JobInfo>>,
}

impl ConstructRequest {
    /// Somebody who takes part as this and wants and brings nothing.
    pub fn of(role: ConstructRole) -> ConstructRequest {
        let (additions, infos) = (Vec::new(), Vec::new());
        ConstructRequest {
            role,
            wishes: ConstructDirectives::default(),
            additions,
            order: None,
            infos,
            data: None,
            job: None,
        }
    }
}

/// As what a proc takes part in a construct.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ConstructRole {
    /// It names all who lead, itself among them.
    Leader(NamedProcs),
    /// It knows how many lead, itself counted (`PMIX_GROUP_BOOTSTRAP`).
    Bootstrap(usize),
    /// It was added by somebody who leads, and knows of nobody.
    Member,
}

/// What is wanted of a group; what one who leads wants holds for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a directive of its own, and all combinations make sense"
)]
pub struct ConstructDirectives {
    /// A number (`PMIX_GROUP_ASSIGN_CONTEXT_ID`).
    pub context_id: bool,
    /// All are on one node (`PMIX_GROUP_LOCAL_ONLY`).
    pub local_only: bool,
    /// Whoever ends before it has called is not waited for (`PMIX_GROUP_OPTIONAL`).
    pub optional: bool,
    /// Nor whoever ends after that (`PMIX_GROUP_FT_COLLECTIVE`).
    pub fault_tolerant: bool,
    /// Members are told when one of them ends (`PMIX_GROUP_NOTIFY_TERMINATION`).
    pub notify: bool,
    /// The caller says what becomes of it when somebody fails (`PMIX_GROUP_LEADER`).
    pub leads: bool,
}

impl ConstructDirectives {
    /// What both want.
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
