//! Loop that accepts connections, from the start of a server until its last connection has ended.
use crate::connection::{self, AcceptedConnection, ConnectionContext, ServePhase};
use rustix::net::{SocketFlags, acceptfrom_with};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::{JoinError, JoinSet},
};

/// Maximum number of accepted connections whose user is not known yet. Further ones wait to be
/// accepted.
const MAX_UNIDENTIFIED: usize = 64;

/// Number of waiting connections that are accepted before other tasks run.
const AT_ONCE: usize = 16;

/// Delay after a failed accept, when the system has no resources for a connection.
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// Waits until the server accepts no further connections, or is gone.
async fn no_longer_accepting(stage: &mut watch::Receiver<ServePhase>) {
    let _ = stage.wait_for(|stage| *stage != ServePhase::Accept).await;
}

/// Waits until connections must end and returns the time that they have for it, zero if the server
/// is gone.
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
        tracing::error!(%error, "task of server failed");
    }
}

/// Socket that accepts connections.
pub(crate) struct ConnectionListener {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
    unidentified: Arc<Semaphore>,
}

impl ConnectionListener {
    pub(crate) fn new(listener: TcpListener) -> std::io::Result<ConnectionListener> {
        let address = listener.local_addr()?;
        let unidentified = Arc::new(Semaphore::new(MAX_UNIDENTIFIED));
        Ok(ConnectionListener {
            listener,
            address,
            unidentified,
        })
    }

    async fn accept(&self) -> std::io::Result<AcceptedConnection> {
        // Before accepting: connections beyond the limit stay in the kernel's queue.
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

    /// Accepts the next connection, if one is waiting.
    fn accept_waiting(&self) -> Option<AcceptedConnection> {
        let unidentified = self.unidentified.clone().try_acquire_owned().ok()?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Ignore errors: the next call of `accept` returns a lasting one.
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

/// Accepts and serves connections until the server stops, and then waits for the last one to end.
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
                        // Before a task is spawned, because one user may open any number of
                        // connections and the others wait behind them.
                        if let Some(connection) = connection.charge(&context) {
                            connections.spawn(connection::serve(connection, context.clone()));
                        }
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
            },
            Some(ended) = connections.join_next() => report(ended),
            () = no_longer_accepting(&mut stage) => break,
        }
    }
    // From now on the kernel refuses connections to this port.
    drop(listener);
    let time = tokio::select! {
        () = all_ended(&mut connections) => return,
        time = time_to_drain(&mut stage) => time,
    };
    if tokio::time::timeout(time, all_ended(&mut connections))
        .await
        .is_err()
    {
        tracing::warn!("clients did not read their last messages; connections closed");
        connections.shutdown().await;
    }
}
