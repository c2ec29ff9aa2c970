//! Thread of the library: a runtime on which all connections live, and on which all callbacks of
//! the program come, one at a time.
use std::{
    cell::Cell,
    future::Future,
    io, process,
    sync::{Mutex, PoisonError, mpsc},
    thread,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

/// Stack of the thread, in bytes: as much as a thread of the C library has for the program's
/// callbacks.
const STACK: usize = 8 << 20;

thread_local! {
    /// Process of which this thread is the progress thread; zero for none. A forked child may
    /// continue on a copy of its parent's progress thread.
    static PROCESS: Cell<u32> = const { Cell::new(0) };
}

/// Returns true on the progress thread of this process.
pub(crate) fn is_current() -> bool {
    PROCESS.get() == process::id()
}

/// Calls a function of the program.
pub(crate) fn call_program(call: impl FnOnce()) {
    let process = process::id();
    call();
    if process::id() != process {
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
    end: Mutex<Option<ThreadEnd>>,
}

/// Signal that ends the thread, and its handle.
#[derive(Debug)]
struct ThreadEnd {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
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
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("peal-progress".to_owned())
            .stack_size(STACK)
            .spawn(move || progress(runtime, stopped))?;
        Ok(ProgressThread {
            handle,
            end: Mutex::new(Some(ThreadEnd { stop, thread })),
        })
    }

    /// Runs a future on the thread, and waits for its output; `None` if the thread ends before. May
    /// not be called on the progress thread.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> Option<T> {
        let (tell, told) = mpsc::sync_channel(1);
        self.spawn(async move {
            // The receiver waits below.
            let _ = tell.send(future.await);
        });
        told.recv().ok()
    }

    /// Starts a future on the thread.
    pub(crate) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(future);
    }

    /// Ends the thread with all futures on it, and waits for its end. May not be called on the
    /// progress thread. A second call does nothing.
    pub(crate) fn stop(&self) {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        let end = { end }.take();
        if let Some(ThreadEnd { stop, thread }) = end {
            // Both fail only if the thread has ended already.
            let _ = stop.send(());
            let _ = thread.join();
        }
    }
}

/// Runs the futures until `stopped` completes.
fn progress(runtime: Runtime, stopped: oneshot::Receiver<()>) {
    PROCESS.set(process::id());
    // The sender is dropped without a signal only if the thread could not be started.
    let _ = runtime.block_on(stopped);
    runtime.shutdown_background();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn futures_run_on_the_progress_thread_until_it_stops() {
        let progress = ProgressThread::start().unwrap();
        assert!(!is_current());
        assert_eq!(progress.run(async { is_current() }), Some(true));
        progress.stop();
        assert_eq!(progress.run(async { is_current() }), None);
        progress.stop();
    }
}
