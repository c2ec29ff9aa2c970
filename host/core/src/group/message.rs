//! What servers tell each other of groups.
use super::{ConstructRequest, ConstructRole, GroupKey, GroupRefusal, Members, ServerId};
use crate::MonotonicTime;
use peal_model::{
    Info, JobInfo, NamedProcs, Nspace, Proc, Rank, RankData, Status, UserIdentity, Value, code, key,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

/// What a coordinator has decided, in its order; what one decides that comes later has a higher number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DecisionSeq {
    /// Which coordinator.
    pub by: ServerId,
    /// Its number there.
    pub number: u64,
}

/// What is being done to a group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum GroupOperation {
    /// It is formed.
    Construct,
    /// It is dissolved.
    Destruct,
}

impl GroupOperation {
    /// Which one it is that this is brought to.
    pub(super) fn of(construct: Option<&ConstructRequest>) -> GroupOperation {
        if construct.is_some() {
            GroupOperation::Construct
        } else {
            GroupOperation::Destruct
        }
    }
}

/// A message from one server to another.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupMessage {
    /// To all: a job is here.
    Job {
        /// Its namespace.
        nspace: Nspace,
        /// What is known of it.
        facts: JobSummary,
    },
    /// To all: it is not any more.
    JobGone(Nspace),
    /// To the server where a job is: the sender wants to hear who of it is lost.
    Watch(Nspace),
    /// To whoever wants to hear that: this one is.
    Lost(Proc),
    /// To the coordinator: something to be decided about.
    Upward(CoordinatorRequest),
    /// To a new coordinator: all that the sender knows.
    Report(TakeoverReport),
    /// From the coordinator: this is decided.
    Down(GroupDecision),
    /// From the coordinator: these calls have no part in anything.
    Refuse {
        /// Of which group.
        key: GroupKey,
        /// Of what.
        operation: GroupOperation,
        /// Whose, as they were made.
        calls: Vec<(Proc, DecisionSeq)>,
        /// Why.
        failure: GroupFailure,
    },
    /// From the coordinator: raise an event for procs of the receiver's.
    Tell {
        /// Whom.
        procs: Vec<Proc>,
        /// What.
        code: Status,
        /// About what.
        infos: Vec<Info>,
    },
}

/// What all servers know of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct JobSummary {
    /// How many procs it has.
    pub size: u32,
    /// As whom they run.
    pub owner: UserIdentity,
}

/// What servers have the coordinator know.
#[derive(Clone, PartialEq, Debug)]
pub enum CoordinatorRequest {
    /// A proc of the sender's has ended.
    Ended(Proc),
    /// It is there again.
    Back(Proc),
    /// What procs of the sender's bring.
    Brings(Contribution),
    /// A proc leaves a group.
    Leave {
        /// Which.
        key: GroupKey,
        /// Who.
        proc: Proc,
        /// Members that an event of the proc's own tells.
        notified: NamedProcs,
    },
    /// Procs have formed a group by themselves.
    Announce {
        /// Which.
        key: GroupKey,
        /// What they say of it.
        announced: AnnouncedGroup,
    },
    /// What is to become of a construct in which somebody failed.
    Say {
        /// Which.
        key: GroupKey,
        /// Who says so.
        by: Proc,
        /// What.
        saying: FailureResponse,
    },
}

/// A group that procs have formed by themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AnnouncedGroup {
    /// Who is in it, in their order, each of them once.
    pub members: Vec<Proc>,
    /// The number that they asked for.
    pub context_id: Option<u64>,
}

/// What a proc brings.
#[derive(Clone, PartialEq, Debug)]
pub struct Participation {
    /// Who.
    pub proc: Proc,
    /// The last that its server had been told when it called.
    pub after: DecisionSeq,
    /// To a construct this; to a destruct nothing.
    pub construct: Option<Arc<ConstructRequest>>,
    /// Why it may not.
    pub refusal: Option<Arc<GroupRefusal>>,
}

impl Participation {
    /// Whom it names to lead.
    pub(super) fn names(&self) -> Option<&NamedProcs> {
        match &self.construct.as_ref()?.role {
            ConstructRole::Leader(named) => Some(named),
            ConstructRole::Bootstrap(_) | ConstructRole::Member => None,
        }
    }

    /// Whether it waits for others of its server. Members, those who do not know the others, and whoever is refused go to the
    /// coordinator at once.
    pub(super) fn waits_for_others(&self) -> bool {
        self.refusal.is_none() && (self.construct.is_none() || self.names().is_some())
    }
}

/// What procs of one server bring, all at once where they wait for each other.
#[derive(Clone, PartialEq, Debug)]
pub struct Contribution {
    /// To which group.
    pub key: GroupKey,
    /// What each brings.
    pub parts: Vec<Participation>,
    /// When it is over for them.
    pub deadline: Option<MonotonicTime>,
    /// How much of that is left: no two servers have the same clock.
    pub left: Option<Duration>,
}

impl Contribution {
    /// As it is now.
    pub(super) fn with_time_left(self, now: MonotonicTime) -> Contribution {
        let left = self
            .deadline
            .map(|at| Duration::from_millis(at.0.saturating_sub(now.0)));
        Contribution { left, ..self }
    }
}

/// A group as it was formed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Formed {
    /// Who is in it, in their order.
    pub members: Members,
    /// Its number, if somebody asked for one.
    pub context_id: Option<u64>,
    /// What members say of themselves (`PMIX_GROUP_INFO`).
    pub infos: Vec<(Proc, Vec<Info>)>,
    /// What members have put for others.
    pub data: Vec<RankData>,
    /// Their jobs.
    pub jobs: Vec<Arc<JobInfo>>,
    /// Whether members are told when one of them ends (`PMIX_GROUP_NOTIFY_TERMINATION`).
    pub notifies: bool,
    /// Jobs that a participant named by the wildcard rank, and of which every proc is a member.
    pub whole_jobs: BTreeSet<Nspace>,
}

impl Formed {
    /// The members as participants named them: a job that was named by the wildcard rank stands as that.
    pub(crate) fn membership(&self) -> Vec<Proc> {
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

/// Why something came to nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupFailure {
    /// The status that says so.
    pub status: Status,
    /// Why, in words.
    pub reason: String,
    /// Who may not take part, where it is because of that.
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

    pub(super) fn exists(key: &GroupKey) -> GroupFailure {
        GroupFailure::new(
            code::PMIX_ERR_EXISTS,
            format_args!("there is a group {:?}; destruct it first", key.name),
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

/// Something that was decided.
#[derive(Clone, PartialEq, Debug)]
pub struct GroupDecision {
    /// Of which group.
    pub key: GroupKey,
    /// Its number.
    pub instance: DecisionSeq,
    /// What.
    pub what: GroupTransition,
}

/// What was decided of a group.
#[derive(Clone, PartialEq, Debug)]
pub enum GroupTransition {
    /// It is there.
    Formed(Arc<Formed>),
    /// It is not. Whoever was named and comes late learns the same; nobody could be named where nobody knew the others. Where somebody
    /// may not take part, those who count on them learn it too.
    NotFormed {
        /// Why.
        failure: GroupFailure,
        /// Who was awaited and had not called.
        late: Option<BTreeSet<Proc>>,
        /// Who had.
        called: BTreeSet<Proc>,
    },
    /// It is dissolved.
    Dissolved,
    /// It is not.
    NotDissolved(GroupFailure),
    /// It has a member less.
    Changed(Proc, DepartureReason),
}

impl GroupTransition {
    /// Whether all servers are told: who is awaited may be anywhere, and has not called.
    pub(super) fn is_for_all(&self) -> bool {
        matches!(self, GroupTransition::NotFormed { .. })
    }
}

/// Why a group has a member less.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DepartureReason {
    /// It left; an event of its own tells these members.
    Left(NamedProcs),
    /// It ended.
    Failed,
}

/// What is to become of a construct in which somebody failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailureResponse {
    /// It goes on without them.
    Continue,
    /// It comes to nothing.
    Abort,
    /// It goes on, and whoever says so leads it.
    Lead,
}

/// What a server knows, for a coordinator that has to begin.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TakeoverReport {
    /// Its jobs, and who of them has ended.
    pub jobs: BTreeMap<Nspace, (JobSummary, BTreeSet<Rank>)>,
    /// The groups with members there, since when, and who is there no more.
    pub known: BTreeMap<GroupKey, (DecisionSeq, Arc<Formed>, BTreeSet<Proc>)>,
    /// What was decided of late.
    pub past: Vec<GroupDecision>,
    /// What its procs wait for.
    pub open: Vec<Contribution>,
}

/// What events of a group say: which, about whom, and who is concerned.
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
