//! Pace of the requests of users. While several users make requests and the server has little idle
//! time left, the requests of those who make the most are delayed.
//!
//! Only requests with others of the same user behind them count. A user who waits for each reply
//! delays others by one request at most, however many they make.
//!
//! All users have one interval: the least time between two counted requests of one user in the long
//! run. It is adapted at the end of each window, until the server is idle for a part of the time.
//! Users with fewer requests than that are never delayed.
use crate::client_writer::Behind;
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Least time after which the interval is adapted.
pub(crate) const WINDOW: Duration = Duration::from_millis(10);

/// Time for which a user counts as active after a request.
pub(crate) const RECENT: Duration = Duration::from_secs(1);

/// Time by which requests may come early. Timers have a resolution of a millisecond, so that
/// requests are executed in groups.
const EARLY: Duration = Duration::from_millis(2);

/// Longest interval: a user can always make 200 requests in a second.
pub(crate) const MAX_INTERVAL: Duration = Duration::from_millis(5);

/// Factor by which the interval becomes longer in one window, at most.
const SLOWEST: u32 = 2;

/// User whose requests are counted: `None` stands for root, the server's user and administrators,
/// whose requests are never delayed.
pub(crate) type PacedUser = Option<u32>;

/// Answer to a user who has a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RequestTime {
    /// No other user is active, or the user is never delayed.
    Free,
    /// Now, after those of other users.
    Shared,
    /// After this time.
    After(Duration),
}

/// Pace of the requests of all users.
#[derive(Debug)]
pub(crate) struct RequestPace {
    /// Part of the time in percent for which the server may be busy before it delays requests.
    max_busy_percent: u32,
    /// Least time between two counted requests of one user; `None` if there is no limit.
    interval: Option<Duration>,
    users: BTreeMap<PacedUser, UserRequests>,
    /// User of the latest request, and its time.
    latest: Option<(PacedUser, Instant)>,
    /// Time of the latest request of any other user.
    latest_of_others: Option<Instant>,
    window: Window,
}

/// Requests of one user.
#[derive(Clone, Copy, Debug)]
struct UserRequests {
    /// Number in the present window.
    all: u32,
    /// Number of those that had others behind them.
    counted: u32,
    /// Time of the last one.
    last: Instant,
    /// Time at which the next one is due.
    due: Instant,
}

/// Begin of the present window.
#[derive(Clone, Copy, Debug)]
struct Window {
    began: Instant,
    /// Time for which the server had been busy since its start.
    busy: Duration,
}

impl RequestPace {
    /// Creates the pace of a server that may be busy for this part of the time in percent.
    pub(crate) fn new(max_busy_percent: u32, now: Instant) -> RequestPace {
        RequestPace {
            max_busy_percent: max_busy_percent.clamp(1, 100),
            interval: None,
            users: BTreeMap::new(),
            latest: None,
            latest_of_others: None,
            window: Window {
                began: now,
                busy: Duration::ZERO,
            },
        }
    }

    /// Returns the time at which a request of this user may be executed.
    pub(crate) fn time_of(&self, user: PacedUser, now: Instant) -> RequestTime {
        if user.is_none() || !self.has_others(user, now) {
            return RequestTime::Free;
        }
        let due = self.interval.and(self.users.get(&user)).map(|of| of.due);
        let wait = due.map_or(Duration::ZERO, |due| {
            due.saturating_duration_since(now + EARLY)
        });
        if wait.is_zero() {
            RequestTime::Shared
        } else {
            RequestTime::After(wait)
        }
    }

    /// Notes a request of this user, which is being executed, and counts it if others of the user
    /// are behind it.
    pub(crate) fn note(&mut self, user: PacedUser, behind: Behind, now: Instant) {
        let of = self.users.entry(user).or_insert(UserRequests {
            all: 0,
            counted: 0,
            last: now,
            due: now,
        });
        of.last = now;
        of.all = of.all.saturating_add(1);
        if behind == Behind::More {
            of.counted = of.counted.saturating_add(1);
            let due = of.due.max(now) + self.interval.unwrap_or_default();
            // Requests of a user who was alone are executed early. Nobody waits for them later.
            of.due = due.min(now + EARLY + MAX_INTERVAL);
        }
        if let Some((_, at)) = self.latest.filter(|(other, _)| *other != user) {
            self.latest_of_others = Some(at);
        }
        self.latest = Some((user, now));
    }

    /// Returns true if the interval is to be adapted.
    pub(crate) fn is_window_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.window.began) >= WINDOW
    }

    /// Ends a window, and adapts the interval. `busy` is the time for which the server has been busy
    /// since its start.
    pub(crate) fn end_window(&mut self, busy: Duration, now: Instant) {
        let length = now.saturating_duration_since(self.window.began);
        // The runtime adds the time of a thread when it sleeps, so that some is of earlier windows.
        let busy_for = busy.saturating_sub(self.window.busy).min(length);
        self.window = Window { began: now, busy };
        self.users
            .retain(|_, of| now.saturating_duration_since(of.last) < RECENT);
        let total: u32 = self
            .users
            .values()
            .fold(0, |sum, of| sum.saturating_add(of.all));
        let paced = self.users.iter().filter(|(user, _)| user.is_some());
        let most = paced.map(|(_, of)| of.counted).max().unwrap_or(0);
        let active = u32::try_from(self.users.len()).unwrap_or(u32::MAX);
        self.interval = if active < 2 || length >= RECENT {
            None
        } else if is_above(busy_for, self.max_busy_percent, length) {
            // A user with less than an equal part of the requests is not the cause.
            if most.saturating_mul(active) >= total.max(1) {
                Some(self.slower(busy_for, length, most))
            } else {
                self.interval
            }
        } else if is_above(busy_for, self.max_busy_percent * 9 / 10, length) {
            self.interval
        } else {
            // A limit that nobody has been near to ends.
            let faster = |interval: Duration| interval / 5 * 4;
            self.interval
                .map(faster)
                .filter(|interval| interval.saturating_mul(most.saturating_mul(2)) > length)
        };
        self.users
            .values_mut()
            .for_each(|of| (of.all, of.counted) = (0, 0));
    }

    /// Returns a longer interval. With it, the server will be busy for the permitted part of the
    /// time.
    fn slower(&self, busy: Duration, length: Duration, most: u32) -> Duration {
        let now = self.interval.unwrap_or(length / most.max(1));
        let permitted = length / 100 * self.max_busy_percent;
        let factor = busy.as_secs_f64() / permitted.as_secs_f64().max(f64::MIN_POSITIVE);
        now.mul_f64(factor.clamp(1.0, f64::from(SLOWEST)))
            .min(MAX_INTERVAL)
    }

    /// Returns true if another user was active recently.
    fn has_others(&self, user: PacedUser, now: Instant) -> bool {
        let at = match self.latest {
            Some((latest, at)) if latest != user => Some(at),
            _ => self.latest_of_others,
        };
        at.is_some_and(|at| now.saturating_duration_since(at) < RECENT)
    }
}

/// Returns true if `part` is more than this many percent of `whole`.
fn is_above(part: Duration, percent: u32, whole: Duration) -> bool {
    part.saturating_mul(100) > whole.saturating_mul(percent)
}

#[cfg(test)]
mod tests;
