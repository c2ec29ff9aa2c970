//! Seals of the audit trail of a node on their way into the stream of seals, where nobody may delete them.
use crate::{
    network::Shared,
    storing::{StoreError, StoredOnce},
    streams::ClusterStream,
    subjects::{ClusterSubject, ClusterSubjects},
};
use async_nats::{
    Client,
    jetstream::{self, ErrorCode},
};
use peal_cluster::{SealCounts, SealLimits, SealOutbox, TrailSeal};
use peal_core::MonotonicTime;
use peal_model::NodeName;
use std::{
    error::Error,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Notify, watch},
    time::{sleep, timeout},
};

/// Time between two attempts to store a seal.
const RETRY_EACH: Duration = Duration::from_millis(500);
/// Error of JetStream for a subject that has as many messages as it may.
const SUBJECT_IS_FULL: u64 = 10_077;

/// Seals of a server that wait for the stream. Cheap to clone.
#[derive(Clone)]
pub struct SealQueue(Arc<QueueShared>);

struct QueueShared {
    outbox: Mutex<SealOutbox>,
    /// Reason for which the stream refuses seals; `None` if it takes them.
    refusal: Mutex<Option<String>>,
    started: Instant,
    /// Signals new seals, and the end, to the task.
    wake: Notify,
    /// Number of seals that were stored or given up.
    progress: watch::Sender<u64>,
}

impl SealQueue {
    /// Creates an empty queue.
    pub fn new(limits: SealLimits) -> SealQueue {
        SealQueue(Arc::new(QueueShared {
            outbox: Mutex::new(SealOutbox::new(limits)),
            refusal: Mutex::default(),
            started: Instant::now(),
            wake: Notify::new(),
            progress: watch::Sender::new(0),
        }))
    }

    /// Adds a seal that is later than all others. Never blocks.
    pub fn add(&self, seal: TrailSeal) {
        self.outbox().add(seal);
        self.0.wake.notify_one();
    }

    /// Returns the numbers of seals.
    pub fn counts(&self) -> SealCounts {
        self.outbox().counts()
    }

    /// Returns the reason for which the stream refuses seals; `None` if it takes them.
    pub fn refusal(&self) -> Option<String> {
        self.locked_refusal().clone()
    }

    /// Waits until the stream has the latest seal, as long as the limit at most. There are no later ones.
    pub async fn finish(&self, limit: Duration) {
        self.outbox().close();
        self.0.wake.notify_one();
        let mut progress = self.0.progress.subscribe();
        let stored = progress.wait_for(|_| self.counts().waiting == 0);
        if timeout(limit, stored).await.is_err() {
            tracing::warn!("last seal of the audit trail not stored in the cluster");
        }
    }

    /// Sends seals until the process ends.
    pub(crate) async fn send(
        self,
        client: Client,
        subjects: ClusterSubjects,
        node: NodeName,
        network: Arc<Shared>,
    ) {
        let context = jetstream::new(client);
        let prefix = node.to_string();
        let subject = subjects.text(&ClusterSubject::Seal { node });
        loop {
            let due = self.outbox().due_at();
            match due.map(|at| at.0.saturating_sub(self.now().0)) {
                Some(0) => {}
                Some(wait) => {
                    tokio::select! {
                        () = self.0.wake.notified() => {}
                        () = sleep(Duration::from_millis(wait)) => {}
                    }
                    continue;
                }
                None => {
                    self.0.wake.notified().await;
                    continue;
                }
            }
            let next = self.outbox().next(self.now()).cloned();
            // A stream of another form could let seals be deleted.
            let Some(seal) = next.filter(|_| network.is_reached()) else {
                sleep(RETRY_EACH).await;
                continue;
            };
            // Nodes may have copies of one trail.
            let id = format!("{prefix}-{}", seal.id);
            let message = StoredOnce {
                subject: &subject,
                id: &id,
                bytes: seal.line.as_bytes(),
            };
            match message.store(&context).await {
                Ok(()) => self.stored(&seal),
                Err(error) => {
                    self.refused(SealRefusal::of(&error));
                    sleep(RETRY_EACH).await;
                }
            }
        }
    }

    fn stored(&self, seal: &TrailSeal) {
        self.outbox().stored(&seal.id, self.now());
        if self.locked_refusal().take().is_some() {
            tracing::info!("the cluster takes seals of the audit trail again");
        }
        self.0.progress.send_modify(|count| *count += 1);
    }

    fn refused(&self, reason: SealRefusal) {
        match reason {
            SealRefusal::Away(error) => {
                tracing::debug!(error, "seal of the audit trail not stored yet");
            }
            SealRefusal::Refused(reason) => {
                let before = self.locked_refusal().replace(reason.clone());
                if before.as_ref() != Some(&reason) {
                    tracing::error!(reason, "the cluster refuses seals of the audit trail");
                }
            }
        }
    }

    fn outbox(&self) -> MutexGuard<'_, SealOutbox> {
        // No code panics while it holds the lock.
        self.0.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked_refusal(&self) -> MutexGuard<'_, Option<String>> {
        self.0
            .refusal
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> MonotonicTime {
        MonotonicTime::default() + self.0.started.elapsed()
    }
}

/// Reason for which a seal is not stored.
enum SealRefusal {
    /// The stream does not answer, perhaps for a while.
    Away(String),
    /// The stream answers, and refuses.
    Refused(String),
}

impl SealRefusal {
    fn of(error: &StoreError) -> SealRefusal {
        let answer = match error {
            StoreError::Publish(error) => error.source(),
            StoreError::Read(_) | StoreError::Random(_) => None,
        };
        match answer.and_then(|source| source.downcast_ref::<jetstream::Error>()) {
            Some(answer) if answer.error_code() == ErrorCode(SUBJECT_IS_FULL) => {
                SealRefusal::Refused(format!(
                    "the stream has as many seals of this node as it may ({})",
                    ClusterStream::MAX_SEALS
                ))
            }
            Some(answer) => SealRefusal::Refused(answer.to_string()),
            None => SealRefusal::Away(error.to_string()),
        }
    }
}
