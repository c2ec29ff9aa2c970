//! From the runtime to a guest thread and back.
use peal_sandbox::GuestPool;
use tokio::sync::oneshot;
use tracing::Span;

/// Runs something on a guest thread and waits for it; nothing if no thread takes it.
pub(crate) async fn on_guest_thread<T: Send + 'static>(
    pool: &GuestPool,
    job: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = oneshot::channel();
    // The lines of guests and their host calls belong to the request or event of the caller.
    let span = Span::current();
    let job = move || {
        let _entered = span.enter();
        // Whoever asked waits; if it is gone, so is the server.
        let _ = tell.send(job());
    };
    pool.try_run(job).ok()?;
    told.await.ok()
}
