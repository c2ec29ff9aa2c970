//! A client's line: what its connection and the actor share. An answer goes out at once where nothing else is on its way; to wake
//! the connection for it would take longer than all the rest.
use crate::{
    connection::ConnectionError,
    open_requests::OpenRequests,
    outbox::{MessageQueue, Outgoing},
    packing,
    send_window::SendWindow,
    trace_limit::Once,
};
use peal_model::{Reply, code};
use peal_wire::Codec;
use std::{
    fmt,
    io::{Error, ErrorKind},
    sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
};
use tokio::{net::tcp::OwnedWriteHalf, sync::Notify};

/// What has been read behind a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behind {
    /// More of the client's.
    More,
    /// Nothing yet.
    Nothing,
}

/// The line of one client.
pub(crate) struct ClientWriter {
    writer: OwnedWriteHalf,
    pace: SendWindow,
    pub(crate) codec: Codec,
    pub(crate) open: OpenRequests,
    /// What waits to be written.
    pub(crate) queue: MessageQueue,
    /// Whether the client is welcome: nothing is written before it is told.
    welcome: AtomicBool,
    /// Whether more that it asks has been read already: several answers are written together.
    asks_on: AtomicBool,
    /// The memory that what waits takes, in bytes. While it is nothing, the connection writes nothing, so that the actor, who
    /// alone makes it more, may ...
    waiting: AtomicUsize,
    /// ... and who waits for it to become less is told here.
    written: Notify,
    /// Told when the client is cut off: then nothing more is written, not even what waits.
    cut: Notify,
    /// The answers that said that there is no room, since the connection asked.
    refused: AtomicU32,
    /// Whether the log says that something cannot be packed for this client.
    pub(crate) unfit: Once,
}

impl ClientWriter {
    /// That of a client who is not welcome yet.
    pub(crate) fn new(
        writer: OwnedWriteHalf,
        codec: Codec,
        open: OpenRequests,
        queue: MessageQueue,
    ) -> ClientWriter {
        let pace = SendWindow::of(writer.as_ref());
        let (written, cut, unfit) = (Notify::new(), Notify::new(), Once::default());
        let (welcome, asks_on, waiting) = (
            AtomicBool::new(false),
            AtomicBool::new(false),
            AtomicUsize::new(0),
        );
        let refused = AtomicU32::new(0);
        ClientWriter {
            writer,
            pace,
            codec,
            open,
            queue,
            welcome,
            asks_on,
            waiting,
            written,
            cut,
            refused,
            unfit,
        }
    }

    /// Tells the client that it is welcome.
    pub(crate) async fn welcome(&self, message: &[u8]) -> Result<(), ConnectionError> {
        self.write_all(message).await?;
        self.welcome.store(true, Ordering::Release);
        Ok(())
    }

    /// The connection's: what has been read behind what the client is answered next.
    pub(crate) fn read(&self, behind: Behind) {
        self.asks_on
            .store(behind == Behind::More, Ordering::Relaxed);
    }

    /// Writes frames when the client has read enough of what came before.
    pub(crate) async fn write(&self, frames: &[u8]) -> Result<(), ConnectionError> {
        self.pace.room(frames.len()).await;
        Ok(self.write_all(frames).await?)
    }

    async fn write_all(&self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            match self.writer.try_write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writer.writable().await?
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Tells the client that nothing more comes.
    pub(crate) fn end(&self) -> Result<(), ConnectionError> {
        rustix::net::shutdown(self.writer.as_ref(), rustix::net::Shutdown::Write)
            .map_err(Error::from)?;
        Ok(())
    }

    /// The actor's: writes an answer if nothing else is on its way, neither to the client nor from it, and the client is sure
    /// to take it. What is left of it otherwise, which is to be queued.
    ///
    /// Who has asked for more than this is not told at once: several answers are written together.
    pub(crate) fn answer(&self, tag: u32, reply: Reply) -> Option<Outgoing> {
        if reply.status() == code::PMIX_ERR_OUT_OF_RESOURCE {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        let Some(frame) = self.frame_at_once(tag, &reply) else {
            return Some(Outgoing::Reply {
                tag,
                reply: Box::new(reply),
            });
        };
        self.open.close(tag);
        // What is wrong with the connection it finds out itself when it writes what is left.
        let written = self.writer.try_write(&frame).unwrap_or_default();
        frame
            .get(written..)
            .filter(|rest| !rest.is_empty())
            .map(|rest| Outgoing::Rest(rest.to_vec()))
    }

    fn frame_at_once(&self, tag: u32, reply: &Reply) -> Option<Vec<u8>> {
        let is_quiet = self.waiting.load(Ordering::Acquire) == 0
            && self.welcome.load(Ordering::Acquire)
            && !self.asks_on.load(Ordering::Relaxed);
        let command = self.open.only(tag).filter(|_| is_quiet)?;
        // What cannot be packed the connection says.
        let frame = packing::answer(tag, command, reply, &self.codec).ok()?;
        self.pace.room_at_once(frame.len()).then_some(frame)
    }

    /// True if the client was told that there is no room for something.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed) > 0
    }

    /// The number of times that the client was told so, since the last call.
    pub(crate) fn take_refused(&self) -> u32 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// The memory that what waits takes, in bytes.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The actor's: so many bytes more wait. How many that makes.
    pub(crate) fn wait(&self, bytes: usize) -> usize {
        self.waiting
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes)
    }

    /// The connection's: so many of them have been written.
    pub(crate) fn waited(&self, bytes: usize) {
        self.waiting.fetch_sub(bytes, Ordering::Release);
        self.written.notify_one();
    }

    /// Whether as many requests are open as may be and some of their answers are on their way. That there are too many without
    /// answers is found out when the next is opened.
    pub(crate) fn is_full(&self) -> bool {
        self.open.is_full() && self.waiting() > 0
    }

    /// Waits while it is full: a client that does not read its answers is read no further.
    pub(crate) async fn room(&self) {
        while self.is_full() {
            self.written.notified().await;
        }
    }

    /// The actor's: cuts the client off.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Waits until the client is cut off.
    pub(crate) async fn is_cut(&self) {
        self.cut.notified().await;
    }
}

impl fmt::Debug for ClientWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{CommandCode, code};
    use peal_wire::{BufferType, DecodeLimits, Dialect, Encoding, Release};
    use tokio::{
        io::AsyncReadExt,
        net::{TcpListener, TcpStream},
    };

    /// That of a client of release 4.2.2.
    fn of_release_4(writer: OwnedWriteHalf, max_open: usize) -> ClientWriter {
        let release: Release = "4.2.2".parse().unwrap();
        let dialect = Dialect::new(release.version(), Encoding::V41);
        let codec = Codec {
            dialect,
            buffer_type: BufferType::NonDescribed,
            limits: DecodeLimits::default(),
        };
        ClientWriter::new(
            writer,
            codec,
            OpenRequests::new(max_open),
            MessageQueue::new(8),
        )
    }

    /// A line, and its client's end.
    async fn line() -> (ClientWriter, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (_, writer) = listener.accept().await.unwrap().0.into_split();
        (of_release_4(writer, 8), client)
    }

    /// Whether an answer to the request of this tag went out at once.
    fn at_once(line: &ClientWriter, tag: u32, reply: Reply) -> bool {
        line.answer(tag, reply).is_none()
    }

    fn done() -> Reply {
        Reply::Status(code::PMIX_SUCCESS)
    }

    fn packed(line: &ClientWriter, tag: u32) -> Vec<u8> {
        packing::answer(tag, CommandCode::Fence, &done(), &line.codec).unwrap()
    }

    #[tokio::test]
    async fn answer_with_empty_queue_is_written_at_once() {
        let (line, mut client) = line().await;
        let ask = |tag| line.open.open(tag, CommandCode::Fence).unwrap();
        ask(101);
        assert!(
            !at_once(&line, 101, done()),
            "nobody is answered before being welcome"
        );
        line.welcome(b"welcome").await.unwrap();
        assert!(at_once(&line, 101, done()));
        assert!(!at_once(&line, 101, done()), "it is answered already");
        let expected = [b"welcome".to_vec(), packed(&line, 101)].concat();
        let mut read = vec![0; expected.len()];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(read, expected);

        (102..104).for_each(ask);
        assert!(
            !at_once(&line, 102, done()),
            "somebody who asks for more is answered together"
        );
        assert_eq!(line.open.close(103), Some(CommandCode::Fence));
        line.wait(10);
        assert!(!at_once(&line, 102, done()), "what waits goes first");
        line.waited(10);
        line.read(Behind::More);
        assert!(!at_once(&line, 102, done()), "more has been asked already");
        line.read(Behind::Nothing);
        assert!(at_once(&line, 102, done()));
    }

    #[tokio::test]
    async fn unread_answers_are_written_up_to_the_send_window() {
        let (line, mut client) = line().await;
        line.welcome(b"welcome").await.unwrap();
        let answers = (101..).take_while(|tag| {
            line.open.open(*tag, CommandCode::Fence).unwrap();
            at_once(&line, *tag, done())
        });
        let bytes = answers.count() * packed(&line, 101).len();
        assert!(
            bytes <= SendWindow::AT_ONCE && bytes > SendWindow::AT_ONCE / 2,
            "{bytes}"
        );
        client.read_exact(&mut vec![0; 7 + bytes]).await.unwrap();
    }
}
