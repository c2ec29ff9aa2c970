//! Thread of the library: a runtime on which all connections live, and on which all callbacks of
//! the program come, one at a time.
use super::{fork::ForkNumber, stack};
use std::{
    cell::Cell,
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, Weak, mpsc},
    task::{Context, Poll, Wake, Waker},
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
    begun: BegunCalls,
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
            begun: BegunCalls::default(),
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

    /// Starts a future. The caller's thread polls it first, so that it sends its request itself. When
    /// there is more to do, the progress thread continues, and calls `done` with the output.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        done: impl FnOnce(T) + Send + 'static,
    ) {
        let call = CallParts {
            future: Box::pin(future),
            done,
        };
        if !stack::has_room() {
            self.handle.spawn(call.finish());
            return;
        }
        if let Some(CompletedCall { output, done }) = self.poll_begun(call) {
            // The program is called back on the progress thread, and not before its call returns.
            self.handle.spawn(async move { done(output) });
        }
    }

    /// Starts a future whose output nobody needs, as [`ProgressThread::begin`] does. A future that is
    /// ready at once leaves nothing to do for the progress thread.
    pub(crate) fn begin_silently<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) {
        let call = CallParts {
            future: Box::pin(future),
            done: drop,
        };
        if stack::has_room() {
            let _ = self.poll_begun(call);
        } else {
            self.handle.spawn(call.finish());
        }
    }

    /// Polls a call for the first time, on the thread of its caller. Returns its output if it is ready.
    fn poll_begun<T, D>(&self, parts: CallParts<T, D>) -> Option<CompletedCall<T, D>>
    where
        T: Send + 'static,
        D: FnOnce(T) + Send + 'static,
    {
        let call = Arc::new(BegunCall {
            handle: self.handle.clone(),
            parts: Mutex::new(Some(parts)),
        });
        let completed = call.poll();
        if completed.is_none() {
            let call = Arc::downgrade(&call);
            self.begun.note(call);
        }
        completed
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
        self.begun.drop_all();
    }
}

/// Call that its caller has begun. It becomes a task of the progress thread when it is woken: mostly by
/// its reply, on that thread. Until then the thread need not run for it.
struct BegunCall<T, D> {
    handle: Handle,
    /// The call, until it is a task.
    parts: Mutex<Option<CallParts<T, D>>>,
}

/// Future of a call, and what its output is passed to.
struct CallParts<T, D> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
    done: D,
}

/// Output of a call that was ready at its first poll, and what it is passed to.
struct CompletedCall<T, D> {
    output: T,
    done: D,
}

impl<T, D: FnOnce(T)> CallParts<T, D> {
    async fn finish(self) {
        (self.done)(self.future.await);
    }
}

impl<T: Send + 'static, D: FnOnce(T) + Send + 'static> BegunCall<T, D> {
    /// Polls the call for the first time.
    fn poll(self: &Arc<Self>) -> Option<CompletedCall<T, D>> {
        let waker = Waker::from(self.clone());
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut begun = parts.take()?;
        let _context = self.handle.enter();
        match begun.future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Pending => {
                *parts = Some(begun);
                None
            }
            Poll::Ready(output) => Some(CompletedCall {
                output,
                done: begun.done,
            }),
        }
    }

    fn take(&self) -> Option<CallParts<T, D>> {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.take()
    }
}

impl<T: Send + 'static, D: FnOnce(T) + Send + 'static> Wake for BegunCall<T, D> {
    fn wake(self: Arc<Self>) {
        let handle = self.handle.clone();
        // The caller may still poll, so that only the progress thread waits for it. A second wake
        // finds nothing.
        handle.spawn(async move {
            if let Some(call) = self.take() {
                call.finish().await;
            }
        });
    }
}

/// Calls that wait for their reply and are no tasks yet. Each is kept alive by its own waker alone, so
/// that the end of the thread has to drop it.
#[derive(Default)]
struct BegunCalls(Mutex<Vec<Weak<dyn DropCall>>>);

/// Number of calls from which on those that are tasks or have ended are removed from the list.
const MANY_CALLS: usize = 64;

/// Call that can be dropped before its end.
trait DropCall: Send + Sync {
    fn drop_call(&self);
}

impl<T: Send + 'static, D: FnOnce(T) + Send + 'static> DropCall for BegunCall<T, D> {
    fn drop_call(&self) {
        drop(self.take());
    }
}

impl BegunCalls {
    fn note(&self, call: Weak<dyn DropCall>) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The list is searched only when it would grow.
        if calls.len() >= MANY_CALLS && calls.len() == calls.capacity() {
            calls.retain(|call| call.strong_count() > 0);
        }
        calls.push(call);
    }

    fn drop_all(&self) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = std::mem::take(&mut *calls);
        calls
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|call| call.drop_call());
    }
}

impl std::fmt::Debug for BegunCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("calls that wait for their reply")
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
    fn call_that_waits_at_the_end_is_dropped() {
        let progress = ProgressThread::start().unwrap();
        let owned = Arc::new(());
        for _ in 0..MANY_CALLS * 3 {
            let (_kept, owns) = (owned.clone(), owned.clone());
            let (tell, told) = tokio::sync::oneshot::channel::<()>();
            // Its waker is in a channel that it owns, as that of a call is in a connection.
            let waits = async move {
                let _held = (tell, owns);
                drop(told.await);
            };
            progress.begin_silently(waits);
            progress.begin_silently(async {});
        }
        assert_eq!(Arc::strong_count(&owned), 1 + MANY_CALLS * 3);
        progress.stop();
        assert_eq!(Arc::strong_count(&owned), 1);
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
