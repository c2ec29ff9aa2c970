//! Acceptance of connections on a thread of its own, and the tasks that serve them, from the start of a
//! server until its last connection has ended.
//!
//! A user may open and close connections without end, and each costs the kernel's answer to whose it
//! is. The thread bears that cost, so that it does not delay requests of admitted connections.
use crate::connection::{
    self, AcceptedConnection, ConnectionContext, Greeting, NewConnection, ServePhase,
    ServedConnection,
};
use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::eventfd::{EfdFlags, EventFd},
};
use rustix::{
    io::Errno,
    net::{Shutdown, SocketFlags, acceptfrom_with, shutdown},
};
use std::{
    collections::VecDeque,
    io,
    net::{SocketAddr, TcpListener as BlockingListener},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::{
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
    /// Listening socket, which is shut down on drop unless it is kept.
    listener: Option<Arc<BlockingListener>>,
    waker: Arc<EventFd>,
    /// Kept until the thread has ended and its connections are served.
    accepting: Option<Greeting>,
}

/// Refused sockets that are closed later: a user who is refused often would connect again at once.
struct RefusedSockets {
    sockets: VecDeque<RefusedSocket>,
    /// Time of the last closes.
    closed_at: Instant,
    /// Time after which the thread wakes, if it must.
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

    /// Closes sockets that are due. While there are others, the thread wakes at times.
    fn close_due(&mut self, now: Instant) {
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
        self.timeout = if self.is_due(now) {
            Some(BETWEEN_CLOSES * MAX_CLOSED_AT_ONCE)
        } else {
            (!self.sockets.is_empty()).then_some(CLOSE_INTERVAL)
        };
    }

    fn is_due(&self, now: Instant) -> bool {
        self.sockets.front().is_some_and(|first| first.due <= now)
    }
}

/// Thread that accepts connections.
struct Acceptor {
    /// First, so that it is dropped before `admit`, whose end says that the thread has ended.
    listener: Arc<BlockingListener>,
    /// Descriptor that becomes readable to wake the thread.
    waker: Arc<EventFd>,
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
            self.wait();
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
            self.refused.close_due(now);
        }
    }

    /// Waits for a connection, a wake-up, or the time to close refused sockets.
    fn wait(&self) {
        let mut sources = [
            PollFd::new(self.listener.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.waker.as_fd(), PollFlags::POLLIN),
        ];
        // Rounded up: a socket is due then.
        let timeout = self.refused.timeout.map_or(PollTimeout::NONE, |timeout| {
            let rounded = timeout + Duration::from_micros(999);
            rounded.try_into().unwrap_or(PollTimeout::MAX)
        });
        // After an error the socket says whether there is a connection.
        let _ = poll(&mut sources, timeout);
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
    listener: BlockingListener,
    context: Arc<ConnectionContext>,
    stage: watch::Receiver<ServePhase>,
) -> io::Result<AcceptedConnections> {
    let address = listener.local_addr()?;
    listener.set_nonblocking(true)?;
    let listener = Arc::new(listener);
    let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
    let waker = Arc::new(EventFd::from_flags(flags)?);
    let (admit, admitted) = mpsc::channel(MAX_ADMITTED);
    let accepting = Greeting::begin(&context);
    let acceptor = Acceptor {
        listener: listener.clone(),
        waker: waker.clone(),
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
    Ok(AcceptedConnections {
        admitted,
        listener: Some(listener),
        waker,
        accepting: Some(accepting),
    })
}

impl AcceptedConnections {
    /// Wakes the thread, which looks at the phase of the server.
    fn wake(&self) {
        // It fails only if the thread has been woken already.
        let _ = self.waker.write(1);
    }

    /// Returns the listening socket, which stays open: the kernel keeps further connections in its queue.
    /// The thread, which had it as well, has ended.
    fn keep_listener(&mut self) -> Option<BlockingListener> {
        self.listener.take().and_then(Arc::into_inner)
    }
}

impl Drop for AcceptedConnections {
    /// Ends the thread: from now on the kernel refuses connections to this port.
    fn drop(&mut self) {
        if let Some(listener) = &self.listener {
            // The listener may be shut down already.
            let _ = shutdown(&**listener, Shutdown::Both);
        }
    }
}

/// Serves connections until the server stops or is suspended, and then waits for the last one to end. Returns
/// the listening socket of a server that is suspended. The first connections were suspended before.
pub(crate) async fn listen(
    mut accepted: AcceptedConnections,
    suspended: Vec<ServedConnection>,
    context: Arc<ConnectionContext>,
    mut stage: watch::Receiver<ServePhase>,
) -> Option<BlockingListener> {
    let mut connections = JoinSet::new();
    for connection in suspended {
        connections.spawn(connection::serve_again(
            Box::new(connection),
            context.clone(),
        ));
    }
    loop {
        tokio::select! {
            Some(connection) = accepted.admitted.recv() => {
                connections.spawn(connection::serve(connection, context.clone()));
            }
            Some(ended) = connections.join_next() => report(ended),
            () = no_longer_accepting(&mut stage) => break,
        }
    }
    if matches!(*stage.borrow(), ServePhase::Suspend | ServePhase::Suspended) {
        accepted.wake();
        // Those that the thread has accepted before its end: nobody else accepts them.
        while let Some(connection) = accepted.admitted.recv().await {
            connections.spawn(connection::serve(connection, context.clone()));
        }
        accepted.accepting = None;
        all_ended(&mut connections).await;
        return accepted.keep_listener();
    }
    // The thread ends: connections that it has admitted meanwhile are dropped.
    drop(accepted);
    let time = tokio::select! {
        () = all_ended(&mut connections) => return None,
        time = time_to_drain(&mut stage) => time,
    };
    if tokio::time::timeout(time, all_ended(&mut connections))
        .await
        .is_err()
    {
        tracing::warn!("clients did not read their last messages; connections closed");
        connections.shutdown().await;
    }
    None
}
