//! Calls from the runtime to a guest thread.
use peal_sandbox::GuestPool;
use tokio::sync::oneshot;
use tracing::Span;

/// Runs a job on a guest thread and waits for its result. Returns `None` if no thread takes it.
pub(crate) async fn on_guest_thread<T: Send + 'static>(
    pool: &GuestPool,
    job: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (reply, result) = oneshot::channel();
    // Log lines of guests and of their host calls carry the span of the caller's request or event.
    let span = Span::current();
    let job = move || {
        let _entered = span.enter();
        // Ignore a caller that is gone: it goes only when the server does.
        let _ = reply.send(job());
    };
    pool.try_run(job).ok()?;
    result.await.ok()
}
