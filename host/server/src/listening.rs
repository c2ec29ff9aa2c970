//! The loop that accepts connections, from a server's start until the last of them has ended.
use crate::connection::{self, AcceptedConnection, ConnectionContext, ServePhase};
use rustix::net::{SocketFlags, acceptfrom_with};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::{JoinError, JoinSet},
};

/// The accepted connections whose user is not known yet. More wait to be accepted.
const MAX_UNIDENTIFIED: usize = 64;

/// How many connections that wait are accepted before other tasks have their turn.
const AT_ONCE: usize = 16;

/// How long the listener waits after the system had no room for a connection.
const BREATHE: Duration = Duration::from_millis(50);

/// Waits until nobody new is accepted; also if the server is gone.
async fn no_longer_accepting(stage: &mut watch::Receiver<ServePhase>) {
    let _ = stage.wait_for(|stage| *stage != ServePhase::Accept).await;
}

/// Waits until connections are to end, and says how long they have for it; none if the server is gone.
async fn time_to_drain(stage: &mut watch::Receiver<ServePhase>) -> Duration {
    match stage
        .wait_for(|stage| matches!(stage, ServePhase::Drain(_)))
        .await
        .as_deref()
    {
        Ok(ServePhase::Drain(time)) => *time,
        _ => Duration::ZERO,
    }
}

async fn all_ended(connections: &mut JoinSet<()>) {
    while let Some(ended) = connections.join_next().await {
        report(ended);
    }
}

pub(crate) fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a task of the server failed");
    }
}

/// The socket that connections come to.
pub(crate) struct ConnectionListener {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
    unidentified: Arc<Semaphore>,
}

impl ConnectionListener {
    pub(crate) fn new(listener: TcpListener) -> std::io::Result<ConnectionListener> {
        let (address, unidentified) = (
            listener.local_addr()?,
            Arc::new(Semaphore::new(MAX_UNIDENTIFIED)),
        );
        Ok(ConnectionListener {
            listener,
            address,
            unidentified,
        })
    }

    async fn accept(&self) -> std::io::Result<AcceptedConnection> {
        let unidentified = self
            .unidentified
            .clone()
            .acquire_owned()
            .await
            .map_err(std::io::Error::other)?;
        let (stream, from) = self.listener.accept().await?;
        let socket = stream.into_std()?.into();
        Ok(AcceptedConnection {
            socket,
            from,
            to: self.address,
            unidentified,
        })
    }

    /// The next connection, if there is one already.
    fn accept_waiting(&self) -> Option<AcceptedConnection> {
        let unidentified = self.unidentified.clone().try_acquire_owned().ok()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // An error is seen again by the next that waits.
        let (socket, from) = acceptfrom_with(&self.listener, flags).ok()?;
        let from = from?.try_into().ok()?;
        Some(AcceptedConnection {
            socket,
            from,
            to: self.address,
            unidentified,
        })
    }
}

/// Serves what connects until the server stops, and then until the last connection has ended.
pub(crate) async fn listen(
    listener: ConnectionListener,
    context: Arc<ConnectionContext>,
    mut stage: watch::Receiver<ServePhase>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => {
                    let waiting = std::iter::from_fn(|| listener.accept_waiting());
                    for connection in std::iter::once(accepted).chain(waiting).take(AT_ONCE) {
                        context.metrics.counters().connections_accepted.count();
                        // Before there is a task for it: others wait behind those that one user opens again and again.
                        if let Some(connection) = connection.charge(&context) {
                            connections.spawn(connection::serve(connection, context.clone()));
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(BREATHE).await;
                }
            },
            Some(ended) = connections.join_next() => report(ended),
            () = no_longer_accepting(&mut stage) => break,
        }
    }
    drop(listener);
    let time = tokio::select! {
        () = all_ended(&mut connections) => return,
        time = time_to_drain(&mut stage) => time,
    };
    if tokio::time::timeout(time, all_ended(&mut connections))
        .await
        .is_err()
    {
        tracing::warn!("clients did not take what was left for them: their connections are closed");
        connections.shutdown().await;
    }
}
