//! Entries on their way to the trail, in their order: those who hand them over, and whoever writes them.
use crate::pending::PendingEntry;
use std::{
    collections::VecDeque,
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// How long an entry for which nobody waits waits for others, and what is journalled for being moved.
pub(crate) const GATHER: Duration = Duration::from_millis(20);

/// What waits, at most so many.
pub(crate) struct EntryQueue {
    most: usize,
    state: Mutex<EntryQueueState>,
    /// The writing thread has something to look at.
    filled: Condvar,
    /// There is room again.
    emptied: Condvar,
}

#[derive(Default)]
struct EntryQueueState {
    waiting: VecDeque<PendingEntry>,
    /// For how many of these somebody waits.
    awaited: usize,
    thread: Thread,
    /// When the journal is to be looked after.
    due: Option<Instant>,
    is_closed: bool,
}

/// What the writing thread does.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Thread {
    /// It writes, or looks what there is.
    #[default]
    Busy,
    /// It waits for the first entry.
    Idle,
    /// It waits for more.
    Gathering,
}

/// Who writes a decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CommitThread {
    /// A thread, with others: where more come.
    Thread,
    /// Whoever hands it over, unless somebody is writing.
    Caller,
}

/// What there is for the writing thread.
pub(crate) enum WriterWork {
    /// Entries.
    Entries,
    /// What the journal has.
    Journal,
    /// Nothing for so long.
    Nothing,
    /// Nothing, and there will be no more.
    Closed,
}

impl EntryQueue {
    pub(crate) fn new(most: usize) -> EntryQueue {
        EntryQueue {
            most,
            state: Mutex::default(),
            filled: Condvar::new(),
            emptied: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, EntryQueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an entry behind the others; waits for room.
    pub(crate) fn push_blocking(&self, pending: PendingEntry, by: CommitThread) {
        let mut state = self.lock();
        while state.waiting.len() >= self.most {
            self.filled.notify_one();
            state = self
                .emptied
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        self.put(&mut state, pending, by);
    }

    /// Puts an entry behind the others, unless there is no room.
    pub(crate) fn offer(&self, pending: PendingEntry) -> Result<(), EntryQueueFull> {
        let mut state = self.lock();
        if state.waiting.len() >= self.most {
            return Err(EntryQueueFull);
        }
        self.put(&mut state, pending, CommitThread::Thread);
        Ok(())
    }

    /// While the thread gathers, it wakes up by itself before long; so it is left alone but where somebody waits.
    fn put(&self, state: &mut EntryQueueState, pending: PendingEntry, by: CommitThread) {
        let is_urgent = pending.is_awaited() && by == CommitThread::Thread;
        let wakes = match state.thread {
            Thread::Busy => false,
            Thread::Idle => by == CommitThread::Thread,
            Thread::Gathering => is_urgent,
        };
        state.awaited += usize::from(pending.is_awaited());
        state.waiting.push_back(pending);
        if wakes {
            self.filled.notify_one();
        }
    }

    /// Whether somebody waits for an entry that nobody has taken.
    pub(crate) fn is_awaited(&self) -> bool {
        self.lock().awaited > 0
    }

    /// Has the thread look after the journal before long.
    pub(crate) fn remind(&self, within: Duration) {
        let mut state = self.lock();
        if state.due.is_none() {
            state.due = Some(Instant::now() + within);
            // While it gathers it wakes up by itself no later.
            if state.thread == Thread::Idle {
                self.filled.notify_one();
            }
        }
    }

    /// The oldest entries, at most so many.
    pub(crate) fn take(&self, most: usize) -> Vec<PendingEntry> {
        let mut state = self.lock();
        let count = state.waiting.len().min(most);
        let taken: Vec<PendingEntry> = state.waiting.drain(..count).collect();
        state.awaited -= taken.iter().filter(|pending| pending.is_awaited()).count();
        self.emptied.notify_all();
        taken
    }

    /// Waits for entries, and where nobody waits for them a moment longer for others, until there are so many.
    pub(crate) fn wait(&self, patience: Duration, enough: usize) -> WriterWork {
        let mut state = self.lock();
        let idle_until = Instant::now() + patience;
        if state.is_due() {
            return WriterWork::Journal;
        }
        while state.waiting.is_empty() {
            let until = state.due.map_or(idle_until, |due| due.min(idle_until));
            let left = until.saturating_duration_since(Instant::now());
            match (state.is_closed, left.is_zero()) {
                (true, _) => return WriterWork::Closed,
                (false, true) if state.is_due() => return WriterWork::Journal,
                (false, true) => return WriterWork::Nothing,
                (false, false) => state = self.sleep(state, Thread::Idle, left),
            }
        }
        let later = Instant::now() + GATHER;
        let gathered = state.due.map_or(later, |due| due.min(later));
        loop {
            let left = gathered.saturating_duration_since(Instant::now());
            let is_ripe = state.is_closed
                || left.is_zero()
                || state.waiting.len() >= enough.min(self.most)
                || state.awaited > 0;
            if is_ripe {
                return WriterWork::Entries;
            }
            state = self.sleep(state, Thread::Gathering, left);
        }
    }

    fn sleep<'a>(
        &self,
        mut state: MutexGuard<'a, EntryQueueState>,
        doing: Thread,
        at_most: Duration,
    ) -> MutexGuard<'a, EntryQueueState> {
        state.thread = doing;
        let (mut state, _) = self
            .filled
            .wait_timeout(state, at_most)
            .unwrap_or_else(PoisonError::into_inner);
        state.thread = Thread::Busy;
        state
    }

    /// There will be no more.
    pub(crate) fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_one();
    }
}

impl EntryQueueState {
    /// Whether the journal is to be looked after now. Then that is as good as done.
    fn is_due(&mut self) -> bool {
        self.due.take_if(|due| *due <= Instant::now()).is_some()
    }
}

/// There is no room.
pub(crate) struct EntryQueueFull;
