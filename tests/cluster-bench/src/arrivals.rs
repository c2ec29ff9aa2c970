//! Counts of the reports that all servers of a measurement get.
use anyhow::{Context, Result};
use peal_cluster::{JoinedServer, RefusedSender, ServerKind};
use peal_core::{group::ServerId, server::InterServerMessage};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Notify, time::timeout};

/// Counts of all servers.
pub struct Arrivals {
    servers: usize,
    /// Times at which servers became members.
    enrolled: Mutex<Vec<Instant>>,
    /// Servers that know all others.
    complete: AtomicUsize,
    all_complete: Notify,
    /// Servers that have the present event.
    reached: AtomicUsize,
    all_reached: Notify,
    last_reached: Mutex<Option<Instant>>,
    /// Servers that were reported as left.
    lost: AtomicUsize,
}

impl Arrivals {
    /// Creates the counts of this number of servers.
    pub fn of(servers: usize) -> Arc<Arrivals> {
        Arc::new(Arrivals {
            servers,
            enrolled: Mutex::default(),
            complete: AtomicUsize::new(0),
            all_complete: Notify::new(),
            reached: AtomicUsize::new(0),
            all_reached: Notify::new(),
            last_reached: Mutex::new(None),
            lost: AtomicUsize::new(0),
        })
    }

    /// Waits until every server knows all others.
    pub async fn wait_for_members(&self, patience: Duration) -> Result<()> {
        let complete = timeout(patience, self.all_complete.notified()).await;
        complete.with_context(|| {
            let complete = self.complete.load(Ordering::SeqCst);
            format!("{complete} of {} know all others", self.servers)
        })
    }

    /// Returns the times at which servers became members, in their order.
    pub fn enrolled(&self) -> Vec<Instant> {
        let enrolled = self.enrolled.lock();
        enrolled.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins to count for the next event, and returns the time.
    pub fn expect_event(&self) -> Instant {
        self.reached.store(0, Ordering::SeqCst);
        Instant::now()
    }

    /// Waits until all other servers have the event. Returns the time at which the last one got it.
    pub async fn wait_for_event(&self, patience: Duration) -> Result<Instant> {
        let reached = timeout(patience, self.all_reached.notified()).await;
        reached.with_context(|| {
            let reached = self.reached.load(Ordering::SeqCst);
            format!("{reached} of {} have it", self.servers)
        })?;
        let last = self.last_reached.lock();
        let last = *last.unwrap_or_else(PoisonError::into_inner);
        last.context("no server got the event")
    }

    /// Returns the number of times that a server was reported as left.
    pub fn lost(&self) -> usize {
        self.lost.load(Ordering::SeqCst)
    }

    fn others(&self) -> usize {
        self.servers.saturating_sub(1)
    }

    fn count_event(&self) {
        if self.reached.fetch_add(1, Ordering::SeqCst) + 1 == self.others() {
            let mut last = self.last_reached.lock();
            let last = last.as_deref_mut().map(|last| last.replace(Instant::now()));
            drop(last);
            self.all_reached.notify_one();
        }
    }

    fn count_complete(&self) {
        if self.complete.fetch_add(1, Ordering::SeqCst) + 1 == self.servers {
            self.all_complete.notify_one();
        }
    }
}

/// Server that only counts what it is told.
pub struct CountingServer {
    others: AtomicUsize,
    arrivals: Arc<Arrivals>,
}

impl CountingServer {
    /// Creates a server that knows no others.
    pub fn new(arrivals: &Arc<Arrivals>) -> Arc<CountingServer> {
        Arc::new(CountingServer {
            others: AtomicUsize::new(0),
            arrivals: arrivals.clone(),
        })
    }
}

impl JoinedServer for CountingServer {
    fn enroll(&self, _id: ServerId) {
        let enrolled = self.arrivals.enrolled.lock();
        let mut enrolled = enrolled.unwrap_or_else(PoisonError::into_inner);
        enrolled.push(Instant::now());
    }

    fn server_joined(&self, _id: ServerId, _kind: ServerKind) {
        if self.others.fetch_add(1, Ordering::SeqCst) + 1 == self.arrivals.others() {
            self.arrivals.count_complete();
        }
    }

    fn server_left(&self, _id: ServerId) {
        self.others.fetch_sub(1, Ordering::SeqCst);
        self.arrivals.lost.fetch_add(1, Ordering::SeqCst);
    }

    fn server_message(
        &self,
        from: ServerId,
        message: InterServerMessage,
    ) -> Result<(), Box<InterServerMessage>> {
        self.last_message(from, message);
        Ok(())
    }

    fn last_message(&self, _from: ServerId, message: InterServerMessage) {
        if let InterServerMessage::Event(..) = message {
            self.arrivals.count_event();
        }
    }

    fn message_refused(&self, _from: RefusedSender, _reason: &str) {}

    fn max_server_inbox_bytes(&self) -> usize {
        64 << 20
    }
}
