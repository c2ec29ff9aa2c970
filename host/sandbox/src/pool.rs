//! The guest pool: a bounded number of threads on which whole chains run, so that no guest ever holds up the runtime.
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use thiserror::Error;

/// How large a pool is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSettings {
    /// How many jobs run at once.
    pub threads: NonZeroUsize,
    /// How many jobs may wait.
    pub queue: usize,
    /// Who yields to whom.
    pub priority: Priority,
}

/// How the threads of a pool stand to the others of the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Priority {
    /// Like all others.
    #[default]
    Usual,
    /// They run where no other wants to.
    Lowest,
}

impl Priority {
    /// The calling thread has it from now on, as far as the system knows such things.
    fn take(self) {
        const NICEST: i32 = 19;
        if self == Priority::Lowest
            && let Err(error) = rustix::process::setpriority_process(None, NICEST)
        {
            tracing::debug!(%error, "a guest thread does not yield to others");
        }
    }
}

impl Default for PoolSettings {
    /// A thread for each processor, and room for 1024 jobs.
    fn default() -> PoolSettings {
        let threads = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        PoolSettings {
            threads,
            queue: 1024,
            priority: Priority::Usual,
        }
    }
}

/// The pool takes no more jobs just now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("all {threads} guest threads are at work and {queue} jobs wait already")]
pub struct Busy {
    /// How many threads there are.
    pub threads: usize,
    /// How many jobs may wait.
    pub queue: usize,
}

type PoolJob = Box<dyn FnOnce() + Send>;

/// Threads that run chains of guests. Dropping it finishes what was taken on and waits for that.
pub struct GuestPool {
    settings: PoolSettings,
    jobs: Option<SyncSender<PoolJob>>,
    threads: Vec<JoinHandle<()>>,
}

impl GuestPool {
    /// Starts the threads; an error if the system refuses one.
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
            .collect::<io::Result<_>>()?;
        Ok(GuestPool {
            settings,
            jobs: Some(sender),
            threads,
        })
    }

    /// Hands over a job without waiting, or refuses it if too many wait.
    pub fn try_run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), Busy> {
        let busy = Busy {
            threads: self.settings.threads.get(),
            queue: self.settings.queue,
        };
        let jobs = self.jobs.as_ref().ok_or(busy)?;
        jobs.try_send(Box::new(job))
            .map_err(|(TrySendError::Full(_) | TrySendError::Disconnected(_))| busy)
    }
}

impl Drop for GuestPool {
    fn drop(&mut self) {
        self.jobs = None;
        let this_thread = thread::current().id();
        // A job may hold the last reference to the pool: its thread cannot wait for itself.
        for other in self
            .threads
            .drain(..)
            .filter(|thread| thread.thread().id() != this_thread)
        {
            // Jobs cannot panic through `work`, so there is nothing to hear from the thread.
            drop(other.join());
        }
    }
}

/// Guests take at most 512 KiB of it.
const STACK: usize = 4 * 1024 * 1024;

fn work(jobs: &Mutex<Receiver<PoolJob>>) {
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = next else { return };
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("a job on a guest thread panicked; the thread goes on");
        }
    }
}
