//! Sending side of a connection. A caller writes its frame itself if the system takes it at once;
//! the task of the connection writes the rest.
use crate::{inbound::watch, lock};
use std::{
    collections::VecDeque,
    io::{self, IoSlice, Write},
    net::TcpStream,
    sync::{Arc, Mutex},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::{AcquireError, Notify, OwnedSemaphorePermit, Semaphore, oneshot},
};

/// Limit of the frames that the system has not taken yet, in bytes; further callers wait. A longer
/// frame waits until no other is left.
const MAX_UNSENT: u32 = 1 << 20;

/// Number of frames that one system call writes.
const FRAMES_OF_A_WRITE: usize = 64;

/// Time at which a frame is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Urgency {
    /// At once, by the caller: its call waits for the reply.
    Now,
    /// Soon, by the task of the connection, together with others: no thread waits for the reply.
    /// A caller that sends many such frames thus needs no system call for each.
    Soon,
}

/// Sending side of a connection.
#[derive(Debug)]
pub(crate) struct Outbound {
    unsent: Mutex<UnsentFrames>,
    room: Arc<Semaphore>,
    /// Wakes the task of the connection.
    changed: Notify,
}

/// Frames that the system has not taken yet, and the socket.
#[derive(Debug)]
struct UnsentFrames {
    batch: FrameBatch,
    writer: WriterState,
    /// Place of earlier frames.
    earlier: EarlierFrames,
}

/// Place of the frames before those that wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum EarlierFrames {
    /// The system has taken all.
    Written,
    /// The task writes them, without the lock: callers add frames meanwhile, and leave them to it.
    WithTask,
}

/// Frames in their order.
#[derive(Default, Debug)]
struct FrameBatch {
    frames: VecDeque<UnsentFrame>,
    /// Number of bytes of the first frame that are written.
    written: usize,
}

#[derive(Debug)]
struct UnsentFrame {
    bytes: Vec<u8>,
    _room: OwnedSemaphorePermit,
}

/// Socket that is watched for room, and not for input.
type WritableSocket = AsyncFd<Arc<TcpStream>>;

/// State of the socket's sending side.
#[derive(Debug)]
enum WriterState {
    Open(Arc<WritableSocket>),
    /// A write failed. Frames are dropped: the reader may still find replies before the end, and
    /// ends the connection.
    Failed,
    Closed,
}

/// Result of an attempt to write all frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WriteProgress {
    /// No frame is left.
    Done,
    /// The system takes no more bytes now.
    Blocked,
    /// A write failed.
    Failed,
}

impl FrameBatch {
    /// Writes frames until none is left or the system takes no more.
    fn write(&mut self, writer: &WritableSocket) -> WriteProgress {
        while !self.frames.is_empty() {
            let slices = self.slices();
            let write = |mut socket: &TcpStream| socket.write_vectored(&slices);
            match writer.try_io(Interest::WRITABLE, |socket| write(socket)) {
                Ok(count) => self.remove_written(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return WriteProgress::Blocked;
                }
                Err(error) => {
                    tracing::debug!(%error, "request not sent");
                    return WriteProgress::Failed;
                }
            }
        }
        WriteProgress::Done
    }

    fn slices(&self) -> Vec<IoSlice<'_>> {
        let mut skipped = self.written;
        let frames = self.frames.iter().take(FRAMES_OF_A_WRITE);
        let rest = frames.map(|frame| {
            let from = std::mem::take(&mut skipped);
            IoSlice::new(frame.bytes.get(from..).unwrap_or_default())
        });
        rest.collect()
    }

    fn remove_written(&mut self, count: usize) {
        self.written += count;
        while let Some(frame) = self.frames.front()
            && self.written >= frame.bytes.len()
        {
            self.written -= frame.bytes.len();
            self.frames.pop_front();
        }
    }
}

impl UnsentFrames {
    /// Writes all frames, unless earlier ones are not written. Returns true if nothing is left to the
    /// task.
    fn write(&mut self) -> bool {
        if self.earlier == EarlierFrames::WithTask {
            return false;
        }
        let WriterState::Open(writer) = &self.writer else {
            self.batch = FrameBatch::default();
            return true;
        };
        match self.batch.write(&writer.clone()) {
            WriteProgress::Done => true,
            WriteProgress::Blocked => false,
            WriteProgress::Failed => {
                self.fail();
                true
            }
        }
    }

    /// Takes all frames for the task, and the socket; `None` if no frame is left.
    fn take(&mut self) -> Option<(FrameBatch, Arc<WritableSocket>)> {
        let batch = std::mem::take(&mut self.batch);
        self.earlier = EarlierFrames::Written;
        match &self.writer {
            WriterState::Open(writer) if !batch.frames.is_empty() => {
                self.earlier = EarlierFrames::WithTask;
                Some((batch, writer.clone()))
            }
            _ => None,
        }
    }

    fn fail(&mut self) {
        self.writer = WriterState::Failed;
        self.batch = FrameBatch::default();
    }
}

impl Outbound {
    /// Creates the sending side of a socket.
    ///
    /// # Errors
    ///
    /// Fails if the runtime cannot watch the socket.
    pub(crate) async fn new(socket: Arc<TcpStream>) -> io::Result<Outbound> {
        let writer = watch(socket, Interest::WRITABLE)?;
        // The first caller would find the socket not writable before the runtime has looked.
        writer.writable().await?.retain_ready();
        Ok(Outbound {
            unsent: Mutex::new(UnsentFrames {
                batch: FrameBatch::default(),
                writer: WriterState::Open(Arc::new(writer)),
                earlier: EarlierFrames::Written,
            }),
            room: Arc::new(Semaphore::new(MAX_UNSENT as usize)),
            changed: Notify::new(),
        })
    }

    /// Waits for room for a frame of this many bytes. Returns an error after the close.
    pub(crate) async fn room(&self, bytes: usize) -> Result<OwnedSemaphorePermit, AcquireError> {
        let bytes = u32::try_from(bytes).unwrap_or(MAX_UNSENT);
        let room = self.room.clone();
        room.acquire_many_owned(bytes.clamp(1, MAX_UNSENT)).await
    }

    /// Sends a frame behind all earlier ones. May be called from any thread.
    pub(crate) fn send(&self, bytes: Vec<u8>, room: OwnedSemaphorePermit, urgency: Urgency) {
        let mut unsent = lock(&self.unsent);
        let frames = &mut unsent.batch.frames;
        frames.push_back(UnsentFrame { bytes, _room: room });
        let is_written = urgency == Urgency::Now && unsent.write();
        drop(unsent);
        if !is_written {
            self.changed.notify_one();
        }
    }

    /// Writes what callers left, until `unused` says that there are no more callers, and nothing is
    /// left.
    pub(crate) async fn write_rest(&self, mut unused: oneshot::Receiver<()>) {
        let mut is_used = true;
        loop {
            let taken = lock(&self.unsent).take();
            match taken {
                Some((batch, writer)) => self.write_batch(batch, &writer).await,
                None if is_used => tokio::select! {
                    () = self.changed.notified() => {}
                    _ = &mut unused => is_used = false,
                },
                None => return,
            }
        }
    }

    async fn write_batch(&self, mut batch: FrameBatch, writer: &WritableSocket) {
        loop {
            match batch.write(writer) {
                WriteProgress::Done => return,
                WriteProgress::Blocked => {
                    // An error shows at the next write.
                    let _ = writer.writable().await;
                }
                WriteProgress::Failed => return lock(&self.unsent).fail(),
            }
        }
    }

    /// Closes the sending side. Later frames are dropped, and callers that wait for room are
    /// refused.
    pub(crate) fn close(&self) {
        let mut unsent = lock(&self.unsent);
        unsent.writer = WriterState::Closed;
        unsent.batch = FrameBatch::default();
        self.room.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncReadExt, net::TcpListener};

    async fn connected() -> (Outbound, tokio::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connect = tokio::net::TcpStream::connect(address);
        let (near, far) = tokio::join!(connect, listener.accept());
        let near = Arc::new(near.unwrap().into_std().unwrap());
        (Outbound::new(near).await.unwrap(), far.unwrap().0)
    }

    async fn send(outbound: &Outbound, bytes: Vec<u8>, urgency: Urgency) {
        let room = outbound.room(bytes.len()).await.unwrap();
        outbound.send(bytes, room, urgency);
    }

    #[tokio::test]
    async fn urgent_frame_is_written_by_its_caller() {
        let (outbound, mut far) = connected().await;
        send(&outbound, vec![1, 2, 3], Urgency::Now).await;
        let mut read = [0; 3];
        far.read_exact(&mut read).await.unwrap();
        assert_eq!(read, [1, 2, 3]);
    }

    #[tokio::test]
    async fn frames_keep_their_order_and_all_are_written() {
        let (outbound, mut far) = connected().await;
        // More than the system takes at once, so that frames remain for the task.
        let frame = |number: u8| vec![number; 100_000];
        let frames = 100;
        let (callers, unused) = oneshot::channel();
        let write = outbound.write_rest(unused);
        let send_all = async {
            for number in 0..frames {
                let urgency = match number % 3 {
                    0 => Urgency::Soon,
                    _ => Urgency::Now,
                };
                send(&outbound, frame(number), urgency).await;
            }
            drop(callers);
        };
        let read_all = async {
            let mut read = vec![0; 100_000];
            for number in 0..frames {
                far.read_exact(&mut read).await.unwrap();
                assert!(read == frame(number), "frame {number}");
            }
        };
        tokio::join!(write, send_all, read_all);
        outbound.close();
        assert_eq!(far.read(&mut [0]).await.unwrap(), 0, "the socket is closed");
    }

    #[tokio::test]
    async fn callers_wait_for_room_and_the_close_refuses_them() {
        let (outbound, _far) = connected().await;
        let all = outbound.room(usize::MAX).await.unwrap();
        let mut more = std::pin::pin!(outbound.room(1));
        tokio::select! {
            biased;
            _ = &mut more => panic!("there is no room"),
            () = std::future::ready(()) => {}
        }
        outbound.close();
        assert!(more.await.is_err());
        drop(all);
    }
}
