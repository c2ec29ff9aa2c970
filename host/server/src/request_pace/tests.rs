//! Tests of the pace, with a list of all requests as a model and with a simulated server.
use super::*;
use proptest::{collection, prelude::*};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Step of one property test.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A user has a request, which is executed unless it must wait.
    Request(PacedUser),
    /// Time passes. For this part of it in percent the server is busy.
    Pass { millis: u64, busy_percent: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let user = prop_oneof![
        Just(None),
        (0..4_u32).prop_map(Some),
        // Most requests are of one user.
        Just(Some(1)),
        Just(Some(1)),
    ];
    prop_oneof![
        4 => user.prop_map(Step::Request),
        1 => (prop_oneof![0..30_u64, 900..1200_u64], 0..=100_u32)
            .prop_map(|(millis, busy_percent)| Step::Pass { millis, busy_percent }),
    ]
}

proptest! {
    #[test]
    fn users_are_delayed_only_beside_others_and_briefly(steps in collection::vec(step(), 1..400)) {
        let mut now = Instant::now();
        let mut busy = Duration::ZERO;
        let mut pace = RequestPace::new(50, now);
        let mut all: Vec<(PacedUser, Instant)> = Vec::new();
        for step in steps {
            match step {
                Step::Pass { millis, busy_percent } => {
                    let time = MILLISECOND * u32::try_from(millis).unwrap();
                    now += time;
                    busy += time / 100 * busy_percent;
                }
                Step::Request(user) => {
                    let has_others = all
                        .iter()
                        .any(|(other, at)| *other != user && now.duration_since(*at) < RECENT);
                    let time = pace.time_of(user, now);
                    prop_assert_eq!(time == RequestTime::Free, user.is_none() || !has_others);
                    if let RequestTime::After(wait) = time {
                        prop_assert!(!wait.is_zero() && wait <= MAX_INTERVAL, "{wait:?}");
                        continue;
                    }
                    pace.note(user, Behind::More, now);
                    all.push((user, now));
                    if pace.is_window_over(now) {
                        pace.end_window(busy, now);
                    }
                }
            }
        }
    }
}

/// User of the simulated server.
struct SimulatedUser {
    user: PacedUser,
    /// Time between two requests; zero for a user that always has one.
    every: Duration,
    behind: Behind,
    next: Instant,
    executed: u32,
    delayed: u32,
}

/// Server with one thread, whose users all have requests of the same length.
struct SimulatedServer {
    pace: RequestPace,
    now: Instant,
    busy: Duration,
    cost: Duration,
}

impl SimulatedServer {
    fn new(max_busy_percent: u32, cost: Duration) -> SimulatedServer {
        let now = Instant::now();
        SimulatedServer {
            pace: RequestPace::new(max_busy_percent, now),
            now,
            busy: Duration::ZERO,
            cost,
        }
    }

    fn user(&self, user: PacedUser, every: Duration) -> SimulatedUser {
        SimulatedUser {
            user,
            every,
            behind: Behind::More,
            next: self.now,
            executed: 0,
            delayed: 0,
        }
    }

    /// Runs for this time, and returns the part of it in percent for which the server was busy.
    fn run(&mut self, users: &mut [SimulatedUser], time: Duration) -> u32 {
        let end = self.now + time;
        let busy_before = self.busy;
        while self.now < end {
            let mut idle = true;
            for one in &mut *users {
                if one.next > self.now {
                    continue;
                }
                match self.pace.time_of(one.user, self.now) {
                    RequestTime::After(wait) => {
                        // Timers have this resolution.
                        one.next = self.now + wait.max(MILLISECOND);
                        one.delayed += 1;
                    }
                    RequestTime::Free | RequestTime::Shared => {
                        idle = false;
                        one.executed += 1;
                        one.next = one.next.max(self.now) + one.every;
                        self.pace.note(one.user, one.behind, self.now);
                        self.now += self.cost;
                        self.busy += self.cost;
                        if self.pace.is_window_over(self.now) {
                            self.pace.end_window(self.busy, self.now);
                        }
                    }
                }
            }
            if idle {
                self.now += Duration::from_micros(20);
            }
        }
        let busy = self.busy.checked_sub(busy_before).unwrap();
        u32::try_from(busy.as_micros() * 100 / time.as_micros()).unwrap()
    }
}

#[test]
fn flood_leaves_time_and_few_requests_are_not_delayed() {
    for cost in [5, 20, 100, 400].map(Duration::from_micros) {
        for percent in [30, 50, 80] {
            let mut server = SimulatedServer::new(percent, cost);
            let mut users = [
                server.user(Some(1), Duration::ZERO),
                server.user(Some(2), 20 * MILLISECOND),
                server.user(None, 50 * MILLISECOND),
            ];
            // The pace needs a few windows.
            server.run(&mut users, Duration::from_secs(1));
            let busy = server.run(&mut users, Duration::from_secs(2));
            let case = format!("{cost:?} {percent} % -> {busy} %");
            assert!(busy <= percent + percent / 5, "{case}");
            assert!(busy >= percent / 2, "the flood may use the time: {case}");
            assert_eq!((users[1].delayed, users[2].delayed), (0, 0), "{case}");
        }
    }
}

/// Returns a server with two users who always have a request.
fn two_floods() -> (SimulatedServer, [SimulatedUser; 2]) {
    let server = SimulatedServer::new(50, Duration::from_micros(20));
    let users = [1, 2].map(|uid| server.user(Some(uid), Duration::ZERO));
    (server, users)
}

#[test]
fn floods_of_two_users_get_equal_parts() {
    let (mut server, mut users) = two_floods();
    server.run(&mut users, Duration::from_secs(3));
    let [one, other] = users.map(|user| user.executed);
    assert!(one.abs_diff(other) * 10 < one.max(other), "{one} {other}");
}

#[test]
fn flood_without_other_users_is_not_delayed() {
    let (mut server, mut users) = two_floods();
    server.run(&mut users, Duration::from_secs(1));
    assert!(users[0].delayed > 0);
    // The other user is idle from now on.
    let mut users = [server.user(Some(1), Duration::ZERO)];
    server.run(&mut users, RECENT);
    let busy = server.run(&mut users, Duration::from_secs(1));
    assert!(busy >= 99, "{busy} %");
}

#[test]
fn busy_server_with_small_users_delays_none_of_them() {
    // Root makes most of the requests.
    let mut server = SimulatedServer::new(50, Duration::from_micros(100));
    let mut users = [
        server.user(None, Duration::ZERO),
        server.user(Some(1), MILLISECOND),
        server.user(Some(2), 2 * MILLISECOND),
    ];
    server.run(&mut users, Duration::from_secs(2));
    assert!(users.iter().all(|user| user.delayed == 0));
}

#[test]
fn user_who_waits_for_replies_is_not_delayed_beside_a_flood() {
    let (mut server, mut users) = two_floods();
    users[1].behind = Behind::Nothing;
    let busy = server.run(&mut users, Duration::from_secs(1));
    assert_eq!(users[1].delayed, 0);
    assert!(users[0].delayed > 0, "{busy} %");
    let [flood, other] = users.map(|user| user.executed);
    assert!(flood < other * 2, "{flood} {other}");
}

#[test]
fn all_of_the_time_may_be_permitted() {
    let mut now = Instant::now();
    let mut busy = Duration::ZERO;
    let mut pace = RequestPace::new(100, now);
    for _ in 0..20 {
        for user in [Some(1), Some(2)].into_iter().cycle().take(200) {
            pace.note(user, Behind::More, now);
            assert_eq!(pace.time_of(Some(3), now), RequestTime::Shared);
        }
        now += WINDOW;
        // With the time of the window before.
        busy += 2 * WINDOW;
        pace.end_window(busy, now);
        assert_eq!(pace.time_of(Some(1), now), RequestTime::Shared);
    }
}
