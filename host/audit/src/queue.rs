//! Queue of entries between the threads that record and the thread that writes, in order.
use crate::pending::PendingEntry;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Time for which an entry that no caller waits for is held back to be written with later ones, and
/// maximum time until journalled records are moved.
pub(crate) const GATHER_TIME: Duration = Duration::from_millis(20);

/// Number of entries that are not held back any longer: a decision waits until those before it are
/// written.
const ENOUGH_ENTRIES: usize = 64;

/// Bounded queue of entries.
pub(crate) struct EntryQueue {
    most: usize,
    /// Number of entries that are not held back any longer.
    enough: usize,
    state: Mutex<EntryQueueState>,
    /// Signals work to the writer thread.
    filled: Condvar,
    /// Signals room in the queue.
    emptied: Condvar,
}

#[derive(Default)]
struct EntryQueueState {
    waiting: VecDeque<PendingEntry>,
    /// The number of queued entries for which a caller waits.
    awaited: usize,
    thread: Thread,
    /// The time at which the journal is to be moved.
    due: Option<Instant>,
    is_closed: bool,
}

/// State of the writer thread.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Thread {
    /// Writing, or about to check for work.
    #[default]
    Busy,
    /// Waiting for the first entry.
    Idle,
    /// Waiting for more entries, or just woken for an entry that a caller wrote.
    Gathering,
    /// Moving the journal into the database. Callers write their entries themselves meanwhile.
    Moving,
}

/// The thread that writes a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitThread {
    /// The writer thread, which writes several entries in one group.
    Thread,
    /// The caller's thread, unless another thread is writing.
    Caller,
}

/// Work of the writer thread.
pub(crate) enum WriterWork {
    /// Entries are queued.
    Entries,
    /// The journal is to be moved.
    Journal,
    /// Nothing arrived within the given time.
    Nothing,
    /// The queue is empty and closed.
    Closed,
}

/// State of the queue after a sleep of the writer thread.
struct Slept<'a> {
    state: MutexGuard<'a, EntryQueueState>,
    end: SleepEnd,
}

/// Reason for which the writer thread woke.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SleepEnd {
    Woken,
    TimeOver,
}

impl EntryQueue {
    pub(crate) fn new(most: usize) -> EntryQueue {
        EntryQueue {
            most,
            enough: ENOUGH_ENTRIES.min(most),
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, EntryQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends an entry; waits for room.
    pub(crate) fn push_blocking(&self, pending: PendingEntry, by: CommitThread) {
        let mut state = self.lock();
        while state.waiting.len() >= self.most {
            // A gathering thread would otherwise sleep on although the queue is full.
            self.filled.notify_one();
            state = self
                .emptied
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.put(&mut state, pending, by);
    }

    /// Appends an entry if there is room.
    pub(crate) fn offer(&self, pending: PendingEntry) -> Result<(), EntryQueueFull> {
        let mut state = self.lock();
        if state.waiting.len() >= self.most {
            return Err(EntryQueueFull);
        }
        self.put(&mut state, pending, CommitThread::Thread);
        Ok(())
    }

    /// Appends an entry and wakes the writer thread if necessary. A gathering thread wakes up soon
    /// by itself, so it is woken early only for an entry that a caller waits for, and for enough
    /// entries.
    fn put(&self, state: &mut EntryQueueState, pending: PendingEntry, by: CommitThread) {
        let is_urgent = pending.is_awaited() && by == CommitThread::Thread;
        let wakes = match state.thread {
            // A busy thread looks at the queue before it sleeps. An idle one need not be woken for
            // an entry that the caller writes itself.
            Thread::Busy | Thread::Moving => false,
            Thread::Idle => by == CommitThread::Thread,
            Thread::Gathering => is_urgent || state.waiting.len() + 1 == self.enough,
        };
        state.awaited += usize::from(pending.is_awaited());
        state.waiting.push_back(pending);
        if wakes {
            self.filled.notify_one();
        }
    }

    /// Returns true if a caller waits for an entry that is still queued.
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock().awaited > 0
    }

    /// Returns true if a caller waits for a queued entry that the thread of the caller is to write:
    /// because `by` says so, or because the writer thread moves the journal, which takes longer.
    pub(crate) fn is_left_to_caller(&self, by: CommitThread) -> bool {
        let state = self.lock();
        state.awaited > 0 && (by == CommitThread::Caller || state.thread == Thread::Moving)
    }

    /// Schedules a move of the journal.
    pub(crate) fn schedule_journal(&self, within: Duration) {
        let mut state = self.lock();
        let due = Instant::now() + within;
        if state.due.is_none_or(|earlier| due < earlier) {
            state.due = Some(due);
            // A gathering thread wakes up by itself, at the latest after `GATHER_TIME`.
            if state.thread == Thread::Idle {
                self.filled.notify_one();
            }
        }
    }

    /// Takes the oldest entries, at most `most`.
    pub(crate) fn take(&self, most: usize) -> Vec<PendingEntry> {
        let mut state = self.lock();
        let count = state.waiting.len().min(most);
        let taken: Vec<PendingEntry> = state.waiting.drain(..count).collect();
        state.awaited -= taken.iter().filter(|pending| pending.is_awaited()).count();
        // Several callers may wait for room.
        self.emptied.notify_all();
        taken
    }

    /// Waits for work. Entries that no caller waits for are held back up to [`GATHER_TIME`], or
    /// until there are enough of them.
    pub(crate) fn wait(&self, patience: Duration) -> WriterWork {
        let mut state = self.lock();
        let idle_until = Instant::now() + patience;
        // A move has ended.
        state.thread = Thread::Busy;
        // Before the entries: a queue that is never empty must not delay the journal.
        if state.is_due() {
            return state.begin_move();
        }
        // Set while the thread gathers: the time at which it writes what it has.
        let mut gathered: Option<Instant> = None;
        while state.waiting.is_empty() {
            let now = Instant::now();
            // Nothing has come while the thread gathered.
            gathered = gathered.filter(|until| now < *until);
            let due = state.due.map_or(idle_until, |due| due.min(idle_until));
            let left = gathered
                .map_or(due, |until| until.min(due))
                .saturating_duration_since(now);
            match (state.is_closed, left.is_zero()) {
                (true, _) => return WriterWork::Closed,
                (false, true) if state.is_due() => return state.begin_move(),
                (false, true) => return WriterWork::Nothing,
                (false, false) if gathered.is_some() => {
                    state = self.sleep(state, Thread::Gathering, left).state;
                }
                (false, false) => {
                    let slept = self.sleep(state, Thread::Idle, left);
                    state = slept.state;
                    // A caller may have written the entry already for which this thread was woken, a call before its
                    // decision. More of them follow, and to be woken for each would take processors from the callers.
                    if slept.end == SleepEnd::Woken {
                        gathered = Some(Instant::now() + GATHER_TIME);
                    }
                }
            }
        }
        let later = gathered.unwrap_or_else(|| Instant::now() + GATHER_TIME);
        let gathered = state.due.map_or(later, |due| due.min(later));
        loop {
            let left = gathered.saturating_duration_since(Instant::now());
            let is_ripe = state.is_closed
                || left.is_zero()
                || state.waiting.len() >= self.enough
                // A caller waits, so the group does not grow any further.
                || state.awaited > 0;
            if is_ripe {
                return WriterWork::Entries;
            }
            state = self.sleep(state, Thread::Gathering, left).state;
        }
    }

    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, EntryQueueState>,
        doing: Thread,
        at_most: Duration,
    ) -> Slept<'a> {
        state.thread = doing;
        let (mut state, timeout) = self
            .filled
            .wait_timeout(state, at_most)
            .unwrap_or_else(PoisonError::into_inner);
        state.thread = Thread::Busy;
        let end = if timeout.timed_out() {
            SleepEnd::TimeOver
        } else {
            SleepEnd::Woken
        };
        Slept { state, end }
    }

    /// Closes the queue: no entries follow.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }
}

impl EntryQueueState {
    /// Begins a move of the journal. It ends when the thread waits for work again.
    fn begin_move(&mut self) -> WriterWork {
        self.thread = Thread::Moving;
        WriterWork::Journal
    }

    /// Returns true once when the journal is to be moved.
    fn is_due(&mut self) -> bool {
        self.due.take_if(|due| *due <= Instant::now()).is_some()
    }
}

/// Error of `offer`: the queue is full.
pub(crate) struct EntryQueueFull;

#[cfg(test)]
mod tests {
    use super::{CommitThread, EntryQueue, Thread, WriterWork};
    use crate::{AuditEntry, pending::PendingEntry};
    use std::{
        sync::Arc,
        thread,
        time::{Duration, Instant},
    };

    /// Waits until the writer thread does this.
    fn await_thread(queue: &EntryQueue, doing: Thread) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while queue.lock().thread != doing {
            assert!(Instant::now() < deadline, "the thread does something else");
            thread::yield_now();
        }
    }

    #[test]
    fn thread_gathers_after_a_caller_wrote_what_it_was_woken_for() {
        let queue = Arc::new(EntryQueue::new(100));
        let waiting = queue.clone();
        let writer = thread::spawn(move || waiting.wait(Duration::from_secs(60)));
        await_thread(&queue, Thread::Idle);
        let entry = || PendingEntry::new(AuditEntry::Ended);
        let mut state = queue.lock();
        queue.put(&mut state, entry(), CommitThread::Thread);
        state.waiting.clear();
        drop(state);
        await_thread(&queue, Thread::Gathering);
        // It is not woken for this one, and finds it.
        assert!(queue.offer(entry()).is_ok());
        assert!(matches!(writer.join().unwrap(), WriterWork::Entries));
        assert_eq!(queue.take(10).len(), 1);
    }
}
