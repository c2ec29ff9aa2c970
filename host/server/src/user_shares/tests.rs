//! Tests of the user shares, with a model of their accounting.
use super::*;
use proptest::prelude::*;
use std::{
    future::Future,
    pin::pin,
    task::{Context, Poll, Waker},
};

const SERVER: u32 = 500;

const LIMITS: ShareLimits = ShareLimits {
    max_connections: 16,
    max_connections_per_user: 5,
    max_handshakes_per_user: 2,
    max_partial_frame_bytes_per_user: 8 * FRAME_UNIT,
    max_partial_frame_bytes_total: 14 * FRAME_UNIT,
    frame_timeout: Duration::from_secs(1),
    max_refusal_delay: Duration::from_secs(1),
    outbox: OutboxLimits {
        client: 100,
        user: 100,
        total: 400,
    },
};

fn shares() -> Arc<UserShares> {
    Arc::new(UserShares::new(LIMITS, SERVER, pacer()))
}

fn pacer() -> Arc<RequestPacer> {
    Arc::new(RequestPacer::new(100, || Duration::ZERO))
}

/// Returns the value of a future that is ready at once.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Returns the usage of a resource by a user, as reported.
fn shown(shares: &UserShares, quota: Quota, uid: u32) -> u64 {
    let mut report = QuotaReport::default();
    shares.report_quotas(&mut report);
    let used = report.users.get(&uid).and_then(|uses| uses.get(&quota));
    used.map_or(0, |used| used.held)
}

#[test]
fn user_beyond_share_is_refused_with_limit_until_one_ends() {
    let shares = shares();
    let mut connections: Vec<_> = (0..5).map(|_| shares.connect(1000).unwrap()).collect();
    let refused = shares.connect(1000).unwrap_err();
    assert_eq!(
        refused,
        ShareExceeded::UserConnections { uid: 1000, max: 5 }
    );
    assert_eq!(
        refused.to_string(),
        "user 1000 has 5 connections, more are not allowed (server.max_connections_per_user)"
    );
    assert!(shares.connect(1001).is_ok());
    connections.pop();
    assert!(shares.connect(1000).is_ok());
}

#[test]
fn root_and_servers_user_find_place_when_others_have_all() {
    let shares = shares();
    let connect = |uid| shares.connect(uid);
    let _others: Vec<_> = [1000, 1001, 1002]
        .into_iter()
        .flat_map(|uid| (0..5).map_while(move |_| connect(uid).ok()))
        .collect();
    assert_eq!(
        shares.connect(1003).unwrap_err(),
        ShareExceeded::Connections { max: 14 }
    );
    let _root = shares.connect(0).unwrap();
    let _server = shares.connect(SERVER).unwrap();
    assert_eq!(
        shares.connect(0).unwrap_err(),
        ShareExceeded::Connections { max: 16 }
    );
}

#[test]
fn handshakes_and_frames_of_root_are_not_held_up() {
    let shares = shares();
    let root = shares.connect(0).unwrap();
    let _all: Vec<_> = (0..100)
        .map(|_| {
            (
                at_once(root.handshake()).unwrap(),
                at_once(root.frame(1 << 40)).unwrap(),
            )
        })
        .collect();
}

#[test]
fn frame_longer_than_share_takes_all_of_it() {
    let shares = shares();
    let one = shares.connect(1000).unwrap();
    let other = shares.connect(1000).unwrap();
    let long = at_once(one.frame(1 << 40)).unwrap();
    assert_eq!(shown(&shares, Quota::PartialFrameBytes, 1000), 8 * 1024);
    let mut waiting = pin!(other.frame(1));
    assert!(at_once(waiting.as_mut()).is_none());
    drop(long);
    assert!(at_once(waiting).is_some());
}

/// Returns the permit of a connection that may execute messages now.
fn turn_now(share: &ConnectionShare, now: Instant) -> Option<MessageTurn> {
    match share.try_turn(now) {
        MessageTime::Now(turn) => Some(turn),
        MessageTime::InTurn => None,
        MessageTime::After(wait) => panic!("delayed for {wait:?} although the server is idle"),
    }
}

#[test]
fn one_connection_of_a_user_executes_beside_other_users() {
    let shares = shares();
    let one = shares.connect(1000).unwrap();
    let other = shares.connect(1000).unwrap();
    let neighbor = shares.connect(1001).unwrap();
    let root = shares.connect(0).unwrap();
    let now = Instant::now();
    one.note_request(Behind::Nothing, now);
    // Users without requests take no time.
    let alone = (turn_now(&one, now).unwrap(), turn_now(&other, now).unwrap());
    drop(alone);
    neighbor.note_request(Behind::Nothing, now);
    let taken = turn_now(&one, now).unwrap();
    assert!(turn_now(&other, now).is_none());
    let mut waiting = pin!(other.turn());
    assert!(at_once(waiting.as_mut()).is_none());
    let _others = (
        turn_now(&neighbor, now).unwrap(),
        turn_now(&root, now).unwrap(),
        turn_now(&root, now).unwrap(),
    );
    drop(taken);
    // A waiting connection comes first.
    assert!(turn_now(&one, now).is_none());
    assert!(at_once(waiting).is_some());
}

#[test]
fn repeatedly_refused_user_waits() {
    let shares = shares();
    let now = Instant::now();
    let user = shares.connect(1000).unwrap();
    let root = shares.connect(0).unwrap();
    for _ in 0..1000 {
        user.note_refused_handshake(now);
        root.note_refused_handshake(now);
    }
    assert_eq!(user.handshake_delay(now), LIMITS.max_refusal_delay);
    let delays = [&user, &root].map(|share| share.refused_requests_delay(1_000_000, now));
    assert_eq!(delays, [LIMITS.max_refusal_delay, Duration::ZERO]);
    // The refusals are remembered after the last connection of the user has ended.
    drop(user);
    let again = shares.connect(1000).unwrap();
    assert_eq!(
        (again.handshake_delay(now), root.handshake_delay(now)),
        (LIMITS.max_refusal_delay, Duration::ZERO)
    );
}

/// Action of connections of three users, root and the server's user.
#[derive(Clone, Debug)]
enum Step {
    Connect(usize),
    /// Closes the open connection of this number.
    Close(usize),
    Handshake(usize),
    Frame(usize, usize),
    /// Completes the handshake or frame of this number.
    Complete(usize),
}

const USERS: [u32; 5] = [0, SERVER, 1000, 1001, 1002];

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..USERS.len()).prop_map(Step::Connect),
        1 => (0..16_usize).prop_map(Step::Close),
        2 => (0..16_usize).prop_map(Step::Handshake),
        3 => (0..16_usize, 0..6000_usize).prop_map(|(at, bytes)| Step::Frame(at, bytes)),
        3 => (0..32_usize).prop_map(Step::Complete),
    ]
}

/// Unfinished handshake or frame of a connection.
struct Unfinished {
    uid: u32,
    connection: u64,
    handshakes: usize,
    units: usize,
    _share: UnfinishedShare,
}

proptest! {
    #[test]
    fn usage_equals_model_and_stays_within_shares(steps in prop::collection::vec(step(), 1..200)) {
        let shares = shares();
        let mut open: Vec<(u64, u32, ConnectionShare)> = Vec::new();
        let mut unfinished: Vec<Unfinished> = Vec::new();
        let mut number = 0;
        for step in steps {
            match step {
                Step::Connect(user) => {
                    let uid = USERS[user];
                    let own = open.iter().filter(|(_, theirs, _)| *theirs == uid).count();
                    let is_bounded = uid >= 1000;
                    let fits = open.len() < if is_bounded { 14 } else { 16 } && (!is_bounded || own < 5);
                    let share = shares.connect(uid);
                    prop_assert_eq!(share.is_ok(), fits);
                    number += 1;
                    open.extend(share.ok().map(|share| (number, uid, share)));
                }
                Step::Close(at) if at < open.len() => {
                    let (closed, ..) = open.remove(at);
                    unfinished.retain(|unfinished| unfinished.connection != closed);
                }
                Step::Handshake(at) if at < open.len() => {
                    let (connection, uid, share) = &open[at];
                    let own: usize = unfinished.iter().filter(|other| other.uid == *uid).map(|other| other.handshakes).sum();
                    let share = at_once(share.handshake());
                    prop_assert_eq!(share.is_some(), *uid < 1000 || own < 2);
                    let handshakes = usize::from(*uid >= 1000);
                    unfinished.extend(share.map(|share| Unfinished { uid: *uid, connection: *connection, handshakes, units: 0, _share: share }));
                }
                Step::Frame(at, bytes) if at < open.len() => {
                    let (connection, uid, share) = &open[at];
                    let own: usize = unfinished.iter().filter(|other| other.uid == *uid).map(|other| other.units).sum();
                    let units = if *uid >= 1000 { bytes.div_ceil(FRAME_UNIT).min(8) } else { 0 };
                    let share = at_once(share.frame(bytes));
                    let all: usize = unfinished.iter().map(|other| other.units).sum();
                    prop_assert_eq!(share.is_some(), own + units <= 8 && all + units <= 14);
                    unfinished.extend(share.map(|share| Unfinished { uid: *uid, connection: *connection, handshakes: 0, units, _share: share }));
                }
                Step::Complete(at) if at < unfinished.len() => drop(unfinished.remove(at)),
                _ => {}
            }
            for uid in USERS {
                let own = || unfinished.iter().filter(|other| other.uid == uid);
                let handshakes: usize = own().map(|other| other.handshakes).sum();
                let units: usize = own().map(|other| other.units).sum();
                prop_assert!(handshakes <= 2 && units <= 8);
                prop_assert_eq!(shown(&shares, Quota::Connections, uid), open.iter().filter(|(_, theirs, _)| *theirs == uid).count() as u64);
                prop_assert_eq!(shown(&shares, Quota::Handshakes, uid), handshakes as u64);
                prop_assert_eq!(shown(&shares, Quota::PartialFrameBytes, uid), (units * FRAME_UNIT) as u64);
            }
        }
        unfinished.clear();
        open.clear();
        let usage = shares.usage();
        prop_assert!(usage.connections == 0 && usage.users.is_empty());
    }
}
