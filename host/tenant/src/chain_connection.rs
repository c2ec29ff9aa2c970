//! Server's end of the first connection: events for chains, several at a time.
use crate::{
    error::TenantRuntimeError,
    message::{ChainCall, ChainNumber, ChainReply, FROM_RUNTIME, TO_RUNTIME},
};
use peal_frames::{MessageDecoder, encode};
use std::{
    collections::HashMap,
    io,
    os::unix::net::UnixStream,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::AsyncWriteExt,
    net::unix::{OwnedReadHalf, OwnedWriteHalf},
    sync::{OnceCell, oneshot},
};

/// Number of bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// Connection to a process.
#[derive(Debug)]
pub(crate) struct ChainConnection {
    /// Connection before the first call: a process may be started where no runtime of tokio is.
    stream: Mutex<Option<UnixStream>>,
    /// Second handle, by which another thread ends the connection.
    ending: UnixStream,
    writer: OnceCell<tokio::sync::Mutex<OwnedWriteHalf>>,
    open: Arc<OpenChains>,
    numbered: AtomicU64,
}

/// Calls without a reply; none once the connection has ended.
#[derive(Debug)]
struct OpenChains(Mutex<Option<HashMap<ChainNumber, oneshot::Sender<ChainReply>>>>);

impl OpenChains {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<ChainNumber, oneshot::Sender<ChainReply>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ChainConnection {
    pub(crate) fn new(stream: UnixStream) -> io::Result<ChainConnection> {
        let ending = stream.try_clone()?;
        Ok(ChainConnection {
            stream: Mutex::new(Some(stream)),
            ending,
            writer: OnceCell::new(),
            open: Arc::new(OpenChains(Mutex::new(Some(HashMap::new())))),
            numbered: AtomicU64::new(0),
        })
    }

    /// Returns the number of the next call.
    pub(crate) fn next_number(&self) -> ChainNumber {
        ChainNumber(self.numbered.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns true if the connection has ended.
    pub(crate) fn is_lost(&self) -> bool {
        self.open.lock().is_none()
    }

    /// Ends the connection. The process ends with it.
    pub(crate) fn end(&self) {
        // The other end may be closed already.
        let _ = self.ending.shutdown(std::net::Shutdown::Both);
        // The callers see that their senders are gone.
        self.open.lock().take();
    }

    /// Sends an event and waits for the results, at most `time`. After it the process is ended, since
    /// nobody knows what it does.
    pub(crate) async fn run(
        &self,
        call: &ChainCall,
        time: Duration,
    ) -> Result<ChainReply, TenantRuntimeError> {
        let frame = encode(call, TO_RUNTIME)?;
        let (sender, receiver) = oneshot::channel();
        match &mut *self.open.lock() {
            Some(open) => open.insert(call.number, sender),
            None => return Err(TenantRuntimeError::Ended),
        };
        let answered = async {
            let writer = self.writer.get_or_try_init(|| self.connect()).await?;
            writer.lock().await.write_all(&frame).await?;
            receiver.await.map_err(|_| TenantRuntimeError::Ended)
        };
        match tokio::time::timeout(time, answered).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(error)) => {
                self.end();
                Err(error)
            }
            Err(_elapsed) => {
                self.end();
                Err(TenantRuntimeError::Timeout(time))
            }
        }
    }

    /// Gives the connection to the runtime of tokio, and starts the task that reads replies.
    async fn connect(&self) -> Result<tokio::sync::Mutex<OwnedWriteHalf>, TenantRuntimeError> {
        let stream = self
            .stream
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
            .ok_or(TenantRuntimeError::Ended)?;
        stream.set_nonblocking(true)?;
        let (reader, writer) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let open = self.open.clone();
        tokio::spawn(async move {
            if let Err(error) = read_replies(reader, &open).await {
                tracing::warn!(%error, "reply of a user's modules not understood");
            }
            open.lock().take();
        });
        Ok(tokio::sync::Mutex::new(writer))
    }
}

impl Drop for ChainConnection {
    fn drop(&mut self) {
        self.end();
    }
}

async fn read_replies(reader: OwnedReadHalf, open: &OpenChains) -> Result<(), TenantRuntimeError> {
    let mut decoder = MessageDecoder::new(FROM_RUNTIME);
    let mut chunk = vec![0; CHUNK];
    loop {
        reader.readable().await?;
        match reader.try_read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => decoder.push(chunk.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        while let Some(reply) = decoder.next_message::<ChainReply>()? {
            let sender = match &mut *open.lock() {
                Some(open) => open.remove(&reply.number),
                None => return Ok(()),
            };
            // A reply that nobody waits for comes from a process that does not keep to the protocol.
            let sender = sender.ok_or(TenantRuntimeError::Answer)?;
            // The caller may have gone with its server.
            let _ = sender.send(reply);
        }
    }
}
