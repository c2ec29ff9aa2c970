//! The guest pool: it is bounded, and finishes accepted jobs.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may fail"
)]
use peal_sandbox::{GuestPool, PoolRefusal, PoolSettings};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

fn pool(threads: usize, queue: usize) -> GuestPool {
    GuestPool::new(PoolSettings {
        threads: NonZeroUsize::new(threads).unwrap(),
        queue,
        ..PoolSettings::default()
    })
}

#[test]
fn pool_is_bounded_and_drains_when_dropped() {
    let pool = pool(1, 2);
    let done = Arc::new(AtomicUsize::new(0));
    let count = || {
        let done = Arc::clone(&done);
        move || {
            done.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (started, has_started) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let first = count();
    pool.try_run(move || {
        started
            .send(thread::current().name().map(str::to_owned))
            .unwrap();
        released.recv().unwrap();
        first();
    })
    .unwrap();
    assert_eq!(has_started.recv().unwrap().as_deref(), Some("peal-guest-0"));
    assert_eq!(pool.try_run(count()), Ok(()));
    assert_eq!(pool.try_run(count()), Ok(()));
    assert_eq!(
        pool.try_run(count()),
        Err(PoolRefusal::Busy {
            threads: 1,
            queue: 2
        })
    );
    release.send(()).unwrap();
    drop(pool);
    assert_eq!(done.load(Ordering::SeqCst), 3);
}

#[test]
fn jobs_run_at_once_on_as_many_threads_as_there_are() {
    let pool = pool(2, 2);
    let left = mpsc::channel();
    let right = mpsc::channel();
    // each waits for the other
    pool.try_run(move || {
        left.0.send(()).unwrap();
        right.1.recv().unwrap();
    })
    .unwrap();
    pool.try_run(move || {
        right.0.send(()).unwrap();
        left.1.recv().unwrap();
    })
    .unwrap();
    drop(pool);
}

#[test]
fn a_job_that_panics_takes_no_thread_with_it() {
    let pool = pool(1, 2);
    let (sender, receiver) = mpsc::channel();
    pool.try_run(|| panic!("on purpose")).unwrap();
    pool.try_run(move || sender.send(7).unwrap()).unwrap();
    assert_eq!(receiver.recv().unwrap(), 7);
}

#[test]
fn a_job_may_hold_the_last_reference_to_the_pool() {
    let pool = Arc::new(pool(2, 2));
    let (sender, receiver) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let last = Arc::clone(&pool);
    pool.try_run(move || {
        gone.recv().unwrap();
        drop(last);
        sender.send(()).unwrap();
    })
    .unwrap();
    drop(pool);
    go.send(()).unwrap();
    receiver.recv().unwrap();
}
