//! Pending calls of a server's own procs. They wait for each other first, then for the
//! coordinator's decision.
use super::{
    ConstructRole, Contribution, DecisionSeq, Earliest, GroupFailure, GroupKey, GroupOperation,
    GroupTransition, Participation, remaining::RemainingProcs,
};
use crate::{MonotonicTime, request_id::RequestId};
use peal_model::{Info, NamedProcs, Proc};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A call that waits for its answer.
#[derive(Debug, Serialize, Deserialize)]
struct WaitingCaller {
    to: RequestId,
    part: Participation,
}

/// A call that begins to wait.
#[derive(Debug)]
pub(super) struct ArrivingCaller {
    pub(super) to: RequestId,
    pub(super) part: Participation,
    /// The infos for the host environment.
    pub(super) infos: Vec<Info>,
}

/// Contribution of the callers of an operation to it through the host environment.
#[derive(Debug)]
pub(super) struct PassedCalls<'a> {
    pub(super) parts: Vec<&'a Participation>,
    /// The infos of the first caller.
    pub(super) infos: &'a [Info],
}

/// Calls of one operation on one group.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LocalCollective {
    /// Calls that wait for other local procs, in the order of their arrival.
    waiting: Vec<WaitingCaller>,
    /// Calls that were sent to the coordinator, in the order in which they were.
    passed: Vec<WaitingCaller>,
    /// Named local procs that have not called; none until a caller names any.
    awaited: Option<RemainingProcs>,
    /// The list of the first caller that names procs.
    named: Option<NamedProcs>,
    /// The infos for the host environment, of the first caller that has any.
    infos: Vec<Info>,
    /// A refused proc has called. It remains in `awaited` if it was there.
    refused: bool,
    /// Callers name different procs. The coordinator then answers them without waiting for the
    /// rest.
    disagrees: bool,
    /// A caller leads (`PMIX_GROUP_LEADER`). The coordinator then needs all participants at once,
    /// to decide about a failure.
    led: bool,
    deadline: Option<MonotonicTime>,
    /// The deadline has passed. The coordinator gets the calls there are, and fails the operation
    /// on all servers.
    expired: bool,
}

/// A failed operation, for callers that come late.
#[derive(Debug, Serialize, Deserialize)]
struct RecentFailure {
    until: MonotonicTime,
    failure: GroupFailure,
    callers: LateCallers,
}

/// The late callers of a failed operation. Each of them gets its failure once.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct LateCallers {
    /// The callers that it is meant for.
    pub(super) selection: CallSelection,
    /// Procs that have been answered.
    pub(super) answered: BTreeSet<Proc>,
}

/// The callers that a failure is meant for.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum CallSelection {
    /// Callers that name leaders, if they were awaited or the awaited ones are not known; and all
    /// callers that name none.
    Awaited(Option<BTreeSet<Proc>>),
    /// Callers that count on a refused participant.
    Concerned(GroupTransition),
}

impl LateCallers {
    fn takes(&mut self, operation: GroupOperation, part: &Participation) -> bool {
        let names = operation == GroupOperation::Destruct || part.names().is_some();
        match &mut self.selection {
            CallSelection::Awaited(Some(awaited)) if names => awaited.remove(&part.proc),
            CallSelection::Concerned(transition) if !transition.answers(part) => false,
            // True for the first call only.
            _ => self.answered.insert(part.proc.clone()),
        }
    }
}

impl LocalCollective {
    fn holds(&self, proc: &Proc) -> bool {
        // Awaited procs have not called, so the search among all callers can be skipped.
        let has_not = !self.refused
            && self
                .awaited
                .as_ref()
                .is_some_and(|awaited| awaited.has(proc));
        !has_not && self.held().any(|held| held.part.proc == *proc)
    }

    fn held(&self) -> impl Iterator<Item = &WaitingCaller> {
        self.passed.iter().chain(&self.waiting)
    }

    fn is_empty(&self) -> bool {
        self.passed.is_empty() && self.waiting.is_empty()
    }

    /// Stops waiting for a proc.
    fn tick(&mut self, proc: &Proc) {
        self.awaited.as_mut().map(|awaited| awaited.check_off(proc));
    }

    /// Takes the participations that go to the coordinator: those that wait for no other local
    /// proc, or no longer.
    fn pass(&mut self) -> Vec<Participation> {
        let is_awaited = self
            .awaited
            .as_ref()
            .is_some_and(|awaited| !awaited.is_empty());
        let whole = self.expired || self.disagrees || self.led || !is_awaited;
        let known = self.passed.len();
        if whole {
            self.passed.append(&mut self.waiting);
        } else {
            // Callers that wait for no other proc are not held up by those that do.
            self.passed.extend(
                self.waiting
                    .extract_if(.., |held| !held.part.waits_for_others()),
            );
        }
        self.passed
            .iter()
            .skip(known)
            .map(|held| held.part.clone())
            .collect()
    }

    fn brings(&self, key: &GroupKey, parts: Vec<Participation>) -> Option<Contribution> {
        let bring = |parts| Contribution {
            key: key.clone(),
            parts,
            deadline: self.deadline,
            left: None,
        };
        (!parts.is_empty()).then(|| bring(parts))
    }
}

/// One value for constructs and one for destructs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ByOperation<T>([T; 2]);

impl<T> ByOperation<T> {
    fn of(&self, operation: GroupOperation) -> &T {
        let ByOperation([construct, destruct]) = self;
        match operation {
            GroupOperation::Construct => construct,
            GroupOperation::Destruct => destruct,
        }
    }

    fn of_mut(&mut self, operation: GroupOperation) -> &mut T {
        let ByOperation([construct, destruct]) = self;
        match operation {
            GroupOperation::Construct => construct,
            GroupOperation::Destruct => destruct,
        }
    }
}

/// All pending calls, and recent failures.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LocalCollectives {
    parties: ByOperation<BTreeMap<GroupKey, LocalCollective>>,
    late: ByOperation<BTreeMap<GroupKey, Vec<RecentFailure>>>,
    /// The earliest deadline.
    due: Earliest,
}

impl LocalCollectives {
    /// Adds a call. The first one that waits for other local procs determines which.
    pub(super) fn add_call(
        &mut self,
        key: &GroupKey,
        ArrivingCaller {
            to,
            mut part,
            infos,
        }: ArrivingCaller,
        deadline: MonotonicTime,
        awaited: impl FnOnce(&Participation) -> NamedProcs,
    ) {
        let parties = self
            .parties
            .of_mut(GroupOperation::of(part.construct.as_deref()));
        // `entry` would clone the key for each call.
        let party = match parties.get_mut(key) {
            Some(party) => party,
            None => parties.entry(key.clone()).or_default(),
        };
        if part.refusal.is_some() {
            // The directives of a refused call do not count.
            party.refused = true;
            party.waiting.push(WaitingCaller { to, part });
            return;
        }
        if party.infos.is_empty() {
            party.infos = infos;
        }
        party.deadline = party.deadline.into_iter().chain([deadline]).min();
        self.due.lower(deadline);
        if part.waits_for_others() {
            party.awaited.get_or_insert_with(|| awaited(&part).into());
        }
        if let Some(construct) = &mut part.construct
            && let ConstructRole::Leader(named) = &construct.role
        {
            match &party.named {
                // One shared list makes later comparisons a comparison of pointers.
                Some(first) if first == named => {
                    Arc::make_mut(construct).role = ConstructRole::Leader(first.clone())
                }
                Some(_) => party.disagrees = true,
                None => party.named = Some(named.clone()),
            }
        }
        party.led |= part
            .construct
            .as_ref()
            .is_some_and(|construct| construct.directives.leads);
        party.tick(&part.proc);
        party.waiting.push(WaitingCaller { to, part });
    }

    /// Returns true if a proc waits for this operation.
    pub(super) fn holds(&self, key: &GroupKey, operation: GroupOperation, proc: &Proc) -> bool {
        self.parties
            .of(operation)
            .get(key)
            .is_some_and(|party| party.holds(proc))
    }

    /// Returns the groups for whose construct local procs wait.
    pub(super) fn under_construction(&self) -> impl Iterator<Item = &GroupKey> {
        self.parties.of(GroupOperation::Construct).keys()
    }

    /// Returns true if a local proc waits for the construct of a group.
    pub(super) fn is_under_construction(&self, key: &GroupKey) -> bool {
        let parties = self.parties.of(GroupOperation::Construct);
        parties.contains_key(key)
    }

    /// Returns true if a waiting caller names the same procs.
    pub(super) fn is_named(&self, key: &GroupKey, named: &NamedProcs) -> bool {
        let party = self.parties.of(GroupOperation::Construct).get(key);
        party
            .and_then(|party| party.named.as_ref())
            .is_some_and(|first| first == named)
    }

    /// Returns the procs that the callers of a construct name.
    pub(super) fn named(&self, key: &GroupKey) -> Option<NamedProcs> {
        let party = self.parties.of(GroupOperation::Construct).get(key)?;
        party.named.clone()
    }

    /// Returns the role of callers that name all leaders of a construct.
    pub(super) fn role(&self, key: &GroupKey) -> Option<ConstructRole> {
        self.named(key).map(ConstructRole::Leader)
    }

    /// Returns the participations that were sent to the coordinator, if those of all these procs were.
    pub(super) fn passed(
        &self,
        key: &GroupKey,
        operation: GroupOperation,
        procs: &NamedProcs,
    ) -> Option<PassedCalls<'_>> {
        let party = self.parties.of(operation).get(key)?;
        let passed: BTreeSet<&Proc> = party.passed.iter().map(|held| &held.part.proc).collect();
        procs
            .iter()
            .all(|proc| passed.contains(proc))
            .then(|| PassedCalls {
                parts: party.passed.iter().map(|held| &held.part).collect(),
                infos: &party.infos,
            })
    }

    /// Removes the calls of a proc that has ended.
    pub(super) fn leave(&mut self, proc: &Proc) {
        let is_other = |held: &mut WaitingCaller| held.part.proc != *proc;
        for parties in &mut self.parties.0 {
            parties.retain(|_, party| {
                party.waiting.retain_mut(is_other);
                party.passed.retain_mut(is_other);
                party.tick(proc);
                !party.is_empty()
            });
        }
    }

    /// Stops waiting for the destruct of a proc that is no member any more.
    pub(super) fn left(&mut self, key: &GroupKey, proc: &Proc) {
        if let Some(party) = self.parties.of_mut(GroupOperation::Destruct).get_mut(key) {
            party.tick(proc);
        }
    }

    /// Returns the contribution that is ready for the coordinator, for one operation on a group.
    pub(super) fn ready(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
    ) -> Option<Contribution> {
        let party = self.parties.of_mut(operation).get_mut(key)?;
        let parts = party.pass();
        party.brings(key, parts)
    }

    /// Returns the contributions that are ready for the coordinator, for all groups.
    pub(super) fn all_ready(&mut self) -> Vec<Contribution> {
        let pass = |(key, party): (&GroupKey, &mut LocalCollective)| {
            let parts = party.pass();
            party.brings(key, parts)
        };
        self.parties
            .0
            .iter_mut()
            .flatten()
            .filter_map(pass)
            .collect()
    }

    /// Notes that no decision precedes the calls: a new coordinator counts its own.
    pub(super) fn forget_decisions(&mut self) {
        for party in self.parties.0.iter_mut().flat_map(BTreeMap::values_mut) {
            for held in party.waiting.iter_mut().chain(&mut party.passed) {
                held.part.after = DecisionSeq::default();
            }
        }
    }

    /// Returns everything that was sent to the coordinator, for the next one.
    pub(super) fn open(&self) -> Vec<Contribution> {
        let had =
            |party: &LocalCollective| party.passed.iter().map(|held| held.part.clone()).collect();
        let open = self
            .parties
            .0
            .iter()
            .flatten()
            .filter_map(|(key, party)| party.brings(key, had(party)));
        open.collect()
    }

    /// Removes and returns calls that a later decision answers. The last arrival is answered first,
    /// so that it reaches the next collective ahead of the others, which waited for it in this one.
    pub(super) fn answered(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        is_meant: impl Fn(&Participation) -> bool,
    ) -> Vec<(RequestId, Participation)> {
        let parties = self.parties.of_mut(operation);
        let Some(party) = parties.get_mut(key) else {
            return Vec::new();
        };
        let meant = |held: &mut WaitingCaller| is_meant(&held.part);
        let passed = party.passed.extract_if(.., meant);
        let answered = passed.chain(party.waiting.extract_if(.., meant));
        let mut answered: Vec<(RequestId, Participation)> =
            answered.map(|held| (held.to, held.part)).collect();
        // Its list of names and its deadline must not hold for the next operation of this name.
        if party.is_empty() {
            parties.remove(key);
        }
        answered.reverse();
        answered
    }

    /// Stops the remaining calls of a failed operation from waiting for each other, because they
    /// belong to another one.
    pub(super) fn disband(&mut self, key: &GroupKey, operation: GroupOperation) {
        if let Some(party) = self.parties.of_mut(operation).get_mut(key) {
            party.disagrees = true;
        }
    }

    /// Marks collectives whose deadline has passed.
    pub(super) fn expire(&mut self, now: MonotonicTime) {
        let is_over = |party: &&mut LocalCollective| party.deadline.is_some_and(|at| at <= now);
        let parties = self.parties.0.iter_mut().flat_map(BTreeMap::values_mut);
        parties
            .filter(is_over)
            .for_each(|party| party.expired = true);
    }

    /// Returns the earliest deadline.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.due.at()
    }

    /// Remembers a failure for late callers.
    pub(super) fn remember(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        failure: GroupFailure,
        callers: LateCallers,
        until: MonotonicTime,
    ) {
        let late = self.late.of_mut(operation).entry(key.clone()).or_default();
        // A failure replaces the earlier ones for the same callers. Refusals stay, because each is
        // for the callers that count on one proc.
        if matches!(callers.selection, CallSelection::Awaited(_)) {
            late.retain(|late| matches!(late.callers.selection, CallSelection::Concerned(_)));
        }
        late.push(RecentFailure {
            until,
            failure,
            callers,
        });
        self.due.lower(until);
    }

    /// Forgets the failures of an operation that has succeeded since.
    pub(super) fn forget_failures(&mut self, key: &GroupKey, operation: GroupOperation) {
        self.late.of_mut(operation).remove(key);
    }

    /// Rejects a late caller with the remembered failure, once.
    pub(super) fn reject_late(
        &mut self,
        key: &GroupKey,
        operation: GroupOperation,
        part: &Participation,
        now: MonotonicTime,
    ) -> Result<(), GroupFailure> {
        let Some(late) = self.late.of_mut(operation).get_mut(key) else {
            return Ok(());
        };
        // `takes` counts the caller as answered, so it must not be asked for a failure that is
        // over.
        match late.iter_mut().find_map(|late| {
            (late.until > now && late.callers.takes(operation, part)).then_some(late)
        }) {
            Some(late) => Err(late.failure.clone()),
            None => Ok(()),
        }
    }

    /// Forgets failures that are older than the retention time. Later calls begin a new operation.
    pub(super) fn forget(&mut self, now: MonotonicTime) {
        for late in &mut self.late.0 {
            late.retain(|_, late| {
                late.retain(|late| late.until > now);
                !late.is_empty()
            });
        }
        let parties = self
            .parties
            .0
            .iter()
            .flat_map(BTreeMap::values)
            // An expired collective waits for the coordinator and not for a time.
            .filter(|party| !party.expired);
        let late = self.late.0.iter().flat_map(BTreeMap::values).flatten();
        self.due = parties
            .filter_map(|party| party.deadline)
            .chain(late.map(|late| late.until))
            .collect();
    }

    /// Returns true if no state is left.
    pub(super) fn is_empty(&self) -> bool {
        self.parties.0.iter().all(BTreeMap::is_empty) && self.late.0.iter().all(BTreeMap::is_empty)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        group::{ConstructRequest, DecisionSeq, GroupName, GroupRefusal},
        request_id::PeerId,
    };
    use peal_model::{Nspace, Rank, code};

    const BEGINNING: MonotonicTime = MonotonicTime(0);

    fn key() -> GroupKey {
        GroupKey {
            uid: 1,
            name: GroupName::Called("group".into()),
        }
    }

    fn named(number: u32) -> NamedProcs {
        (0..number).map(proc).collect()
    }

    fn proc(rank: u32) -> Proc {
        Proc::new(Nspace::new("job").unwrap(), Rank(rank))
    }

    fn part(rank: u32, named: NamedProcs) -> Participation {
        let construct = Some(Arc::new(ConstructRequest::of(ConstructRole::Leader(named))));
        Participation {
            proc: proc(rank),
            after: DecisionSeq::default(),
            construct,
            refusal: None,
        }
    }

    fn add_call(lobby: &mut LocalCollectives, part: Participation, awaited: NamedProcs) {
        let to = RequestId {
            peer: PeerId(u64::from(part.proc.rank.0)),
            tag: 101,
        };
        let infos = Vec::new();
        let arriving = ArrivingCaller { to, part, infos };
        lobby.add_call(&key(), arriving, BEGINNING, |_| awaited);
    }

    #[test]
    fn the_last_that_came_is_let_go_first() {
        let mut lobby = LocalCollectives::default();
        for rank in [1, 0, 2] {
            add_call(&mut lobby, part(rank, named(3)), named(3));
        }
        let answered = lobby.answered(&key(), GroupOperation::Construct, |_| true);
        let order: Vec<u64> = answered.iter().map(|(to, _)| to.peer.0).collect();
        assert_eq!(order, [2, 0, 1]);
        assert!(lobby.is_empty());
    }

    #[test]
    fn callers_are_known_with_or_without_being_awaited() {
        let mut lobby = LocalCollectives::default();
        add_call(&mut lobby, part(0, named(3)), named(3));
        let refusal = GroupRefusal {
            proc: proc(1),
            status: code::PMIX_ERR_NO_PERMISSIONS,
            reasons: Vec::new(),
        };
        add_call(
            &mut lobby,
            Participation {
                refusal: Some(Arc::new(refusal)),
                ..part(1, named(3))
            },
            named(3),
        );
        let holds =
            [0, 1, 2].map(|rank| lobby.holds(&key(), GroupOperation::Construct, &proc(rank)));
        assert_eq!(holds, [true, true, false]);
    }
}
