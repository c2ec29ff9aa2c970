//! Items that wait for the event task, and how far it has come: a reply reaches its caller after the
//! handlers of earlier events have run, unless one of them still waits. Programs rely on that order,
//! which the C library has because it handles one message after the other.
use crate::{lock, queue::WaitingItem};
use std::{
    collections::VecDeque,
    fmt,
    pin::{Pin, pin},
    sync::{Arc, Mutex, MutexGuard},
    task::{Context, Poll, Waker},
};
use tokio::sync::Notify;

/// Items between those who put them and the event task. One lock guards all that changes with an
/// item.
#[derive(Clone)]
pub(crate) struct Settlement(Arc<Shared>);

struct Shared {
    waiting: Mutex<WaitingItems>,
    /// Notified when the event task waits: items have been handled, or nothing waits for them.
    has_come_on: Notify,
}

struct WaitingItems {
    items: VecDeque<WaitingItem>,
    /// Number of items that were put.
    put: u64,
    /// Number of items that the event task has taken.
    taken: u64,
    /// Number of items that it has handled.
    handled: u64,
    task: TaskState,
    /// Waker of the event task while it waits for an item.
    waker: Option<Waker>,
}

/// State of the event task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TaskState {
    /// It does not exist yet. Events may come before the job data, after which the client is made.
    Missing,
    /// It handles items, or waits for the next one.
    Handles,
    /// A handler has not completed, or a request of a handler is not sent. Items do not wake the task.
    WaitsForHandler,
    /// It does not exist any more, and drops all items.
    Ended,
}

impl WaitingItems {
    /// Returns true if nothing has to wait for the first `put` items.
    fn is_settled(&self, put: u64) -> bool {
        self.handled >= put || self.task != TaskState::Handles
    }

    /// Takes the next item. What was taken before is handled.
    fn take(&mut self) -> Option<WaitingItem> {
        self.handled = self.taken;
        let item = self.items.pop_front()?;
        self.taken += 1;
        Some(item)
    }
}

impl Settlement {
    pub(crate) fn new() -> Settlement {
        let waiting = WaitingItems {
            items: VecDeque::new(),
            put: 0,
            taken: 0,
            handled: 0,
            task: TaskState::Missing,
            waker: None,
        };
        Settlement(Arc::new(Shared {
            waiting: Mutex::new(waiting),
            has_come_on: Notify::new(),
        }))
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingItems> {
        lock(&self.0.waiting)
    }

    /// Puts an item behind the others.
    pub(crate) fn put(&self, item: WaitingItem) {
        let mut waiting = self.waiting();
        if waiting.task == TaskState::Ended {
            return;
        }
        waiting.put += 1;
        waiting.items.push_back(item);
        let waker = waiting.waker.take();
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Notes that the event task has handled all that it has taken.
    pub(crate) fn note_handled(&self) {
        let mut waiting = self.waiting();
        waiting.handled = waiting.taken;
    }

    /// Takes the next item if there is one.
    pub(crate) fn take(&self) -> Option<WaitingItem> {
        self.waiting().take()
    }

    /// Takes the next item, or waits for it.
    pub(crate) fn poll_take(&self, context: &mut Context<'_>) -> Poll<WaitingItem> {
        let mut waiting = self.waiting();
        match waiting.take() {
            Some(item) => Poll::Ready(item),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Returns true if nothing has to wait for the event task.
    pub(crate) fn is_settled(&self) -> bool {
        let waiting = self.waiting();
        waiting.is_settled(waiting.put)
    }

    /// Waits until the event task has handled all items that are in the queue now, or waits for a
    /// handler.
    pub(crate) async fn settled(&self) {
        let put = {
            let waiting = self.waiting();
            if waiting.is_settled(waiting.put) {
                return;
            }
            waiting.put
        };
        loop {
            let mut come_on = pin!(self.0.has_come_on.notified());
            // Before the look: what changes afterwards ends the wait.
            come_on.as_mut().enable();
            if self.waiting().is_settled(put) {
                return;
            }
            come_on.await;
        }
    }

    /// Notes that the event task does not run for now.
    fn note_wait(&self) {
        let mut waiting = self.waiting();
        if waiting.taken != waiting.handled {
            waiting.task = TaskState::WaitsForHandler;
        }
        drop(waiting);
        self.0.has_come_on.notify_waiters();
    }

    /// Notes that the event task handles items.
    fn note_run(&self) {
        self.waiting().task = TaskState::Handles;
    }

    /// Notes the end of the event task.
    fn note_end(&self) {
        let mut waiting = self.waiting();
        waiting.task = TaskState::Ended;
        let left = std::mem::take(&mut waiting.items);
        drop(waiting);
        drop(left);
        self.0.has_come_on.notify_waiters();
    }
}

impl fmt::Debug for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("items that wait for the event task")
    }
}

/// Event task that tells how far it has come. It may not run under a budget of tokio, which would make
/// it wait without a reason.
pub(crate) struct SettlingTask<F> {
    task: Pin<Box<F>>,
    settlement: Settlement,
}

impl<F> SettlingTask<F> {
    pub(crate) fn new(task: F, settlement: Settlement) -> SettlingTask<F> {
        settlement.note_run();
        SettlingTask {
            task: Box::pin(task),
            settlement,
        }
    }
}

impl<F: Future<Output = ()>> Future for SettlingTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.settlement.note_run();
        let polled = self.task.as_mut().poll(context);
        if polled.is_pending() {
            self.settlement.note_wait();
        }
        polled
    }
}

impl<F> Drop for SettlingTask<F> {
    /// Releases what waits: nothing will be handled any more.
    fn drop(&mut self) {
        self.settlement.note_end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queued_item::QueuedItem;
    use peal_model::{Proc, rank};
    use peal_wire::ServerUri;
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicUsize, Ordering},
    };
    use tokio::task::{self, JoinHandle, yield_now};

    /// Event task of a test. It counts items, and waits for ever in the handler of a loss.
    struct TestTask {
        settlement: Settlement,
        handled: Arc<AtomicUsize>,
        task: JoinHandle<()>,
    }

    impl TestTask {
        fn start() -> TestTask {
            let settlement = Settlement::new();
            let handled = Arc::new(AtomicUsize::new(0));
            let (count, items) = (handled.clone(), settlement.clone());
            let handle = async move {
                loop {
                    items.note_handled();
                    yield_now().await;
                    let item = poll_fn(|context| items.poll_take(context)).await;
                    if !matches!(item.item, QueuedItem::Registered) {
                        std::future::pending::<()>().await;
                    }
                    count.fetch_add(1, Ordering::SeqCst);
                }
            };
            let task = SettlingTask::new(handle, settlement.clone());
            TestTask {
                settlement,
                handled,
                task: tokio::spawn(task::unconstrained(task)),
            }
        }

        fn put(&self) {
            self.settlement.put(waiting(QueuedItem::Registered));
        }

        fn put_waiting(&self) {
            let addr = ([127, 0, 0, 1], 1).into();
            let proc = Proc::new(Default::default(), rank::PMIX_RANK_UNDEF);
            let lost = QueuedItem::Lost(Default::default(), ServerUri { proc, addr });
            self.settlement.put(waiting(lost));
        }
    }

    fn waiting(item: QueuedItem) -> WaitingItem {
        WaitingItem { item, room: None }
    }

    #[tokio::test]
    async fn all_items_are_handled_before_the_reply() {
        let test = TestTask::start();
        (0..1000).for_each(|_| test.put());
        test.settlement.settled().await;
        assert_eq!(test.handled.load(Ordering::SeqCst), 1000);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn items_that_are_taken_while_others_are_put_are_seen() {
        let test = TestTask::start();
        for put in 1..20_000 {
            test.put();
            test.settlement.settled().await;
            assert!(test.handled.load(Ordering::SeqCst) >= put);
        }
    }

    #[tokio::test]
    async fn waiting_handler_delays_no_reply() {
        let test = TestTask::start();
        test.put();
        test.put_waiting();
        test.put();
        test.settlement.settled().await;
        assert_eq!(test.handled.load(Ordering::SeqCst), 1);
        // The item does not wake the event task.
        test.put();
        test.settlement.settled().await;
    }

    #[tokio::test]
    async fn events_before_the_event_task_delay_no_reply() {
        let settlement = Settlement::new();
        settlement.put(waiting(QueuedItem::Registered));
        settlement.settled().await;
    }

    #[tokio::test]
    async fn end_of_the_event_task_delays_no_reply() {
        let test = TestTask::start();
        test.task.abort();
        test.put();
        test.settlement.settled().await;
    }
}
