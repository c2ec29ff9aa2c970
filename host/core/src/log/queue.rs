//! Log requests that wait or are being written: bounded in all and for each user.
//!
//! A request begins when no earlier one of its user that names one of its channels is left, so that they are written in their
//! order. So a user has one request at most before each channel, and a channel that takes its requests as they begin serves the
//! users in turn.
use crate::quota::{Quota, QuotaReport};
use peal_model::{Info, Key, KeyName, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use thiserror::Error;

/// Limits of a [`LogQueue`]; requests count until they are finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLimits {
    /// Requests in all.
    pub requests: usize,
    /// Bytes that these take in all.
    pub bytes: usize,
    /// Requests of one user.
    pub user_requests: usize,
    /// Bytes that these take.
    pub user_bytes: usize,
}

impl Default for QueueLimits {
    fn default() -> Self {
        QueueLimits {
            requests: 4096,
            bytes: 64 << 20,
            user_requests: 1024,
            user_bytes: 16 << 20,
        }
    }
}

/// A limit that leaves no room for one more request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum QueueLimit {
    /// [`QueueLimits::requests`].
    #[error("log.max_queue_requests")]
    Requests,
    /// [`QueueLimits::bytes`].
    #[error("log.max_queue_bytes")]
    Bytes,
    /// [`QueueLimits::user_requests`].
    #[error("log.max_queue_requests_per_user")]
    UserRequests,
    /// [`QueueLimits::user_bytes`].
    #[error("log.max_queue_bytes_per_user")]
    UserBytes,
}

/// Info of an answer that names the limit by which a request was refused.
pub const LIMIT: KeyName = KeyName("peal.limit");

impl QueueLimit {
    /// The resource that is used up.
    pub fn quota(self) -> Quota {
        match self {
            QueueLimit::Requests | QueueLimit::UserRequests => Quota::LogRequests,
            QueueLimit::Bytes | QueueLimit::UserBytes => Quota::LogBytes,
        }
    }

    /// Names the setting, for the requester.
    pub fn info(self) -> Info {
        Info::new(LIMIT, Value::string(&self.to_string()))
    }
}

/// User of a request; none: the host environment, or a requester of another server without a known user.
pub type LogUser = Option<u32>;

/// Number of a request in a queue; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Ticket(u64);

/// Request that begins.
#[derive(PartialEq, Eq, Debug)]
pub struct BegunRequest<T> {
    /// Its number, for [`LogQueue::finish`].
    pub ticket: Ticket,
    /// The request that was pushed.
    pub item: T,
}

/// Requests that wait or are being written.
#[derive(Debug)]
pub struct LogQueue<T> {
    limits: QueueLimits,
    next: u64,
    requests: BTreeMap<Ticket, QueuedRequest<T>>,
    users: BTreeMap<LogUser, UserShare>,
    /// Requests of a user that name a channel, in their order. Those at the front may begin.
    lanes: BTreeMap<(LogUser, Key), VecDeque<Ticket>>,
    /// Requests that may begin, in the order in which they became so.
    ready: VecDeque<Ticket>,
    bytes: usize,
}

#[derive(Debug)]
struct QueuedRequest<T> {
    user: LogUser,
    channels: BTreeSet<Key>,
    bytes: usize,
    /// The number of channels for which earlier requests of the user are left.
    blocked: usize,
    /// None once it has begun.
    item: Option<T>,
}

#[derive(Clone, Copy, Debug, Default)]
struct UserShare {
    requests: usize,
    bytes: usize,
}

impl<T> LogQueue<T> {
    /// Makes an empty queue.
    pub fn new(limits: QueueLimits) -> LogQueue<T> {
        LogQueue {
            limits,
            next: 0,
            requests: BTreeMap::new(),
            users: BTreeMap::new(),
            lanes: BTreeMap::new(),
            ready: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Checks that there is room for one more request of a user.
    pub fn check(&self, user: LogUser, bytes: usize) -> Result<(), QueueLimit> {
        let QueueLimits {
            requests,
            bytes: all,
            user_requests,
            user_bytes,
        } = self.limits;
        let share = self.users.get(&user).copied().unwrap_or_default();
        if share.requests >= user_requests {
            Err(QueueLimit::UserRequests)
        } else if share.bytes.saturating_add(bytes) > user_bytes {
            Err(QueueLimit::UserBytes)
        } else if self.requests.len() >= requests {
            Err(QueueLimit::Requests)
        } else if self.bytes.saturating_add(bytes) > all {
            Err(QueueLimit::Bytes)
        } else {
            Ok(())
        }
    }

    /// Adds a request behind all others of its user, whether or not there is room.
    pub fn push(&mut self, user: LogUser, bytes: usize, channels: BTreeSet<Key>, item: T) {
        let ticket = Ticket(self.next);
        self.next += 1;
        let mut blocked = 0;
        for channel in &channels {
            let lane = self.lanes.entry((user, channel.clone())).or_default();
            // Only an empty lane shows that no earlier request for the channel is left.
            blocked += usize::from(!lane.is_empty());
            lane.push_back(ticket);
        }
        if blocked == 0 {
            self.ready.push_back(ticket);
        }
        let share = self.users.entry(user).or_default();
        share.requests += 1;
        share.bytes += bytes;
        self.bytes += bytes;
        self.requests.insert(
            ticket,
            QueuedRequest {
                user,
                channels,
                bytes,
                blocked,
                item: Some(item),
            },
        );
    }

    /// Takes the next request that may begin. It keeps its room until it is finished.
    pub fn begin(&mut self) -> Option<BegunRequest<T>> {
        loop {
            let ticket = self.ready.pop_front()?;
            let item = self
                .requests
                .get_mut(&ticket)
                .and_then(|request| request.item.take());
            if let Some(item) = item {
                return Some(BegunRequest { ticket, item });
            }
        }
    }

    /// Removes a request that has begun.
    pub fn finish(&mut self, ticket: Ticket) {
        let Some(QueuedRequest {
            user,
            channels,
            bytes,
            ..
        }) = self.requests.remove(&ticket)
        else {
            return;
        };
        self.bytes -= bytes;
        if let Some(share) = self.users.get_mut(&user) {
            share.requests -= 1;
            share.bytes -= bytes;
            if share.requests == 0 {
                self.users.remove(&user);
            }
        }
        for channel in channels {
            let place = (user, channel);
            let Some(lane) = self.lanes.get_mut(&place) else {
                continue;
            };
            lane.pop_front_if(|first| *first == ticket);
            // Empty lanes go. Otherwise each channel and user would take memory for good.
            let Some(front) = lane.front().copied() else {
                self.lanes.remove(&place);
                continue;
            };
            if let Some(request) = self.requests.get_mut(&front) {
                // Each lane that blocked the request frees it once, so the number cannot fall below
                // zero.
                request.blocked = request.blocked.saturating_sub(1);
                if request.blocked == 0 {
                    self.ready.push_back(front);
                }
            }
        }
    }

    /// Adds the requests of each user to a report.
    pub fn report_quotas(&self, report: &mut QuotaReport) {
        let QueueLimits {
            requests,
            bytes,
            user_requests,
            user_bytes,
        } = self.limits;
        report.limit(Quota::LogRequests, user_requests, Some(requests));
        report.limit(Quota::LogBytes, user_bytes, Some(bytes));
        for (user, share) in &self.users {
            let Some(uid) = *user else { continue };
            report.hold(Quota::LogRequests, [(uid, share.requests)]);
            report.hold(Quota::LogBytes, [(uid, share.bytes)]);
        }
    }

    /// The number of requests that wait or are being written.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection, prelude::*};

    const LIMITS: QueueLimits = QueueLimits {
        requests: 9,
        bytes: 60,
        user_requests: 4,
        user_bytes: 30,
    };

    fn channel(at: u8) -> Key {
        Key::new(&format!("pmix.log.{at}")).unwrap()
    }

    #[derive(Clone, Debug)]
    enum QueueStep {
        Push {
            user: LogUser,
            bytes: usize,
            channels: BTreeSet<u8>,
        },
        Begin,
        Finish(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = QueueStep> {
        let user = prop_oneof![Just(None), (0..3_u32).prop_map(Some)];
        let push = (user, 0..20_usize, collection::btree_set(0..4_u8, 0..3));
        prop_oneof![
            3 => push.prop_map(|(user, bytes, channels)| QueueStep::Push { user, bytes, channels }),
            2 => Just(QueueStep::Begin),
            2 => any::<prop::sample::Index>().prop_map(QueueStep::Finish),
        ]
    }

    /// A request of the model: a list of all that are left, in the order in which they came.
    #[derive(Clone, Debug)]
    struct Modelled {
        number: usize,
        user: LogUser,
        bytes: usize,
        channels: BTreeSet<u8>,
        ticket: Option<Ticket>,
    }

    fn may_begin(list: &[Modelled], at: usize) -> bool {
        let request = &list[at];
        let blocks = |other: &Modelled| {
            other.user == request.user && !other.channels.is_disjoint(&request.channels)
        };
        request.ticket.is_none() && !list[..at].iter().any(blocks)
    }

    fn room(list: &[Modelled], user: LogUser, bytes: usize) -> Result<(), QueueLimit> {
        let own = || list.iter().filter(|request| request.user == user);
        let sum = |bytes: usize, request: &Modelled| bytes + request.bytes;
        match () {
            () if own().count() >= LIMITS.user_requests => Err(QueueLimit::UserRequests),
            () if own().fold(bytes, sum) > LIMITS.user_bytes => Err(QueueLimit::UserBytes),
            () if list.len() >= LIMITS.requests => Err(QueueLimit::Requests),
            () if list.iter().fold(bytes, sum) > LIMITS.bytes => Err(QueueLimit::Bytes),
            () => Ok(()),
        }
    }

    proptest! {
        #[test]
        fn queue_does_as_a_list_of_all_requests(steps in collection::vec(step(), 1..200)) {
            let (mut queue, mut list): (LogQueue<usize>, Vec<Modelled>) = (LogQueue::new(LIMITS), Vec::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    QueueStep::Push { user, bytes, channels } => {
                        let answer = queue.check(user, bytes);
                        prop_assert_eq!(answer, room(&list, user, bytes));
                        if answer.is_ok() {
                            queue.push(user, bytes, channels.iter().copied().map(channel).collect(), number);
                            list.push(Modelled { number, user, bytes, channels, ticket: None });
                        }
                    }
                    QueueStep::Begin => match queue.begin() {
                        Some(BegunRequest { ticket, item }) => {
                            let at = list.iter().position(|request| request.number == item).unwrap();
                            prop_assert!(may_begin(&list, at), "{} before its time: {:?}", item, list);
                            list[at].ticket = Some(ticket);
                        }
                        None => {
                            let ready = (0..list.len()).find(|at| may_begin(&list, *at));
                            prop_assert!(ready.is_none(), "{:?} is forgotten: {:?}", ready, list);
                        }
                    },
                    QueueStep::Finish(which) => {
                        let begun: Vec<usize> = (0..list.len()).filter(|at| list[*at].ticket.is_some()).collect();
                        if !begun.is_empty() {
                            queue.finish(list.remove(*which.get(&begun)).ticket.unwrap());
                        }
                    }
                }
                prop_assert_eq!(queue.len(), list.len());
                prop_assert_eq!(queue.users.len(), list.iter().map(|request| request.user).collect::<BTreeSet<_>>().len());
            }
        }
    }

    #[test]
    fn user_has_one_request_at_most_before_a_channel() {
        let mut queue = LogQueue::new(QueueLimits::default());
        for number in 0..100 {
            queue.push(Some(1), 1, [channel(0)].into(), number);
        }
        queue.push(Some(2), 1, [channel(0)].into(), 100);
        queue.push(Some(1), 1, [channel(1)].into(), 101);
        let begun: Vec<i32> = std::iter::from_fn(|| queue.begin())
            .map(|begun| begun.item)
            .collect();
        assert_eq!(
            begun,
            [0, 100, 101],
            "the first of each user on each channel"
        );
    }
}
