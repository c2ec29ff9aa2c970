//! Messages about groups between servers.
use super::{ConstructRequest, ConstructRole, GroupKey, GroupRefusal, Members, ServerId};
use crate::{MonotonicTime, job::JobSpec, rank_ranges::RankRanges};
use peal_model::{
    Info, JobInfo, NamedProcs, Nspace, Proc, Rank, RankData, Status, UserIdentity, Value, code, key,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

/// Sequence number of a decision. Later coordinators have higher numbers.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct DecisionSeq {
    /// The coordinator.
    pub by: ServerId,
    /// The coordinator's count.
    pub number: u64,
}

/// An operation on a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum GroupOperation {
    /// The group is formed.
    Construct,
    /// The group is dissolved.
    Destruct,
}

impl GroupOperation {
    /// Returns the operation that a contribution belongs to.
    pub(super) fn of(construct: Option<&ConstructRequest>) -> GroupOperation {
        if construct.is_some() {
            GroupOperation::Construct
        } else {
            GroupOperation::Destruct
        }
    }
}

/// A message from one server to another.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum GroupMessage {
    /// Announces the procs of a job that the sender has to all servers, in place of those that it
    /// announced before.
    Job {
        /// The namespace.
        nspace: Nspace,
        /// The summary of the job.
        facts: JobSummary,
        /// The ranks of the sender.
        ranks: RankRanges,
    },
    /// Announces to all servers that the sender has removed a job.
    JobGone(Nspace),
    /// Asks a job's server for reports of its lost procs.
    Watch(Nspace),
    /// Reports a lost proc to a watching server.
    Lost(Proc),
    /// Sends a request to the coordinator.
    Upward(CoordinatorRequest),
    /// Sends the sender's state to a new coordinator.
    Report(TakeoverReport),
    /// Distributes a decision of the coordinator.
    Down(GroupDecision),
    /// Refuses calls that take part in no operation; sent by the coordinator.
    Refuse {
        /// The group.
        key: GroupKey,
        /// The operation.
        operation: GroupOperation,
        /// The callers, with the last decision known at the time of each call.
        calls: Vec<(Proc, DecisionSeq)>,
        /// The reason.
        failure: GroupFailure,
    },
    /// Raises an event for procs of the receiver; sent by the coordinator.
    Notify {
        /// The procs.
        procs: Vec<Proc>,
        /// The event code.
        code: Status,
        /// The infos of the event.
        infos: Vec<Info>,
    },
}

/// The data of a job that all servers know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct JobSummary {
    /// The number of its procs.
    pub size: u32,
    /// The user that they run as.
    pub owner: UserIdentity,
}

impl JobSummary {
    /// Returns the summary of a job.
    pub(crate) fn of(spec: &JobSpec) -> JobSummary {
        JobSummary {
            size: spec.size(),
            owner: spec.identity,
        }
    }
}

/// A request to the coordinator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum CoordinatorRequest {
    /// Reports the end of a proc of the sender.
    Ended(Proc),
    /// Reports that an ended proc of the sender runs again.
    Back(Proc),
    /// Contributes to a construct or destruct.
    Brings(Contribution),
    /// Removes a member.
    Leave {
        /// The group.
        key: GroupKey,
        /// The member.
        proc: Proc,
        /// Members that an event of the proc itself notifies.
        notified: NamedProcs,
    },
    /// Announces a group that procs formed by invitation.
    Announce {
        /// The group.
        key: GroupKey,
        /// The leader, which may be outside of the group.
        by: Proc,
        /// The leader's announcement.
        announced: AnnouncedGroup,
    },
    /// Responds to a failure in a construct.
    Respond {
        /// The group.
        key: GroupKey,
        /// The responding participant.
        by: Proc,
        /// The response.
        saying: FailureResponse,
    },
}

/// A group that procs formed by invitation.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AnnouncedGroup {
    /// The members in their order, each of them once.
    pub members: Vec<Proc>,
    /// The context id that the leader requested.
    pub context_id: Option<u64>,
}

/// The participation of a proc in an operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Participation {
    /// The proc.
    pub proc: Proc,
    /// The last decision that its server knew when the proc called.
    pub after: DecisionSeq,
    /// The contribution to a construct; none for a destruct.
    pub construct: Option<Arc<ConstructRequest>>,
    /// The refusal, if policies deny the call.
    pub refusal: Option<Arc<GroupRefusal>>,
}

impl Participation {
    /// Returns the leaders that the proc names.
    pub(super) fn names(&self) -> Option<&NamedProcs> {
        match &self.construct.as_ref()?.role {
            ConstructRole::Leader(named) => Some(named),
            ConstructRole::Bootstrap(_) | ConstructRole::Member => None,
        }
    }

    /// Returns true if the call waits for other local procs. Calls of added members, of leaders
    /// that only know their number, and of refused procs go to the coordinator at once.
    pub(super) fn waits_for_others(&self) -> bool {
        self.refusal.is_none() && (self.construct.is_none() || self.names().is_some())
    }
}

/// The participations of procs of one server, sent together where they wait for each other.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Contribution {
    /// The group.
    pub key: GroupKey,
    /// The participations.
    pub parts: Vec<Participation>,
    /// Their deadline, by the sender's clock. Other servers do not get it.
    #[serde(skip)]
    pub deadline: Option<MonotonicTime>,
    /// The time left until the deadline, because servers do not share a clock.
    pub left: Option<Duration>,
}

impl Contribution {
    /// Returns the contribution for another server, with the time left now.
    pub(super) fn with_time_left(self, now: MonotonicTime) -> Contribution {
        let left = self
            .deadline
            .map(|at| Duration::from_millis(at.0.saturating_sub(now.0)));
        // By the clock of this server, so of no use to others.
        let deadline = None;
        Contribution {
            deadline,
            left,
            ..self
        }
    }
}

/// A group as it was formed.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Formed {
    /// The members in their order.
    pub members: Members,
    /// The context id, if one was requested.
    pub context_id: Option<u64>,
    /// The infos that members contributed (`PMIX_GROUP_INFO`).
    pub infos: Vec<(Proc, Vec<Info>)>,
    /// The infos of the host environment for all members.
    pub host_infos: Vec<Info>,
    /// The values that members have put for procs of other servers.
    pub data: Vec<RankData>,
    /// The members' jobs.
    pub jobs: Vec<Arc<JobInfo>>,
    /// True if members are notified when one of them ends (`PMIX_GROUP_NOTIFY_TERMINATION`).
    pub notifies: bool,
    /// Jobs that a participant named by the wildcard rank, and of which every proc is a member.
    pub whole_jobs: BTreeSet<Nspace>,
}

impl Formed {
    /// Returns the members as participants named them: a job that was named by the wildcard rank
    /// stays so.
    pub(crate) fn membership(&self) -> Vec<Proc> {
        // Nobody used the wildcard rank, so the members are as they were named.
        if self.whole_jobs.is_empty() {
            return self.members.iter().cloned().collect();
        }
        let mut named = Vec::new();
        for procs in self.members.of_each_job() {
            match procs
                .first()
                .filter(|proc| self.whole_jobs.contains(&proc.nspace))
            {
                Some(proc) => named.push(Proc::all(proc.nspace.clone())),
                None => named.extend_from_slice(procs),
            }
        }
        named
    }
}

/// The failure of an operation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupFailure {
    /// The status.
    pub status: Status,
    /// The reason, as text.
    pub reason: String,
    /// The refused participant, if that is the reason.
    pub refusal: Option<Arc<GroupRefusal>>,
}

impl GroupFailure {
    pub(super) fn new(status: Status, reason: impl fmt::Display) -> GroupFailure {
        GroupFailure {
            status,
            reason: reason.to_string(),
            refusal: None,
        }
    }

    /// Returns the failure of an operation whose participant was refused.
    pub(super) fn refused(refusal: &Arc<GroupRefusal>) -> GroupFailure {
        // Reasons of a policy may be of any type. The text can quote only those that are texts.
        let words: Vec<&str> = refusal
            .reasons
            .iter()
            .filter_map(|info| info.value.as_str())
            .collect();
        let reason = format!("{} may not take part: {}", refusal.proc, words.join("; "));
        GroupFailure {
            status: refusal.status,
            reason,
            refusal: Some(refusal.clone()),
        }
    }

    /// Returns the failure of a construct by a user that has as many groups as it may have.
    pub(super) fn full(max: usize) -> GroupFailure {
        GroupFailure::new(
            code::PMIX_ERR_OUT_OF_RESOURCE,
            format_args!(
                "the user has {max} groups, those under construction included, which is the limit \
                 (group.max_per_user)"
            ),
        )
    }

    /// Returns true if the user has as many groups as it may have.
    pub(super) fn is_full(&self) -> bool {
        self.status == code::PMIX_ERR_OUT_OF_RESOURCE
    }

    pub(super) fn exists(key: &GroupKey) -> GroupFailure {
        GroupFailure::new(
            code::PMIX_ERR_EXISTS,
            format_args!("group {:?} exists; destruct it first", key.name),
        )
    }

    pub(super) fn unknown(key: &GroupKey) -> GroupFailure {
        GroupFailure::new(
            code::PMIX_ERR_NOT_FOUND,
            format_args!("there is no group {:?} that the caller is in", key.name),
        )
    }

    pub(super) fn duplicate_call(key: &GroupKey) -> GroupFailure {
        GroupFailure::new(
            code::PMIX_ERR_DUPLICATE_KEY,
            format_args!("the caller waits for group {:?} already", key.name),
        )
    }

    pub(super) fn unknown_proc(proc: &Proc) -> GroupFailure {
        GroupFailure::new(
            code::PMIX_ERR_BAD_PARAM,
            format_args!("{proc} does not exist"),
        )
    }

    pub(super) fn not_local(proc: &Proc) -> GroupFailure {
        GroupFailure::new(
            code::PMIX_ERR_BAD_PARAM,
            format_args!("{proc} is not on this node, and pmix.grp.lcl is given"),
        )
    }

    pub(super) fn died(proc: &Proc) -> GroupFailure {
        GroupFailure::new(
            code::PMIX_GROUP_CONSTRUCT_ABORT,
            format_args!("{proc} has ended"),
        )
    }

    pub(super) fn conflict(what: impl fmt::Display) -> GroupFailure {
        GroupFailure::new(code::PMIX_ERR_BAD_PARAM, what)
    }
}

impl GroupTransition {
    /// Returns true if the reason is a refused participant.
    pub(super) fn is_refusal(&self) -> bool {
        matches!(
            self,
            GroupTransition::NotFormed {
                failure: GroupFailure {
                    refusal: Some(_),
                    ..
                },
                ..
            }
        )
    }

    /// Returns true if this answers a call that precedes the decision. A refusal does not affect
    /// callers that form another group of the same name without the refused proc. Callers that name
    /// no procs are matched by the group's name only.
    pub(super) fn answers(&self, part: &Participation) -> bool {
        let GroupTransition::NotFormed {
            failure:
                GroupFailure {
                    refusal: Some(refusal),
                    ..
                },
            late,
            called,
        } = self
        else {
            return true;
        };
        called.contains(&part.proc)
            || late.as_ref().is_some_and(|late| late.contains(&part.proc))
            || part
                .construct
                .as_ref()
                .is_some_and(|construct| construct.counts_on(&refusal.proc))
    }
}

/// A decision of the coordinator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct GroupDecision {
    /// The group.
    pub key: GroupKey,
    /// The sequence number.
    pub instance: DecisionSeq,
    /// The decided change.
    pub transition: GroupTransition,
}

/// A decided change of a group.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum GroupTransition {
    /// The group is established.
    Formed(Arc<Formed>),
    /// The construct has failed. Awaited procs that call late get the same failure, as far as they
    /// are known. If a participant was refused, callers that count on it get the failure, too.
    NotFormed {
        /// The failure.
        failure: GroupFailure,
        /// Awaited procs that had not called; none if they are not known.
        late: Option<BTreeSet<Proc>>,
        /// Procs that had called.
        called: BTreeSet<Proc>,
    },
    /// The group is dissolved.
    Dissolved,
    /// The destruct has failed.
    NotDissolved(GroupFailure),
    /// The group has lost a member.
    Changed(Proc, DepartureReason),
}

impl GroupTransition {
    /// Returns true if all servers must know the decision, because procs that have not called may
    /// be anywhere.
    pub(super) fn is_for_all(&self) -> bool {
        matches!(self, GroupTransition::NotFormed { .. })
    }
}

/// The reason why a group lost a member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum DepartureReason {
    /// The member left. An event of its own notifies these members.
    Left(NamedProcs),
    /// The member ended.
    Failed,
}

/// A response to a failure in a construct.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum FailureResponse {
    /// The construct continues without the failed procs.
    Continue,
    /// The construct fails.
    Abort,
    /// The construct continues, and the responding proc leads it.
    Lead,
}

/// A job as one of its servers reports it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct ReportedJob {
    /// The summary of the job.
    pub facts: JobSummary,
    /// The ranks of the server.
    pub ranks: RankRanges,
    /// Those of them that have ended.
    pub ended: BTreeSet<Rank>,
}

/// The state of a server, for a new coordinator.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct TakeoverReport {
    /// The jobs of the server.
    pub jobs: BTreeMap<Nspace, ReportedJob>,
    /// The groups with local members, each with its last decision and former members.
    pub known: BTreeMap<GroupKey, (DecisionSeq, Arc<Formed>, BTreeSet<Proc>)>,
    /// Recent decisions.
    pub recent_decisions: Vec<GroupDecision>,
    /// Pending calls of its procs.
    pub open: Vec<Contribution>,
}

/// Returns the infos of an event about a group: its name, the affected proc, the members.
pub(super) fn about<'a>(
    group: &GroupKey,
    proc: &Proc,
    procs: impl Iterator<Item = &'a Proc>,
) -> Vec<Info> {
    vec![
        Info::new(
            key::PMIX_GROUP_ID,
            Value::String(group.name.called().cloned()),
        ),
        Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone())),
        Info::new(key::PMIX_GROUP_MEMBERSHIP, Value::procs(procs.cloned())),
    ]
}
