//! A pending construct, as its coordinator sees it.
use super::{
    ConstructDirectives, ConstructRequest, ConstructRole, CoordinatorContext, FailureResponse,
    Formed, GroupFailure, GroupRefusal, Members, Participation,
    directory::{JobDirectory, ProcLocation, is_wildcard},
    proc_selection::ProcSelection,
};
use crate::MonotonicTime;
use peal_model::{Info, JobInfo, NamedProcs, Nspace, Proc, Status, code};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// The way in which leaders know of each other.
#[derive(Debug, Serialize, Deserialize)]
enum LeaderDiscovery {
    /// By name, as the first leader names them.
    Collective(NamedProcs),
    /// By their number.
    Bootstrap(usize),
}

/// Participants that may decide how a construct continues after a failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum FailureArbiter {
    /// The leader.
    Leader(Proc),
    /// Any participant, because the leader has failed.
    AnyParticipant,
}

/// An event for participants.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct GroupNotification {
    pub(super) recipients: Vec<Proc>,
    pub(super) code: Status,
    pub(super) about: Proc,
}

/// The part of the host environment in a construct.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum HostStage {
    /// It has not been asked, or takes no part.
    NotAsked,
    /// It forms the group with the servers of other nodes.
    Asked,
    /// It has answered.
    Answered(AnswerOfHost),
}

/// The answer of the host environment to a construct.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct AnswerOfHost {
    /// The context id that it has assigned.
    pub(super) context_id: Option<u64>,
    /// Further infos.
    pub(super) infos: Vec<Info>,
}

/// A pending construct.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PendingConstruct {
    method: Option<LeaderDiscovery>,
    /// Participants that have called.
    joined: BTreeMap<Proc, Arc<ConstructRequest>>,
    /// Callers that were refused. They wait for the result, too.
    refused: BTreeMap<Proc, Arc<GroupRefusal>>,
    /// Procs that must call and have not.
    missing: BTreeSet<Proc>,
    /// Named procs that must call and whose jobs are not known yet.
    unknown: BTreeSet<Proc>,
    /// All expected members.
    invited: BTreeSet<Proc>,
    /// Number of leaders that called and ended, and without which the construct continues.
    ended_leaders: usize,
    directives: ConstructDirectives,
    order: Option<Vec<Proc>>,
    leader: Option<Proc>,
    arbiter: Option<(FailureArbiter, MonotonicTime)>,
    pub(super) deadline: MonotonicTime,
    pub(super) host: HostStage,
    /// Procs that have ended since the host environment was asked.
    ended_since_host_asked: BTreeSet<Proc>,
    failure: Option<GroupFailure>,
    /// Procs that ended before the group was formed, each with the participants that were notified of
    /// it.
    lost: BTreeMap<Proc, BTreeSet<Proc>>,
    /// Jobs that a participant named by the wildcard rank.
    whole_jobs: BTreeSet<Nspace>,
    /// Events to raise.
    pub(super) notifications: Vec<GroupNotification>,
}

impl PendingConstruct {
    pub(super) fn new(deadline: MonotonicTime) -> PendingConstruct {
        PendingConstruct {
            method: None,
            joined: BTreeMap::new(),
            refused: BTreeMap::new(),
            missing: BTreeSet::new(),
            unknown: BTreeSet::new(),
            invited: BTreeSet::new(),
            ended_leaders: 0,
            directives: ConstructDirectives::default(),
            order: None,
            leader: None,
            arbiter: None,
            deadline,
            host: HostStage::NotAsked,
            ended_since_host_asked: BTreeSet::new(),
            failure: None,
            lost: BTreeMap::new(),
            whole_jobs: BTreeSet::new(),
            notifications: Vec::new(),
        }
    }

    /// Collects the directives of callers. Must precede `join`, because the directives determine
    /// whether an ended proc fails the construct, and which participant decides about that.
    pub(super) fn add_directives(&mut self, parts: &[Participation]) {
        for part in parts {
            let Some(construct) = part
                .construct
                .as_ref()
                .filter(|construct| construct.role != ConstructRole::Member)
            else {
                continue;
            };
            self.directives = self.directives.and(construct.directives);
            if construct.directives.leads && self.leader.is_none() {
                self.leader = Some(part.proc.clone());
            }
        }
    }

    /// Adds a participant.
    pub(super) fn join(&mut self, part: Participation, at: &CoordinatorContext<'_>) {
        let Some(construct) = part.construct else {
            return;
        };
        let proc = part.proc;
        self.missing.remove(&proc);
        // The proc may have been restarted since.
        self.lost.remove(&proc);
        self.joined.insert(proc.clone(), construct.clone());
        match &construct.role {
            ConstructRole::Leader(named) => self.leads(&proc, named, at),
            // With different numbers it would be unclear when all leaders have called.
            ConstructRole::Bootstrap(count) => match self.method {
                None => self.method = Some(LeaderDiscovery::Bootstrap(*count)),
                Some(LeaderDiscovery::Bootstrap(known)) if known == *count => {}
                _ => self.fail(GroupFailure::conflict(format_args!(
                    "{proc} gives {count} leaders, others give another number"
                ))),
            },
            ConstructRole::Member => {}
        }
        self.note_whole_jobs(&construct.additions);
        self.await_all(construct.additions.iter(), at);
        let order = construct
            // Wildcards are resolved before the comparison, so that leaders may write the same
            // order in different ways.
            .order
            .as_deref()
            .map(|named| each(named, at.directory));
        match (&self.order, order) {
            (Some(known), Some(order)) if *known != order => {
                self.fail(GroupFailure::conflict(format_args!(
                    "{proc} gives another order of members than others"
                )));
            }
            (None, Some(order)) => self.order = Some(order),
            _ => {}
        }
    }

    /// Adds a refused caller. The construct fails if the caller is an expected member.
    pub(super) fn refuse(&mut self, refusal: Arc<GroupRefusal>) {
        if self.expects(&refusal.proc) {
            self.fail(GroupFailure::refused(&refusal));
        }
        self.missing.remove(&refusal.proc);
        self.refused.insert(refusal.proc.clone(), refusal);
    }

    /// Returns true if a proc is an expected member, as far as is known.
    fn expects(&self, proc: &Proc) -> bool {
        self.invited.contains(proc) || self.unknown.iter().any(|named| named.covers(proc))
    }

    /// Returns true if the refusal of a leader affects this construct.
    pub(super) fn concerns(&self, proc: &Proc, construct: &ConstructRequest) -> bool {
        // Bootstrap leaders count each other without names, so any refused one is missed.
        let is_bootstrap =
            |method: &LeaderDiscovery| matches!(method, LeaderDiscovery::Bootstrap(_));
        let both = self.method.as_ref().is_some_and(is_bootstrap)
            && matches!(construct.role, ConstructRole::Bootstrap(_));
        both || self.expects(proc)
    }

    /// Returns true if a leader has called.
    pub(super) fn is_led(&self) -> bool {
        self.method.is_some()
    }

    fn leads(&mut self, proc: &Proc, named: &NamedProcs, at: &CoordinatorContext<'_>) {
        match &self.method {
            None => {
                self.method = Some(LeaderDiscovery::Collective(named.clone()));
                self.note_whole_jobs(named);
                self.await_all(named.iter(), at);
                // A wildcard of a job that is not known yet may stand for the caller.
                if !self.invited.contains(proc)
                    && !self.unknown.iter().any(|all| all.nspace == proc.nspace)
                {
                    let reason = format_args!("{proc} names leaders and is not among them");
                    self.fail(GroupFailure::new(code::PMIX_ERR_NOT_A_MEMBER, reason));
                }
            }
            Some(LeaderDiscovery::Collective(known)) if known == named => {}
            // One leader may name ranks, and another the wildcard rank of the same job.
            Some(LeaderDiscovery::Collective(known)) if is_same(known, named, at.directory) => {
                self.note_whole_jobs(named)
            }
            Some(_) => self.fail(GroupFailure::conflict(format_args!(
                "{proc} names other leaders than another participant"
            ))),
        }
    }

    fn note_whole_jobs(&mut self, named: &[Proc]) {
        let whole = named
            .iter()
            .filter(|proc| is_wildcard(proc.rank))
            .map(|proc| proc.nspace.clone());
        self.whole_jobs.extend(whole);
    }

    /// Waits for the calls of these procs. Those that have ended already are handled at once.
    fn await_all<'a>(
        &mut self,
        named: impl Iterator<Item = &'a Proc>,
        at: &CoordinatorContext<'_>,
    ) {
        let mut dead = Vec::new();
        for named in named {
            if at.directory.is_no_rank(named) {
                self.fail(GroupFailure::unknown_proc(named));
                continue;
            }
            let Some(procs) = at.directory.procs(named) else {
                self.unknown.insert(named.clone());
                continue;
            };
            for proc in procs {
                let is_new = self.invited.insert(proc.clone()) && !self.joined.contains_key(&proc);
                if let Some(refusal) = self.refused.get(&proc) {
                    self.fail(GroupFailure::refused(refusal));
                } else if is_new {
                    dead.extend(
                        (at.directory.whereabouts(&proc) == ProcLocation::Ended)
                            .then(|| proc.clone()),
                    );
                    self.missing.insert(proc);
                }
            }
        }
        dead.iter()
            // Ends are handled after all procs are noted: a loss is judged by who else is awaited.
            .for_each(|proc| self.remove_terminated(proc, at));
    }

    /// Resolves named procs of a job that has become known.
    pub(super) fn knows_job(&mut self, nspace: &Nspace, at: &CoordinatorContext<'_>) {
        let now_known: Vec<Proc> = self
            .unknown
            .extract_if(.., |named| named.nspace == *nspace)
            .collect();
        self.await_all(now_known.iter(), at);
        // Wildcards of the job in the order can be resolved only now.
        self.order = self.order.take().map(|order| each(&order, at.directory));
        // Ranks of the job were accepted unchecked while its size was unknown.
        let wrong = self
            .missing
            .iter()
            .find(|proc| proc.nspace == *nspace && at.directory.is_no_rank(proc));
        if let Some(wrong) = wrong.cloned() {
            self.fail(GroupFailure::unknown_proc(&wrong));
        }
    }

    /// Handles a proc that has ended. If no expected member is left, the remaining callers, which
    /// name no other proc, wait for another leader.
    pub(super) fn remove_terminated(&mut self, proc: &Proc, at: &CoordinatorContext<'_>) {
        if let HostStage::Asked = self.host {
            return self.ends_at_host(proc, at);
        }
        self.decide_about_loss(proc, at);
        let has_no_member_left =
            self.is_whole() && self.failure.is_none() && self.inside().next().is_none();
        if has_no_member_left {
            // Whatever the ended leaders named or requested no longer holds.
            let anew = PendingConstruct::new(self.deadline);
            let joined = std::mem::take(&mut self.joined);
            let refused = std::mem::take(&mut self.refused);
            *self = PendingConstruct {
                joined,
                refused,
                notifications: std::mem::take(&mut self.notifications),
                ..anew
            };
        }
    }

    /// Returns the answer of the host environment; an empty one if it took no part.
    pub(super) fn answer_of_host(&self) -> AnswerOfHost {
        match &self.host {
            HostStage::Answered(answer) => answer.clone(),
            HostStage::NotAsked | HostStage::Asked => AnswerOfHost::default(),
        }
    }

    /// Returns the procs that have ended since the host environment was asked.
    pub(super) fn ended_since_host_asked(&self) -> &BTreeSet<Proc> {
        &self.ended_since_host_asked
    }

    /// Continues without procs of other nodes, whose servers have contributed without them.
    pub(super) fn leave_out(&mut self, procs: Vec<Proc>) {
        for proc in procs {
            self.missing.remove(&proc);
            self.invited.remove(&proc);
            self.lost.insert(proc, BTreeSet::new());
        }
    }

    /// Handles the end of a proc while the host environment forms the group. The servers of other nodes
    /// may have formed it already, so its answer decides. It has a limited time from now on, because
    /// it may wait for the contribution of the proc's server.
    fn ends_at_host(&mut self, proc: &Proc, at: &CoordinatorContext<'_>) {
        if !self.invited.contains(proc) && !self.joined.contains_key(proc) {
            return;
        }
        self.ended_since_host_asked.insert(proc.clone());
        let limit = at.now + at.settings.decision_timeout;
        self.deadline = self.deadline.min(limit);
    }

    /// Decides about the loss of a proc. If the directives do not tolerate it, the leader decides;
    /// without a leader the construct fails.
    fn decide_about_loss(&mut self, proc: &Proc, at: &CoordinatorContext<'_>) {
        self.refused.remove(proc);
        let was_missing = self.missing.remove(proc);
        let construct = self.joined.remove(proc);
        // Before a leader calls, neither the members nor the directives are known.
        if (!was_missing && construct.is_none()) || self.method.is_none() {
            return;
        }
        if matches!(
            construct.as_ref().map(|construct| &construct.role),
            Some(ConstructRole::Bootstrap(_))
        ) {
            self.ended_leaders += 1;
        }
        let borne = self.directives.fault_tolerant || (was_missing && self.directives.optional);
        let led = self.leader.as_ref() == Some(proc);
        if led {
            self.leader = None;
        }
        let informed = match (&self.leader, &self.arbiter) {
            // A tolerated loss needs no decision, except that of the leader: participants then
            // select another.
            _ if borne && !led => Vec::new(),
            (None, _) if led => {
                self.arbiter = Some((
                    FailureArbiter::AnyParticipant,
                    at.now + at.settings.decision_timeout,
                ));
                self.raise(
                    self.joined.keys().cloned().collect(),
                    code::PMIX_GROUP_LEADER_FAILED,
                    proc,
                )
            }
            // The participants are asked already, and a new leader learns of all losses.
            (None, Some(_)) => Vec::new(),
            (None, None) => {
                self.fail(GroupFailure::died(proc));
                Vec::new()
            }
            (Some(leader), _) => {
                let leader = leader.clone();
                self.arbiter = Some((
                    FailureArbiter::Leader(leader.clone()),
                    at.now + at.settings.decision_timeout,
                ));
                self.raise(vec![leader], code::PMIX_GROUP_MEMBER_FAILED, proc)
            }
        };
        self.lost
            .insert(proc.clone(), informed.into_iter().collect());
    }

    /// Queues an event and returns the procs that it notifies.
    fn raise(&mut self, recipients: Vec<Proc>, code: Status, about: &Proc) -> Vec<Proc> {
        self.notifications.push(GroupNotification {
            recipients: recipients.clone(),
            code,
            about: about.clone(),
        });
        recipients
    }

    /// Returns events that notify members of procs that ended before the group was formed.
    pub(super) fn losses(&self, members: &Members) -> Vec<GroupNotification> {
        let losses = self.lost.iter().map(|(lost, informed)| GroupNotification {
            recipients: members
                .iter()
                .filter(|member| !informed.contains(member))
                .cloned()
                .collect(),
            code: code::PMIX_GROUP_MEMBER_FAILED,
            about: lost.clone(),
        });
        losses.filter(|news| !news.recipients.is_empty()).collect()
    }

    /// Handles a participant's response to a failure.
    pub(super) fn resolve_failure(&mut self, by: &Proc, saying: FailureResponse) {
        // A proc that waits for no result does not decide about it.
        if !self.joined.contains_key(by) {
            return;
        }
        match (saying, &self.arbiter) {
            (FailureResponse::Abort, Some((FailureArbiter::AnyParticipant, _))) => self.abort(by),
            // A leader may abort at any time, other participants only if the leader has failed.
            (FailureResponse::Abort, _) if self.leader.as_ref() == Some(by) => self.abort(by),
            (FailureResponse::Continue, Some((FailureArbiter::Leader(leader), _)))
                if leader == by =>
            {
                self.arbiter = None
            }
            (FailureResponse::Lead, Some((FailureArbiter::AnyParticipant, _))) => {
                // A proc that takes the lead decides thereby that the construct continues.
                (self.arbiter, self.leader) = (None, Some(by.clone()));
                self.raise(
                    self.joined.keys().cloned().collect(),
                    code::PMIX_GROUP_LEADER_SELECTED,
                    by,
                );
            }
            // Nothing is to be decided, or another participant has decided already.
            _ => {}
        }
    }

    fn abort(&mut self, by: &Proc) {
        self.fail(GroupFailure::new(
            code::PMIX_GROUP_CONSTRUCT_ABORT,
            format_args!("{by} aborted the construct"),
        ));
    }

    fn fail(&mut self, failure: GroupFailure) {
        // Later failures may follow from the first, which is the one to report.
        self.failure.get_or_insert(failure);
    }

    /// Returns the earliest time at which the construct must be looked at.
    pub(super) fn due(&self) -> MonotonicTime {
        self.arbiter
            .iter()
            .map(|(_, until)| *until)
            .chain([self.deadline])
            .min()
            .unwrap_or(self.deadline)
    }

    /// Returns the result of the construct, if it has ended.
    pub(super) fn settled(&self, now: MonotonicTime) -> Option<Result<Formed, GroupFailure>> {
        if let Some(failure) = &self.failure {
            return Some(Err(failure.clone()));
        }
        // A construct that waits for a decision does not complete, even if all others have called.
        if self.arbiter.is_none() && self.is_whole() {
            return Some(self.formed());
        }
        if self
            .arbiter
            .as_ref()
            .is_some_and(|(_, until)| *until <= now)
        {
            let reason = "a participant has ended, and no decision to continue came in time";
            return Some(Err(GroupFailure::new(
                code::PMIX_GROUP_CONSTRUCT_ABORT,
                reason,
            )));
        }
        let late = || match self.ended_since_host_asked.first() {
            Some(proc) => GroupFailure::died(proc),
            None => self.late(),
        };
        (self.deadline <= now).then(|| Err(late()))
    }

    /// Returns true if no call is awaited any more.
    fn is_whole(&self) -> bool {
        self.missing.is_empty() && self.unknown.is_empty() && self.all_lead()
    }

    fn all_lead(&self) -> bool {
        match &self.method {
            None => false,
            Some(LeaderDiscovery::Collective(_)) => true,
            Some(LeaderDiscovery::Bootstrap(count)) => {
                // A surplus completes the construct as well: `formed` reports it.
                self.leading().count() + self.ended_leaders >= *count
            }
        }
    }

    fn leading(&self) -> impl Iterator<Item = &Proc> {
        self.joined
            .iter()
            .filter(|(_, construct)| construct.role != ConstructRole::Member)
            .map(|(proc, _)| proc)
    }

    /// Returns true if a caller becomes a member. Callers that neither lead nor are named do not.
    fn is_in(&self, proc: &Proc, construct: &ConstructRequest) -> bool {
        construct.role != ConstructRole::Member || self.invited.contains(proc)
    }

    fn inside(&self) -> impl Iterator<Item = (&Proc, &Arc<ConstructRequest>)> {
        self.joined
            .iter()
            .filter(|(proc, construct)| self.is_in(proc, construct))
    }

    fn formed(&self) -> Result<Formed, GroupFailure> {
        // Bootstrap leaders do not name each other, so only their number shows a surplus.
        if let Some(LeaderDiscovery::Bootstrap(count)) = self.method
            && self.leading().count() + self.ended_leaders > count
        {
            return Err(GroupFailure::conflict(format_args!(
                "more leaders have called than the {count} announced"
            )));
        }
        let named = match &self.method {
            // In the usual case the first leader's list is shared instead of copied.
            Some(LeaderDiscovery::Collective(named))
                if self.inside().map(|(proc, _)| proc).eq(named) =>
            {
                named.clone()
            }
            _ => self.inside().map(|(proc, _)| proc.clone()).collect(),
        };
        let members = match &self.order {
            None => named.into(),
            Some(order) => {
                // Procs that have ended have no position in the order.
                let kept: Vec<Proc> = order
                    .iter()
                    .filter(|proc| named.contains(proc))
                    .cloned()
                    .collect();
                let is_whole = kept.len() == named.len();
                let members = Members::new(kept);
                if !is_whole || *members.named() != named {
                    return Err(GroupFailure::conflict(
                        "the order of members does not name each of them once",
                    ));
                }
                members
            }
        };
        let infos = self
            .inside()
            .filter(|(_, construct)| !construct.infos.is_empty());
        // Each proc brings the data of its job, and the result contains them once.
        let mut jobs: BTreeMap<&Nspace, &Arc<JobInfo>> = BTreeMap::new();
        for (_, construct) in self.inside() {
            jobs.extend(construct.job.iter().map(|job| (&job.nspace, job)));
        }
        // The wildcard rank stands for all procs of a job in the order of ranks. It would be wrong
        // beside an order of members, or where a proc of the job was lost.
        let is_whole = |job: &&Nspace| {
            self.order.is_none() && !self.lost.keys().any(|lost| lost.nspace == **job)
        };
        Ok(Formed {
            host_infos: Vec::new(),
            infos: infos
                .map(|(proc, construct)| (proc.clone(), construct.infos.clone()))
                .collect(),
            data: self
                .inside()
                .filter_map(|(_, construct)| construct.data.clone())
                .collect(),
            jobs: jobs.into_values().cloned().collect(),
            notifies: self.directives.notify,
            whole_jobs: self.whole_jobs.iter().filter(is_whole).cloned().collect(),
            context_id: None,
            members,
        })
    }

    /// Returns true if a context id is requested.
    pub(super) fn wants_context_id(&self) -> bool {
        self.directives.context_id
    }

    /// Returns the failure of a timeout, with the procs that have not called.
    fn late(&self) -> GroupFailure {
        let mut awaited: Vec<String> = self
            .missing
            .iter()
            .chain(&self.unknown)
            // A few names show what is missing; a construct may await thousands of procs.
            .take(8)
            .map(Proc::to_string)
            .collect();
        let others = (self.missing.len() + self.unknown.len()).saturating_sub(awaited.len());
        if others > 0 {
            awaited.push(format!("{others} more"));
        }
        let reason = match &self.method {
            None => "no leader has called".to_owned(),
            Some(LeaderDiscovery::Bootstrap(count)) if awaited.is_empty() => {
                format!(
                    "{} of {count} leaders have called",
                    self.leading().count() + self.ended_leaders
                )
            }
            Some(_) => format!("procs that have not called: {}", awaited.join(", ")),
        };
        GroupFailure::new(code::PMIX_ERR_TIMEOUT, reason)
    }

    /// Returns all procs that have called.
    pub(super) fn called(&self) -> impl Iterator<Item = &Proc> {
        self.joined.keys().chain(self.refused.keys())
    }

    /// Returns the procs that have not called, if they are known.
    pub(super) fn late_ones(&self) -> Option<BTreeSet<Proc>> {
        // Leaders of a bootstrap are known by number only.
        matches!(self.method, Some(LeaderDiscovery::Collective(_))).then(|| self.missing.clone())
    }

    /// Returns the possible members: procs that have called or are expected to.
    pub(super) fn prospects(&self) -> BTreeSet<Proc> {
        self.joined.keys().chain(&self.missing).cloned().collect()
    }

    /// Returns true if no caller waits any more.
    pub(super) fn is_deserted(&self) -> bool {
        self.joined.is_empty() && self.refused.is_empty()
    }
}

/// Returns true if two lists stand for the same procs.
fn is_same(one: &NamedProcs, other: &NamedProcs, directory: &JobDirectory) -> bool {
    let all = |named: &NamedProcs| each::<NamedProcs>(named, directory);
    one == other || all(one) == all(other)
}

/// Returns each proc that the list stands for. Unknown jobs stay as they are named.
fn each<'a, T: FromIterator<Proc>>(
    named: impl IntoIterator<Item = &'a Proc>,
    directory: &JobDirectory,
) -> T {
    named
        .into_iter()
        .flat_map(|proc| {
            directory
                .procs(proc)
                .unwrap_or_else(|| ProcSelection::just(proc))
        })
        .collect()
}
