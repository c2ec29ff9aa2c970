//! Tests of the order in which an event passes owners, with a model: all owners that see it.
use super::*;
use crate::chains::WholeChains;
use peal_core::{server::EventOrigin, user_scope::UserScope};
use peal_model::{Event, Proc, Range, Rank, Status, UserIdentity};
use proptest::{collection, prelude::*, sample::Index};
use std::collections::BTreeSet;
use tokio::sync::oneshot;
use tracing::Span;

/// Jobs with their users. The last one is not known to the server.
const JOBS: [(&str, u32); 5] = [("a", 1), ("b", 1), ("c", 2), ("d", 3), ("e", 3)];

fn nspace(job: usize) -> Nspace {
    Nspace::new(JOBS[job].0).unwrap()
}

fn owner(number: usize) -> Owner {
    match number {
        0 => Owner::Site,
        1..4 => Owner::User(u32::try_from(number).unwrap()),
        _ => Owner::Namespace(nspace(number - 4)),
    }
}

fn event(source: Option<usize>, range: Range, reach: UserScope) -> ChainEvent {
    let jobs = JOBS[..4].iter().map(|(name, uid)| {
        let identity = UserIdentity { uid: *uid, gid: 1 };
        (Nspace::new(name).unwrap(), identity)
    });
    ChainEvent {
        number: 1,
        event: Arc::new(Event {
            code: Status(-1),
            source: source.map(|job| Proc::new(nspace(job), Rank(0))),
            range,
            infos: Vec::new(),
        }),
        origin: EventOrigin::ThisServer,
        whole_chains: WholeChains::All,
        reach,
        allowance: EventBudget::new(100),
        source: None,
        jobs: Arc::new(jobs.collect()),
        termination_reply: None,
        awaited: None,
        span: Span::none(),
    }
}

fn in_flight(entered: ChainEvent) -> EventInFlight {
    EventInFlight {
        entered,
        measurement: None,
        bytes: 1,
        results: Vec::new(),
        join: None,
        charge: None,
    }
}

/// Lets an event pass owners whose chains end in an order that `choices` give. Returns the owners
/// in the order of their turns, and the whole event.
fn passed(
    entered: ChainEvent,
    owners: &BTreeSet<Owner>,
    choices: &[Index],
) -> (Vec<Owner>, EventInFlight) {
    let mut choices = choices.iter().cycle();
    let mut visits = Vec::new();
    let mut whole = None;
    // Branches that wait for an owner's chain.
    let mut waiting: Vec<(Owner, EventInFlight)> = Vec::new();
    let mut arrived = vec![(None::<Owner>, in_flight(entered))];
    loop {
        for (after, branch) in arrived.drain(..) {
            let next = branch.entered.next_owners(after.as_ref(), owners.iter());
            match next[..] {
                [] => {
                    if let Some(event) = branch.joined() {
                        assert!(whole.replace(event).is_none(), "the event ended twice");
                    }
                }
                [owner] => waiting.push((owner.clone(), branch)),
                _ => {
                    let branches = branch.split(&next);
                    assert_eq!(branches.len(), next.len());
                    waiting.extend(next.into_iter().cloned().zip(branches));
                }
            }
        }
        if waiting.is_empty() {
            return (visits, whole.unwrap());
        }
        let (owner, mut branch) = waiting.remove(choices.next().unwrap().index(waiting.len()));
        visits.push(owner.clone());
        let steps = Vec::new();
        branch.results.push(ChainResults {
            owner: owner.clone(),
            steps,
            calls: Vec::new(),
        });
        arrived.push((Some(owner), branch));
    }
}

fn user_of(owner: &Owner) -> Option<u32> {
    match owner {
        Owner::Site => None,
        Owner::User(uid) => Some(*uid),
        Owner::Namespace(nspace) => JOBS[..4]
            .iter()
            .find(|job| job.0 == nspace.as_str())
            .map(|job| job.1),
    }
}

proptest! {
    #[test]
    fn every_owner_that_sees_an_event_gets_it_once_in_order(
        numbers in collection::btree_set(0..9_usize, 0..9),
        source in prop::option::of(0..5_usize),
        range in prop::sample::select(vec![Range::Namespace, Range::Global]),
        reach in prop_oneof![Just(UserScope::Everybody), (1..4_u32).prop_map(UserScope::User)],
        choices in collection::vec(any::<Index>(), 1..20),
    ) {
        let owners: BTreeSet<Owner> = numbers.into_iter().map(owner).collect();
        let entered = event(source, range, reach);
        let jobs = JOBS[..4].iter().map(|(name, uid)| (Nspace::new(name).unwrap(), *uid));
        let jobs: Vec<(Nspace, u32)> = jobs.collect();
        let sees = |owner: &&Owner| {
            owner.sees(&entered.event, reach, jobs.iter().map(|(nspace, uid)| (nspace, *uid)))
        };
        let wanted: BTreeSet<Owner> = owners.iter().filter(sees).cloned().collect();
        let (visits, whole) = passed(event(source, range, reach), &owners, &choices);
        prop_assert_eq!(visits.len(), wanted.len(), "{:?}", visits);
        prop_assert_eq!(visits.iter().cloned().collect::<BTreeSet<_>>(), wanted.clone());
        let position = |owner: &Owner| visits.iter().position(|other| other == owner);
        if wanted.contains(&Owner::Site) {
            prop_assert_eq!(position(&Owner::Site), Some(0));
        }
        for owner in wanted.iter().filter(|owner| matches!(owner, Owner::Namespace(_))) {
            let user = user_of(owner).and_then(|uid| position(&Owner::User(uid)));
            prop_assert!(user.is_none_or(|user| Some(user) < position(owner)), "{:?}", visits);
        }
        let results: Vec<Owner> = whole.results.iter().map(|result| result.owner.clone()).collect();
        prop_assert_eq!(results, wanted.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn chain_of_one_user_does_not_wait_for_that_of_another() {
    let owners: BTreeSet<Owner> = (0..8).map(owner).collect();
    let entered = event(None, Range::Global, UserScope::Everybody);
    let next = entered.next_owners(Some(&Owner::Site), owners.iter());
    assert_eq!(next, [&owner(1), &owner(2), &owner(3)]);
    let next = entered.next_owners(Some(&owner(1)), owners.iter());
    assert_eq!(next, [&owner(4), &owner(5)], "the jobs of user 1");
}

#[test]
fn budget_is_divided_and_reply_goes_to_owner_of_affected_job() {
    let owners: Vec<Owner> = (1..4).map(owner).collect();
    let owners: Vec<&Owner> = owners.iter().collect();
    for (affected, wanted) in [(2, 1), (3, 2), (4, 0)] {
        let mut entered = event(None, Range::Global, UserScope::Everybody);
        let affected = Proc::new(nspace(affected), Rank(0));
        let info = peal_model::Info::new(
            peal_model::key::PMIX_EVENT_AFFECTED_PROC,
            peal_model::Value::Proc(affected),
        );
        entered.event = Arc::new(Event {
            infos: vec![info],
            ..(*entered.event).clone()
        });
        let (reply, _asked) = oneshot::channel();
        entered.termination_reply = Some(reply);
        let branches = in_flight(entered).split(&owners);
        let budgets: Vec<EventBudget> = branches
            .iter()
            .map(|branch| branch.entered.allowance)
            .collect();
        assert_eq!(budgets, [34, 33, 33].map(EventBudget::new));
        let decider = branches
            .iter()
            .position(|branch| branch.entered.termination_reply.is_some());
        assert_eq!(decider, Some(wanted));
    }
}

#[test]
fn user_of_source_is_that_of_its_process_or_module() {
    let mut entered = event(Some(2), Range::Global, UserScope::Everybody);
    assert_eq!(entered.user_of_source(), None, "a proc without a process");
    entered.source = Some(UserIdentity { uid: 9, gid: 9 });
    assert_eq!(entered.user_of_source(), Some(9));
    let owners = [Owner::User(7), Owner::Namespace(nspace(2)), Owner::Site];
    let users = owners.map(|owner| {
        let mut entered = event(None, Range::Global, UserScope::Everybody);
        entered.event = Arc::new(Event {
            source: owner.requester(),
            ..(*entered.event).clone()
        });
        entered.user_of_source()
    });
    assert_eq!(users, [Some(7), Some(2), None]);
}
