//! Where calls of a server's own procs wait: first for each other, then for what is decided.
use super::{Contribution, Failure, GroupKey, Operation, Part, Role, What};
use crate::{Time, server::RequestId};
use peal_model::{NamedProcs, Proc};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// A call.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) to: RequestId,
    pub(super) part: Part,
    stage: Stage,
    /// How many calls of the party came before.
    before: u64,
}

/// How far a call is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It waits for others here.
    Here,
    /// The coordinator has it.
    Passed,
}

/// Calls that belong together.
#[derive(Debug, Default)]
struct Party {
    held: BTreeMap<Proc, Held>,
    /// How many calls have come.
    calls: u64,
    /// Who of this server is named and has not called, once somebody has named anybody.
    awaited: Option<BTreeSet<Proc>>,
    /// Whom the first who names anybody names.
    named: Option<NamedProcs>,
    /// They do not agree: they are told so, however many are missing.
    disagrees: bool,
    deadline: Option<Time>,
    /// Time is over: the coordinator gets what there is, and says so to all.
    expired: bool,
}

/// How something ended, for those who come late.
#[derive(Debug)]
struct Late {
    until: Time,
    failure: Failure,
    whom: Latecomers,
}

/// Who comes late, each of them once.
#[derive(Debug)]
pub(super) struct Latecomers {
    /// Who is meant.
    pub(super) whom: Whom,
    /// Who has had an answer.
    pub(super) answered: BTreeSet<Proc>,
}

/// Who is meant by something that has come to nothing.
#[derive(Debug)]
pub(super) enum Whom {
    /// Of those who name who leads: whoever was awaited, or anybody where nobody could know. Of the others: everybody.
    Awaited(Option<BTreeSet<Proc>>),
    /// Those whom it concerns that somebody may not take part.
    Concerned(What),
}

impl Latecomers {
    fn takes(&mut self, operation: Operation, part: &Part) -> bool {
        let names = operation == Operation::Destruct || part.names().is_some();
        match &mut self.whom {
            Whom::Awaited(Some(awaited)) if names => awaited.remove(&part.proc),
            Whom::Concerned(what) if !what.answers(part) => false,
            _ => self.answered.insert(part.proc.clone()),
        }
    }
}

impl Party {
    fn hold(&mut self, to: RequestId, part: Part) {
        self.held.insert(part.proc.clone(), Held { to, part, stage: Stage::Here, before: self.calls });
        self.calls += 1;
    }
}

/// All calls that are not answered, and how the last ended.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    parties: BTreeMap<(GroupKey, Operation), Party>,
    late: BTreeMap<(GroupKey, Operation), Vec<Late>>,
}

impl Lobby {
    /// A call is made. The first that waits for others says for whom of this server.
    pub(super) fn enter(
        &mut self,
        key: GroupKey,
        to: RequestId,
        mut part: Part,
        deadline: Time,
        awaited: impl FnOnce(&Part) -> BTreeSet<Proc>,
    ) {
        let party = self.parties.entry((key, Operation::of(part.construct.as_deref()))).or_default();
        if part.refusal.is_some() {
            // What it wants is nothing to the others.
            party.hold(to, part);
            return;
        }
        party.deadline = party.deadline.into_iter().chain([deadline]).min();
        if part.waits_for_others() {
            party.awaited.get_or_insert_with(|| awaited(&part));
        }
        if let Some(construct) = &mut part.construct
            && let Role::Leader(named) = &construct.role
        {
            match &party.named {
                // Kept once, so that whoever compares them sees at a glance that they are the same.
                Some(first) if first == named => Arc::make_mut(construct).role = Role::Leader(first.clone()),
                Some(_) => party.disagrees = true,
                None => party.named = Some(named.clone()),
            }
        }
        if let Some(awaited) = &mut party.awaited {
            awaited.remove(&part.proc);
        }
        party.hold(to, part);
    }

    /// Whether a proc waits for this.
    pub(super) fn holds(&self, key: &GroupKey, operation: Operation, proc: &Proc) -> bool {
        self.parties.get(&(key.clone(), operation)).is_some_and(|party| party.held.contains_key(proc))
    }

    /// Whether somebody who waits for the same names the same.
    pub(super) fn is_named(&self, key: &GroupKey, named: &NamedProcs) -> bool {
        let party = self.parties.get(&(key.clone(), Operation::Construct));
        party.and_then(|party| party.named.as_ref()).is_some_and(|first| first == named)
    }

    /// A proc has ended and waits for nothing.
    pub(super) fn leave(&mut self, proc: &Proc) {
        for party in self.parties.values_mut() {
            party.held.remove(proc);
            if let Some(awaited) = &mut party.awaited {
                awaited.remove(proc);
            }
        }
        self.parties.retain(|_, party| !party.held.is_empty());
    }

    /// A proc is in a group no more: nobody waits for it to call for its end.
    pub(super) fn left(&mut self, key: &GroupKey, proc: &Proc) {
        let party = self.parties.get_mut(&(key.clone(), Operation::Destruct));
        party.and_then(|party| party.awaited.as_mut()).map(|awaited| awaited.remove(proc));
    }

    /// What is to go to the coordinator: that of procs who wait for nobody here, or have waited long enough.
    pub(super) fn ready(&mut self) -> Vec<Contribution> {
        let mut ready = Vec::new();
        for ((key, _), party) in &mut self.parties {
            let is_awaited = party.awaited.as_ref().is_some_and(|awaited| !awaited.is_empty());
            let whole = party.expired || party.disagrees || !is_awaited;
            let deadline = party.deadline;
            let parts: Vec<Part> = party
                .held
                .values_mut()
                .filter(|held| held.stage == Stage::Here && (whole || !held.part.waits_for_others()))
                .map(|held| {
                    held.stage = Stage::Passed;
                    held.part.clone()
                })
                .collect();
            if !parts.is_empty() {
                ready.push(Contribution { key: key.clone(), parts, deadline, left: None });
            }
        }
        ready
    }

    /// What the coordinator had, for the next one.
    pub(super) fn open(&self) -> Vec<Contribution> {
        let of = |((key, _), party): (&(GroupKey, Operation), &Party)| {
            let passed = party.held.values().filter(|held| held.stage == Stage::Passed);
            let parts: Vec<Part> = passed.map(|held| held.part.clone()).collect();
            let contribution = Contribution { key: key.clone(), parts, deadline: party.deadline, left: None };
            (!contribution.parts.is_empty()).then_some(contribution)
        };
        self.parties.iter().filter_map(of).collect()
    }

    /// Calls that something answers which was decided after they were made. The last that came, for which all others
    /// waited, is let go first, and so has a start of them where they meet again.
    pub(super) fn answered(
        &mut self,
        key: &GroupKey,
        operation: Operation,
        is_meant: impl Fn(&Part) -> bool,
    ) -> Vec<(RequestId, Part)> {
        let at = (key.clone(), operation);
        let Some(party) = self.parties.get_mut(&at) else { return Vec::new() };
        let answered = party.held.extract_if(.., |_, held| is_meant(&held.part));
        let mut answered: Vec<Held> = answered.map(|(_, held)| held).collect();
        if party.held.is_empty() {
            self.parties.remove(&at);
        }
        answered.sort_unstable_by_key(|held| Reverse(held.before));
        answered.into_iter().map(|held| (held.to, held.part)).collect()
    }

    /// Whoever is left of those who waited for something wants something else, and waits for nobody here.
    pub(super) fn disband(&mut self, key: &GroupKey, operation: Operation) {
        if let Some(party) = self.parties.get_mut(&(key.clone(), operation)) {
            party.disagrees = true;
        }
    }

    /// Time has passed. Those whose time is over here wait no longer for each other.
    pub(super) fn expire(&mut self, now: Time) {
        for party in self.parties.values_mut().filter(|party| party.deadline.is_some_and(|at| at <= now)) {
            party.expired = true;
        }
    }

    /// When the next one's is.
    pub(super) fn deadline(&self) -> Option<Time> {
        let waiting = self.parties.values().filter(|party| !party.expired).filter_map(|party| party.deadline);
        waiting.chain(self.late.values().flatten().map(|late| late.until)).min()
    }

    /// Something came to nothing: those who come late learn that.
    pub(super) fn remember(
        &mut self,
        key: &GroupKey,
        operation: Operation,
        failure: Failure,
        whom: Latecomers,
        until: Time,
    ) {
        let late = self.late.entry((key.clone(), operation)).or_default();
        if matches!(whom.whom, Whom::Awaited(_)) {
            late.retain(|late| matches!(late.whom.whom, Whom::Concerned(_)));
        }
        late.push(Late { until, failure, whom });
    }

    /// It is there or gone after all.
    pub(super) fn nobody_is_late(&mut self, key: &GroupKey, operation: Operation) {
        self.late.remove(&(key.clone(), operation));
    }

    /// Tells whoever comes late, once.
    pub(super) fn reject_late(
        &mut self,
        key: &GroupKey,
        operation: Operation,
        part: &Part,
        now: Time,
    ) -> Result<(), Failure> {
        let Some(late) = self.late.get_mut(&(key.clone(), operation)) else { return Ok(()) };
        match late.iter_mut().find_map(|late| (late.until > now && late.whom.takes(operation, part)).then_some(late)) {
            Some(late) => Err(late.failure.clone()),
            None => Ok(()),
        }
    }

    /// Whoever comes now does not come late, but anew.
    pub(super) fn forget(&mut self, now: Time) {
        self.late.retain(|_, late| {
            late.retain(|late| late.until > now);
            !late.is_empty()
        });
    }

    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.parties.is_empty() && self.late.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        group::{Construct, GroupName, Instance},
        server::PeerId,
    };
    use peal_model::{Nspace, Rank};

    #[test]
    fn the_last_that_came_is_let_go_first() {
        let key = GroupKey { uid: 1, name: GroupName::Called("group".into()) };
        let proc = |rank: u32| Proc::new(Nspace::new("job").unwrap(), Rank(rank));
        let named: NamedProcs = (0..3).map(proc).collect();
        let mut lobby = Lobby::default();
        for rank in [1, 0, 2] {
            let construct = Some(Arc::new(Construct::of(Role::Leader(named.clone()))));
            let part = Part { proc: proc(rank), after: Instance::default(), construct, refusal: None };
            let to = RequestId { peer: PeerId(u64::from(rank)), tag: 101 };
            lobby.enter(key.clone(), to, part, Time(0), |_| named.iter().cloned().collect());
        }
        let answered = lobby.answered(&key, Operation::Construct, |_| true);
        let order: Vec<u64> = answered.iter().map(|(to, _)| to.peer.0).collect();
        assert_eq!(order, [2, 0, 1]);
        assert!(lobby.is_empty());
    }
}
