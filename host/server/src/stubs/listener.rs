//! Socket to which the stubs of a node connect.
use super::service::{StubRole, StubService};
use crate::admin::{SocketClaim, SocketError};
use std::{sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::sleep};

/// Pause after a failure to accept, such as one for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Listener for stubs. Its socket is removed when it is dropped.
#[derive(Debug)]
pub struct StubListener(JoinHandle<()>);

impl StubListener {
    /// Listens on a claimed path.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be created.
    pub fn start(
        claim: SocketClaim,
        service: Arc<StubService>,
    ) -> Result<StubListener, SocketError> {
        let socket = claim.listen(None)?;
        let accept = async move {
            loop {
                match socket.listener.accept().await {
                    Ok((stream, _)) => {
                        let service = service.clone();
                        // The service traces the end.
                        tokio::spawn(async move { service.serve(stream, StubRole::Guest).await });
                    }
                    Err(error) => {
                        tracing::warn!(%error, "connection of host environment not accepted");
                        sleep(PAUSE).await;
                    }
                }
            }
        };
        Ok(StubListener(tokio::spawn(accept)))
    }
}

impl Drop for StubListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}
