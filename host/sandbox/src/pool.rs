//! Guest pool: a bounded number of threads that run whole chains, so that no guest blocks the async
//! runtime.
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
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
    jobs: Option<SyncSender<PoolJob>>,
    threads: Vec<JoinHandle<()>>,
}

impl GuestPool {
    /// Starts the threads. Returns an error if the system refuses one.
    pub fn new(settings: PoolSettings) -> io::Result<GuestPool> {
        let (sender, receiver) = sync_channel(settings.queue);
        let receiver = Arc::new(Mutex::new(receiver));
        let start = |at| {
            let receiver = Arc::clone(&receiver);
            thread::Builder::new()
                .name(format!("peal-guest-{at}"))
                .stack_size(STACK)
                .spawn(move || {
                    settings.priority.take();
                    work(&receiver);
                })
        };
        let threads = (0..settings.threads.get())
            .map(start)
            // If the system refuses a thread, dropping the sender ends those that were started.
            .collect::<io::Result<_>>()?;
        Ok(GuestPool {
            settings,
            jobs: Some(sender),
            threads,
        })
    }

    /// Queues a job without waiting, or returns an error if too many wait.
    pub fn try_run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let busy = Busy {
            threads: self.settings.threads.get(),
            queue: self.settings.queue,
        };
        let jobs = self.jobs.as_ref().ok_or(busy)?;
        jobs.try_send(Box::new(job))
            // The threads hold the receiver until the sender is dropped, so the channel is never
            // disconnected.
            .map_err(|(TrySendError::Full(_) | TrySendError::Disconnected(_))| busy)
    }
}

impl Drop for GuestPool {
    fn drop(&mut self) {
        // Closing the channel ends each thread after the jobs that were accepted.
        self.jobs = None;
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

fn work(jobs: &Mutex<Receiver<PoolJob>>) {
    loop {
        // The lock is held while one thread waits for a job; the others wait for the lock.
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("job on guest thread panicked");
        }
    }
}
