//! Thread of the handlers that may block.
use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

type HandlerJob = Box<dyn FnOnce() + Send>;

/// Thread that runs handlers which may block, in the order of the events. The drop does not wait
/// for it: a handler may wait for the very code that drops the client.
pub(crate) struct HandlerThread {
    jobs: SyncSender<HandlerJob>,
}

impl HandlerThread {
    /// Starts the thread. Returns an error if the system refuses it.
    pub(crate) fn start() -> io::Result<HandlerThread> {
        // One event is handled at a time, so that no more than one job waits.
        let (jobs, queued) = sync_channel(1);
        thread::Builder::new()
            .name("peal-handlers".to_owned())
            .stack_size(STACK)
            .spawn(move || work(&queued))?;
        Ok(HandlerThread { jobs })
    }

    /// Queues a job without waiting. Returns false if another one waits already.
    pub(crate) fn try_run(&self, job: impl FnOnce() + Send + 'static) -> bool {
        self.jobs.try_send(Box::new(job)).is_ok()
    }
}

/// Stack of the thread, in bytes; a component takes at most 512 KiB of it.
const STACK: usize = 4 << 20;

fn work(queued: &Receiver<HandlerJob>) {
    while let Ok(job) = queued.recv() {
        // Handlers' panics are caught where they are called. This is for all other code of a job.
        if catch_unwind(AssertUnwindSafe(job)).is_err() {
            tracing::error!("job on handlers' thread panicked");
        }
    }
}
