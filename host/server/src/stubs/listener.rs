//! Socket to which the stubs of a node connect.
use super::{
    handover::{EnteredStubs, InheritedListener},
    service::{StubRole, StubService},
    suspension::{AfterSuspension, ListeningStubSocket, OpenStub},
};
use crate::{
    admin::{AdminSocket, SocketClaim},
    handover::HandoverError,
};
use std::{fs, sync::Arc, time::Duration};
use tokio::{task::JoinHandle, time::sleep};

/// Pause after a failure to accept, such as one for want of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Listener for stubs. Its socket is removed when it is dropped.
#[derive(Debug)]
pub struct StubListener(JoinHandle<()>);

impl StubListener {
    /// Listens on a claimed path, and goes on with the stubs of another process.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be created, or the system refuses the descriptor of a stub.
    pub fn start(
        claim: Option<SocketClaim>,
        service: &Arc<StubService>,
        mut entered: EnteredStubs,
    ) -> Result<Option<StubListener>, HandoverError> {
        let inherited = entered.listener.take();
        let listener = claim.map(|claim| {
            let socket = listen(claim, inherited)?;
            service.suspender.listens(ListeningStubSocket {
                path: socket.path().to_owned(),
                descriptor: socket.descriptor()?,
            });
            let accept = accept(socket, service.clone(), service.suspender.open());
            Ok::<_, HandoverError>(StubListener(tokio::spawn(accept)))
        });
        let listener = listener.transpose()?;
        service.go_on(entered)?;
        Ok(listener)
    }
}

/// Returns the socket of another process, unless it has another path than the claimed one.
fn listen(
    claim: SocketClaim,
    inherited: Option<InheritedListener>,
) -> Result<AdminSocket, HandoverError> {
    match inherited {
        Some(InheritedListener { path, socket }) if path == claim.path() => {
            Ok(claim.listen_further(socket)?)
        }
        inherited => {
            if let Some(InheritedListener { path, .. }) = inherited {
                // Nobody listens there any more.
                let _ = fs::remove_file(path);
            }
            Ok(claim.listen(None)?)
        }
    }
}

/// Accepts stubs until the server ends, except while it is suspended.
async fn accept(socket: AdminSocket, service: Arc<StubService>, mut open: OpenStub) {
    let mut phases = service.suspender.phases();
    loop {
        tokio::select! {
            () = accept_all(&socket, &service) => {}
            () = phases.suspended() => {}
        }
        drop(open);
        if phases.after_suspension().await == AfterSuspension::Left {
            return socket.leave_file();
        }
        open = service.suspender.open();
    }
}

async fn accept_all(socket: &AdminSocket, service: &Arc<StubService>) {
    loop {
        match socket.listener.accept().await {
            Ok((stream, _)) => {
                let (service, open) = (service.clone(), service.suspender.open());
                // The service traces the end.
                tokio::spawn(async move { service.serve(stream, StubRole::Guest, open).await });
            }
            Err(error) => {
                tracing::warn!(%error, "connection of host environment not accepted");
                sleep(PAUSE).await;
            }
        }
    }
}

impl Drop for StubListener {
    fn drop(&mut self) {
        self.0.abort();
    }
}
