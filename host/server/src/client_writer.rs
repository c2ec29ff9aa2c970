//! Writer to one client, shared by its connection and the actor. The actor writes an answer or event
//! itself if nothing else is queued or in flight: to wake the connection's task for it would take
//! longer than the request.
use crate::{
    connection::ConnectionError,
    open_requests::OpenRequests,
    outbox::{MessageQueue, Outgoing, QueueEnd, QueueState},
    outbox_share::OutboxShare,
    packing::{PackedFrame, Packing},
    send_window::SendWindow,
    trace_limit::Once,
};
use peal_model::{Event, Reply, code};
use peal_wire::Codec;
use std::{
    fmt,
    io::{Error, ErrorKind},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
};
use tokio::{
    net::{TcpStream, tcp::OwnedWriteHalf},
    sync::Notify,
};

/// Number of entries of job data up to which they may fit into the send window. Longer ones are not
/// packed before they are queued.
const MAX_ENTRIES_AT_ONCE: usize = 256;

/// Input that has been read behind a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Behind {
    /// Further requests of the client.
    More,
    /// Nothing yet.
    Nothing,
}

/// Writer to one client.
pub(crate) struct ClientWriter {
    writer: OwnedWriteHalf,
    window: SendWindow,
    pub(crate) codec: Codec,
    pub(crate) open: OpenRequests,
    /// Messages that wait to be written.
    pub(crate) queue: MessageQueue,
    /// True when the end of the handshake has been written. Nothing else is written before.
    is_welcomed: AtomicBool,
    /// True if further requests of the client have been read already. Several answers are then
    /// written together.
    has_further_requests: AtomicBool,
    /// Memory of the waiting messages, in bytes. While it is zero, the connection's task writes
    /// nothing, so that the actor may write. Only the actor increases it.
    waiting: AtomicUsize,
    /// Share of the user in the memory of waiting messages.
    share: Arc<OutboxShare>,
    /// Notified when `waiting` has decreased.
    written: Notify,
    /// Notified when a write that is under way must end: the client is cut off, or the connection is
    /// suspended. Not even waiting messages are written then.
    interrupted: Notify,
    /// Number of answers with `PMIX_ERR_OUT_OF_RESOURCE` since the connection last read it.
    refused: AtomicU32,
    /// Set when the log has a line about a message that cannot be packed for this client.
    pub(crate) unfit: Once,
}

impl ClientWriter {
    /// Creates the writer to a client whose handshake is not complete yet.
    pub(crate) fn new(
        writer: OwnedWriteHalf,
        codec: Codec,
        open: OpenRequests,
        queue: MessageQueue,
        share: Arc<OutboxShare>,
    ) -> ClientWriter {
        let window = SendWindow::of(writer.as_ref());
        let written = Notify::new();
        let interrupted = Notify::new();
        let unfit = Once::default();
        let is_welcomed = AtomicBool::new(false);
        let has_further_requests = AtomicBool::new(false);
        let waiting = AtomicUsize::new(0);
        let refused = AtomicU32::new(0);
        ClientWriter {
            writer,
            window,
            codec,
            open,
            queue,
            is_welcomed,
            has_further_requests,
            waiting,
            share,
            written,
            interrupted,
            refused,
            unfit,
        }
    }

    /// Permits messages: the end of the handshake has been written.
    pub(crate) fn welcomed(&self) {
        self.is_welcomed.store(true, Ordering::Release);
    }

    /// Returns true if the end of the handshake has been written.
    pub(crate) fn is_welcomed(&self) -> bool {
        self.is_welcomed.load(Ordering::Acquire)
    }

    /// Notes the input that was read behind the request that is executed next. Called by the
    /// connection's task.
    pub(crate) fn read(&self, behind: Behind) {
        self.has_further_requests
            .store(behind == Behind::More, Ordering::Relaxed);
    }

    /// Waits until the send window has space for this number of bytes.
    pub(crate) async fn room_for(&self, bytes: usize) {
        self.window.room(bytes).await;
    }

    /// Writes a part of these bytes, and returns its length.
    pub(crate) async fn write_some(&self, bytes: &[u8]) -> std::io::Result<usize> {
        loop {
            // This call needs no exclusive access, so the actor and the task can share the writer.
            match self.writer.try_write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.writer.writable().await?
                }
                written => return written,
            }
        }
    }

    /// Returns the socket.
    pub(crate) fn socket(&self) -> &TcpStream {
        self.writer.as_ref()
    }

    /// Has the kernel acknowledge at once what was read. An answer does so; without one the kernel waits for
    /// 40 ms, and so does the client's next message: the C library leaves Nagle's algorithm on. Each MPI program
    /// of Open MPI ends with several such messages.
    pub(crate) fn acknowledge(&self) {
        // A failure costs no more than that time.
        let _ = rustix::net::sockopt::set_tcp_quickack(self.socket(), true);
    }

    /// Shuts down the sending side of the connection, so that the client reads its end.
    pub(crate) fn end(&self) -> Result<(), ConnectionError> {
        // The shutdown of tokio needs exclusive access, which a shared writer does not have.
        rustix::net::shutdown(self.writer.as_ref(), rustix::net::Shutdown::Write)
            .map_err(Error::from)?;
        Ok(())
    }

    /// Writes an answer at once if no other message is in flight in either direction and the send
    /// window has space. Returns the part that was not written, which must be queued. Called by the
    /// actor.
    ///
    /// A client with further open requests gets no answer at once: several answers are written
    /// together.
    pub(crate) fn answer(&self, tag: u32, reply: Reply, packing: &Packing) -> Option<Outgoing> {
        if reply.status() == code::PMIX_ERR_OUT_OF_RESOURCE {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        let Some(frame) = self.frame_at_once(tag, &reply, packing) else {
            return Some(Outgoing::Reply {
                tag,
                reply: Box::new(reply),
            });
        };
        // Before the write: the client may reuse the tag as soon as it has the answer.
        self.open.close(tag);
        self.write_at_once(&frame)
    }

    /// Writes an event at once if no other message waits and the send window has space. Returns the
    /// part that was not written, which must be queued. Called by the actor.
    pub(crate) fn event(&self, event: Arc<Event>, packing: &Packing) -> Option<Outgoing> {
        if !self.is_idle() {
            return Some(Outgoing::Event(event));
        }
        match packing.event(event.clone(), &self.codec) {
            Ok(frame) if self.window.room_at_once(frame.len()) => self.write_at_once(&frame),
            // The connection's task logs an event that cannot be packed.
            Ok(_) | Err(_) => Some(Outgoing::Event(event)),
        }
    }

    /// Writes a frame as far as the system takes it, and returns the rest.
    fn write_at_once(&self, frame: &[u8]) -> Option<Outgoing> {
        // Ignore errors here: the connection's task gets the same error when it writes the rest.
        let written = self.writer.try_write(frame).unwrap_or_default();
        frame
            .get(written..)
            .filter(|rest| !rest.is_empty())
            .map(|rest| Outgoing::Rest(rest.to_vec()))
    }

    /// Returns true if the connection's task writes nothing, so that the actor may write.
    fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0 && self.is_welcomed.load(Ordering::Acquire)
    }

    fn frame_at_once(&self, tag: u32, reply: &Reply, packing: &Packing) -> Option<PackedFrame> {
        let is_idle = self.is_idle() && !self.has_further_requests.load(Ordering::Relaxed);
        let command = self.open.only(tag).filter(|_| is_idle)?;
        if let Reply::JobData(job) = reply
            && job.entries.len() > MAX_ENTRIES_AT_ONCE
        {
            return None;
        }
        // An answer that cannot be packed is queued: the connection's task replaces it by a status.
        let has_room = |bytes| self.window.room_at_once(bytes);
        let packed = packing.answer(tag, command, reply, &self.codec, has_room);
        packed.ok()?
    }

    /// Returns true if a request was answered with `PMIX_ERR_OUT_OF_RESOURCE`.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed) > 0
    }

    /// Returns the number of such answers since the last call.
    pub(crate) fn take_refused(&self) -> u32 {
        self.refused.swap(0, Ordering::Relaxed)
    }

    /// Returns the memory of the waiting messages, in bytes.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the share of the user in the memory of waiting messages.
    pub(crate) fn share(&self) -> &OutboxShare {
        &self.share
    }

    /// Adds to the memory of the waiting messages and returns the sum. Called by the actor.
    pub(crate) fn wait(&self, bytes: usize) -> usize {
        self.share.add(bytes);
        self.waiting
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes)
    }

    /// Queues a message again that was taken from the queue to be packed.
    pub(crate) fn keep(&self, packed: Outgoing) {
        self.wait(packed.bytes());
        // The queue had room for it.
        let _ = self.queue.push(packed);
    }

    /// Subtracts written messages from the memory of the waiting ones. Called by the connection's
    /// task.
    pub(crate) fn waited(&self, bytes: usize) {
        // Pairs with the acquire in `is_idle`: the actor must see the send window as this
        // task has left it.
        self.waiting.fetch_sub(bytes, Ordering::Release);
        self.share.subtract(bytes);
        self.written.notify_one();
    }

    /// Returns true if the maximum number of requests is open and answers of some of them wait to
    /// be written. Without waiting answers, the next request fails when it is opened.
    pub(crate) fn is_full(&self) -> bool {
        self.open.is_full() && self.waiting() > 0
    }

    /// Waits while the writer is full: requests of a client that does not read its answers are not
    /// read.
    pub(crate) async fn room(&self) {
        while self.is_full() {
            self.written.notified().await;
        }
    }

    /// Cuts the client off. Called by the actor.
    pub(crate) fn cut(&self) {
        self.queue.end(QueueEnd::Cut);
        self.interrupted.notify_one();
    }

    /// Suspends the connection: its task ends, and what it has not written stays. Called by the actor.
    pub(crate) fn suspend(&self) {
        self.queue.suspend(true);
        self.interrupted.notify_one();
    }

    /// Ends the suspension.
    pub(crate) fn resume(&self) {
        self.queue.suspend(false);
    }

    /// Waits until the client is cut off or the connection is suspended, and returns that.
    pub(crate) async fn interruption(&self) -> ConnectionError {
        loop {
            // Stored if the task does not write, so it is not lost. It may be an old one.
            self.interrupted.notified().await;
            match self.queue.state() {
                QueueState::Cut => return ConnectionError::NotReading,
                QueueState::Suspended => return ConnectionError::Suspended,
                QueueState::Empty | QueueState::Waiting | QueueState::Closed => {}
            }
        }
    }
}

impl Drop for ClientWriter {
    fn drop(&mut self) {
        // Messages that were never written go with the queue.
        self.share.subtract(*self.waiting.get_mut());
    }
}

impl fmt::Debug for ClientWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientWriter")
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{outbox_share::OutboxLimits, packing};
    use peal_model::{CommandCode, JobEntry, JobInfo, Nspace, Rank, code};
    use peal_wire::{BufferType, DecodeLimits, Dialect, Encoding, Release};
    use tokio::{io::AsyncReadExt, net::TcpListener};

    /// Creates the writer to a client of release 4.2.2.
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
            Arc::new(OutboxShare::exempt(
                OutboxLimits::default(),
                &Arc::default(),
            )),
        )
    }

    /// Returns a writer and its client's end.
    async fn connected_writer() -> (ClientWriter, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (_, writer) = listener.accept().await.unwrap().0.into_split();
        (of_release_4(writer, 8), client)
    }

    async fn welcome(writer: &ClientWriter) {
        assert_eq!(writer.write_some(b"welcome").await.unwrap(), 7);
        writer.welcomed();
    }

    /// Returns true if an answer to the request of this tag was written at once.
    fn at_once(writer: &ClientWriter, tag: u32, reply: Reply) -> bool {
        writer.answer(tag, reply, &Packing::default()).is_none()
    }

    fn done() -> Reply {
        Reply::Status(code::PMIX_SUCCESS)
    }

    fn packed(writer: &ClientWriter, tag: u32) -> Vec<u8> {
        packing::answer(tag, CommandCode::Fence, &done(), &writer.codec).unwrap()
    }

    #[tokio::test]
    async fn answer_with_empty_queue_is_written_at_once() {
        let (writer, mut client) = connected_writer().await;
        let ask = |tag| writer.open.open(tag, CommandCode::Fence).unwrap();
        ask(101);
        assert!(
            !at_once(&writer, 101, done()),
            "no answer is written before the end of the handshake"
        );
        welcome(&writer).await;
        assert!(at_once(&writer, 101, done()));
        assert!(
            !at_once(&writer, 101, done()),
            "the request is answered already"
        );
        let expected = [b"welcome".to_vec(), packed(&writer, 101)].concat();
        let mut read = vec![0; expected.len()];
        client.read_exact(&mut read).await.unwrap();
        assert_eq!(read, expected);

        (102..104).for_each(ask);
        assert!(
            !at_once(&writer, 102, done()),
            "answers of several open requests are written together"
        );
        assert_eq!(writer.open.close(103), Some(CommandCode::Fence));
        writer.wait(10);
        assert!(
            !at_once(&writer, 102, done()),
            "waiting messages are written first"
        );
        writer.waited(10);
        writer.read(Behind::More);
        assert!(
            !at_once(&writer, 102, done()),
            "a further request has been read already"
        );
        writer.read(Behind::Nothing);
        assert!(at_once(&writer, 102, done()));
    }

    #[tokio::test]
    async fn job_data_written_at_once_are_packed_once_for_all_procs() {
        let rank = |rank| JobEntry::Rank(Rank(rank), Vec::new());
        let job = Arc::new(JobInfo {
            nspace: Nspace::new("job").unwrap(),
            entries: (0..2).map(rank).collect(),
        });
        let packing = Packing::default();
        let mut frames = Vec::new();
        for _ in 0..2 {
            let (writer, _client) = connected_writer().await;
            welcome(&writer).await;
            writer.open.open(101, CommandCode::JobData).unwrap();
            let reply = Reply::JobData(job.clone());
            let Some(PackedFrame::JobData(frame)) = writer.frame_at_once(101, &reply, &packing)
            else {
                panic!("it is not written at once");
            };
            frames.push(frame);
        }
        assert!(Arc::ptr_eq(&frames[0], &frames[1]));
    }

    #[tokio::test]
    async fn unread_answers_are_written_up_to_the_send_window() {
        let (writer, mut client) = connected_writer().await;
        welcome(&writer).await;
        let answers = (101..).take_while(|tag| {
            writer.open.open(*tag, CommandCode::Fence).unwrap();
            at_once(&writer, *tag, done())
        });
        let bytes = answers.count() * packed(&writer, 101).len();
        assert!(
            bytes <= SendWindow::AT_ONCE && bytes > SendWindow::AT_ONCE / 2,
            "{bytes}"
        );
        client.read_exact(&mut vec![0; 7 + bytes]).await.unwrap();
    }
}
