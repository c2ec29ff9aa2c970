//! Events over servers: what hosted handlers may raise in response, and events that got lost on the way.
use super::cluster::{Cluster, USER, seeds, status};
use peal_core::{
    group::ServerId,
    owner::Owner,
    registration::ChainPart,
    server::{
        EVENTS_MISSED, EventBudget, EventOrigin, InterServerMessage, MissedEvents, RaisingOwner,
        StateSettings,
    },
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Infos, Nspace, Proc, Range, Rank, Request, Status, Value, code, key,
};
use std::sync::Arc;

const CODE: Status = Status(-3001);

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

/// An event about a proc of the job.
fn infos() -> Vec<Info> {
    vec![Info::new(
        key::PMIX_EVENT_AFFECTED_PROC,
        Value::Proc(proc(0)),
    )]
}

fn notify() -> Request {
    Request::Notify {
        code: CODE,
        range: Range::Global,
        infos: infos(),
    }
}

fn register(cluster: &mut Cluster, proc: &Proc) {
    let request = Request::RegisterEvents {
        codes: vec![CODE],
        infos: Vec::new(),
    };
    let call = cluster.request(proc, request);
    assert_eq!(status(&cluster.calls[call].answers[0]), code::PMIX_SUCCESS);
}

#[test]
fn budget_does_not_shrink_with_servers_and_stays_at_each() {
    // More servers than the budget has events.
    let settings = StateSettings {
        allowance: EventBudget::new(8),
        ..StateSettings::default()
    };
    let mut cluster = Cluster::new(12, 1, &settings);
    cluster.add_job("job", &[(2, &[0]), (3, &[1])]);
    cluster.deliver_all();
    cluster.request(&proc(0), notify());
    cluster.deliver_all();
    assert_eq!(cluster.chained.len(), 12, "{:?}", cluster.chained);
    for (server, _, budget) in &cluster.chained {
        let is_origin = *server == ServerId(2);
        let expected = if is_origin {
            settings.allowance
        } else {
            settings.allowance.on_this_server()
        };
        assert_eq!(*budget, expected, "{server:?}");
    }
    let raised = |cluster: &mut Cluster, budget: EventBudget| {
        register(cluster, &proc(1));
        (cluster.sent, cluster.chained) = (0, Vec::new());
        cluster.heard.clear();
        let event = Event {
            code: CODE,
            source: None,
            range: Range::Global,
            infos: infos(),
        };
        cluster.step(ServerId(3), |server, _| {
            server.raise(event, RaisingOwner::Site, budget).unwrap()
        });
        assert_eq!(cluster.heard.len(), 1, "a proc of that server");
        (cluster.sent, cluster.chained.len())
    };
    let answer = settings.allowance.on_this_server();
    assert_eq!(raised(&mut cluster, answer), (0, 1));
    assert_eq!(raised(&mut cluster, settings.allowance), (11, 1));
}

#[test]
fn each_chain_runs_whole_at_one_server() {
    let mut cluster = Cluster::new(4, 1, &StateSettings::default());
    cluster.add_job("job", &[(2, &[0]), (3, &[1])]);
    cluster.deliver_all();
    let whole = |owner: &Owner, raised_at: u32| {
        let servers = cluster.servers.iter();
        let whole = servers.filter(|(id, server)| {
            let origin = match **id == ServerId(raised_at) {
                true => EventOrigin::ThisServer,
                false => EventOrigin::OtherServer(ServerId(raised_at)),
            };
            server.part_of_chain(owner, origin) == ChainPart::Whole
        });
        // The origin runs the chains that it has; that of a job or user is where procs are.
        let has = |id: u32| *owner == Owner::Site || [2, 3].contains(&id);
        let whole = whole.map(|(id, _)| id.0).filter(|id| has(*id));
        whole.collect::<Vec<u32>>()
    };
    let job = Owner::Namespace(Nspace::new("job").unwrap());
    for (raised_at, at_site, at_job) in [(1, 1, 2), (2, 2, 2), (3, 3, 3), (4, 4, 2)] {
        assert_eq!(whole(&Owner::Site, raised_at), [at_site]);
        assert_eq!(whole(&job, raised_at), [at_job]);
        assert_eq!(whole(&Owner::User(USER.uid), raised_at), [at_job]);
    }
}

#[test]
fn events_without_room_are_told_with_the_next_about_the_job() {
    let mut cluster = Cluster::new(3, 1, &StateSettings::default());
    cluster.add_job("job", &[(2, &[0]), (3, &[1])]);
    cluster.deliver_all();
    register(&mut cluster, &proc(1));
    let mut missed = MissedEvents::default();
    let event = |code| Event {
        code,
        source: Some(proc(0)),
        range: Range::Global,
        infos: infos(),
    };
    for _ in 0..3 {
        missed.count(&event(CODE), UserScope::User(USER.uid));
        missed.count(&event(CODE), UserScope::User(USER.uid + 1));
        missed.count(&event(Status(-3002)), UserScope::Everybody);
    }
    let mut told = |message: InterServerMessage| {
        cluster.step(ServerId(3), |server, now| {
            server.server_message(ServerId(2), message, now)
        });
        let heard = std::mem::take(&mut cluster.heard);
        let number = |(_, event): (Proc, Arc<Event>)| match event.infos.value_of(EVENTS_MISSED) {
            Some(Value::Uint64(number)) => *number,
            other => other.map_or(0, |other| panic!("{other:?}")),
        };
        heard.into_iter().map(number).collect::<Vec<u64>>()
    };
    assert!(told(InterServerMessage::Missed(missed)).is_empty());
    let next = || InterServerMessage::Event(Arc::new(event(CODE)), UserScope::User(USER.uid));
    assert_eq!(told(next()), [3], "those of its user and code");
    assert_eq!(told(next()), [0], "told once");
}

/// Asks for a fence of the group `crew` for each proc that has heard of it, once.
fn fence_those_who_heard(cluster: &mut Cluster, fenced: &mut Vec<usize>) {
    while let Some((heard, event)) = cluster.heard.get(fenced.len()) {
        assert_eq!(event.code, code::PMIX_GROUP_CONSTRUCT_COMPLETE);
        let heard = heard.clone();
        fenced.push(cluster.request(&heard, fence_of_crew()));
    }
}

fn fence_of_crew() -> Request {
    Request::Fence {
        procs: vec![Proc::all(Nspace::new("crew").unwrap())],
        infos: Vec::new(),
    }
}

/// Returns a cluster with a job of four procs at three servers. A fourth one coordinates groups.
fn over_three_servers(seed: u64) -> Cluster {
    let mut cluster = Cluster::new(4, seed, &StateSettings::default());
    cluster.add_job("job", &[(2, &[0, 1]), (3, &[2]), (4, &[3])]);
    cluster.pass(1_000);
    cluster
}

/// Returns the event by which the library of a leader announces the group `crew`.
fn announcement_of_crew(members: &[Proc]) -> Request {
    Request::Notify {
        code: code::PMIX_GROUP_CONSTRUCT_COMPLETE,
        range: Range::Custom,
        infos: vec![
            Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs(members.to_vec())),
            Info::new(key::PMIX_GROUP_ID, Value::string("crew")),
            Info::new(key::PMIX_GROUP_MEMBERSHIP, Value::procs(members.to_vec())),
        ],
    }
}

#[test]
fn members_hear_of_a_group_when_their_servers_know_it() {
    for seed in seeds(100) {
        let mut cluster = over_three_servers(seed);
        let members: Vec<Proc> = (0..4).map(proc).collect();
        for member in &members[1..] {
            let request = Request::RegisterEvents {
                codes: vec![code::PMIX_GROUP_CONSTRUCT_COMPLETE],
                infos: Vec::new(),
            };
            cluster.request(member, request);
        }
        let announced = cluster.request(&members[0], announcement_of_crew(&members));
        let told = cluster.calls[announced].status();
        assert_eq!(told, Some(code::PMIX_SUCCESS), "seed {seed}");
        let mut fenced = Vec::new();
        while fenced.len() < 3 {
            fence_those_who_heard(&mut cluster, &mut fenced);
            if !cluster.deliver() {
                cluster.pass(1);
            }
        }
        // None of them had to wait until a server lost its patience.
        assert!(cluster.now < 2_000, "seed {seed}: {}", cluster.now);
        fenced.push(cluster.request(&members[0], fence_of_crew()));
        cluster.pass(1_000);
        for call in fenced {
            let status = cluster.calls[call].status();
            assert_eq!(status, Some(code::PMIX_SUCCESS), "seed {seed}");
        }
        assert_eq!(cluster.heard.len(), 3, "seed {seed}: each hears of it once");
    }
}

/// The library of a leader does not wait for the decision of another server.
#[test]
fn leader_fences_by_the_name_that_it_has_just_announced() {
    for seed in seeds(100) {
        let mut cluster = over_three_servers(seed);
        let members: Vec<Proc> = (0..4).map(proc).collect();
        cluster.request(&members[0], announcement_of_crew(&members));
        let of_leader = cluster.request(&members[0], fence_of_crew());
        assert_eq!(cluster.calls[of_leader].status(), None, "seed {seed}");
        cluster.pass(1_000);
        for member in &members[1..] {
            cluster.request(member, fence_of_crew());
        }
        cluster.pass(1_000);
        let status = cluster.calls[of_leader].status();
        assert_eq!(status, Some(code::PMIX_SUCCESS), "seed {seed}");
    }
}
