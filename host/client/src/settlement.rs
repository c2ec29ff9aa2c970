//! Order of events and replies: a reply reaches its caller after the handlers of earlier events have
//! run, unless one of them still waits. Programs rely on that order, which the C library has because
//! it handles one message after the other.
use crate::lock;
use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll},
};
use tokio::sync::watch;

/// Count of items that were put into the queue of the handlers, and of those that the event task has
/// seen.
#[derive(Clone, Debug)]
pub(crate) struct Settlement {
    put: Arc<Mutex<PutItems>>,
    seen: watch::Sender<u64>,
}

#[derive(Debug)]
struct PutItems {
    count: u64,
    /// Number of items that the event task has taken.
    taken: u64,
    wait: EventTaskWait,
}

/// Reason for which the event task does not run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EventTaskWait {
    /// The queue is empty. The next item wakes the task.
    Queue,
    /// A handler has not completed, or a request of a handler is not sent. Items do not wake the task.
    Handler,
    /// Other tasks run in between.
    Turn,
}

impl Settlement {
    pub(crate) fn new() -> Settlement {
        Settlement {
            put: Arc::new(Mutex::new(PutItems {
                count: 0,
                taken: 0,
                wait: EventTaskWait::Handler,
            })),
            // Without an event task nothing has to wait for it: events may come before the job data,
            // after which the client is made.
            seen: watch::Sender::new(ALL),
        }
    }

    /// Counts an item that the caller then puts into the queue. Counted before, so that the event task
    /// never has taken more than are counted.
    pub(crate) fn count(&self) {
        lock(&self.put).count += 1;
    }

    /// Notes the reason of the next wait of the event task.
    pub(crate) fn note_wait(&self, wait: EventTaskWait) {
        lock(&self.put).wait = wait;
    }

    /// Notes that the event task has taken an item, and handles it now.
    pub(crate) fn note_taken(&self) {
        let mut items = lock(&self.put);
        items.taken += 1;
        items.wait = EventTaskWait::Handler;
    }

    /// Returns true if nothing has to wait for the event task.
    pub(crate) fn is_settled(&self) -> bool {
        let put = lock(&self.put).count;
        *self.seen.borrow() >= put
    }

    /// Waits until the event task has handled all items that are in the queue now, or waits for a
    /// handler.
    pub(crate) async fn settled(&self) {
        let put = lock(&self.put).count;
        if *self.seen.borrow() >= put {
            return;
        }
        // The sender is in this structure, so that it exists.
        let _ = self.seen.subscribe().wait_for(|seen| *seen >= put).await;
    }
}

/// Event task that tells what it has seen. It may not run under a budget of tokio, which would make
/// it wait without a reason.
pub(crate) struct SettlingTask<F> {
    task: Pin<Box<F>>,
    settlement: Settlement,
}

impl<F> SettlingTask<F> {
    pub(crate) fn new(task: F, settlement: Settlement) -> SettlingTask<F> {
        settlement.seen.send_replace(0);
        SettlingTask {
            task: Box::pin(task),
            settlement,
        }
    }
}

impl<F> SettlingTask<F> {
    fn note_seen(&self, seen: u64) {
        self.settlement.seen.send_replace(seen);
    }
}

/// Count of seen items while nothing has to wait for the event task.
const ALL: u64 = u64::MAX;

impl<F: Future<Output = ()>> Future for SettlingTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let seen = &self.settlement.seen;
        if *seen.borrow() == ALL {
            seen.send_replace(0);
        }
        let polled = self.task.as_mut().poll(context);
        if polled.is_pending() {
            let seen = {
                let items = lock(&self.settlement.put);
                match items.wait {
                    EventTaskWait::Queue => Some(items.taken),
                    EventTaskWait::Handler => Some(ALL),
                    EventTaskWait::Turn => None,
                }
            };
            if let Some(seen) = seen {
                self.note_seen(seen);
            }
        }
        polled
    }
}

impl<F> Drop for SettlingTask<F> {
    /// Releases what waits: nothing will be handled any more.
    fn drop(&mut self) {
        self.settlement.seen.send_replace(ALL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::{
        sync::mpsc,
        task::{self, JoinHandle, yield_now},
    };

    /// Event task of a test. Items are numbers, and the handler of zero waits for ever.
    struct TestTask {
        settlement: Settlement,
        queue: mpsc::UnboundedSender<usize>,
        handled: Arc<AtomicUsize>,
        task: JoinHandle<()>,
    }

    impl TestTask {
        fn start() -> TestTask {
            let settlement = Settlement::new();
            let (queue, mut items) = mpsc::unbounded_channel();
            let handled = Arc::new(AtomicUsize::new(0));
            let (count, waits) = (handled.clone(), settlement.clone());
            let handle = async move {
                loop {
                    waits.note_wait(EventTaskWait::Turn);
                    yield_now().await;
                    waits.note_wait(EventTaskWait::Queue);
                    let Some(item) = items.recv().await else {
                        return;
                    };
                    waits.note_taken();
                    if item == 0 {
                        std::future::pending::<()>().await;
                    }
                    count.fetch_add(item, Ordering::SeqCst);
                }
            };
            let task = SettlingTask::new(handle, settlement.clone());
            TestTask {
                settlement,
                queue,
                handled,
                task: tokio::spawn(task::unconstrained(task)),
            }
        }

        fn put(&self, item: usize) {
            self.settlement.count();
            self.queue.send(item).unwrap();
        }
    }

    #[tokio::test]
    async fn all_items_are_handled_before_the_reply() {
        let test = TestTask::start();
        (0..1000).for_each(|_| test.put(1));
        test.settlement.settled().await;
        assert_eq!(test.handled.load(Ordering::SeqCst), 1000);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn items_that_are_taken_while_others_are_put_are_seen() {
        let test = TestTask::start();
        for put in 1..20_000 {
            test.put(1);
            test.settlement.settled().await;
            assert!(test.handled.load(Ordering::SeqCst) >= put);
        }
    }

    #[tokio::test]
    async fn waiting_handler_delays_no_reply() {
        let test = TestTask::start();
        [1, 0, 1].into_iter().for_each(|item| test.put(item));
        test.settlement.settled().await;
        assert_eq!(test.handled.load(Ordering::SeqCst), 1);
        // The item does not wake the event task.
        test.put(1);
        test.settlement.settled().await;
    }

    #[tokio::test]
    async fn events_before_the_event_task_delay_no_reply() {
        let settlement = Settlement::new();
        settlement.count();
        settlement.settled().await;
    }

    #[tokio::test]
    async fn end_of_the_event_task_delays_no_reply() {
        let test = TestTask::start();
        test.task.abort();
        test.put(1);
        test.settlement.settled().await;
    }
}
