//! Who listens to what the server tells: observers. They come and go, can neither end an event's way nor be ended by it, and
//! one who does not keep up misses notices, which are counted.
use super::Notice;
use peal_store::TraceRateLimit;
use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::mpsc;

/// How many notices wait for a listener that does not keep up; what is beyond is lost and counted.
const BACKLOG: usize = 4096;

/// How much memory these may take, in bytes.
const BACKLOG_BYTES: usize = 64 << 20;

/// The least time between two words on lost notices, while more wait.
const BETWEEN_LOSSES: Duration = Duration::from_secs(1);

/// Where notices go. Nobody need listen.
#[derive(Clone, Debug, Default)]
pub struct Notices {
    lines: Arc<RwLock<Vec<NoticeSender>>>,
    record: Option<mpsc::UnboundedSender<Notice>>,
}

/// The near end of what a listener hears.
#[derive(Debug)]
struct NoticeSender {
    wants: fn(&Notice) -> bool,
    send: mpsc::Sender<(Notice, usize)>,
    backlog: Arc<NoticeBacklog>,
}

/// What waits for a listener, and what is lost to him.
#[derive(Debug, Default)]
struct NoticeBacklog {
    /// Bytes that what waits takes.
    bytes: AtomicUsize,
    lost: AtomicU64,
}

impl NoticeSender {
    /// Tells without waiting.
    fn tell(&self, notice: &Notice) {
        if !(self.wants)(notice) {
            return;
        }
        let bytes = notice.bytes();
        let waiting = self
            .backlog
            .bytes
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        // One notice alone may be larger than all that may wait.
        let fits = waiting <= BACKLOG_BYTES || waiting == bytes;
        if !fits || self.send.try_send((notice.clone(), bytes)).is_err() {
            self.backlog.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.backlog.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Notices {
    /// Somebody listens from now on to those that he wants.
    pub fn listen(&self, wants: fn(&Notice) -> bool) -> Listener {
        let (send, notices) = mpsc::channel(BACKLOG);
        let backlog: Arc<NoticeBacklog> = Arc::default();
        let mut lines = self.lines.write().unwrap_or_else(PoisonError::into_inner);
        // Of those who have gone nothing is left but this.
        lines.retain(|line| !line.send.is_closed());
        lines.push(NoticeSender {
            wants,
            send,
            backlog: backlog.clone(),
        });
        Listener {
            notices,
            backlog,
            quiet: TraceRateLimit::new(BETWEEN_LOSSES),
        }
    }

    /// The same, and beside it what belongs into the record of a job, of which nothing is lost whatever listeners do.
    pub fn recorded(self) -> (Notices, mpsc::UnboundedReceiver<Notice>) {
        let (send, receive) = mpsc::unbounded_channel();
        (
            Notices {
                record: Some(send),
                ..self
            },
            receive,
        )
    }

    /// Tells everybody who listens.
    pub fn tell(&self, notice: Notice) {
        self.lines
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .for_each(|line| line.tell(&notice));
        if let Some(record) = self.record.as_ref().filter(|_| notice.is_for_record()) {
            // Nobody keeps the record any more.
            let _ = record.send(notice);
        }
    }
}

/// What a listener hears.
#[derive(Clone, PartialEq, Debug)]
pub enum ListenerItem {
    /// A notice.
    Notice(Notice),
    /// So many were lost since he was last told: he does not keep up.
    Missed(u64),
}

/// The end at which notices arrive.
#[derive(Debug)]
pub struct Listener {
    notices: mpsc::Receiver<(Notice, usize)>,
    backlog: Arc<NoticeBacklog>,
    quiet: TraceRateLimit,
}

impl Listener {
    /// Waits for what is heard next; nothing when nobody can tell any more.
    pub async fn recv(&mut self) -> Option<ListenerItem> {
        if let Some(missed) = self.missed() {
            return Some(missed);
        }
        let next = self.notices.recv().await;
        self.heard(next)
    }

    /// The same on a thread that may wait.
    pub fn blocking_recv(&mut self) -> Option<ListenerItem> {
        if let Some(missed) = self.missed() {
            return Some(missed);
        }
        let next = self.notices.blocking_recv();
        self.heard(next)
    }

    /// What is heard next, if anything waits to be heard.
    pub fn try_recv(&mut self) -> Option<ListenerItem> {
        if let Some(missed) = self.missed() {
            return Some(missed);
        }
        let next = self.notices.try_recv().ok()?;
        self.heard(Some(next))
    }

    fn heard(&self, next: Option<(Notice, usize)>) -> Option<ListenerItem> {
        match next {
            Some((notice, bytes)) => {
                self.backlog.bytes.fetch_sub(bytes, Ordering::Relaxed);
                Some(ListenerItem::Notice(notice))
            }
            // Some may have been lost while the last ones came.
            None => self.missed(),
        }
    }

    /// How many are lost, where it is time to say so: all that waits has been heard, or the last word on it is long ago.
    fn missed(&self) -> Option<ListenerItem> {
        if self.backlog.lost.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let now = self.notices.is_empty() || self.quiet.allow(Instant::now()).is_some();
        now.then(|| ListenerItem::Missed(self.backlog.lost.swap(0, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::ReachedJobs;
    use peal_model::{DataArray, Event, Info, Nspace, Range, Value, code};

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
        }
    }

    /// The notices that a listener hears until nobody can tell any more, and how many he was told that he missed.
    fn all(mut listener: Listener) -> (Vec<Notice>, u64) {
        let (mut notices, mut missed) = (Vec::new(), 0);
        while let Some(heard) = listener.blocking_recv() {
            match heard {
                ListenerItem::Notice(notice) => notices.push(notice),
                ListenerItem::Missed(number) => missed += number,
            }
        }
        (notices, missed)
    }

    #[test]
    fn slow_listener_misses_notices_and_others_and_trail_do_not() {
        let notices = Notices::default();
        let (slow, choosy) = (
            notices.listen(|_| true),
            notices.listen(Notice::is_for_record),
        );
        let (notices, mut record) = notices.recorded();
        let nspace = Nspace::new("job").unwrap();
        for _ in 0..BACKLOG + 10 {
            notices.tell(passed(&event(Vec::new())));
        }
        let ended = Notice::JobEnded {
            nspace,
            exit_status: 3,
        };
        notices.tell(ended.clone());
        drop(notices);
        assert_eq!(
            (record.blocking_recv(), record.blocking_recv()),
            (Some(ended.clone()), None)
        );
        let (heard, missed) = all(slow);
        assert_eq!((heard.len(), missed), (BACKLOG, 11));
        assert_eq!(all(choosy), (vec![ended], 0));
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
            notices.tell(passed(&large));
        }
        assert_eq!(slow.blocking_recv(), Some(ListenerItem::Missed(7)));
        for _ in 0..3 {
            assert_eq!(
                slow.blocking_recv(),
                Some(ListenerItem::Notice(passed(&large)))
            );
        }
        notices.tell(passed(&large));
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
        assert_eq!(notices.lines.read().unwrap().len(), 1);
    }
}
