//! Acceptance of connections on a thread of its own, and the tasks that serve them, from the start of a
//! server until its last connection has ended.
//!
//! A user may open and close connections without end, and each costs the kernel's answer to whose it
//! is. The thread bears that cost, so that it does not delay requests of admitted connections.
use crate::connection::{self, AcceptedConnection, ConnectionContext, NewConnection, ServePhase};
use rustix::{
    io::Errno,
    net::{
        Shutdown, SocketFlags, acceptfrom_with, shutdown,
        sockopt::{Timeout, set_socket_timeout},
    },
};
use std::{
    collections::VecDeque,
    io,
    net::{SocketAddr, TcpListener as BlockingListener},
    os::fd::OwnedFd,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::{
    net::TcpListener,
    runtime::Handle,
    sync::{Semaphore, mpsc, watch},
    task::{JoinError, JoinSet},
};

/// Maximum number of accepted connections whose user is not known yet. Further ones wait to be
/// accepted.
const MAX_UNIDENTIFIED: usize = 64;

/// Number of admitted connections that wait for their task.
const MAX_ADMITTED: usize = 16;

/// Maximum number of refused sockets that are closed later.
const MAX_REFUSED: usize = 4096;

/// Interval at which refused sockets are closed if nothing else is to be done.
const CLOSE_INTERVAL: Duration = Duration::from_millis(50);

/// Least time between the closes of two refused sockets in the long run, and the maximum number that
/// are closed at once. Their user connects again at once, and others would wait behind all of that.
const BETWEEN_CLOSES: Duration = Duration::from_micros(250);
const MAX_CLOSED_AT_ONCE: u32 = 8;

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

/// Connections that were accepted and charged to their users.
pub(crate) struct AcceptedConnections {
    admitted: mpsc::Receiver<Box<NewConnection>>,
    listener: Arc<BlockingListener>,
}

/// Refused sockets that are closed later: a user who is refused often would connect again at once.
struct RefusedSockets {
    sockets: VecDeque<RefusedSocket>,
    /// Time of the last closes.
    closed_at: Instant,
    /// Time limit of `accept`.
    timeout: Option<Duration>,
}

struct RefusedSocket {
    /// Closed when it is dropped.
    _socket: OwnedFd,
    due: Instant,
}

impl RefusedSockets {
    fn new(now: Instant) -> RefusedSockets {
        RefusedSockets {
            sockets: VecDeque::new(),
            closed_at: now,
            timeout: None,
        }
    }

    fn keep(&mut self, socket: OwnedFd, delay: Duration, now: Instant) {
        if self.sockets.len() >= MAX_REFUSED {
            self.sockets.pop_front();
        }
        self.sockets.push_back(RefusedSocket {
            _socket: socket,
            due: now + delay,
        });
    }

    /// Closes sockets that are due. While there are others, `accept` returns at times.
    fn close_due(&mut self, listener: &BlockingListener, now: Instant) {
        let since = now.saturating_duration_since(self.closed_at);
        let mut closed = 0;
        while closed < MAX_CLOSED_AT_ONCE
            && BETWEEN_CLOSES * (closed + 1) <= since
            && self.is_due(now)
        {
            self.sockets.pop_front();
            self.closed_at = now;
            closed += 1;
        }
        let timeout = if self.is_due(now) {
            Some(BETWEEN_CLOSES * MAX_CLOSED_AT_ONCE)
        } else {
            (!self.sockets.is_empty()).then_some(CLOSE_INTERVAL)
        };
        // Without a timeout they are closed when the next connection is accepted.
        if timeout != self.timeout && set_socket_timeout(listener, Timeout::Recv, timeout).is_ok() {
            self.timeout = timeout;
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        self.sockets.front().is_some_and(|first| first.due <= now)
    }
}

/// Thread that accepts connections.
struct Acceptor {
    listener: Arc<BlockingListener>,
    address: SocketAddr,
    unidentified: Arc<Semaphore>,
    context: Arc<ConnectionContext>,
    stage: watch::Receiver<ServePhase>,
    admit: mpsc::Sender<Box<NewConnection>>,
    runtime: Handle,
    refused: RefusedSockets,
}

impl Acceptor {
    /// Accepts connections until the listener is shut down.
    fn run(mut self) {
        // Sockets are registered with the runtime.
        let runtime = self.runtime.clone();
        let _entered = runtime.enter();
        while self.accepts() {
            // Before accepting: connections beyond the limit stay in the kernel's queue.
            let permit = runtime.block_on(self.unidentified.clone().acquire_owned());
            let Ok(unidentified) = permit else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accepted = acceptfrom_with(&*self.listener, flags);
            let now = Instant::now();
            match accepted {
                Ok((socket, Some(from))) => {
                    let Ok(from) = from.try_into() else { continue };
                    let accepted = AcceptedConnection {
                        socket,
                        from,
                        to: self.address,
                        unidentified,
                    };
                    self.charge(accepted, now);
                }
                Ok((_, None)) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => {
                    if self.accepts() {
                        tracing::warn!(%error, "connection not accepted");
                        thread::sleep(RETRY_DELAY);
                    }
                }
            }
            self.refused.close_due(&self.listener, now);
        }
    }

    fn accepts(&self) -> bool {
        // Without a sender the server is gone.
        self.stage.has_changed().is_ok() && *self.stage.borrow() == ServePhase::Accept
    }

    fn charge(&mut self, accepted: AcceptedConnection, now: Instant) {
        let counters = self.context.metrics.counters();
        counters.connections_accepted.count();
        // Before a task is spawned, because one user may open any number of connections.
        match accepted.charge(&self.context) {
            Ok(connection) => {
                // An error means that the server is gone, and so is the connection.
                let _ = self.admit.blocking_send(connection);
            }
            Err(refused) => {
                if let Some((socket, delay)) = refused.delayed {
                    self.refused.keep(socket, delay, now);
                }
            }
        }
    }
}

/// Starts to accept connections.
///
/// # Errors
///
/// Fails if the system refuses the thread.
pub(crate) fn accept(
    listener: TcpListener,
    context: Arc<ConnectionContext>,
    stage: watch::Receiver<ServePhase>,
) -> io::Result<AcceptedConnections> {
    let address = listener.local_addr()?;
    let listener = listener.into_std()?;
    listener.set_nonblocking(false)?;
    let listener = Arc::new(listener);
    let (admit, admitted) = mpsc::channel(MAX_ADMITTED);
    let acceptor = Acceptor {
        listener: listener.clone(),
        address,
        unidentified: Arc::new(Semaphore::new(MAX_UNIDENTIFIED)),
        context,
        stage,
        admit,
        runtime: Handle::current(),
        refused: RefusedSockets::new(Instant::now()),
    };
    thread::Builder::new()
        .name("peal-accept".to_owned())
        .spawn(move || acceptor.run())?;
    Ok(AcceptedConnections { admitted, listener })
}

impl Drop for AcceptedConnections {
    /// Ends the thread: from now on the kernel refuses connections to this port.
    fn drop(&mut self) {
        // The listener may be shut down already.
        let _ = shutdown(&*self.listener, Shutdown::Both);
    }
}

/// Serves connections until the server stops, and then waits for the last one to end.
pub(crate) async fn listen(
    mut accepted: AcceptedConnections,
    context: Arc<ConnectionContext>,
    mut stage: watch::Receiver<ServePhase>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Some(connection) = accepted.admitted.recv() => {
                connections.spawn(connection::serve(connection, context.clone()));
            }
            Some(ended) = connections.join_next() => report(ended),
            () = no_longer_accepting(&mut stage) => break,
        }
    }
    // The thread ends: connections that it has admitted meanwhile are dropped.
    drop(accepted);
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
