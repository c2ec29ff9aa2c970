//! Thread of the library: a runtime on which all connections live, and on which all callbacks of
//! the program come, one at a time.
use super::{fork::ForkNumber, stack};
use std::{
    cell::Cell,
    future::Future,
    io,
    pin::Pin,
    sync::{Mutex, PoisonError, mpsc},
    task::{Context, Poll, Waker},
    thread,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::watch,
};

/// Stack of the thread, in bytes: as much as a thread of the C library has for the program's
/// callbacks.
const STACK: usize = 8 << 20;

thread_local! {
    /// Process of which this thread is the progress thread, if it is one. A forked child may
    /// continue on a copy of its parent's progress thread.
    static PROCESS: Cell<Option<ForkNumber>> = const { Cell::new(None) };
}

/// Returns true on the progress thread of this process.
pub(crate) fn is_current() -> bool {
    PROCESS.get() == Some(ForkNumber::current())
}

/// Calls a function of the program.
pub(crate) fn call_program(call: impl FnOnce()) {
    let process = ForkNumber::current();
    call();
    if ForkNumber::current() != process {
        // A child that was forked in the callback has returned from it. It may not continue here,
        // on its parent's connections.
        // SAFETY: `_exit` may be called at any time.
        unsafe { libc::_exit(libc::EXIT_FAILURE) };
    }
}

/// The progress thread. It runs until [`ProgressThread::stop`].
#[derive(Debug)]
pub(crate) struct ProgressThread {
    handle: Handle,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    state: watch::Sender<ThreadState>,
}

/// State of the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ThreadState {
    Runs,
    Stops,
}

impl ProgressThread {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses a thread or its descriptors.
    pub(crate) fn start() -> io::Result<ProgressThread> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (state, stopped) = watch::channel(ThreadState::Runs);
        let thread = thread::Builder::new()
            .name("peal-progress".to_owned())
            .stack_size(STACK)
            .spawn(move || progress(runtime, stopped))?;
        Ok(ProgressThread {
            handle,
            thread: Mutex::new(Some(thread)),
            state,
        })
    }

    /// Waits for the output of a future; `None` if the thread ends before. May not be called on the
    /// progress thread. The caller's thread polls the future, so that it sends its request itself:
    /// a switch to the progress thread takes longer than the request. On a small stack, the progress
    /// thread polls it all the same.
    pub(crate) fn wait<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        if !stack::has_room() {
            let (tell, told) = mpsc::sync_channel(1);
            // The receiver waits below.
            self.handle
                .spawn(async move { drop(tell.send(future.await)) });
            return told.recv().ok();
        }
        let mut state = self.state.subscribe();
        self.handle.block_on(async {
            let stopped = state.wait_for(|state| *state == ThreadState::Stops);
            tokio::select! {
                biased;
                output = future => Some(output),
                _ = stopped => None,
            }
        })
    }

    /// Starts a future. The caller's thread polls it first, so that it sends its request itself;
    /// the progress thread then polls it, and calls `done` with the output.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        done: impl FnOnce(T) + Send + 'static,
    ) {
        let mut future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
        let first = if stack::has_room() {
            let _context = self.handle.enter();
            // The progress thread polls again, so that no wake is missed.
            let mut context = Context::from_waker(Waker::noop());
            future.as_mut().poll(&mut context)
        } else {
            Poll::Pending
        };
        self.handle.spawn(async move {
            let output = match first {
                Poll::Ready(output) => output,
                Poll::Pending => future.await,
            };
            done(output);
        });
    }

    /// Ends the thread with all futures on it, and waits for its end. May not be called on the
    /// progress thread. A second call does nothing.
    pub(crate) fn stop(&self) {
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = { thread }.take();
        self.state.send_replace(ThreadState::Stops);
        if let Some(thread) = thread {
            // A panic of the thread has nothing to say to the program.
            let _ = thread.join();
        }
    }
}

/// Runs the futures until `stopped` completes.
fn progress(runtime: Runtime, mut state: watch::Receiver<ThreadState>) {
    PROCESS.set(Some(ForkNumber::current()));
    // The sender is dropped without a signal only if the thread could not be started.
    let _ = runtime.block_on(state.wait_for(|state| *state == ThreadState::Stops));
    runtime.shutdown_background();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_passed_on_the_progress_thread_until_it_stops() {
        let progress = ProgressThread::start().unwrap();
        assert!(!is_current());
        let (tell, told) = mpsc::channel();
        for yields in [0, 1] {
            let tell = tell.clone();
            let future = async move {
                for _ in 0..yields {
                    tokio::task::yield_now().await;
                }
            };
            progress.begin(future, move |()| tell.send(is_current()).unwrap());
            assert_eq!(told.recv(), Ok(true));
        }
        progress.stop();
        progress.begin(async {}, move |()| drop(told));
        assert!(tell.send(true).is_err(), "the call is dropped");
        progress.stop();
    }

    #[test]
    fn caller_polls_its_future_and_the_end_ends_its_wait() {
        let progress = ProgressThread::start().unwrap();
        assert_eq!(progress.wait(async { is_current() }), Some(false));
        let yielding = async { tokio::task::yield_now().await };
        assert_eq!(progress.wait(yielding), Some(()));
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                progress.wait(async move {
                    tell.send(()).unwrap();
                    std::future::pending::<()>().await;
                })
            });
            told.recv().unwrap();
            progress.stop();
            assert_eq!(waiting.join().unwrap(), None);
        });
        assert_eq!(progress.wait(std::future::pending::<()>()), None);
    }

    #[test]
    fn progress_thread_polls_for_callers_with_a_small_stack() {
        let progress = ProgressThread::start().unwrap();
        let is_on_thread = stack::without_room(|| progress.wait(async { is_current() }));
        assert_eq!(is_on_thread, Some(true));
        progress.stop();
        assert_eq!(progress.wait(std::future::pending::<()>()), None);
    }
}
