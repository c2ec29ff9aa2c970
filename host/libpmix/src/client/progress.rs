//! Thread of the library: a runtime on which all connections live, and on which all callbacks of
//! the program come, one at a time.
use super::{fork::ForkNumber, stack};
use peal_client::Client;
use std::{
    cell::Cell,
    collections::HashMap,
    future::Future,
    io,
    pin::{Pin, pin},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
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
    begun: Arc<BegunCalls>,
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
            begun: Arc::default(),
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
        self.wait_by(future, |future| self.handle.block_on(future))
    }

    /// Waits as [`ProgressThread::wait`] does, for a call of this client. The caller's thread also reads
    /// the reply.
    pub(crate) fn wait_for_reply<T: Send + 'static>(
        &self,
        client: &Client,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        self.wait_by(future, |future| client.wait(future))
    }

    fn wait_by<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        poll: impl FnOnce(Pin<&mut dyn Future<Output = Option<T>>>) -> Option<T>,
    ) -> Option<T> {
        if !stack::has_room() {
            let (tell, told) = mpsc::sync_channel(1);
            // The receiver waits below.
            self.handle
                .spawn(async move { drop(tell.send(future.await)) });
            return told.recv().ok();
        }
        let mut state = self.state.subscribe();
        poll(pin!(async {
            let stopped = state.wait_for(|state| *state == ThreadState::Stops);
            tokio::select! {
                biased;
                output = future => Some(output),
                _ = stopped => None,
            }
        }))
    }

    /// Starts a future. The caller's thread polls it first, so that it sends its request itself. When
    /// there is more to do, the progress thread continues, and calls `done` with the output.
    pub(crate) fn begin<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        done: impl FnOnce(T) + Send + 'static,
    ) {
        let mut future: Pin<Box<dyn Future<Output = T> + Send>> = Box::pin(future);
        if !stack::has_room() {
            self.handle.spawn(async move { done(future.await) });
            return;
        }
        let waker = Arc::new(self.begun.waker(&self.handle));
        match waker.poll(future.as_mut()) {
            // The program is called back on the progress thread, and not before its call returns.
            Poll::Ready(output) => drop(self.handle.spawn(async move { done(output) })),
            Poll::Pending => waker.keep(Box::pin(async move { done(future.await) })),
        }
    }

    /// Starts a future whose output nobody needs, as [`ProgressThread::begin`] does. A future that is
    /// ready at once leaves nothing to do for the progress thread.
    pub(crate) fn begin_silently<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) {
        let mut future: BegunCall = Box::pin(async move { drop(future.await) });
        if !stack::has_room() {
            self.handle.spawn(future);
            return;
        }
        let waker = Arc::new(self.begun.waker(&self.handle));
        if waker.poll(future.as_mut()).is_pending() {
            waker.keep(future);
        }
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
        self.begun.clear();
    }
}

/// Call that its caller has begun.
type BegunCall = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Calls that wait for their reply. Each becomes a task of the progress thread when it is woken: mostly
/// by its reply, on that thread. Until then the thread need not run for it.
#[derive(Default)]
struct BegunCalls {
    calls: Mutex<HashMap<u64, BegunCall>>,
    last: AtomicU64,
}

impl BegunCalls {
    fn waker(self: &Arc<Self>, handle: &Handle) -> BegunWaker {
        BegunWaker {
            handle: handle.clone(),
            calls: Arc::downgrade(self),
            number: self.last.fetch_add(1, Ordering::Relaxed),
            is_woken: AtomicBool::new(false),
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<u64, BegunCall>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, number: u64) -> Option<BegunCall> {
        self.calls().remove(&number)
    }

    fn clear(&self) {
        let calls = std::mem::take(&mut *self.calls());
        // Not under the lock, since calls wake others when they are dropped.
        drop(calls);
    }
}

impl std::fmt::Debug for BegunCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("calls that wait for their reply")
    }
}

/// Waker of a begun call. It does not own the calls, which own what holds their wakers.
struct BegunWaker {
    handle: Handle,
    calls: Weak<BegunCalls>,
    number: u64,
    is_woken: AtomicBool,
}

impl BegunWaker {
    /// Polls a call for the first time, on the thread of its caller.
    fn poll<T>(self: &Arc<Self>, call: Pin<&mut (dyn Future<Output = T> + Send)>) -> Poll<T> {
        let _context = self.handle.enter();
        call.poll(&mut Context::from_waker(&Waker::from(self.clone())))
    }

    /// Keeps a call until the waker is woken.
    fn keep(&self, call: BegunCall) {
        let Some(calls) = self.calls.upgrade() else {
            return;
        };
        calls.calls().insert(self.number, call);
        if self.is_woken.load(Ordering::SeqCst) {
            // The wake may have found no call.
            self.proceed();
        }
    }

    /// Makes the call a task, unless it is one.
    fn proceed(&self) {
        let (calls, number) = (self.calls.clone(), self.number);
        self.handle.spawn(async move {
            let call = calls.upgrade().and_then(|calls| calls.take(number));
            if let Some(call) = call {
                call.await;
            }
        });
    }
}

impl Wake for BegunWaker {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        self.proceed();
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
        let (_kept, owns) = (owned.clone(), owned.clone());
        let (tell, told) = tokio::sync::oneshot::channel::<()>();
        // Its waker is in a channel that it owns, as that of a call is in a connection.
        let waits = async move {
            let _held = (tell, owns);
            drop(told.await);
        };
        progress.begin_silently(waits);
        assert_eq!(Arc::strong_count(&owned), 3);
        progress.stop();
        assert_eq!(Arc::strong_count(&owned), 2);
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
