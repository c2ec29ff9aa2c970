//! Listeners of the server's notices. They may be added and removed at any time, and never delay or
//! end an event. A slow listener misses notices, which are counted.
use super::{Notice, TraceSampler};
use peal_store::TraceRateLimit;
use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

/// Upper bounds of the notices that wait for a listener; further ones are dropped and counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListenerBounds {
    /// Number of notices, at least 1.
    pub notices: usize,
    /// Memory of the notices, in bytes.
    pub bytes: usize,
}

impl Default for ListenerBounds {
    fn default() -> Self {
        ListenerBounds {
            notices: 4096,
            bytes: 64 << 20,
        }
    }
}

/// Minimum interval between two reports of missed notices while notices are waiting.
const BETWEEN_LOSSES: Duration = Duration::from_secs(1);

/// Distributor of notices. It works without listeners, too.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    senders: Arc<RwLock<Vec<NoticeSender>>>,
    record: Option<mpsc::UnboundedSender<RecordedNotice>>,
    sampler: Option<Arc<TraceSampler>>,
}

/// Notice for the record of a job.
#[derive(Debug)]
pub struct RecordedNotice {
    /// The notice.
    pub notice: Notice,
    /// Sender of [`Notices::notify_recorded`], which waits until the recorder drops it.
    pub written: Option<oneshot::Sender<()>>,
}

/// Sending end of a listener's queue.
#[derive(Debug)]
struct NoticeSender {
    wants: fn(&Notice) -> bool,
    max_bytes: usize,
    send: mpsc::Sender<(Notice, usize)>,
    backlog: Arc<NoticeBacklog>,
}

/// Memory of the waiting notices of a listener, and the number of dropped ones.
#[derive(Debug, Default)]
struct NoticeBacklog {
    /// Memory of the waiting notices, in bytes.
    bytes: AtomicUsize,
    lost: AtomicU64,
}

impl NoticeSender {
    /// Sends a notice without waiting.
    fn notify(&self, notice: &Notice) {
        if !(self.wants)(notice) {
            return;
        }
        let bytes = notice.bytes();
        let waiting = self
            .backlog
            .bytes
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        // A single notice larger than the bound is sent if no other is waiting.
        let fits = waiting <= self.max_bytes || waiting == bytes;
        if !fits || self.send.try_send((notice.clone(), bytes)).is_err() {
            self.backlog.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.backlog.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Notices {
    /// Adds a listener for the notices that `wants` selects.
    pub fn listen(&self, wants: fn(&Notice) -> bool) -> Listener {
        self.listen_within(ListenerBounds::default(), wants)
    }

    /// Adds a listener for the notices that `wants` selects, of which so many may wait.
    pub fn listen_within(&self, bounds: ListenerBounds, wants: fn(&Notice) -> bool) -> Listener {
        let (send, notices) = mpsc::channel(bounds.notices);
        let backlog: Arc<NoticeBacklog> = Arc::default();
        // A poisoned lock is usable: the list is consistent after each call.
        let mut senders = self.senders.write().unwrap_or_else(PoisonError::into_inner);
        // Remove the senders of dropped listeners.
        senders.retain(|sender| !sender.send.is_closed());
        senders.push(NoticeSender {
            wants,
            max_bytes: bounds.bytes,
            send,
            backlog: backlog.clone(),
        });
        Listener {
            notices,
            backlog,
            loss_limit: TraceRateLimit::new(BETWEEN_LOSSES),
        }
    }

    /// Adds a queue for the record of a job to the distributor. Its notices are never dropped.
    pub fn recorded(self) -> (Notices, mpsc::UnboundedReceiver<RecordedNotice>) {
        let (send, receive) = mpsc::unbounded_channel();
        (
            Notices {
                record: Some(send),
                ..self
            },
            receive,
        )
    }

    /// Makes the server measure the events and decisions that a sampler selects.
    pub fn measured(self, sampler: Arc<TraceSampler>) -> Notices {
        Notices {
            sampler: Some(sampler),
            ..self
        }
    }

    /// Takes a sample: returns true if the next event or decision is to be traced.
    pub(crate) fn takes_sample(&self) -> bool {
        self.sampler.as_ref().is_some_and(|sampler| sampler.take())
    }

    /// Sends a notice to all listeners.
    pub fn notify(&self, notice: Notice) {
        self.send(notice, None);
    }

    /// Sends a notice to all listeners, and waits until it is in the record, if there is one.
    pub async fn notify_recorded(&self, notice: Notice) {
        let (written, is_written) = oneshot::channel();
        self.send(notice, Some(written));
        // The sender is dropped, and never used.
        let _ = is_written.await;
    }

    fn send(&self, notice: Notice, written: Option<oneshot::Sender<()>>) {
        self.senders
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(|sender| sender.notify(&notice));
        if let Some(record) = self.record.as_ref().filter(|_| notice.is_for_record()) {
            // Ignore the error: the record may no longer be kept.
            let _ = record.send(RecordedNotice { notice, written });
        }
    }
}

/// Item that a listener receives.
#[derive(Clone, PartialEq, Debug)]
pub enum ListenerItem {
    /// Notice.
    Notice(Notice),
    /// Number of notices that the listener missed since the last such item.
    Missed(u64),
}

/// Receiving end of a listener's queue.
#[derive(Debug)]
pub struct Listener {
    notices: mpsc::Receiver<(Notice, usize)>,
    backlog: Arc<NoticeBacklog>,
    loss_limit: TraceRateLimit,
}

impl Listener {
    /// Waits for the next item; none when no notice can follow.
    pub async fn recv(&mut self) -> Option<ListenerItem> {
        if let Some(missed) = self.missed() {
            return Some(missed);
        }
        let next = self.notices.recv().await;
        self.item_of(next)
    }

    /// Waits for the next item on a thread that may block.
    pub fn blocking_recv(&mut self) -> Option<ListenerItem> {
        if let Some(missed) = self.missed() {
            return Some(missed);
        }
        let next = self.notices.blocking_recv();
        self.item_of(next)
    }

    /// Returns the next item if one is waiting.
    pub fn try_recv(&mut self) -> Option<ListenerItem> {
        if let Some(missed) = self.missed() {
            return Some(missed);
        }
        let next = self.notices.try_recv().ok()?;
        self.item_of(Some(next))
    }

    fn item_of(&self, next: Option<(Notice, usize)>) -> Option<ListenerItem> {
        match next {
            Some((notice, bytes)) => {
                self.backlog.bytes.fetch_sub(bytes, Ordering::Relaxed);
                Some(ListenerItem::Notice(notice))
            }
            // Notices may have been dropped while the last ones arrived.
            None => self.missed(),
        }
    }

    /// Returns the number of missed notices if a report is due: if no notice is waiting, or the
    /// last report was long ago.
    fn missed(&self) -> Option<ListenerItem> {
        if self.backlog.lost.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let now = self.notices.is_empty() || self.loss_limit.allow(Instant::now()).is_some();
        now.then(|| ListenerItem::Missed(self.backlog.lost.swap(0, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::ReachedJobs;
    use peal_core::server::EventOrigin;
    use peal_model::{DataArray, Event, Info, Nspace, Range, Value, code};
    use std::{future::poll_fn, pin::pin, task::Poll};

    fn event(infos: Vec<Info>) -> Arc<Event> {
        Arc::new(Event {
            code: code::PMIX_SUCCESS,
            source: None,
            range: Range::Global,
            infos,
        })
    }

    fn passed(event: &Arc<Event>) -> Notice {
        Notice::Passed {
            event: event.clone(),
            results: Arc::default(),
            reached: ReachedJobs::all(),
            origin: EventOrigin::ThisServer,
            measured: None,
        }
    }

    /// Returns the notices of a listener until no notice can follow, and the number of missed ones.
    fn all(mut listener: Listener) -> (Vec<Notice>, u64) {
        let mut notices = Vec::new();
        let mut missed = 0;
        while let Some(item) = listener.blocking_recv() {
            match item {
                ListenerItem::Notice(notice) => notices.push(notice),
                ListenerItem::Missed(number) => missed += number,
            }
        }
        (notices, missed)
    }

    #[test]
    fn slow_listener_misses_notices_and_others_and_trail_do_not() {
        let notices = Notices::default();
        let slow = notices.listen(|_| true);
        let choosy = notices.listen(Notice::is_for_record);
        let (notices, mut record) = notices.recorded();
        let nspace = Nspace::new("job").unwrap();
        for _ in 0..ListenerBounds::default().notices + 10 {
            notices.notify(passed(&event(Vec::new())));
        }
        let ended = Notice::JobEnded {
            nspace,
            exit_status: 3,
        };
        notices.notify(ended.clone());
        drop(notices);
        let mut recorded = || Some(record.blocking_recv()?.notice);
        assert_eq!((recorded(), recorded()), (Some(ended.clone()), None));
        let (received, missed) = all(slow);
        assert_eq!(
            (received.len(), missed),
            (ListenerBounds::default().notices, 11)
        );
        assert_eq!(all(choosy), (vec![ended], 0));
    }

    #[tokio::test]
    async fn notice_to_be_recorded_waits_for_the_record() {
        let started = || Notice::JobStarted {
            nspace: Nspace::new("job").unwrap(),
            uid: 7,
            size: 1,
        };
        let notices = Notices::default();
        // Without a record there is nothing to wait for.
        notices.notify_recorded(started()).await;
        let (notices, mut record) = notices.recorded();
        let mut told = pin!(notices.notify_recorded(started()));
        let recorded = tokio::select! {
            biased;
            () = &mut told => panic!("the record does not have the notice"),
            recorded = record.recv() => recorded.unwrap(),
        };
        assert_eq!(recorded.notice, started());
        assert_eq!(
            poll_fn(|cx| Poll::Ready(told.as_mut().poll(cx))).await,
            Poll::Pending
        );
        drop(recorded);
        told.await;
    }

    #[test]
    fn listener_queue_is_bounded_in_bytes_and_misses_reported_later() {
        let notices = Notices::default();
        let mut slow = notices.listen(|_| true);
        let key = peal_model::Key::new("site.large").unwrap();
        let text = Value::string(&"x".repeat(1 << 20));
        let infos = (0..20).map(|_| Info::new(key.clone(), text.clone()));
        let large = event(vec![Info::new(
            key.clone(),
            Value::DataArray(DataArray::infos(infos)),
        )]);
        for _ in 0..10 {
            notices.notify(passed(&large));
        }
        assert_eq!(slow.blocking_recv(), Some(ListenerItem::Missed(7)));
        for _ in 0..3 {
            assert_eq!(
                slow.blocking_recv(),
                Some(ListenerItem::Notice(passed(&large)))
            );
        }
        notices.notify(passed(&large));
        assert_eq!(
            slow.blocking_recv(),
            Some(ListenerItem::Notice(passed(&large))),
            "there is room again"
        );
    }

    #[test]
    fn departed_listener_is_forgotten() {
        let notices = Notices::default();
        for _ in 0..100 {
            drop(notices.listen(|_| true));
        }
        let _stays = notices.listen(|_| true);
        assert_eq!(notices.senders.read().unwrap().len(), 1);
    }
}
