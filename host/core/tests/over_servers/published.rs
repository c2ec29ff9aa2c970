//! Published data of several servers: where they are, who finds them, and what becomes of them when servers leave.
use super::cluster::{Cluster, USER, status};
use peal_core::{
    group::ServerId,
    published::{
        DataRequester, ItemNumber, Publication, PublicationItem, PublicationScope, PublishLimit,
        PublishLimits, PublishedDataMessage, PublishedLookup,
    },
    quota::QuotaReport,
    server::{Action, InterServerMessage, MessageRefusal, ServerState, StateSettings},
};
use peal_model::{
    Info, Key, KeyName, Nspace, Pdata, Persistence, Proc, Range, Rank, Reply, Request, Status,
    Text, Value, code, key,
};
use std::collections::BTreeSet;

pub const KEYS: [KeyName; 3] = [KeyName("test.a"), KeyName("test.b"), KeyName("test.c")];

pub fn proc(job: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(job).unwrap(), Rank(rank))
}

/// Returns the infos of a range. The custom one has the procs of odd rank.
pub fn infos(range: Range) -> Vec<Info> {
    let late = (1..50).map(|number| format!("late{number}"));
    let jobs = ["one", "two"].map(str::to_owned).into_iter().chain(late);
    let odd = |job: String| [1, 3, 5].map(|rank| proc(&job, rank));
    vec![
        Info::new(key::PMIX_RANGE, Value::Range(range)),
        Info::new(
            key::PMIX_EVENT_CUSTOM_RANGE,
            Value::procs(jobs.flat_map(odd)),
        ),
    ]
}

pub fn publish(data: &[(usize, u32)], range: Range, persistence: Persistence) -> Request {
    let mut infos = infos(range);
    infos.push(Info::new(
        key::PMIX_PERSISTENCE,
        Value::Persistence(persistence),
    ));
    let data = data.iter();
    infos.extend(data.map(|(key, value)| Info::new(KEYS[*key], Value::Uint32(*value))));
    Request::Publish {
        uid: USER.uid,
        infos,
    }
}

pub fn key_texts(keys: &[usize]) -> Vec<Text> {
    keys.iter().map(|key| KEYS[*key].0.into()).collect()
}

/// Returns a lookup that waits for some keys (zero: for all) up to 1000 seconds.
pub fn look_up(keys: &[usize], range: Range, wait: Option<usize>) -> Request {
    let mut infos = infos(range);
    if let Some(wait) = wait {
        let wait = Value::Int(i32::try_from(wait).unwrap());
        infos.push(Info::new(key::PMIX_WAIT, wait));
        infos.push(Info::new(key::PMIX_TIMEOUT, Value::Int(1_000)));
    }
    Request::Lookup {
        uid: USER.uid,
        keys: key_texts(keys).into_iter().map(Some).collect(),
        infos,
    }
}

pub fn unpublish(keys: &[Text]) -> Request {
    Request::Unpublish {
        uid: USER.uid,
        keys: keys.iter().cloned().map(Some).collect(),
        infos: Vec::new(),
    }
}

pub fn status_of(cluster: &Cluster, call: usize) -> Option<Status> {
    cluster.calls[call].status()
}

/// Returns the values that an answered lookup has found.
pub fn found(cluster: &Cluster, call: usize) -> Vec<u32> {
    match &cluster.calls[call].answers[..] {
        [Reply::Published { data, .. }] => {
            let values = data.iter().map(|data| data.value.as_u64().unwrap());
            values.map(|value| u32::try_from(value).unwrap()).collect()
        }
        _ => Vec::new(),
    }
}

/// Three servers with two procs of a job each. The first server is the holder.
fn cluster_with(settings: &StateSettings) -> Cluster {
    let mut cluster = Cluster::new(3, 1, settings);
    cluster.add_job("one", &[(1, &[0, 1]), (2, &[2, 3]), (3, &[4, 5])]);
    cluster.deliver_all();
    cluster
}

fn cluster() -> Cluster {
    cluster_with(&StateSettings::default())
}

/// Makes a request of a rank of the job, and returns the number of the call when all is delivered.
fn ask(cluster: &mut Cluster, rank: u32, request: Request) -> usize {
    let call = cluster.request(&proc("one", rank), request);
    cluster.deliver_all();
    call
}

fn ok(cluster: &mut Cluster, rank: u32, request: Request) {
    let call = ask(cluster, rank, request);
    assert_eq!(status_of(cluster, call), Some(code::PMIX_SUCCESS));
}

fn find(cluster: &mut Cluster, rank: u32, keys: &[usize]) -> Vec<u32> {
    let call = ask(cluster, rank, look_up(keys, Range::Session, None));
    assert!(status_of(cluster, call).is_some(), "not answered");
    found(cluster, call)
}

fn session(data: &[(usize, u32)]) -> Request {
    publish(data, Range::Session, Persistence::Session)
}

#[test]
fn data_are_found_at_all_servers_but_in_local_ranges() {
    let mut cluster = cluster();
    ok(&mut cluster, 2, session(&[(0, 1)]));
    ok(
        &mut cluster,
        2,
        publish(&[(1, 2)], Range::Local, Persistence::App),
    );
    for (rank, expected) in [(0, &[1][..]), (3, &[1, 2]), (4, &[1])] {
        assert_eq!(find(&mut cluster, rank, &[0, 1]), expected, "rank {rank}");
    }
    // A lookup of the local range finds what procs of its server have published in any range.
    for (rank, expected) in [(0, &[][..]), (3, &[1, 2]), (4, &[])] {
        let call = ask(&mut cluster, rank, look_up(&[0, 1], Range::Local, None));
        assert_eq!(found(&cluster, call), expected, "rank {rank}");
    }
    let call = ask(&mut cluster, 5, session(&[(0, 3)]));
    let duplicate = Some(code::PMIX_ERR_DUPLICATE_KEY);
    assert_eq!(status_of(&cluster, call), duplicate);
    assert_eq!(find(&mut cluster, 5, &[0]), [1]);
    ok(&mut cluster, 2, unpublish(&[]));
    assert_eq!(find(&mut cluster, 5, &[0]), []);
    // A refused publication has left nothing behind.
    ok(&mut cluster, 5, session(&[(0, 4)]));
    assert_eq!(find(&mut cluster, 2, &[0]), [4]);
}

#[test]
fn lookup_waits_for_data_of_its_server_and_of_others() {
    let mut cluster = cluster();
    let both = ask(&mut cluster, 4, look_up(&[0, 1], Range::Session, Some(0)));
    let one = ask(&mut cluster, 4, look_up(&[0, 1], Range::Session, Some(1)));
    ok(
        &mut cluster,
        5,
        publish(&[(0, 1)], Range::Local, Persistence::App),
    );
    assert_eq!(found(&cluster, one), [1]);
    assert_eq!(status_of(&cluster, both), None);
    ok(&mut cluster, 2, session(&[(1, 2)]));
    assert_eq!(found(&cluster, both), [1, 2], "in the order of the keys");
}

#[test]
fn withdrawn_local_data_are_sought_again() {
    let mut cluster = cluster();
    ok(
        &mut cluster,
        5,
        publish(&[(0, 1)], Range::Local, Persistence::App),
    );
    let both = ask(&mut cluster, 4, look_up(&[0, 1], Range::Session, Some(0)));
    ok(&mut cluster, 5, unpublish(&[]));
    ok(&mut cluster, 2, session(&[(1, 2)]));
    assert_eq!(status_of(&cluster, both), None);
    ok(&mut cluster, 0, session(&[(0, 3)]));
    assert_eq!(found(&cluster, both), [3, 2]);
}

#[test]
fn data_for_the_first_read_are_read_once() {
    let mut cluster = cluster();
    let once = publish(&[(0, 1)], Range::Session, Persistence::FirstRead);
    ok(&mut cluster, 2, once);
    assert_eq!(find(&mut cluster, 4, &[0]), [1]);
    for rank in [0, 2, 4] {
        assert_eq!(find(&mut cluster, rank, &[0]), [], "rank {rank}");
    }
    // The copy at the publisher's server is gone as well: it does not return with the next holder.
    cluster.server_dies(ServerId(1));
    cluster.deliver_all();
    assert_eq!(find(&mut cluster, 4, &[0]), []);
}

#[test]
fn lookup_that_is_over_takes_nothing() {
    let mut cluster = cluster();
    let wait = || look_up(&[0], Range::Session, Some(0));
    let over = ask(&mut cluster, 4, wait());
    cluster.pass(1_000_000);
    assert_eq!(status_of(&cluster, over), Some(code::PMIX_ERR_TIMEOUT));
    ask(&mut cluster, 5, wait());
    cluster.die(&proc("one", 5));
    cluster.deliver_all();
    let once = publish(&[(0, 1)], Range::Session, Persistence::FirstRead);
    ok(&mut cluster, 2, once);
    assert_eq!(find(&mut cluster, 3, &[0]), [1]);
}

#[test]
fn ends_of_procs_and_jobs_are_told_to_the_holder() {
    let mut cluster = cluster();
    let of = |key, persistence| publish(&[(key, 1)], Range::Session, persistence);
    ok(&mut cluster, 2, of(0, Persistence::Proc));
    ok(&mut cluster, 3, of(1, Persistence::App));
    ok(&mut cluster, 3, of(2, Persistence::Session));
    cluster.die(&proc("one", 2));
    cluster.deliver_all();
    assert_eq!(find(&mut cluster, 4, &[0, 1, 2]), [1, 1]);
    let nspace = Nspace::new("one").unwrap();
    cluster.add_job("two", &[(2, &[0])]);
    cluster.step(ServerId(2), |server, _| server.remove_job(&nspace));
    cluster.deliver_all();
    assert_eq!(find(&mut cluster, 4, &[1]), []);
    // It was not the last job of the user there.
    assert_eq!(find(&mut cluster, 4, &[2]), [1]);
    let last = Nspace::new("two").unwrap();
    cluster.step(ServerId(2), |server, _| server.remove_job(&last));
    cluster.deliver_all();
    assert_eq!(find(&mut cluster, 4, &[2]), []);
}

#[test]
fn next_holder_has_the_data_of_all_that_are_left() {
    let mut cluster = cluster();
    ok(&mut cluster, 0, session(&[(0, 1)]));
    ok(&mut cluster, 2, session(&[(1, 2)]));
    ok(&mut cluster, 4, session(&[(2, 3)]));
    let wait = ask(&mut cluster, 5, look_up(&[0], Range::Session, Some(0)));
    assert_eq!(found(&cluster, wait), [1]);
    cluster.server_dies(ServerId(1));
    cluster.deliver_all();
    for rank in [2, 4] {
        assert_eq!(find(&mut cluster, rank, &[0, 1, 2]), [2, 3], "rank {rank}");
    }
    cluster.server_dies(ServerId(2));
    cluster.deliver_all();
    assert_eq!(find(&mut cluster, 4, &[0, 1, 2]), [3]);
    assert!(cluster.lost.is_empty());
}

#[test]
fn open_requests_go_to_the_next_holder() {
    let mut cluster = cluster();
    ok(&mut cluster, 5, session(&[(2, 3)]));
    let wait = ask(&mut cluster, 3, look_up(&[0, 1], Range::Session, Some(0)));
    // None of these reaches the holder.
    cluster.latency = 10;
    let calls = [
        cluster.request(&proc("one", 4), session(&[(0, 1)])),
        cluster.request(&proc("one", 2), session(&[(1, 2)])),
        cluster.request(&proc("one", 5), unpublish(&[])),
        cluster.request(&proc("one", 4), look_up(&[2], Range::Session, None)),
    ];
    cluster.server_dies(ServerId(1));
    cluster.pass(100);
    let statuses = calls.map(|call| status_of(&cluster, call).unwrap());
    let success = code::PMIX_SUCCESS;
    let expected = [success, success, success, code::PMIX_ERR_NOT_FOUND];
    assert_eq!(statuses, expected);
    assert_eq!(found(&cluster, wait), [1, 2]);
}

#[test]
fn nothing_is_missing_before_all_servers_have_restored() {
    let mut cluster = cluster();
    ok(&mut cluster, 4, session(&[(0, 1)]));
    // The second server hears of the loss first; the third one has not restored its data.
    cluster.servers.remove(&ServerId(1));
    cluster.step(ServerId(2), |server, now| {
        server.server_left(ServerId(1), now)
    });
    let lookup = ask(&mut cluster, 2, look_up(&[0], Range::Session, None));
    let taken = ask(&mut cluster, 3, session(&[(0, 2)]));
    assert_eq!(status_of(&cluster, lookup), None);
    assert_eq!(status_of(&cluster, taken), None);
    cluster.step(ServerId(3), |server, now| {
        server.server_left(ServerId(1), now)
    });
    cluster.deliver_all();
    assert_eq!(found(&cluster, lookup), [1]);
    let duplicate = Some(code::PMIX_ERR_DUPLICATE_KEY);
    assert_eq!(status_of(&cluster, taken), duplicate);
}

#[test]
fn server_that_leaves_is_awaited_no_more() {
    let mut cluster = cluster();
    ok(&mut cluster, 4, session(&[(0, 1)]));
    cluster.servers.remove(&ServerId(1));
    cluster.step(ServerId(2), |server, now| {
        server.server_left(ServerId(1), now)
    });
    let lookup = ask(&mut cluster, 2, look_up(&[0], Range::Session, None));
    assert_eq!(status_of(&cluster, lookup), None);
    cluster.server_dies(ServerId(3));
    cluster.deliver_all();
    let none = Some(code::PMIX_ERR_NOT_FOUND);
    assert_eq!(status_of(&cluster, lookup), none);
}

#[test]
fn data_are_restored_before_the_next_holder_knows() {
    let mut cluster = cluster();
    ok(&mut cluster, 4, session(&[(0, 1)]));
    cluster.servers.remove(&ServerId(1));
    cluster.step(ServerId(3), |server, now| {
        server.server_left(ServerId(1), now)
    });
    let lookup = ask(&mut cluster, 5, look_up(&[0], Range::Session, None));
    assert_eq!(status_of(&cluster, lookup), None, "it is no holder yet");
    cluster.step(ServerId(2), |server, now| {
        server.server_left(ServerId(1), now)
    });
    cluster.deliver_all();
    assert_eq!(found(&cluster, lookup), [1]);
    assert_eq!(find(&mut cluster, 2, &[0]), [1]);
}

#[test]
fn server_that_was_alone_brings_its_data() {
    let mut cluster = cluster();
    ok(&mut cluster, 0, session(&[(0, 1)]));
    // The fourth server has procs before it meets the others.
    let mut alone = Cluster::new(1, 1, &StateSettings::default());
    alone.add_job("late1", &[(1, &[0, 1])]);
    let late = proc("late1", 0);
    for (key, value) in [(0, 2), (1, 3)] {
        let call = alone.request(&late, session(&[(key, value)]));
        assert_eq!(status_of(&alone, call), Some(code::PMIX_SUCCESS));
    }
    let wait = ask(&mut cluster, 5, look_up(&[1], Range::Session, Some(0)));
    let mut server = alone.servers.remove(&ServerId(1)).unwrap();
    server.enroll(ServerId(4));
    let (_, peer) = alone.peers[&late];
    cluster.servers.insert(ServerId(4), server);
    cluster.peers.insert(late.clone(), (ServerId(4), peer));
    for other in [1, 2, 3].map(ServerId) {
        cluster.step(other, |server, _| server.server_joined(ServerId(4)));
        cluster.step(ServerId(4), |server, _| server.server_joined(other));
    }
    cluster.deliver_all();
    assert_eq!(found(&cluster, wait), [3]);
    assert_eq!(find(&mut cluster, 5, &[0]), [1]);
    // The first server has the other key: its item is the one that all find.
    let lost = [(late.clone(), Key::from(KEYS[0]))];
    assert_eq!(cluster.lost, lost);
    let call = cluster.request(&late, look_up(&[0], Range::Session, None));
    cluster.deliver_all();
    assert_eq!(found(&cluster, call), [1]);
}

#[test]
fn holder_that_meets_a_lower_server_hands_all_over() {
    let mut cluster = Cluster::new(0, 1, &StateSettings::default());
    let enter = |cluster: &mut Cluster, id: u32| {
        let (id, mut server) = (ServerId(id), ServerState::new(StateSettings::default()));
        server.enroll(id);
        let others: Vec<ServerId> = cluster.servers.keys().copied().collect();
        cluster.servers.insert(id, server);
        for other in others {
            cluster.step(other, |server, _| server.server_joined(id));
            cluster.step(id, |server, _| server.server_joined(other));
        }
        cluster.deliver_all();
    };
    enter(&mut cluster, 2);
    enter(&mut cluster, 3);
    cluster.add_job("one", &[(2, &[0, 1, 2, 3]), (3, &[4, 5])]);
    cluster.deliver_all();
    ok(&mut cluster, 2, session(&[(0, 1)]));
    ok(&mut cluster, 4, session(&[(1, 2)]));
    let waits = [3, 5].map(|rank| {
        let lookup = look_up(&[2], Range::Session, Some(0));
        ask(&mut cluster, rank, lookup)
    });
    enter(&mut cluster, 1);
    ok(&mut cluster, 4, session(&[(2, 3)]));
    assert_eq!(waits.map(|wait| found(&cluster, wait)), [[3], [3]]);
    for rank in [2, 4] {
        assert_eq!(find(&mut cluster, rank, &[0, 1, 2]), [1, 2, 3]);
    }
    // When it holds the data again, it awaits what the others restore, as any next holder.
    cluster.servers.remove(&ServerId(1));
    cluster.step(ServerId(2), |server, now| {
        server.server_left(ServerId(1), now)
    });
    let lookup = ask(&mut cluster, 2, look_up(&[1], Range::Session, None));
    assert_eq!(status_of(&cluster, lookup), None);
    cluster.step(ServerId(3), |server, now| {
        server.server_left(ServerId(1), now)
    });
    cluster.deliver_all();
    assert_eq!(found(&cluster, lookup), [2]);
}

#[test]
fn restored_data_travel_in_parts() {
    let mut cluster = cluster();
    let large = |number: usize| Request::Publish {
        uid: USER.uid,
        infos: vec![Info::new(
            KeyName(["test.0", "test.1", "test.2", "test.3", "test.4"][number]),
            Value::string(&"x".repeat(400 << 10)),
        )],
    };
    for number in 0..5 {
        ok(&mut cluster, 4, large(number));
    }
    let mut server = cluster.servers.remove(&ServerId(3)).unwrap();
    let actions = server.server_left(ServerId(1), peal_core::MonotonicTime(0));
    let parts = actions.iter().filter_map(|action| match action {
        Action::Send {
            message: InterServerMessage::PublishedData(message),
            ..
        } => Some(message),
        _ => None,
    });
    let number = |message: &PublishedDataMessage| match message {
        PublishedDataMessage::Restore(publications) => publications.len(),
        PublishedDataMessage::RestoreBegins => 10,
        PublishedDataMessage::RestoreEnds => 20,
        other => panic!("{other:?}"),
    };
    assert_eq!(parts.map(number).collect::<Vec<_>>(), [10, 2, 2, 1, 20]);
}

#[test]
fn data_of_a_user_are_charged_at_their_server_and_the_holder() {
    let limit = |user| PublishLimit { user, total: 100 };
    let settings = StateSettings {
        publish: PublishLimits {
            items: limit(2),
            waits: limit(2),
            ..PublishLimits::default()
        },
        ..StateSettings::default()
    };
    let mut cluster = cluster_with(&settings);
    let refused = Some(code::PMIX_ERR_OUT_OF_RESOURCE);
    ok(&mut cluster, 2, session(&[(0, 1)]));
    ok(&mut cluster, 4, session(&[(1, 1)]));
    let call = ask(&mut cluster, 4, session(&[(2, 1)]));
    assert_eq!(status_of(&cluster, call), refused, "by the holder");
    let wait = |keys: &[usize]| look_up(keys, Range::Namespace, Some(0));
    ask(&mut cluster, 2, wait(&[2]));
    ask(&mut cluster, 4, wait(&[2]));
    let call = ask(&mut cluster, 5, wait(&[2]));
    assert_eq!(status_of(&cluster, call), refused, "by the holder");
    let call = cluster.request(&proc("one", 2), wait(&[1, 2]));
    assert_eq!(status_of(&cluster, call), refused, "by its server");
    // When all has ended, nothing is charged any more.
    for rank in 0..6 {
        cluster.die(&proc("one", rank));
    }
    let nspace = Nspace::new("one").unwrap();
    for server in [1, 2, 3].map(ServerId) {
        cluster.step(server, |server, _| server.remove_job(&nspace));
    }
    cluster.deliver_all();
    for server in cluster.servers.values() {
        let mut report = QuotaReport::default();
        server.report_quotas(&mut report);
        let held = report.users.values().flat_map(|uses| uses.values());
        assert!(
            held.map(|used| used.held).all(|held| held == 0),
            "{report:?}"
        );
    }
}

#[test]
fn restart_of_a_proc_ends_its_data_and_lookups() {
    let mut cluster = cluster();
    ok(
        &mut cluster,
        2,
        publish(&[(0, 1)], Range::Session, Persistence::Proc),
    );
    ask(&mut cluster, 2, look_up(&[1], Range::Session, Some(0)));
    let restarted = proc("one", 2);
    cluster.step(ServerId(2), |server, now| {
        server.proc_restarts(&restarted, None, now)
    });
    cluster.deliver_all();
    assert_eq!(find(&mut cluster, 4, &[0]), []);
    ok(
        &mut cluster,
        4,
        publish(&[(1, 2)], Range::Session, Persistence::FirstRead),
    );
    assert_eq!(find(&mut cluster, 4, &[1]), [2]);
}

#[test]
fn request_of_a_proc_that_has_ended_publishes_nothing() {
    let mut cluster = cluster();
    let source = proc("one", 2);
    let (server, peer) = cluster.peers[&source];
    cluster.die(&source);
    cluster.step(server, |server, now| {
        let to = peal_core::server::RequestId { peer, tag: 0 };
        server.data_request(to, source, session(&[(0, 1)]), now)
    });
    cluster.deliver_all();
    assert_eq!(find(&mut cluster, 4, &[0]), []);
}

fn published_by(by: Proc, uid: u32, scope: PublicationScope) -> Publication {
    Publication {
        by: DataRequester { proc: by, uid },
        scope,
        persistence: Persistence::Session,
        items: vec![PublicationItem {
            number: ItemNumber(900),
            info: Info::new(KEYS[0], Value::Uint32(9)),
        }],
    }
}

#[test]
fn server_publishes_and_looks_up_for_its_own_procs_alone() {
    let mut cluster = cluster();
    let own = proc("one", 4);
    let foreign = |rank| Some(MessageRefusal::ForeignProc(proc("one", rank)));
    let other_user = Some(MessageRefusal::ForeignUser(own.clone()));
    let other_range = Some(MessageRefusal::ForeignRange(own.clone()));
    let namespace = |name: &str| PublicationScope::Namespace(Nspace::new(name).unwrap());
    let uid = USER.uid;
    // The range of a lookup may be local, and that of a publication may not.
    let cases = [
        (own.clone(), uid, PublicationScope::Session, None, None),
        (
            proc("one", 2),
            uid,
            PublicationScope::Session,
            foreign(2),
            foreign(2),
        ),
        (
            proc("one", 0),
            uid,
            PublicationScope::Session,
            foreign(0),
            foreign(0),
        ),
        (
            own.clone(),
            uid + 1,
            PublicationScope::Session,
            other_user.clone(),
            other_user,
        ),
        (
            own.clone(),
            uid,
            namespace("two"),
            other_range.clone(),
            other_range.clone(),
        ),
        (own.clone(), uid, PublicationScope::Node, other_range, None),
    ];
    for (number, (by, uid, scope, publishing, looking)) in (0..).zip(cases) {
        let publication = published_by(by.clone(), uid, scope.clone());
        let lookup = PublishedLookup {
            keys: [Key::from(KEYS[1])].into(),
            scope,
            required_keys: 0,
        };
        let messages = [
            (
                PublishedDataMessage::Publish {
                    number,
                    publication: publication.clone(),
                },
                publishing.clone(),
            ),
            (
                PublishedDataMessage::Lookup {
                    number,
                    by: publication.by.clone(),
                    lookup,
                },
                looking,
            ),
            (PublishedDataMessage::Restore(vec![publication]), publishing),
        ];
        for (message, refusal) in messages {
            assert_eq!(told(&mut cluster, 3, 1, message), refusal);
        }
    }
    // Of the publications one was accepted.
    assert_eq!(find(&mut cluster, 0, &[0]), [9]);
}

/// Lets a server send a message, and returns why it is refused.
fn told(
    cluster: &mut Cluster,
    from: u32,
    to: u32,
    message: PublishedDataMessage,
) -> Option<MessageRefusal> {
    let message = InterServerMessage::PublishedData(message);
    cluster.step(ServerId(to), |server, now| {
        server.server_message(ServerId(from), message, now)
    });
    cluster.refused.pop()
}

#[test]
fn only_the_holder_answers_and_drops_data() {
    let mut cluster = cluster();
    ok(&mut cluster, 2, session(&[(0, 1)]));
    let wait = ask(&mut cluster, 3, look_up(&[1], Range::Session, Some(0)));
    let all: BTreeSet<ItemNumber> = (0..1_000).map(ItemNumber).collect();
    for message in [
        PublishedDataMessage::Taken(all.clone()),
        PublishedDataMessage::Refused(all.clone()),
    ] {
        let refusal = told(&mut cluster, 3, 2, message);
        assert_eq!(refusal, Some(MessageRefusal::NotHolder));
    }
    // The holder finds no data of keys that nobody has named.
    for (from, key) in [(3, KEYS[1]), (1, KEYS[2])] {
        for number in 0..100 {
            let data = Pdata {
                proc: proc("one", 4),
                key: key.into(),
                value: Value::Uint32(9),
            };
            let result = Ok(vec![data]);
            let answer = PublishedDataMessage::Answer { number, result };
            assert_eq!(told(&mut cluster, from, 2, answer), None);
        }
    }
    assert_eq!(status_of(&cluster, wait), None);
    // Items and lookups of the second server are none of the third one's.
    let items = all.clone();
    let number = None;
    told(
        &mut cluster,
        3,
        1,
        PublishedDataMessage::Withdraw { number, items },
    );
    for number in 0..100 {
        told(&mut cluster, 3, 1, PublishedDataMessage::GiveUp { number });
    }
    cluster.server_dies(ServerId(3));
    cluster.deliver_all();
    assert_eq!(find(&mut cluster, 2, &[0]), [1]);
    ok(&mut cluster, 0, session(&[(1, 2)]));
    assert_eq!(found(&cluster, wait), [2]);
    assert_eq!(status(&cluster.calls[wait].answers[0]), code::PMIX_SUCCESS);
}
