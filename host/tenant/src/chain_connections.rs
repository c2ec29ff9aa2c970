//! Server's ends of the connections on which a process runs chains, one at a time on each.
use crate::{
    error::TenantRuntimeError,
    message::{ChainCall, ChainNumber, ChainReply, FROM_RUNTIME, TO_RUNTIME},
};
use peal_frames::{MessageDecoder, encode};
use std::{
    io,
    net::Shutdown,
    os::unix::net::UnixStream as BlockingStream,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    sync::{Semaphore, watch},
};

/// Number of bytes that are read at once.
const CHUNK: usize = 16 * 1024;

/// State of a process as its connections show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ProcessState {
    Running,
    Ended,
}

/// Connections to one process.
#[derive(Debug)]
pub(crate) struct ChainConnections {
    /// Connections without a call. The one that was used last is used next: its thread is warm.
    idle: Mutex<Vec<ChainConnection>>,
    /// One permit for each idle connection.
    free: Semaphore,
    state: watch::Sender<ProcessState>,
    /// Handle of the connection with whose end the process ends.
    ending: BlockingStream,
    numbered: AtomicU64,
}

impl ChainConnections {
    /// Uses these connections. The process ends with that of `ending`.
    pub(crate) fn new(
        streams: Vec<BlockingStream>,
        ending: BlockingStream,
    ) -> io::Result<ChainConnections> {
        let mut idle = Vec::with_capacity(streams.len());
        for stream in streams {
            stream.set_nonblocking(true)?;
            idle.push(ChainConnection::new(stream));
        }
        Ok(ChainConnections {
            free: Semaphore::new(idle.len()),
            idle: Mutex::new(idle),
            state: watch::Sender::new(ProcessState::Running),
            ending,
            numbered: AtomicU64::new(0),
        })
    }

    /// Returns the number of the next call.
    pub(crate) fn next_number(&self) -> ChainNumber {
        ChainNumber(self.numbered.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns true if the process has ended.
    pub(crate) fn is_lost(&self) -> bool {
        *self.state.borrow() == ProcessState::Ended
    }

    /// Ends the process. All open calls fail.
    pub(crate) fn end(&self) {
        // The other end may be closed already.
        let _ = self.ending.shutdown(Shutdown::Both);
        self.state.send_replace(ProcessState::Ended);
    }

    /// Waits for an idle connection, sends an event, and waits for the results, at most `time`. After it
    /// the process is ended, since nobody knows what it does.
    pub(crate) async fn run(
        &self,
        call: &ChainCall,
        time: Duration,
    ) -> Result<ChainReply, TenantRuntimeError> {
        let frame = encode(call, TO_RUNTIME)?;
        let mut state = self.state.subscribe();
        let exchanged = async {
            // Dropped last, when the connection is idle again.
            let _permit = self.free.acquire().await;
            let mut used = UsedConnection::take(self).ok_or(TenantRuntimeError::Ended)?;
            let answered = tokio::time::timeout(time, used.exchange(call.number, &frame)).await;
            let reply = answered.unwrap_or(Err(TenantRuntimeError::Timeout(time)))?;
            used.give_back();
            Ok(reply)
        };
        let ended = async {
            // The result holds a lock of the state, which the drop of a used connection takes, too.
            drop(state.wait_for(|state| *state == ProcessState::Ended).await);
        };
        tokio::select! {
            biased;
            reply = exchanged => reply,
            () = ended => Err(TenantRuntimeError::Ended),
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<ChainConnection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ChainConnections {
    fn drop(&mut self) {
        self.end();
    }
}

/// Connection that carries a call. Ends the process if it is dropped before it is given back: a late
/// reply would be taken for that to the next call.
struct UsedConnection<'a> {
    all: &'a ChainConnections,
    connection: Option<ChainConnection>,
}

impl<'a> UsedConnection<'a> {
    fn take(all: &'a ChainConnections) -> Option<UsedConnection<'a>> {
        let connection = all.idle().pop()?;
        Some(UsedConnection {
            all,
            connection: Some(connection),
        })
    }

    async fn exchange(
        &mut self,
        number: ChainNumber,
        frame: &[u8],
    ) -> Result<ChainReply, TenantRuntimeError> {
        let connection = self.connection.as_mut().ok_or(TenantRuntimeError::Ended)?;
        let reply = connection.exchange(frame).await?;
        // Another number comes from a process that sent a reply twice, or before its call.
        if reply.number == number {
            Ok(reply)
        } else {
            Err(TenantRuntimeError::Answer)
        }
    }

    fn give_back(mut self) {
        self.all.idle().extend(self.connection.take());
    }
}

impl Drop for UsedConnection<'_> {
    fn drop(&mut self) {
        if self.connection.is_some() {
            self.all.end();
        }
    }
}

/// One connection.
#[derive(Debug)]
struct ChainConnection {
    stream: ChainStream,
    decoder: MessageDecoder,
}

/// Socket of a connection.
#[derive(Debug)]
enum ChainStream {
    /// Socket before the first call: a process may be started where no runtime of tokio is.
    Unregistered(BlockingStream),
    /// Socket of the runtime that runs the calls.
    Registered(UnixStream),
    /// No socket: it could not be registered.
    Lost,
}

impl ChainStream {
    fn registered(&mut self) -> Result<&mut UnixStream, TenantRuntimeError> {
        if let ChainStream::Unregistered(_) = self
            && let ChainStream::Unregistered(stream) = std::mem::replace(self, ChainStream::Lost)
        {
            *self = ChainStream::Registered(UnixStream::from_std(stream)?);
        }
        match self {
            ChainStream::Registered(stream) => Ok(stream),
            ChainStream::Unregistered(_) | ChainStream::Lost => Err(TenantRuntimeError::Ended),
        }
    }
}

impl ChainConnection {
    fn new(stream: BlockingStream) -> ChainConnection {
        ChainConnection {
            stream: ChainStream::Unregistered(stream),
            decoder: MessageDecoder::new(FROM_RUNTIME),
        }
    }

    async fn exchange(&mut self, frame: &[u8]) -> Result<ChainReply, TenantRuntimeError> {
        let stream = self.stream.registered()?;
        stream.write_all(frame).await.map_err(lost)?;
        let mut chunk = Vec::with_capacity(CHUNK);
        loop {
            if let Some(reply) = self.decoder.next_message()? {
                return Ok(reply);
            }
            chunk.clear();
            if stream.read_buf(&mut chunk).await.map_err(lost)? == 0 {
                return Err(TenantRuntimeError::Ended);
            }
            self.decoder.push(&chunk);
        }
    }
}

/// A process that ends with unread bytes resets the connection.
fn lost(error: io::Error) -> TenantRuntimeError {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => TenantRuntimeError::Ended,
        _ => error.into(),
    }
}
