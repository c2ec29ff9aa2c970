//! Guest pool: a bounded number of threads that run whole chains, so that no guest blocks the async
//! runtime.
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use thiserror::Error;

/// Settings of a guest pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSettings {
    /// Number of threads: jobs that run at once.
    pub threads: NonZeroUsize,
    /// Bound on the jobs that wait.
    pub queue: usize,
    /// Priority of the threads.
    pub priority: Priority,
}

/// Priority of a pool's threads among those of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Priority {
    /// The usual priority.
    #[default]
    Usual,
    /// The lowest priority: the threads run when no other wants to.
    Lowest,
}

impl Priority {
    /// Gives the calling thread this priority, as far as the system supports it.
    fn take(self) {
        const NICEST: i32 = 19;
        if self == Priority::Lowest
            // On Linux a nice value belongs to a thread; no id means the calling thread.
            && let Err(error) = rustix::process::setpriority_process(None, NICEST)
        {
            tracing::debug!(%error, "priority of guest thread not lowered");
        }
    }
}

impl Default for PoolSettings {
    /// A thread for each processor, and 1024 waiting jobs.
    fn default() -> PoolSettings {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        PoolSettings {
            threads,
            queue: 1024,
            priority: Priority::Usual,
        }
    }
}

/// Error of a pool that takes no more jobs at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("all {threads} guest threads are busy and {queue} jobs are waiting")]
pub struct Busy {
    /// Number of threads.
    pub threads: usize,
    /// Bound on the jobs that wait.
    pub queue: usize,
}

type PoolJob = Box<dyn FnOnce() + Send>;

/// Threads that run chains of guests. Dropping the pool waits until all accepted jobs are done.
pub struct GuestPool {
    settings: PoolSettings,
    shared: Arc<SharedJobs>,
    threads: Vec<JoinHandle<()>>,
}

/// Jobs that wait for a thread, and threads that wait for a job.
#[derive(Default)]
struct SharedJobs(Mutex<PoolState>);

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<PoolJob>,
    /// Threads that wait for a job. The last one is woken first: what it ran last is still in the
    /// caches of its processor.
    idle: Vec<Thread>,
    /// True if the pool takes no more jobs.
    is_closed: bool,
}

impl SharedJobs {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Jobs run without the lock, so a panic of one leaves the state consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job; `None` if the pool is closed and no job is left.
    fn next(&self) -> Option<PoolJob> {
        let this_thread = thread::current();
        loop {
            let mut state = self.lock();
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            // `park` may return without a reason, and the thread is then still in the list.
            let is_listed = state.idle.iter().any(|idle| idle.id() == this_thread.id());
            if !is_listed {
                state.idle.push(this_thread.clone());
            }
            drop(state);
            thread::park();
        }
    }
}

impl GuestPool {
    /// Starts the threads. Returns an error if the system refuses one.
    pub fn new(settings: PoolSettings) -> io::Result<GuestPool> {
        let shared = Arc::new(SharedJobs::default());
        let mut pool = GuestPool {
            settings,
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        for at in 0..settings.threads.get() {
            let shared = Arc::clone(&shared);
            let thread = thread::Builder::new()
                .name(format!("peal-guest-{at}"))
                .stack_size(STACK)
                .spawn(move || {
                    settings.priority.take();
                    work(&shared);
                });
            // If the system refuses a thread, dropping the pool ends those that were started.
            pool.threads.push(thread?);
        }
        Ok(pool)
    }

    /// Queues a job without waiting, or returns an error if too many wait.
    pub fn try_run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let mut state = self.shared.lock();
        if state.jobs.len() >= self.settings.queue {
            return Err(Busy {
                threads: self.settings.threads.get(),
                queue: self.settings.queue,
            });
        }
        state.jobs.push_back(Box::new(job));
        let idle = state.idle.pop();
        // The thread needs the lock as soon as it wakes.
        drop(state);
        if let Some(idle) = idle {
            idle.unpark();
        }
        Ok(())
    }
}

impl Drop for GuestPool {
    fn drop(&mut self) {
        // Each thread ends after the jobs that were accepted.
        let mut state = self.shared.lock();
        state.is_closed = true;
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        idle.iter().for_each(Thread::unpark);
        let this_thread = thread::current().id();
        // A job may hold the last reference to the pool, and its thread cannot join itself.
        for other in self
            .threads
            .drain(..)
            .filter(|thread| thread.thread().id() != this_thread)
        {
            // `work` catches panics of jobs, so the result of the thread says nothing.
            drop(other.join());
        }
    }
}

/// Stack of a guest thread in bytes; guests take at most 512 KiB of it.
const STACK: usize = 4 * 1024 * 1024;

fn work(shared: &SharedJobs) {
    while let Some(job) = shared.next() {
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("job on guest thread panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        sync::mpsc::channel,
        time::{Duration, Instant},
    };

    /// Waits until all threads of a pool are idle.
    fn await_idle(pool: &GuestPool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while pool.shared.lock().idle.len() < pool.threads.len() {
            assert!(Instant::now() < deadline, "a thread is busy");
            thread::yield_now();
        }
    }

    #[test]
    fn jobs_one_after_another_run_on_one_thread() {
        let pool = GuestPool::new(PoolSettings {
            threads: NonZeroUsize::new(4).unwrap(),
            ..PoolSettings::default()
        })
        .unwrap();
        let (tell, told) = channel();
        let mut threads = Vec::new();
        for _ in 0..8 {
            await_idle(&pool);
            let tell = tell.clone();
            pool.try_run(move || tell.send(thread::current().id()).unwrap())
                .unwrap();
            threads.push(told.recv().unwrap());
        }
        threads.dedup();
        assert_eq!(threads.len(), 1);
    }
}
