//! The state owned by the coordinator: all established groups and pending constructs, and the
//! decisions about them.
use super::{
    AnnouncedGroup, ConstructRole, Contribution, CoordinatorContext, DecisionSeq, DepartureReason,
    Earliest, FailureResponse, Formed, GroupDecision, GroupFailure, GroupKey, GroupOperation,
    GroupTransition, Members, Participation, ServerId,
    directory::ProcLocation,
    established::{EstablishedGroup, PendingDestruct},
    forming::{AnswerOfHost, GroupNotification, HostStage, PendingConstruct},
    message::about,
    recent_refusals::RecentRefusals,
    sent::SentDecisions,
};
use crate::MonotonicTime;
use peal_model::{Info, NamedProcs, Nspace, Proc, Status, code};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque, btree_map::Entry},
    sync::Arc,
};

/// The state of a group.
#[derive(Debug, Serialize, Deserialize)]
enum GroupState {
    Forming(Box<PendingConstruct>),
    Standing(EstablishedGroup),
}

/// A message of the coordinator.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CoordinatorAction {
    /// A decision, for these servers or for all.
    Outcome(Option<BTreeSet<ServerId>>, GroupDecision),
    /// A refusal of calls of this server that take part in no operation.
    Refuse(
        ServerId,
        GroupKey,
        GroupOperation,
        Vec<(Proc, DecisionSeq)>,
        GroupFailure,
    ),
    /// An event for these procs, on any server.
    Notify(Vec<Proc>, Status, Vec<Info>),
}

impl CoordinatorAction {
    /// Returns an event about a group with these members.
    fn notification<'a>(
        key: &GroupKey,
        news: GroupNotification,
        members: impl Iterator<Item = &'a Proc>,
    ) -> CoordinatorAction {
        CoordinatorAction::Notify(news.recipients, news.code, about(key, &news.about, members))
    }
}

/// Established groups and pending constructs.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CoordinatorState {
    me: ServerId,
    groups: BTreeMap<GroupKey, GroupState>,
    sent_decisions: BTreeMap<GroupKey, SentDecisions>,
    /// Times at which the sent decisions of a group are forgotten, unless more have been sent
    /// since.
    fading: VecDeque<(MonotonicTime, GroupKey)>,
    /// The earliest deadline of a group.
    due: Earliest,
    refused: RecentRefusals,
    next: u64,
    next_context: u64,
    decided: Vec<CoordinatorAction>,
}

impl CoordinatorState {
    pub(super) fn new(me: ServerId) -> CoordinatorState {
        let groups = BTreeMap::new();
        let sent_decisions = BTreeMap::new();
        let fading = VecDeque::new();
        let due = Earliest::default();
        let refused = RecentRefusals::default();
        let decided = Vec::new();
        CoordinatorState {
            me,
            groups,
            sent_decisions,
            fading,
            due,
            refused,
            next: 0,
            next_context: 0,
            decided,
        }
    }

    /// Forgets everything but the count of context ids, before a takeover. Procs may have ids that
    /// this server assigned when it was not the coordinator.
    pub(super) fn reset(&mut self) {
        *self = CoordinatorState {
            next_context: self.next_context,
            ..CoordinatorState::new(self.me)
        };
    }

    /// Gives this server another number, which is greater. It knows no other server.
    pub(super) fn renumber(&mut self, new: ServerId) {
        let old = std::mem::replace(&mut self.me, new);
        for sent in self.sent_decisions.values_mut() {
            sent.renumber(old, new);
        }
    }

    /// Returns true if the name of a group is taken or is being taken.
    pub(super) fn has(&self, key: &GroupKey) -> bool {
        self.groups.contains_key(key)
    }

    /// Dissolves a group that a server has brought along, because another one has its name. Its members
    /// learn that it has none.
    pub(super) fn dissolve_at(
        &mut self,
        server: ServerId,
        key: &GroupKey,
        members: &[Proc],
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        if let Some(first) = members.first() {
            let infos = about(key, first, std::iter::empty());
            self.decided.push(CoordinatorAction::Notify(
                members.to_vec(),
                code::PMIX_GROUP_MEMBERSHIP_UPDATE,
                infos,
            ));
        }
        self.decide(at, key, Some([server].into()), GroupTransition::Dissolved);
        self.take_actions()
    }

    fn take_actions(&mut self) -> Vec<CoordinatorAction> {
        std::mem::take(&mut self.decided)
    }

    /// Adds the participations of procs of one server.
    pub(super) fn contribute(
        &mut self,
        from: ServerId,
        contribution: Contribution,
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        let Contribution {
            key,
            mut parts,
            left,
            ..
        } = contribution;
        let deadline = at.now + left.unwrap_or(at.settings.timeout);
        let refused: Vec<Participation> = parts
            .extract_if(.., |part| part.refusal.is_some())
            .collect();
        for part in refused {
            if self.is_open(from, &key, &part) {
                self.refused(from, &key, part, deadline, at);
            }
        }
        // Checked after the refusals: the decision about a refused call also answers the calls that
        // count on its caller.
        parts.retain(|part| self.is_open(from, &key, part));
        let destructs: Vec<Participation> = parts
            .extract_if(.., |part| part.construct.is_none())
            .collect();
        let constructs = parts;
        if !constructs.is_empty() {
            self.construct(from, &key, constructs, deadline, at);
        }
        if !destructs.is_empty() {
            self.destruct(from, &key, destructs, deadline);
        }
        self.settle(&key, at);
        self.take_actions()
    }

    /// Returns true if no decision that the server was sent answers the call.
    fn is_open(&self, from: ServerId, key: &GroupKey, part: &Participation) -> bool {
        self.sent_decisions
            .get(key)
            .is_none_or(|sent| !sent.answers(from, part))
    }

    /// Handles a refused call. The other participants that count on the caller are notified, up to
    /// a limit per user.
    fn refused(
        &mut self,
        from: ServerId,
        key: &GroupKey,
        part: Participation,
        deadline: MonotonicTime,
        at: &CoordinatorContext<'_>,
    ) {
        let Some(refusal) = part.refusal.clone() else {
            return;
        };
        let failure = GroupFailure::refused(&refusal);
        let is_member = part
            .construct
            .as_ref()
            .is_some_and(|construct| construct.role == ConstructRole::Member);
        let is_full = self.is_full(key, at);
        match (&part.construct, self.groups.get_mut(key)) {
            // An added proc has the same result as the leaders that add it.
            (Some(_), None) if is_member && !is_full => {
                let mut forming = PendingConstruct::new(deadline);
                forming.refuse(refusal);
                self.groups
                    .insert(key.clone(), GroupState::Forming(Box::new(forming)));
            }
            (Some(construct), Some(GroupState::Forming(forming)))
                if is_member || forming.concerns(&part.proc, construct) =>
            {
                forming.refuse(refusal);
                self.settle(key, at);
            }
            // The leaders form the group without the caller. Without a leader, added procs are
            // matched by the group's name only.
            (Some(_), Some(GroupState::Forming(forming))) if forming.is_led() => {
                self.refuse(from, key, vec![part], failure)
            }
            (Some(_), None | Some(GroupState::Forming(_)))
                if !is_member && self.refused.one_more(key.uid, at.now) =>
            {
                // Callers of a pending construct of this name are answered by the same decision.
                let mut called: BTreeSet<Proc> = [part.proc].into();
                if let Some(GroupState::Forming(forming)) = self.groups.remove(key) {
                    called.extend(forming.called().cloned());
                }
                self.decide(
                    at,
                    key,
                    None,
                    GroupTransition::NotFormed {
                        failure,
                        late: Some(BTreeSet::new()),
                        called,
                    },
                );
            }
            (None, Some(GroupState::Standing(standing)))
                if standing.members.has(&part.proc) && self.refused.one_more(key.uid, at.now) =>
            {
                // The members that have called are answered by the decision. The next call starts
                // anew.
                standing.destruct = None;
                let servers = standing.servers(at.directory);
                self.decide(
                    at,
                    key,
                    Some(servers),
                    GroupTransition::NotDissolved(failure),
                );
            }
            // No other participant is affected, or the user's limit is reached: only the caller is
            // answered.
            _ => self.refuse(from, key, vec![part], failure),
        }
    }

    fn construct(
        &mut self,
        from: ServerId,
        key: &GroupKey,
        parts: Vec<Participation>,
        deadline: MonotonicTime,
        at: &CoordinatorContext<'_>,
    ) {
        if self.is_full(key, at) {
            let failure = GroupFailure::full(at.settings.max_per_user);
            return self.refuse(from, key, parts, failure);
        }
        match self
            .groups
            .entry(key.clone())
            .or_insert_with(|| GroupState::forming(deadline))
        {
            GroupState::Forming(forming) => {
                // The construct fails for all participants once the timeout of one of them is over.
                forming.deadline = forming.deadline.min(deadline);
                forming.add_directives(&parts);
                for part in parts {
                    forming.join(part, at);
                }
            }
            GroupState::Standing(_) => self.refuse(from, key, parts, GroupFailure::exists(key)),
        }
    }

    /// Returns true if a user's number of groups is at its limit and none has this name.
    fn is_full(&self, key: &GroupKey, at: &CoordinatorContext<'_>) -> bool {
        let own = || {
            self.groups
                .keys()
                .filter(|other| other.uid == key.uid)
                .count()
        };
        !self.groups.contains_key(key) && own() >= at.settings.max_per_user
    }

    fn destruct(
        &mut self,
        from: ServerId,
        key: &GroupKey,
        parts: Vec<Participation>,
        deadline: MonotonicTime,
    ) {
        match self.groups.get_mut(key) {
            Some(GroupState::Standing(standing)) => {
                let EstablishedGroup {
                    members,
                    destruct: dissolving,
                    ..
                } = standing;
                let dissolving = dissolving.get_or_insert_with(|| PendingDestruct {
                    // The clone shares the list of names and copies one bit for each proc.
                    missing: members.clone(),
                    deadline,
                });
                dissolving.deadline = dissolving.deadline.min(deadline);
                for part in parts {
                    dissolving.missing.check_off(&part.proc);
                }
            }
            // A group that is still being formed cannot be destructed.
            _ => self.refuse(from, key, parts, GroupFailure::unknown(key)),
        }
    }

    fn refuse(
        &mut self,
        from: ServerId,
        key: &GroupKey,
        parts: Vec<Participation>,
        failure: GroupFailure,
    ) {
        // Constructs and destructs come in separate lists, so the first part stands for all.
        let operation =
            GroupOperation::of(parts.first().and_then(|part| part.construct.as_deref()));
        let calls = parts
            .into_iter()
            .map(|part| (part.proc, part.after))
            .collect();
        self.decided.push(CoordinatorAction::Refuse(
            from,
            key.clone(),
            operation,
            calls,
            failure,
        ));
    }

    /// Returns true if an operation waits for participants.
    pub(super) fn is_pending(&self, key: &GroupKey, operation: GroupOperation) -> bool {
        match (operation, self.groups.get(key)) {
            (GroupOperation::Construct, Some(GroupState::Forming(_))) => true,
            (GroupOperation::Destruct, Some(GroupState::Standing(standing))) => {
                standing.destruct.is_some()
            }
            _ => false,
        }
    }

    /// Records that the host environment was asked to form a group.
    pub(super) fn host_asked(&mut self, key: &GroupKey) {
        if let Some(GroupState::Forming(forming)) = self.groups.get_mut(key) {
            forming.host = HostStage::Asked;
        }
    }

    /// Records what the host environment has answered about a group that is being formed.
    pub(super) fn host_answered(&mut self, key: &GroupKey, answer: AnswerOfHost) {
        if let Some(GroupState::Forming(forming)) = self.groups.get_mut(key) {
            forming.host = HostStage::Answered(answer);
        }
    }

    /// Records that procs of other nodes take no part in a group that is being formed.
    pub(super) fn leave_out(&mut self, key: &GroupKey, procs: Vec<Proc>) {
        if let Some(GroupState::Forming(forming)) = self.groups.get_mut(key) {
            forming.leave_out(procs);
        }
    }

    /// Fails a pending operation.
    pub(super) fn fail(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        failure: GroupFailure,
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        match (operation, self.groups.get_mut(key)) {
            (GroupOperation::Construct, Some(GroupState::Forming(forming))) => {
                let called = forming.called().cloned().collect();
                let late = forming.late_ones();
                self.groups.remove(key);
                let transition = GroupTransition::NotFormed {
                    failure,
                    late,
                    called,
                };
                self.decide(at, key, None, transition);
            }
            (GroupOperation::Destruct, Some(GroupState::Standing(standing)))
                if standing.destruct.is_some() =>
            {
                standing.destruct = None;
                let servers = standing.servers(at.directory);
                let transition = GroupTransition::NotDissolved(failure);
                self.decide(at, key, Some(servers), transition);
            }
            // It has ended meanwhile.
            _ => {}
        }
        self.take_actions()
    }

    /// Records a group that procs formed by invitation, if none has its name.
    pub(super) fn announce(
        &mut self,
        key: &GroupKey,
        announced: AnnouncedGroup,
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        let AnnouncedGroup {
            members,
            context_id,
        } = announced;
        // A member may have ended while the announcement was on its way. Its end has been handled
        // already and would not be reported again.
        let living = members
            .into_iter()
            .filter(|member| at.directory.whereabouts(member) == ProcLocation::Lives);
        let members: Vec<Proc> = living.collect();
        if members.is_empty() || self.groups.contains_key(key) || self.is_full(key, at) {
            return Vec::new();
        }
        let servers = at.directory.homes(members.iter());
        let formed = Formed {
            members: Members::new(members),
            context_id,
            ..Formed::default()
        };
        self.stand(key, formed, servers, at);
        self.take_actions()
    }

    /// Establishes a group and notifies these servers.
    fn stand(
        &mut self,
        key: &GroupKey,
        formed: Formed,
        servers: BTreeSet<ServerId>,
        at: &CoordinatorContext<'_>,
    ) {
        let formed = Arc::new(formed);
        let instance = self.decide(
            at,
            key,
            Some(servers),
            GroupTransition::Formed(formed.clone()),
        );
        let standing = EstablishedGroup::new(instance, formed.members.named().clone());
        self.groups
            .insert(key.clone(), GroupState::Standing(standing));
    }

    /// Handles a job that has become known.
    pub(super) fn knows_job(
        &mut self,
        nspace: &Nspace,
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        for key in self.keys() {
            if let Some(GroupState::Forming(forming)) = self.groups.get_mut(&key) {
                forming.knows_job(nspace, at);
                self.settle(&key, at);
            }
        }
        self.take_actions()
    }

    /// Handles procs that have ended.
    pub(super) fn remove_terminated(
        &mut self,
        procs: &[Proc],
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        for key in self.keys() {
            for proc in procs {
                match self.groups.get_mut(&key) {
                    Some(GroupState::Forming(forming)) => forming.remove_terminated(proc, at),
                    Some(GroupState::Standing(_)) => {
                        self.lose(&key, proc, DepartureReason::Failed, at)
                    }
                    None => {}
                }
            }
            // After all procs: a construct must not complete with one that ends in the same step.
            self.settle(&key, at);
        }
        self.take_actions()
    }

    /// Removes a proc that leaves a group.
    pub(super) fn leave(
        &mut self,
        key: &GroupKey,
        proc: &Proc,
        notified: NamedProcs,
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        self.lose(key, proc, DepartureReason::Left(notified), at);
        self.settle(key, at);
        self.take_actions()
    }

    fn lose(
        &mut self,
        key: &GroupKey,
        proc: &Proc,
        change: DepartureReason,
        at: &CoordinatorContext<'_>,
    ) {
        let Some(GroupState::Standing(standing)) = self.groups.get_mut(key) else {
            return;
        };
        // The server of the departing member is notified, too.
        let mut servers = standing.servers(at.directory);
        if !standing.members.check_off(proc) {
            return;
        }
        if let Some(dissolving) = &mut standing.destruct {
            dissolving.missing.check_off(proc);
        }
        servers.extend(at.directory.home(proc));
        let is_empty = standing.members.is_empty();
        let instance = self.decide(
            at,
            key,
            Some(servers),
            GroupTransition::Changed(proc.clone(), change),
        );
        match self.groups.get_mut(key) {
            // A group without members could not be destructed, and its name would stay taken.
            _ if is_empty => drop(self.groups.remove(key)),
            Some(GroupState::Standing(standing)) => standing.instance = instance,
            _ => {}
        }
    }

    /// Handles a proc's response to a failure in a construct.
    pub(super) fn resolve_failure(
        &mut self,
        key: &GroupKey,
        by: &Proc,
        saying: FailureResponse,
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        // A response that comes after the end of the construct has no effect.
        if let Some(GroupState::Forming(forming)) = self.groups.get_mut(key) {
            forming.resolve_failure(by, saying);
        }
        self.settle(key, at);
        self.take_actions()
    }

    /// Advances the time.
    pub(super) fn tick(&mut self, at: &CoordinatorContext<'_>) -> Vec<CoordinatorAction> {
        // All records are kept for the same time, so the first one that was added ends first.
        while let Some((_, key)) = self.fading.pop_front_if(|(until, _)| *until <= at.now) {
            self.fade(key, at.now);
        }
        self.refused.forget(at.settings.sent_retention(), at.now);
        for key in self.keys() {
            self.settle(&key, at);
        }
        // Between two ticks `due` is only lowered, so deadlines of operations that have ended go
        // here.
        self.due = self.groups.values().filter_map(GroupState::due).collect();
        self.take_actions()
    }

    /// Forgets the sent decisions of a group, or postpones that.
    fn fade(&mut self, key: GroupKey, now: MonotonicTime) {
        let Entry::Occupied(mut sent) = self.sent_decisions.entry(key) else {
            return;
        };
        sent.get_mut().refusals.retain(|(until, ..)| *until > now);
        let until = sent.get().until;
        if until > now {
            self.fading.push_back((until, sent.key().clone()));
        } else {
            sent.remove();
        }
    }

    /// Returns the time at which `tick` has something to do next.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.due
            .at()
            .into_iter()
            .chain(self.fading.front().map(|(until, _)| *until))
            .min()
    }

    /// Ends operations that are complete, have failed or are late.
    fn settle(&mut self, key: &GroupKey, at: &CoordinatorContext<'_>) {
        self.end_if_settled(key, at);
        if let Some(due) = self.groups.get(key).and_then(GroupState::due) {
            self.due.lower(due);
        }
    }

    fn end_if_settled(&mut self, key: &GroupKey, at: &CoordinatorContext<'_>) {
        match self.groups.get_mut(key) {
            Some(GroupState::Forming(forming)) => {
                // The set has an entry for each proc, so it is made only where an event needs it.
                let prospects = if forming.notifications.is_empty() {
                    BTreeSet::new()
                } else {
                    forming.prospects()
                };
                let news = std::mem::take(&mut forming.notifications).into_iter();
                self.decided.extend(
                    news.map(|news| CoordinatorAction::notification(key, news, prospects.iter())),
                );
                self.settle_forming(key, at);
            }
            Some(GroupState::Standing(standing)) => {
                let is_late = standing
                    .destruct
                    .as_ref()
                    .is_some_and(|dissolving| dissolving.deadline <= at.now);
                if standing.is_dissolved() {
                    let servers = Some(standing.servers(at.directory));
                    self.groups.remove(key);
                    self.decide(at, key, servers, GroupTransition::Dissolved);
                } else if is_late {
                    let servers = Some(standing.servers(at.directory));
                    // Removed, so that the next call begins a new destruct.
                    let dissolving = standing.destruct.take();
                    let missing = dissolving
                        .iter()
                        .flat_map(|dissolving| dissolving.missing.iter());
                    // Groups may have thousands of members; a few names show what is missing.
                    let missing: Vec<String> = missing.take(8).map(Proc::to_string).collect();
                    let reason = format_args!("procs that have not called: {}", missing.join(", "));
                    let failure = GroupFailure::new(code::PMIX_ERR_TIMEOUT, reason);
                    self.decide(at, key, servers, GroupTransition::NotDissolved(failure));
                }
            }
            None => {}
        }
    }

    fn settle_forming(&mut self, key: &GroupKey, at: &CoordinatorContext<'_>) {
        let Some(GroupState::Forming(forming)) = self.groups.get(key) else {
            return;
        };
        if forming.is_deserted() {
            // All callers have ended, so no decision is needed and the name becomes free.
            self.groups.remove(key);
            return;
        }
        let Some(settled) = forming.settled(at.now) else {
            return;
        };
        match settled {
            Ok(mut formed) => {
                // Callers that are no members are answered, too.
                let servers = at.directory.homes(forming.called());
                let losses = forming.losses(&formed.members).into_iter();
                let losses: Vec<CoordinatorAction> = losses
                    .map(|news| CoordinatorAction::notification(key, news, formed.members.iter()))
                    .collect();
                let ended = forming.ended_since_host_asked().clone();
                let wants_context_id = forming.wants_context_id();
                let AnswerOfHost { context_id, infos } = forming.answer_of_host();
                formed.host_infos = infos;
                if wants_context_id {
                    formed.context_id = Some(context_id.unwrap_or_else(|| self.context_id()));
                }
                self.stand(key, formed, servers, at);
                for proc in ended {
                    self.lose(key, &proc, DepartureReason::Failed, at);
                }
                // After the decision: members know the group before they receive events about lost
                // procs.
                self.decided.extend(losses);
            }
            Err(failure) => {
                let called = forming.called().cloned().collect();
                let late = forming.late_ones();
                self.groups.remove(key);
                self.decide(
                    at,
                    key,
                    None,
                    GroupTransition::NotFormed {
                        failure,
                        late,
                        called,
                    },
                );
            }
        }
    }

    /// Returns a context id that no group of any server has had. Each server counts in a range of
    /// its own.
    pub(super) fn context_id(&mut self) -> u64 {
        self.next_context += 1;
        // A network numbers its servers from 1 on, and the first one begins in the lowest range. A
        // server that has no number yet has the last range: no proc is in groups that two such
        // servers have formed.
        let range = self.me.0.checked_sub(1).unwrap_or(u32::MAX);
        u64::from(range) << 32 | self.next_context
    }

    fn decide(
        &mut self,
        at: &CoordinatorContext<'_>,
        key: &GroupKey,
        servers: Option<BTreeSet<ServerId>>,
        transition: GroupTransition,
    ) -> DecisionSeq {
        self.next += 1;
        let instance = DecisionSeq {
            by: self.me,
            number: self.next,
        };
        let outcome = GroupDecision {
            key: key.clone(),
            instance,
            transition,
        };
        // Recorded first: calls that the decision answers may be on their way.
        self.record_sent(
            &outcome,
            servers.as_ref(),
            at.now + at.settings.sent_retention(),
        );
        self.decided
            .push(CoordinatorAction::Outcome(servers, outcome));
        instance
    }

    /// Records that these servers, or all, are sent a decision. Calls that it answers need no other
    /// answer until the record is forgotten.
    pub(super) fn record_sent(
        &mut self,
        outcome: &GroupDecision,
        servers: Option<&BTreeSet<ServerId>>,
        until: MonotonicTime,
    ) {
        let GroupDecision {
            key,
            instance,
            transition,
        } = outcome;
        // No call waits for the change of a member, so it answers none.
        if matches!(transition, GroupTransition::Changed(..)) {
            return;
        }
        let sent = match self.sent_decisions.get_mut(key) {
            Some(sent) => sent,
            None => {
                self.fading.push_back((until, key.clone()));
                self.sent_decisions.entry(key.clone()).or_default()
            }
        };
        sent.until = until;
        match servers {
            _ if transition.is_refusal() => {
                sent.refusals
                    .push((until, servers.cloned(), outcome.clone()))
            }
            Some(servers) => sent
                .by_server
                .extend(servers.iter().map(|server| (*server, *instance))),
            None => sent.all = *instance,
        }
    }

    /// Adds a group that was established before the takeover.
    pub(super) fn inherit(&mut self, key: GroupKey, standing: EstablishedGroup) {
        self.groups.insert(key, GroupState::Standing(standing));
    }

    /// Removes members that have ended from the groups that were established before the takeover.
    pub(super) fn remove_ended_members(
        &mut self,
        at: &CoordinatorContext<'_>,
    ) -> Vec<CoordinatorAction> {
        for key in self.keys() {
            let Some(GroupState::Standing(standing)) = self.groups.get(&key) else {
                continue;
            };
            // All servers have reported their jobs by now, so an unknown job is gone, too.
            let gone = |member: &&Proc| at.directory.whereabouts(member) != ProcLocation::Lives;
            let gone: Vec<Proc> = standing.members.iter().filter(gone).cloned().collect();
            gone.iter()
                .for_each(|proc| self.lose(&key, proc, DepartureReason::Failed, at));
        }
        self.take_actions()
    }

    fn keys(&self) -> Vec<GroupKey> {
        self.groups.keys().cloned().collect()
    }

    /// Returns true if no state is left.
    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.sent_decisions.is_empty() && self.refused.is_empty()
    }
}

impl GroupState {
    fn forming(deadline: MonotonicTime) -> GroupState {
        GroupState::Forming(Box::new(PendingConstruct::new(deadline)))
    }

    /// Returns the deadline of the group's pending operation.
    fn due(&self) -> Option<MonotonicTime> {
        match self {
            GroupState::Forming(forming) => Some(forming.due()),
            GroupState::Standing(standing) => standing
                .destruct
                .as_ref()
                .map(|dissolving| dissolving.deadline),
        }
    }
}
