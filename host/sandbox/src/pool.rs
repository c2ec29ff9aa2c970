//! Guest pool: a bounded number of threads that run whole chains, so that no guest blocks the async
//! runtime.
use crate::spin_time::SpinTime;
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;
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
    /// Time for which a thread without a job looks for the next one before it sleeps, as long as its processor is
    /// free. To wake a thread takes longer than a short call.
    pub spin: Duration,
}

/// Priority of a pool's threads among those of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Priority {
    /// The usual priority.
    #[default]
    Usual,
    /// The lowest priority: the threads run when no other is ready.
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
            spin: Duration::ZERO,
        }
    }
}

/// Reason for which a pool does not take a job at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PoolRefusal {
    /// Too many jobs wait.
    #[error("all {threads} guest threads are busy and {queue} jobs are waiting")]
    Busy {
        /// Number of threads.
        threads: usize,
        /// Bound on the jobs that wait.
        queue: usize,
    },
    /// The system refuses the first thread.
    #[error("no guest thread could be started: {0}")]
    NoThread(io::ErrorKind),
}

type PoolJob = Box<dyn FnOnce() + Send>;

/// Threads that run chains of guests. Dropping the pool waits until all accepted jobs are done.
///
/// Threads start when there are more jobs than threads: a server without modules needs none of them. An idle one of
/// low priority would do harm, too: on a busy node it takes long to end, and with it the server.
pub struct GuestPool {
    settings: PoolSettings,
    shared: Arc<SharedJobs>,
}

/// Jobs that wait for a thread, and the threads.
#[derive(Default)]
struct SharedJobs {
    state: Mutex<PoolState>,
    /// Number of jobs that wait, or the greatest one if the pool is closed. Threads that spin read it without the lock.
    queued: AtomicUsize,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<PoolJob>,
    /// Threads that wait for a job. The last one is woken first: what it ran last is still in the
    /// caches of its processor.
    idle: Vec<Thread>,
    /// Number of threads that run a job.
    busy: usize,
    threads: Vec<JoinHandle<()>>,
    /// True if the pool takes no more jobs.
    is_closed: bool,
}

impl SharedJobs {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // Jobs run without the lock, so a panic of one leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a job; `None` if the pool is closed and no job is left.
    fn next(&self, spin: Duration) -> Option<PoolJob> {
        let this_thread = thread::current();
        // Without a time for it, a thread looks once before it sleeps.
        let mut may_spin = !spin.is_zero();
        loop {
            let mut state = self.lock();
            if let Some(job) = state.jobs.pop_front() {
                self.queued.store(state.jobs.len(), Ordering::Relaxed);
                state.busy = state.busy.saturating_add(1);
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            if std::mem::take(&mut may_spin) {
                drop(state);
                let mut patience = SpinTime::start(spin);
                while self.queued.load(Ordering::Relaxed) == 0 && patience.goes_on() {}
                continue;
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
    /// Makes a pool without threads.
    pub fn new(settings: PoolSettings) -> GuestPool {
        GuestPool {
            settings,
            shared: Arc::default(),
        }
    }

    fn start_thread(&self, state: &mut PoolState) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let PoolSettings { priority, spin, .. } = self.settings;
        let thread = thread::Builder::new()
            .name(format!("peal-guest-{}", state.threads.len()))
            .stack_size(STACK)
            .spawn(move || {
                priority.take();
                work(&shared, spin);
            })?;
        state.threads.push(thread);
        Ok(())
    }

    /// Returns the time for which a thread looks for something before it sleeps.
    pub fn spin(&self) -> Duration {
        self.settings.spin
    }

    /// Queues a job without waiting, or returns an error if too many wait. An accepted job is run.
    pub fn try_run(&self, job: impl FnOnce() + Send + 'static) -> Result<(), PoolRefusal> {
        let mut state = self.shared.lock();
        if state.jobs.len() >= self.settings.queue {
            return Err(PoolRefusal::Busy {
                threads: self.settings.threads.get(),
                queue: self.settings.queue,
            });
        }
        let free = state.threads.len().saturating_sub(state.busy);
        if state.jobs.len() >= free
            && state.threads.len() < self.settings.threads.get()
            && let Err(error) = self.start_thread(&mut state)
        {
            tracing::warn!(%error, threads = state.threads.len(), "guest thread not started");
            // With threads, the job waits for one of those that run.
            if state.threads.is_empty() {
                return Err(PoolRefusal::NoThread(error.kind()));
            }
        }
        state.jobs.push_back(Box::new(job));
        self.shared
            .queued
            .store(state.jobs.len(), Ordering::Relaxed);
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
        self.shared.queued.store(usize::MAX, Ordering::Relaxed);
        let idle = std::mem::take(&mut state.idle);
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        idle.iter().for_each(Thread::unpark);
        let this_thread = thread::current().id();
        // A job may hold the last reference to the pool, and its thread cannot join itself.
        for other in threads
            .into_iter()
            .filter(|thread| thread.thread().id() != this_thread)
        {
            // `work` catches panics of jobs, so the result of the thread says nothing.
            drop(other.join());
        }
    }
}

/// Stack of a guest thread in bytes; guests take at most 512 KiB of it.
const STACK: usize = 4 * 1024 * 1024;

fn work(shared: &SharedJobs, spin: Duration) {
    while let Some(job) = shared.next(spin) {
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("job on guest thread panicked");
        }
        let mut state = shared.lock();
        state.busy = state.busy.saturating_sub(1);
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
        let is_idle = |state: &PoolState| state.idle.len() == state.threads.len();
        while !is_idle(&pool.shared.lock()) {
            assert!(Instant::now() < deadline, "a thread is busy");
            thread::yield_now();
        }
    }

    fn pool_of_four() -> GuestPool {
        GuestPool::new(PoolSettings {
            threads: NonZeroUsize::new(4).unwrap(),
            ..PoolSettings::default()
        })
    }

    #[test]
    fn threads_start_when_jobs_need_them_up_to_the_limit() {
        let pool = pool_of_four();
        assert!(pool.shared.lock().threads.is_empty());
        let mut ends = Vec::new();
        for threads in [1, 2, 3, 4, 4] {
            let (end, ended) = channel::<()>();
            pool.try_run(move || {
                let _ = ended.recv();
            })
            .unwrap();
            ends.push(end);
            assert_eq!(pool.shared.lock().threads.len(), threads);
        }
        drop(ends);
        await_idle(&pool);
        assert_eq!(pool.shared.lock().busy, 0);
    }

    #[test]
    fn threads_that_look_for_jobs_run_each() {
        let pool = GuestPool::new(PoolSettings {
            threads: NonZeroUsize::new(2).unwrap(),
            spin: Duration::from_micros(50),
            ..PoolSettings::default()
        });
        let (tell, told) = channel();
        for job in 0..2000 {
            let tell = tell.clone();
            pool.try_run(move || tell.send(job).unwrap()).unwrap();
            // Every other job finds the threads asleep, busy, or looking.
            if job % 2 == 0 {
                assert!(told.recv_timeout(Duration::from_secs(60)).is_ok(), "{job}");
            }
        }
        drop(pool);
        assert_eq!(told.try_iter().count(), 1000);
    }

    #[test]
    fn jobs_one_after_another_run_on_one_thread() {
        let pool = pool_of_four();
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
