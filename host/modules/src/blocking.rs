//! Blocking work outside of the runtime.

/// Runs blocking work or guests on a thread outside of the runtime.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // The task is never aborted, so it panicked: continue the panic here.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
