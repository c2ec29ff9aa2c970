//! Share of each user in connections, partial handshakes, partial frames and the execution of
//! messages. The user of a connection is the one that the kernel reports.
//!
//! A connection beyond the share is refused at once. A handshake or frame beyond it is read on when
//! others of the same user are complete, because the procs of a job connect all at once. Root and
//! the server's user are exempt, and have reserved connections.
use crate::{
    client_writer::Behind,
    outbox_share::{OutboxLimits, OutboxShare},
    request_pace::{PacedUser, RequestTime},
    request_pacer::RequestPacer,
    user_pace::UserPaces,
};
use peal_core::quota::{Quota, QuotaReport, unreserved};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

/// Numbers of refusals of one user in a second that cause no delay: of handshakes and of connections
/// each, and of requests refused for lack of resources.
const FREE_HANDSHAKES: u32 = 32;
const FREE_REQUESTS: u32 = 1000;

/// Bytes per permit of the semaphore for frames.
const FRAME_UNIT: usize = 1024;

/// Limits in total and per user.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShareLimits {
    /// Maximum number of connections.
    pub(crate) max_connections: usize,
    /// Maximum number of connections of one user.
    pub(crate) max_connections_per_user: usize,
    /// Maximum number of handshakes of one user that are read at once.
    pub(crate) max_handshakes_per_user: usize,
    /// Maximum bytes of partial frames of one user.
    pub(crate) max_partial_frame_bytes_per_user: usize,
    /// Maximum bytes of partial frames of all users that have a share.
    pub(crate) max_partial_frame_bytes_total: usize,
    /// Maximum time from the first byte of a frame to its last.
    pub(crate) frame_timeout: Duration,
    /// Maximum delay of a handshake or request after others of the same user were refused.
    pub(crate) max_refusal_delay: Duration,
    /// Limits of the messages that wait for clients.
    pub(crate) outbox: OutboxLimits,
}

fn units(bytes: usize) -> usize {
    // One request for permits can ask for at most `u32::MAX`.
    (bytes / FRAME_UNIT).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize))
}

impl ShareExceeded {
    /// Returns the resource that is used up.
    pub(crate) fn quota(self) -> Quota {
        match self {
            ShareExceeded::Connections { .. } | ShareExceeded::UserConnections { .. } => {
                Quota::Connections
            }
            ShareExceeded::Handshakes { .. } => Quota::Handshakes,
            ShareExceeded::FrameBytes { .. } => Quota::PartialFrameBytes,
        }
    }
}

impl ShareLimits {
    /// Returns the number of connections for all users except root and the server's user.
    fn unreserved_connections(&self) -> usize {
        unreserved(self.max_connections)
    }

    fn frame_units(&self) -> usize {
        units(self.max_partial_frame_bytes_per_user).min(self.total_frame_units())
    }

    fn total_frame_units(&self) -> usize {
        units(self.max_partial_frame_bytes_total)
    }
}

/// Limit that would be exceeded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum ShareExceeded {
    #[error(
        "there are {max} connections, more are not allowed (server.max_connections, of which an eighth is for root and the server's user)"
    )]
    Connections { max: usize },
    #[error(
        "user {uid} has {max} connections, more are not allowed (server.max_connections_per_user)"
    )]
    UserConnections { uid: u32, max: usize },
    #[error(
        "{max} other handshakes of user {uid} were not complete in time (server.max_handshakes_per_user)"
    )]
    Handshakes { uid: u32, max: usize },
    #[error(
        "partial frames of user {uid} take {max} bytes, more are not allowed (server.max_partial_frame_bytes_per_user)"
    )]
    FrameBytes { uid: u32, max: usize },
}

/// Usage of all users, with its limits.
#[derive(Debug)]
pub(crate) struct UserShares {
    limits: ShareLimits,
    /// User of the server.
    server: u32,
    usage: Mutex<Usage>,
    /// Permits for the partial frames of all users that have a share.
    frames: Arc<Semaphore>,
    /// Bytes of the messages that wait for all clients.
    outbox_bytes: Arc<AtomicUsize>,
    pacer: Arc<RequestPacer>,
}

#[derive(Debug)]
struct Usage {
    connections: usize,
    users: BTreeMap<u32, UserUsage>,
    refused_connections: UserPaces,
    refused_handshakes: UserPaces,
    refused_requests: UserPaces,
}

/// Usage of one user, kept while the user has connections.
#[derive(Debug)]
struct UserUsage {
    connections: usize,
    /// Rest of the share, `None` for root and the server's user.
    remaining: Option<Remaining>,
    outbox: Arc<OutboxShare>,
}

#[derive(Clone, Debug)]
struct Remaining {
    handshakes: Arc<Semaphore>,
    frames: Arc<Semaphore>,
    turns: Arc<MessageTurns>,
}

/// Turns of the connections of one user.
#[derive(Debug)]
struct MessageTurns {
    /// The permit to execute messages.
    permit: Arc<Semaphore>,
    /// Number of connections that wait for it.
    waiting: AtomicUsize,
}

impl MessageTurns {
    fn new() -> MessageTurns {
        MessageTurns {
            permit: Arc::new(Semaphore::new(1)),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Waits for the permit.
    async fn take(&self) -> MessageTurn {
        let _waiting = WaitingConnection::new(&self.waiting);
        // The semaphore is never closed.
        MessageTurn(self.permit.clone().acquire_owned().await.ok())
    }

    fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

/// Connection that waits for its turn, until it is dropped.
struct WaitingConnection<'a>(&'a AtomicUsize);

impl WaitingConnection<'_> {
    fn new(waiting: &AtomicUsize) -> WaitingConnection<'_> {
        waiting.fetch_add(1, Ordering::Relaxed);
        WaitingConnection(waiting)
    }
}

impl Drop for WaitingConnection<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl UserShares {
    pub(crate) fn new(limits: ShareLimits, server: u32, pacer: Arc<RequestPacer>) -> UserShares {
        let usage = Usage {
            connections: 0,
            users: BTreeMap::new(),
            refused_connections: UserPaces::new(FREE_HANDSHAKES),
            refused_handshakes: UserPaces::new(FREE_HANDSHAKES),
            refused_requests: UserPaces::new(FREE_REQUESTS),
        };
        UserShares {
            limits,
            server,
            usage: Mutex::new(usage),
            frames: Arc::new(Semaphore::new(limits.total_frame_units())),
            outbox_bytes: Arc::default(),
            pacer,
        }
    }

    /// Charges a connection to a user, until the result is dropped.
    pub(crate) fn connect(self: &Arc<Self>, uid: u32) -> Result<ConnectionShare, ShareExceeded> {
        // Root and the server's user must be able to connect when other users fill the server.
        let is_bounded = self.is_bounded(uid);
        let ShareLimits {
            max_connections,
            max_connections_per_user: own,
            ..
        } = self.limits;
        let max = if is_bounded {
            self.limits.unreserved_connections()
        } else {
            max_connections
        };
        let mut usage = self.usage();
        let count = usage.users.get(&uid).map_or(0, |user| user.connections);
        if is_bounded && count >= own {
            return Err(ShareExceeded::UserConnections { uid, max: own });
        }
        if usage.connections >= max {
            return Err(ShareExceeded::Connections { max });
        }
        Ok(self.charge(&mut usage, uid))
    }

    /// Charges a connection that another process of this server has admitted, whatever the limits.
    pub(crate) fn reconnect(self: &Arc<Self>, uid: u32) -> ConnectionShare {
        self.charge(&mut self.usage(), uid)
    }

    fn charge(self: &Arc<Self>, usage: &mut Usage, uid: u32) -> ConnectionShare {
        usage.connections += 1;
        let is_bounded = self.is_bounded(uid);
        let fresh = || UserUsage {
            connections: 0,
            remaining: is_bounded.then(|| self.whole_share()),
            outbox: Arc::new(self.outbox_share(uid)),
        };
        let user = usage.users.entry(uid).or_insert_with(fresh);
        user.connections += 1;
        let turns = user
            .remaining
            .as_ref()
            .map(|remaining| remaining.turns.clone());
        ConnectionShare {
            shares: self.clone(),
            uid,
            turns,
        }
    }

    /// Notes that a connection of a user was refused. Returns the delay of its close.
    pub(crate) fn refused_connection_delay(&self, uid: u32, now: Instant) -> Duration {
        if !self.is_bounded(uid) {
            return Duration::ZERO;
        }
        let longest = self.limits.max_refusal_delay;
        let refused = &mut self.usage().refused_connections;
        refused.note(uid, 1, now, longest);
        refused.delay(uid, now)
    }

    /// Adds the limits of one user and the usage of all users to a report.
    pub(crate) fn report_quotas(&self, report: &mut QuotaReport) {
        let ShareLimits {
            max_connections: all,
            max_connections_per_user: connections,
            max_handshakes_per_user: handshakes,
            max_partial_frame_bytes_per_user: frames,
            max_partial_frame_bytes_total: all_frames,
            ..
        } = self.limits;
        report.limit(Quota::Connections, connections, Some(all));
        report.limit(Quota::Handshakes, handshakes, Some(all));
        report.limit(Quota::PartialFrameBytes, frames, Some(all_frames));
        let OutboxLimits { user, total, .. } = self.limits.outbox;
        report.limit(Quota::OutboxBytes, user, Some(total));
        for (uid, user) in &self.usage().users {
            report.hold(Quota::Connections, [(*uid, user.connections)]);
            report.hold(Quota::OutboxBytes, [(*uid, user.outbox.held())]);
            let Some(Remaining {
                handshakes: free_handshakes,
                frames: free_frames,
                ..
            }) = &user.remaining
            else {
                continue;
            };
            let held = handshakes.saturating_sub(free_handshakes.available_permits());
            report.hold(Quota::Handshakes, [(*uid, held)]);
            let units = self.limits.frame_units();
            let held = units.saturating_sub(free_frames.available_permits()) * FRAME_UNIT;
            report.hold(Quota::PartialFrameBytes, [(*uid, held)]);
        }
    }

    /// Returns true for users that have a share: all but root and the server's user.
    fn is_bounded(&self, uid: u32) -> bool {
        uid != 0 && uid != self.server
    }

    fn outbox_share(&self, uid: u32) -> OutboxShare {
        if self.is_bounded(uid) {
            OutboxShare::bounded(self.limits.outbox, &self.outbox_bytes)
        } else {
            OutboxShare::exempt(self.limits.outbox, &self.outbox_bytes)
        }
    }

    fn whole_share(&self) -> Remaining {
        let handshakes = self
            .limits
            .max_handshakes_per_user
            // A semaphore of tokio panics beyond this number.
            .min(Semaphore::MAX_PERMITS);
        Remaining {
            handshakes: Arc::new(Semaphore::new(handshakes)),
            frames: Arc::new(Semaphore::new(self.limits.frame_units())),
            turns: Arc::new(MessageTurns::new()),
        }
    }

    /// Returns the rest of a user's share, `None` for root and the server's user. The semaphores
    /// are shared handles, so that callers wait without holding the lock.
    fn remaining(&self, uid: u32) -> Option<Remaining> {
        self.usage().users.get(&uid)?.remaining.clone()
    }

    fn usage(&self) -> MutexGuard<'_, Usage> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Share of one connection of a user, until it is dropped.
#[derive(Debug)]
pub(crate) struct ConnectionShare {
    shares: Arc<UserShares>,
    uid: u32,
    /// Turns of the user's connections, `None` for root and the server's user.
    turns: Option<Arc<MessageTurns>>,
}

/// Share of a handshake that is being read, or of a partial frame, until it is dropped. It is empty
/// for root and the server's user.
#[derive(Debug)]
pub(crate) struct UnfinishedShare(
    #[expect(dead_code, reason = "the permits are released when they are dropped")]
    [Option<OwnedSemaphorePermit>; 2],
);

/// Time at which messages of a connection may be executed.
#[derive(Debug)]
pub(crate) enum MessageTime {
    /// Now, with this permit.
    Now(MessageTurn),
    /// When other connections of the user have executed theirs.
    InTurn,
    /// After this time.
    After(Duration),
}

/// Permit to execute messages of a user, until it is dropped.
#[derive(Debug)]
pub(crate) struct MessageTurn(Option<OwnedSemaphorePermit>);

impl Drop for MessageTurn {
    fn drop(&mut self) {
        // A task releases the permit. It is behind all tasks that are ready now, so that the work of
        // other users comes between two turns of one user.
        let Some(permit) = self.0.take() else { return };
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { drop(permit) });
        }
    }
}

impl ConnectionShare {
    /// Returns a permit to execute messages, if that is possible now. While other users make
    /// requests, one connection of a user executes messages at a time, and users who make the most
    /// requests are delayed.
    pub(crate) fn try_turn(&self, now: Instant) -> MessageTime {
        let Some(turns) = &self.turns else {
            return MessageTime::Now(MessageTurn(None));
        };
        match self.shares.pacer.time_of(self.paced_user(), now) {
            RequestTime::Free => MessageTime::Now(MessageTurn(None)),
            RequestTime::After(wait) => MessageTime::After(wait),
            RequestTime::Shared => match turns.permit.clone().try_acquire_owned() {
                Ok(permit) => MessageTime::Now(MessageTurn(Some(permit))),
                Err(_) => MessageTime::InTurn,
            },
        }
    }

    /// Notes a request, which was executed. Returns false if the next one has to wait.
    pub(crate) fn note_request(&self, behind: Behind, now: Instant) -> bool {
        let behind = match &self.turns {
            Some(turns) if turns.has_waiting() => Behind::More,
            _ => behind,
        };
        let next = self.shares.pacer.note(self.paced_user(), behind, now);
        !matches!(next, RequestTime::After(_))
    }

    fn paced_user(&self) -> PacedUser {
        // Root and the server's user have no turns.
        self.turns.as_ref().map(|_| self.uid)
    }

    /// Waits for a permit to execute messages. The connections of a user get it in the order of
    /// their requests.
    pub(crate) async fn turn(&self) -> MessageTurn {
        match &self.turns {
            None => MessageTurn(None),
            Some(turns) => turns.take().await,
        }
    }

    /// Notes that a handshake of the user was refused.
    pub(crate) fn note_refused_handshake(&self, now: Instant) {
        // Only bounded users have turns: root and the server's user are exempt.
        if self.turns.is_some() {
            self.shares.usage().refused_handshakes.note(
                self.uid,
                1,
                now,
                self.shares.limits.max_refusal_delay,
            );
        }
    }

    /// Returns the delay of this handshake after others of the same user were refused.
    pub(crate) fn handshake_delay(&self, now: Instant) -> Duration {
        self.shares.usage().refused_handshakes.delay(self.uid, now)
    }

    /// Notes that `count` requests were refused for lack of resources. Returns the delay of the
    /// requests behind them.
    pub(crate) fn refused_requests_delay(&self, count: u32, now: Instant) -> Duration {
        if self.turns.is_none() {
            return Duration::ZERO;
        }
        let mut usage = self.shares.usage();
        usage
            .refused_requests
            .note(self.uid, count, now, self.shares.limits.max_refusal_delay);
        usage.refused_requests.delay(self.uid, now)
    }

    /// Waits until a handshake of the user may be read.
    pub(crate) async fn handshake(&self) -> UnfinishedShare {
        let Some(Remaining { handshakes, .. }) = self.shares.remaining(self.uid) else {
            return UnfinishedShare([None, None]);
        };
        // The semaphore is never closed.
        UnfinishedShare([handshakes.acquire_owned().await.ok(), None])
    }

    /// Waits until a frame of this length may be read. A frame longer than the whole share takes
    /// all of it.
    pub(crate) async fn frame(&self, bytes: usize) -> UnfinishedShare {
        let Some(Remaining { frames, .. }) = self.shares.remaining(self.uid) else {
            return UnfinishedShare([None, None]);
        };
        let units = bytes
            .div_ceil(FRAME_UNIT)
            .min(self.shares.limits.frame_units());
        // The number of units fits: `frame_units` is at most `u32::MAX`.
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        // First the user's own: a frame that waits for it must not hold permits of all.
        let own = frames.acquire_many_owned(units).await.ok();
        let all = self.shares.frames.clone().acquire_many_owned(units).await;
        UnfinishedShare([own, all.ok()])
    }

    /// Returns the share of the user in the messages that wait for clients.
    pub(crate) fn outbox(&self) -> Arc<OutboxShare> {
        let usage = self.shares.usage();
        let known = usage.users.get(&self.uid).map(|user| user.outbox.clone());
        // A user with a connection is known.
        known.unwrap_or_else(|| Arc::new(self.shares.outbox_share(self.uid)))
    }

    /// Returns the user.
    pub(crate) fn uid(&self) -> u32 {
        self.uid
    }

    /// Returns the maximum time from the first byte of a frame to its last.
    pub(crate) fn frame_timeout(&self) -> Duration {
        self.shares.limits.frame_timeout
    }

    /// Returns the error for a handshake that was not read in time.
    pub(crate) fn handshakes_exceeded(&self) -> ShareExceeded {
        ShareExceeded::Handshakes {
            uid: self.uid,
            max: self.shares.limits.max_handshakes_per_user,
        }
    }

    /// Returns the error for a frame that was not read in time.
    pub(crate) fn frames_exceeded(&self) -> ShareExceeded {
        ShareExceeded::FrameBytes {
            uid: self.uid,
            max: self.shares.limits.max_partial_frame_bytes_per_user,
        }
    }
}

impl Drop for ConnectionShare {
    fn drop(&mut self) {
        let mut usage = self.shares.usage();
        usage.connections = usage.connections.saturating_sub(1);
        if let Some(user) = usage.users.get_mut(&self.uid) {
            user.connections = user.connections.saturating_sub(1);
            if user.connections == 0 {
                usage.users.remove(&self.uid);
            }
        }
    }
}

#[cfg(test)]
mod tests;
