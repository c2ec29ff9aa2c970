//! Registrations with the host environment on behalf of clients, and their acknowledgement to the
//! clients.
use super::*;
use crate::server::HostRegistrationId;
use proptest::prelude::*;
use std::collections::BTreeSet;

const JOB_ONLY: (KeyName, bool) = (key::PMIX_EVENT_JOB_LEVEL, true);
const ENVIRONMENT: (KeyName, bool) = (key::PMIX_EVENT_ENVIRO_LEVEL, true);

/// A server whose host environment answers when the test decides.
struct Proxy {
    stage: Stage,
    asked: Vec<(HostRegistrationId, Vec<Status>)>,
    given_back: Vec<Vec<Status>>,
    told: Vec<(RequestId, Status)>,
}

impl Proxy {
    fn of(size: u32) -> Proxy {
        Proxy {
            stage: Stage::of(size),
            asked: Vec::new(),
            given_back: Vec::new(),
            told: Vec::new(),
        }
    }

    fn take(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Upcall(Upcall::RegisterEvents { id, codes }) => {
                    self.asked.push((id, codes))
                }
                Action::Upcall(Upcall::DeregisterEvents(codes)) => self.given_back.push(codes),
                Action::Reply { to, reply } => self.told.push((to, reply.status())),
                _ => {}
            }
        }
    }

    fn ask(&mut self, rank: usize, request: Request) -> RequestId {
        self.stage.tag += 1;
        let to = RequestId {
            peer: self.stage.peers[rank],
            tag: self.stage.tag,
        };
        let actions = self.stage.server.request(to, request, MonotonicTime(0));
        self.take(actions);
        to
    }

    fn register(&mut self, rank: usize, codes: &[i32], levels: &[(KeyName, bool)]) -> RequestId {
        let infos = levels
            .iter()
            .map(|(key, truth)| Info::new(*key, Value::Bool(*truth)))
            .collect();
        self.ask(
            rank,
            Request::RegisterEvents {
                codes: statuses_of(codes),
                infos,
            },
        )
    }

    fn deregister(&mut self, rank: usize, codes: &[i32]) {
        self.ask(
            rank,
            Request::DeregisterEvents {
                codes: statuses_of(codes),
            },
        );
    }

    fn answer(&mut self, id: HostRegistrationId, answer: Result<(), Status>) {
        let actions = self.stage.server.host_registered(id, answer);
        self.take(actions);
    }

    /// Returns the codes (none: every code) for which any client is registered for environment
    /// events.
    fn wanted(&self) -> Vec<Vec<i32>> {
        let is_wanted = |code: &i32| {
            let mut peers = self.stage.server.events.interests();
            peers.any(|interests| interests.has_environment_code(Status(*code)))
        };
        let codes = [-3, -2, -1, Status::DEFAULT_HANDLER.0]
            .into_iter()
            .filter(is_wanted);
        codes
            .map(|code| {
                if code == Status::DEFAULT_HANDLER.0 {
                    vec![]
                } else {
                    vec![code]
                }
            })
            .collect()
    }

    fn disconnect(&mut self, rank: usize) {
        let actions = self
            .stage
            .server
            .disconnected(self.stage.peers[rank], MonotonicTime(0));
        self.take(actions);
    }
}

fn statuses_of(codes: &[i32]) -> Vec<Status> {
    codes.iter().map(|code| Status(*code)).collect()
}

#[test]
fn host_registers_each_code_once_until_last_deregistration() {
    let mut proxy = Proxy::of(3);
    let first = proxy.register(0, &[-1, -2], &[]);
    let second = proxy.register(1, &[-2, -3], &[ENVIRONMENT]);
    let third = proxy.register(2, &[-2], &[]);
    let job_only = proxy.register(2, &[-9], &[JOB_ONLY]);
    let codes: Vec<_> = proxy.asked.iter().map(|(_, codes)| codes.clone()).collect();
    assert_eq!(
        codes,
        [statuses_of(&[-1, -2]), statuses_of(&[-3])],
        "each is asked for once"
    );
    assert_eq!(
        proxy.told,
        [(job_only, code::PMIX_SUCCESS)],
        "the others wait for the host"
    );
    let ids: Vec<HostRegistrationId> = proxy.asked.iter().map(|(id, _)| *id).collect();
    proxy.answer(ids[0], Ok(()));
    assert_eq!(
        proxy.told[1..],
        [(first, code::PMIX_SUCCESS), (third, code::PMIX_SUCCESS)]
    );
    proxy.answer(ids[1], Ok(()));
    assert_eq!(proxy.told[3..], [(second, code::PMIX_SUCCESS)]);
    let again = proxy.register(0, &[-3], &[]);
    assert_eq!(
        (proxy.asked.len(), proxy.told[4]),
        (2, (again, code::PMIX_SUCCESS)),
        "it knows already"
    );
    proxy.deregister(0, &[-1, -2]);
    assert_eq!(proxy.given_back, [statuses_of(&[-1])]);
    proxy.disconnect(1);
    assert_eq!(proxy.given_back.len(), 1, "others want those still");
    proxy.ask(2, Request::Finalize);
    assert_eq!(proxy.given_back[1..], [statuses_of(&[-2])]);
    proxy.disconnect(0);
    assert_eq!(proxy.given_back[2..], [statuses_of(&[-3])]);
}

#[test]
fn standing_registration_for_all_codes_covers_a_single_one() {
    let mut proxy = Proxy::of(2);
    proxy.register(0, &[], &[]);
    assert_eq!(proxy.asked[0].1, []);
    proxy.answer(proxy.asked[0].0, Ok(()));
    let single = proxy.register(1, &[-1], &[]);
    assert_eq!(
        (proxy.asked.len(), proxy.told[1]),
        (1, (single, code::PMIX_SUCCESS)),
        "the host is not asked again"
    );
    proxy.register(1, &[-2], &[]);
    proxy.deregister(1, &[-2]);
    assert!(
        proxy.given_back.is_empty(),
        "the host was not asked for that"
    );
    proxy.deregister(0, &[Status::DEFAULT_HANDLER.0]);
    assert_eq!(
        (&proxy.asked[1].1, &proxy.given_back[..]),
        (&statuses_of(&[-1]), &[vec![]][..])
    );
    proxy.answer(proxy.asked[1].0, Ok(()));
    proxy.disconnect(1);
    assert_eq!(proxy.given_back[1..], [statuses_of(&[-1])]);
}

#[test]
fn refusing_host_gives_reason_and_eventless_host_is_skipped() {
    let mut proxy = Proxy::of(2);
    let first = proxy.register(0, &[-1], &[]);
    proxy.answer(proxy.asked[0].0, Err(code::PMIX_ERR_NO_PERMISSIONS));
    assert_eq!(proxy.told, [(first, code::PMIX_ERR_NO_PERMISSIONS)]);
    assert!(heard(&mut proxy.stage).is_empty());
    let second = proxy.register(0, &[-1], &[]);
    assert_eq!(proxy.asked.len(), 2, "it is asked again");
    proxy.answer(proxy.asked[1].0, Err(code::PMIX_ERR_NOT_SUPPORTED));
    assert_eq!(proxy.told[1..], [(second, code::PMIX_SUCCESS)]);
    assert_eq!(heard(&mut proxy.stage), [0]);
}

#[test]
fn a_refusal_takes_nothing_away_that_was_granted_before() {
    let mut proxy = Proxy::of(2);
    proxy.register(0, &[-1], &[]);
    proxy.answer(proxy.asked[0].0, Ok(()));
    let second = proxy.register(0, &[-1, -2], &[]);
    assert_eq!(proxy.asked[1].1, statuses_of(&[-2]));
    proxy.answer(proxy.asked[1].0, Err(code::PMIX_ERR_NO_PERMISSIONS));
    assert_eq!(proxy.told[1], (second, code::PMIX_ERR_NO_PERMISSIONS));
    assert!(proxy.given_back.is_empty(), "{:?}", proxy.given_back);
    assert_eq!(heard(&mut proxy.stage), [0]);
    proxy.disconnect(0);
    assert_eq!(proxy.given_back, [statuses_of(&[-1])]);
}

#[test]
fn registration_withdrawn_before_grant_is_not_granted() {
    let mut proxy = Proxy::of(2);
    let both = proxy.register(0, &[-1, -2], &[]);
    let one = proxy.register(0, &[-1], &[]);
    proxy.deregister(0, &[-1]);
    assert_eq!(
        proxy.told,
        [(one, code::PMIX_SUCCESS)],
        "there is nothing left of it"
    );
    proxy.answer(proxy.asked[0].0, Ok(()));
    assert_eq!(proxy.told[1..], [(both, code::PMIX_SUCCESS)]);
    assert!(heard(&mut proxy.stage).is_empty());
    assert_eq!(proxy.given_back, [statuses_of(&[-1])]);
}

/// Returns the ranks that receive an environment event of rank 1.
fn heard(stage: &mut Stage) -> Vec<usize> {
    let actions = stage.notify(1, -1, Range::Local, Vec::new());
    hearers(stage, &actions)
}

#[test]
fn nothing_comes_before_the_acknowledgement() {
    let mut proxy = Proxy::of(2);
    heard(&mut proxy.stage);
    let to = proxy.register(0, &[-1], &[]);
    assert!(heard(&mut proxy.stage).is_empty());
    let actions = proxy.stage.server.host_registered(proxy.asked[0].0, Ok(()));
    assert!(
        matches!(&actions[0], Action::Reply { to: told, .. } if *told == to),
        "{actions:?}"
    );
    assert_eq!(hearers(&proxy.stage, &actions), [0, 0], "both were kept");
}

#[test]
fn departed_peer_gets_nothing_and_has_no_demand() {
    let mut proxy = Proxy::of(1);
    proxy.register(0, &[-1], &[]);
    proxy.disconnect(0);
    assert_eq!(
        proxy.given_back,
        Vec::<Vec<Status>>::new(),
        "the host has not answered yet"
    );
    proxy.answer(proxy.asked[0].0, Ok(()));
    assert_eq!(
        (proxy.given_back, proxy.told),
        (vec![statuses_of(&[-1])], vec![])
    );
}

#[test]
fn registered_host_receives_events_for_it() {
    let mut stage = Stage::of(1);
    let peer = stage.peers[0];
    let told = |actions: &[Action]| {
        actions
            .iter()
            .any(|action| matches!(action, Action::Upcall(Upcall::Notify { .. })))
    };
    let unheard = stage.notify(0, -1, Range::Rm, Vec::new());
    assert!(
        !told(&unheard) && status(&unheard) == code::PMIX_ERR_NOT_SUPPORTED,
        "{unheard:?}"
    );
    assert!(!told(
        &stage.server.violated(peer, code::PMIX_ERR_UNPACK_FAILURE)
    ));
    stage.server.host_registers(&[Status(-1)]);
    assert!(told(&stage.notify(0, -1, Range::Rm, Vec::new())));
    assert!(!told(&stage.notify(0, -2, Range::Rm, Vec::new())));
    assert!(!told(
        &stage.server.violated(peer, code::PMIX_ERR_UNPACK_FAILURE)
    ));
    stage.server.host_registers(&[]);
    let actions = stage.server.violated(peer, code::PMIX_ERR_UNPACK_FAILURE);
    let [Action::Upcall(Upcall::Notify { event, .. })] = &actions[..] else {
        panic!("{actions:?}")
    };
    assert_eq!(
        (event.code, event.range, &event.source),
        (code::PMIX_ERR_UNPACK_FAILURE, Range::Rm, &None)
    );
    assert!(
        event.custom_targets().is_none() && event.affected().is_empty(),
        "it has no targets"
    );
    stage
        .server
        .host_deregisters(&[Status(-1), Status::DEFAULT_HANDLER]);
    assert!(!told(&stage.notify(0, -1, Range::Rm, Vec::new())));
}

#[derive(Clone, Debug)]
enum Op {
    Register(usize, Vec<i32>, Vec<(KeyName, bool)>),
    Deregister(usize, i32),
    Disconnect(usize),
    Answer(usize, bool),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let codes = prop::collection::vec(-3..0_i32, 0..3);
    let levels = prop_oneof![Just(vec![]), Just(vec![JOB_ONLY]), Just(vec![ENVIRONMENT])];
    let code = prop_oneof![-3..0_i32, Just(Status::DEFAULT_HANDLER.0)];
    prop::collection::vec(
        prop_oneof![
            4 => (0..3_usize, codes, levels).prop_map(|(rank, codes, levels)| Op::Register(rank, codes, levels)),
            2 => (0..3_usize, code).prop_map(|(rank, code)| Op::Deregister(rank, code)),
            1 => (0..3_usize).prop_map(Op::Disconnect),
            4 => (any::<prop::sample::Index>(), prop::bool::weighted(0.8))
                .prop_map(|(at, granted)| Op::Answer(at.index(16), granted)),
        ],
        0..40,
    )
}

proptest! {
    /// After any steps, the registrations with the host environment are those that some client has
    /// or waits for. Each is requested once at a time, no request is answered twice, and none is
    /// forgotten.
    #[test]
    fn host_receives_codes_registered_by_clients(ops in ops()) {
        let mut proxy = Proxy::of(3);
        let mut connected = [true; 3];
        let mut open: BTreeSet<RequestId> = BTreeSet::new();
        let mut answered = 0;
        let mut held: BTreeSet<Vec<i32>> = BTreeSet::new();
        let mut ever_refused: BTreeSet<Vec<i32>> = BTreeSet::new();
        for op in ops {
            let asked = proxy.asked.len();
            let given_back = proxy.given_back.len();
            let told = proxy.told.len();
            let mut refused: Option<Vec<Status>> = None;
            match op {
                Op::Register(rank, codes, levels) if connected[rank] => {
                    open.insert(proxy.register(rank, &codes, &levels));
                }
                Op::Deregister(rank, code) if connected[rank] => proxy.deregister(rank, &[code]),
                Op::Disconnect(rank) if connected[rank] => {
                    connected[rank] = false;
                    open.retain(|to| to.peer != proxy.stage.peers[rank]);
                    proxy.disconnect(rank);
                }
                Op::Answer(at, granted) if answered < proxy.asked.len() => {
                    // In any order.
                    let at = answered + at % (proxy.asked.len() - answered);
                    proxy.asked.swap(answered, at);
                    let (id, codes) = proxy.asked[answered].clone();
                    answered += 1;
                    proxy.answer(id, if granted { Ok(()) } else { Err(code::PMIX_ERR_NO_PERMISSIONS) });
                    refused = (!granted).then_some(codes);
                }
                _ => {}
            }
            let single = |codes: &[Status]| -> Vec<Vec<i32>> {
                if codes.is_empty() { vec![vec![]] } else { codes.iter().map(|code| vec![code.0]).collect() }
            };
            for codes in refused.iter().flat_map(|codes| single(codes)) {
                prop_assert!(held.remove(&codes));
                ever_refused.insert(codes);
            }
            for codes in proxy.asked[asked..].iter().flat_map(|(_, codes)| single(codes)) {
                prop_assert!(held.insert(codes), "asked for twice");
            }
            for codes in proxy.given_back[given_back..].iter().flat_map(|codes| single(codes)) {
                prop_assert!(held.remove(&codes), "given back what was not held");
            }
            for (to, _) in &proxy.told[told..] {
                prop_assert!(open.remove(to), "answered twice, or though gone");
            }
            let is_asked_for =
                |want: &Vec<i32>| held.contains(want) || held.contains(&vec![]) || ever_refused.contains(want);
            prop_assert!(proxy.wanted().iter().all(is_asked_for), "{:?} of {held:?}", proxy.wanted());
        }
        while answered < proxy.asked.len() {
            proxy.answer(proxy.asked[answered].0, Ok(()));
            answered += 1;
        }
        open.retain(|to| !proxy.told.iter().any(|(told, _)| told == to));
        prop_assert!(open.is_empty(), "never answered: {open:?}");
        (0..3).filter(|rank| connected[*rank]).for_each(|rank| proxy.disconnect(rank));
        // Codes that a registration for all had covered are asked for when that goes.
        while answered < proxy.asked.len() {
            proxy.answer(proxy.asked[answered].0, Ok(()));
            answered += 1;
        }
        prop_assert!(proxy.stage.server.events.has_no_demand(), "{:?}", proxy.stage.server.events);
    }
}
