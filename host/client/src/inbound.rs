//! Receiving side of a connection. The task of the connection reads, or in its place a caller that
//! waits for its reply: a switch from the task to the caller takes longer than most requests.
use crate::{
    lock,
    open_requests::{OpenReplies, ReplyRecipient},
    queue::EventQueue,
    queued_item::{LossDetection, QueuedItem},
};
use mio::{Events, Poll, Token, Waker, unix::SourceFd};
use peal_model::Nspace;
use peal_wire::{Codec, Frame, FrameDecoder, ServerUri, Tag, WireError};
use std::{
    collections::VecDeque,
    future::poll_fn,
    io::{self, ErrorKind, Read},
    net::TcpStream,
    os::fd::AsRawFd,
    sync::{Arc, Mutex},
    task,
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    sync::OwnedSemaphorePermit,
    task::consume_budget,
};

/// Maximum bytes of one read.
const READ_BYTES: usize = 64 * 1024;

/// Token of the socket in both selectors.
const SOCKET: Token = Token(0);

/// Token of the end of a caller's wait.
const INTERRUPT: Token = Token(1);

/// Parts of a connection that the receiving side uses.
pub(crate) struct InboundParts {
    pub(crate) codec: Codec,
    /// Namespace of this proc, which is mostly that of the sources of events.
    pub(crate) nspace: Nspace,
    pub(crate) open: Arc<OpenReplies>,
    pub(crate) queue: EventQueue,
    pub(crate) loss_detection: LossDetection,
    pub(crate) server: ServerUri,
}

/// Receiving side of a connection.
pub(crate) struct Inbound {
    parts: InboundParts,
    /// Reader, while nobody reads.
    place: Mutex<ReaderPlace>,
    /// Selector of the task. The socket is in it except while a caller reads, so that input wakes
    /// only one thread.
    for_task: AsyncFd<Poll>,
    interrupt: Waker,
}

/// Place of the reader while nobody reads.
struct ReaderPlace {
    /// Socket and what was read from it. The task or a caller takes it to read.
    reader: Option<SocketReader>,
    /// Waker of the task, for what a caller leaves to it.
    task: Option<task::Waker>,
}

impl ReaderPlace {
    /// Has what a caller leaves wake the task.
    fn keep_waker(&mut self, context: &task::Context<'_>) {
        match &mut self.task {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }
}

/// Recipients of replies that were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PassedReplies {
    /// There were no replies.
    None,
    /// Tasks, or callers on their own threads.
    ToTasks,
}

/// Socket, and frames that were read and have not reached their recipient.
struct SocketReader {
    socket: Arc<TcpStream>,
    decoder: FrameDecoder,
    buffer: Vec<u8>,
    frames: VecDeque<Frame>,
    /// Error in the bytes behind the frames.
    error: Option<WireError>,
    has_ended: bool,
    /// Selector of a caller, which always contains the socket.
    for_caller: Poll,
    events: Events,
}

/// Input that may be left in the socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unread {
    /// There may be more.
    Some,
    /// There was none; more input makes the socket ready again.
    Nothing,
}

impl SocketReader {
    /// Reads once, and splits what was read into frames.
    fn receive(&mut self) -> Unread {
        let read = (&*self.socket).read(&mut self.buffer);
        match read {
            Ok(0) => self.has_ended = true,
            Ok(count) => {
                let received = self.buffer.get(..count).unwrap_or_default();
                split(
                    &mut self.decoder,
                    received,
                    &mut self.frames,
                    &mut self.error,
                );
                // Also if there was room for more: the end may have come with these bytes, and the
                // selectors report each arrival once.
                return Unread::Some;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return Unread::Some,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => self.has_ended = true,
        }
        Unread::Nothing
    }

    /// Returns true if nothing is left that only the task handles.
    fn is_clear(&self) -> bool {
        self.frames.is_empty() && self.error.is_none() && !self.has_ended
    }
}

/// Adds the frames that are complete with the received bytes.
fn split(
    decoder: &mut FrameDecoder,
    mut received: &[u8],
    frames: &mut VecDeque<Frame>,
    error: &mut Option<WireError>,
) {
    loop {
        match decoder.feed(&mut received) {
            Ok(Some(frame)) => frames.push_back(frame),
            Ok(None) => return,
            Err(malformed) => {
                *error = Some(malformed);
                return;
            }
        }
    }
}

impl Inbound {
    /// Creates the receiving side of a socket from which these bytes were read behind the
    /// handshake.
    ///
    /// # Errors
    ///
    /// Fails if the system refuses a descriptor.
    pub(crate) fn new(
        socket: Arc<TcpStream>,
        received: &[u8],
        parts: InboundParts,
    ) -> io::Result<Inbound> {
        let (for_task, for_caller) = (Poll::new()?, Poll::new()?);
        let interrupt = Waker::new(for_caller.registry(), INTERRUPT)?;
        for selector in [&for_task, &for_caller] {
            add(selector, &socket)?;
        }
        let mut decoder = FrameDecoder::new(&parts.codec.limits);
        let (mut frames, mut error) = (VecDeque::new(), None);
        split(&mut decoder, received, &mut frames, &mut error);
        let reader = SocketReader {
            socket,
            decoder,
            buffer: vec![0; READ_BYTES],
            frames,
            error,
            has_ended: false,
            for_caller,
            events: Events::with_capacity(2),
        };
        let place = ReaderPlace {
            reader: Some(reader),
            task: None,
        };
        Ok(Inbound {
            parts,
            place: Mutex::new(place),
            for_task: watch(for_task, Interest::READABLE)?,
            interrupt,
        })
    }

    /// Reads until the connection ends, and then closes the open requests.
    pub(crate) async fn read(&self) {
        while let Some(mut reader) = self.task_turn().await {
            let replies = self.read_all(&mut reader).await;
            if reader.has_ended {
                break;
            }
            if replies == PassedReplies::ToTasks {
                // Their callbacks run before a caller reads the next reply.
                let_others_run().await;
            }
            lock(&self.place).reader = Some(reader);
        }
        let InboundParts {
            open,
            queue,
            loss_detection,
            server,
            ..
        } = &self.parts;
        // First, so that the event task does not count this server among those that are left.
        open.close();
        // No room is awaited: observers must learn of the loss even if no handler makes progress.
        queue.put(
            QueuedItem::Lost(loss_detection.clone(), server.clone()),
            None,
        );
    }

    /// Drops the socket. No caller reads then: each holds a reference to its connection.
    pub(crate) fn close(&self) {
        drop(lock(&self.place).reader.take());
    }

    /// Waits until there is something to read for the task. `None` at the end of the runtime.
    async fn task_turn(&self) -> Option<SocketReader> {
        poll_fn(|context| {
            loop {
                let is_readable = match self.for_task.poll_read_ready(context) {
                    // Before the look: what arrives later makes it ready again, and so does a caller
                    // that stops reading.
                    task::Poll::Ready(Ok(mut ready)) => {
                        ready.clear_ready();
                        true
                    }
                    task::Poll::Ready(Err(_)) => return task::Poll::Ready(None),
                    task::Poll::Pending => false,
                };
                let mut place = lock(&self.place);
                let for_task = |reader: &mut SocketReader| is_readable || !reader.is_clear();
                if let Some(reader) = place.reader.take_if(for_task) {
                    return task::Poll::Ready(Some(reader));
                }
                if !is_readable {
                    place.keep_waker(context);
                    return task::Poll::Pending;
                }
            }
        })
        .await
    }

    /// Reads all input, and passes it to its recipients.
    async fn read_all(&self, reader: &mut SocketReader) -> PassedReplies {
        let mut unread = Unread::Some;
        let mut replies = PassedReplies::None;
        loop {
            while let Some(frame) = reader.frames.pop_front() {
                let arrival = match frame.tag {
                    Tag::NOTIFY => Some(self.event(&frame.payload)),
                    Tag::IOF => self.output(&frame.payload),
                    _ => {
                        replies = PassedReplies::ToTasks;
                        // Handlers of earlier events run before the caller goes on.
                        self.parts.queue.settlement.settled().await;
                        self.reply(&frame)
                    }
                };
                let Some(arrival) = arrival else { continue };
                let room = match self.parts.queue.try_reserve(&arrival) {
                    Some(room) => Some(room),
                    None => self.room(&arrival, &reader.socket).await,
                };
                self.parts.queue.put(arrival, room);
            }
            if let Some(error) = reader.error.take() {
                // Where the next frame begins is not known after this.
                self.parts.queue.put(self.garbled(error), None);
                reader.has_ended = true;
            }
            if reader.has_ended || unread == Unread::Nothing {
                return replies;
            }
            unread = reader.receive();
            if unread == Unread::Some {
                consume_budget().await;
            }
        }
    }

    /// Waits until the queue has room for an item. If the server has closed the connection, it is
    /// read to its end without a wait: the system holds little of it, and callers that await
    /// replies must get them.
    async fn room(&self, arrival: &QueuedItem, socket: &TcpStream) -> Option<OwnedSemaphorePermit> {
        let room = self.parts.queue.reserve(arrival);
        tokio::select! {
            // Free room is taken even after the close, since its permit bounds the memory.
            biased;
            room = room => room,
            () = closed(socket) => None,
        }
    }

    fn garbled(&self, error: WireError) -> QueuedItem {
        QueuedItem::Garbled(self.parts.server.clone(), Box::new(error))
    }

    /// Reads an event.
    fn event(&self, payload: &[u8]) -> QueuedItem {
        let InboundParts { codec, nspace, .. } = &self.parts;
        let event = codec.decode_event_of(nspace, payload);
        event.map_or_else(|error| self.garbled(error), QueuedItem::Event)
    }

    /// Passes on output. Returns the item for output that cannot be read.
    fn output(&self, payload: &[u8]) -> Option<QueuedItem> {
        match self.parts.codec.decode_output(payload) {
            Ok(output) => {
                self.parts.queue.outputs.deliver(&output);
                None
            }
            Err(error) => Some(self.garbled(error)),
        }
    }

    /// Passes on a reply. Returns the item for a reply that cannot be read.
    fn reply(&self, frame: &Frame) -> Option<QueuedItem> {
        let InboundParts { codec, open, .. } = &self.parts;
        // A reply to no open request, or a second one, is ignored.
        let (command, asker) = open.answered(frame.tag)?;
        let reply = codec.decode_reply(command, &frame.payload);
        let garbled = reply
            .as_ref()
            .err()
            .map(|error| self.garbled(error.clone()));
        match asker {
            // The caller may have given up.
            ReplyRecipient::Caller { tell, .. } => drop(tell.send(reply)),
            ReplyRecipient::Nobody { .. } => {
                if let Ok(Err(status)) = reply.map(|reply| reply.status().ok()) {
                    tracing::warn!(%status, "raised event refused by the server");
                }
            }
        }
        garbled
    }

    /// Lets a caller read in place of the task, unless another one does, or something is left that
    /// only the task handles.
    pub(crate) fn caller_turn(&self) -> Option<CallerTurn<'_>> {
        // Until handlers have run, replies are left to the task.
        if !self.parts.queue.settlement.is_settled() {
            return None;
        }
        let slot = &mut lock(&self.place).reader;
        let reader = slot.take_if(|reader| reader.is_clear())?;
        let registry = self.for_task.get_ref().registry();
        // Under the lock, so that each removal is followed by its addition.
        if let Err(error) = registry.deregister(&mut SourceFd(&reader.socket.as_raw_fd())) {
            tracing::debug!(%error, "caller does not read");
            *slot = Some(reader);
            return None;
        }
        Some(CallerTurn {
            inbound: self,
            reader: Some(reader),
        })
    }

    /// Ends the wait of a caller that reads.
    pub(crate) fn interrupt_caller(&self) {
        if let Err(error) = self.interrupt.wake() {
            tracing::error!(%error, "caller not woken");
        }
    }

    /// Passes on the reply to a caller that waits on its own thread. Returns false for all else,
    /// which the task handles: callbacks come on its thread.
    fn answer_caller(&self, frame: &Frame) -> bool {
        let InboundParts {
            codec, open, queue, ..
        } = &self.parts;
        // Handlers of earlier events run before the caller goes on.
        if !queue.settlement.is_settled() {
            return false;
        }
        let Some((command, tell)) = open.answered_in_wait(frame.tag) else {
            return false;
        };
        let reply = codec.decode_reply(command, &frame.payload);
        if let Err(error) = &reply {
            queue.try_put(self.garbled(error.clone()));
        }
        // The caller may have given up.
        drop(tell.send(reply));
        true
    }
}

/// Turn of a caller that reads. The drop gives the socket back to the task.
pub(crate) struct CallerTurn<'a> {
    inbound: &'a Inbound,
    /// Present until the drop.
    reader: Option<SocketReader>,
}

/// Continuation of a caller's turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TurnProgress {
    /// The caller may read again.
    Continues,
    /// The rest is for the task.
    Over,
}

impl CallerTurn<'_> {
    /// Waits for input or an interrupt, and passes on the replies to callers that wait.
    pub(crate) fn read(&mut self) -> TurnProgress {
        let Some(reader) = &mut self.reader else {
            return TurnProgress::Over;
        };
        if let Err(error) = reader.for_caller.poll(&mut reader.events, None)
            && error.kind() != ErrorKind::Interrupted
        {
            tracing::debug!(%error, "caller does not read");
            return TurnProgress::Over;
        }
        let mut unread = Unread::Some;
        while unread == Unread::Some && reader.is_clear() {
            unread = reader.receive();
            while let Some(frame) = reader.frames.pop_front() {
                if !self.inbound.answer_caller(&frame) {
                    reader.frames.push_front(frame);
                    break;
                }
            }
        }
        if reader.is_clear() {
            TurnProgress::Continues
        } else {
            TurnProgress::Over
        }
    }
}

impl Drop for CallerTurn<'_> {
    fn drop(&mut self) {
        let Some(mut reader) = self.reader.take() else {
            return;
        };
        let mut place = lock(&self.inbound.place);
        // What has arrived meanwhile wakes the task at once.
        if let Err(error) = add(self.inbound.for_task.get_ref(), &reader.socket) {
            tracing::error!(%error, "connection closed: its socket cannot be watched");
            reader.has_ended = true;
        }
        let is_clear = reader.is_clear();
        place.reader = Some(reader);
        let task = place.task.take_if(|_| !is_clear);
        drop(place);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// Adds a socket to a selector.
fn add(selector: &Poll, socket: &TcpStream) -> io::Result<()> {
    let mut socket = SourceFd(&socket.as_raw_fd());
    selector
        .registry()
        .register(&mut socket, SOCKET, mio::Interest::READABLE)
}

/// Has the runtime watch a descriptor.
///
/// # Errors
///
/// Fails if the system refuses it.
pub(crate) fn watch<T: AsRawFd>(owner: T, interest: Interest) -> io::Result<AsyncFd<T>> {
    #[expect(
        deprecated,
        reason = "the newer function is unsafe; all owners here keep their descriptor"
    )]
    AsyncFd::with_interest(owner, interest)
}

/// Lets the tasks that are ready run first.
async fn let_others_run() {
    let mut has_run = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_run, true) {
            return task::Poll::Ready(());
        }
        // Unlike a yield of tokio, this does not look for input first.
        context.waker().wake_by_ref();
        task::Poll::Pending
    })
    .await;
}

/// Waits until the peer has closed the connection, even if there is unread data.
async fn closed(socket: &TcpStream) {
    // A descriptor of its own, since this is rare, and the runtime otherwise does not watch for
    // input.
    let watched = socket
        .try_clone()
        .and_then(|socket| watch(socket, Interest::READABLE | Interest::PRIORITY));
    let Ok(watched) = watched else {
        // The wait for room then goes on after the close.
        return std::future::pending().await;
    };
    // Interest in urgent data, which is never sent, reports the close too.
    match watched.ready(Interest::PRIORITY).await {
        Ok(ready) if !ready.ready().is_read_closed() => std::future::pending().await,
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{caller, open_requests::Answer, queue::Arrivals};
    use peal_model::{CommandCode, Event, Proc, Range, Reply, Status, code, rank};
    use peal_wire::{BufferType, DecodeLimits, Dialect, Encoding, Release};
    use std::{
        io::Write,
        net::{Shutdown, TcpListener},
        time::Duration,
    };
    use tokio::{
        runtime::{Builder, Runtime},
        sync::oneshot::{self, error::TryRecvError},
        time::timeout,
    };

    /// Connection whose runtime runs only in the calls of a test.
    struct Connection {
        runtime: Runtime,
        inbound: Arc<Inbound>,
        open: Arc<OpenReplies>,
        arrivals: Arrivals,
        server: TcpStream,
    }

    fn codec() -> Codec {
        let release: Release = "6.0.0".parse().unwrap();
        Codec {
            dialect: Dialect::new(release.version(), Encoding::V41),
            buffer_type: BufferType::NonDescribed,
            limits: DecodeLimits::default(),
        }
    }

    fn frame(tag: Tag, payload: Vec<u8>) -> Vec<u8> {
        let frame = Frame {
            pindex: 0,
            tag,
            payload,
        };
        frame.encode().unwrap()
    }

    impl Connection {
        fn new() -> Connection {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let addr = listener.local_addr().unwrap();
            let socket = TcpStream::connect(addr).unwrap();
            socket.set_nonblocking(true).unwrap();
            let (queue, arrivals) = EventQueue::new(1 << 20);
            let open = Arc::new(OpenReplies::new(8, 8));
            let server = Proc::new(Default::default(), rank::PMIX_RANK_UNDEF);
            let parts = InboundParts {
                codec: codec(),
                nspace: Default::default(),
                open: open.clone(),
                queue,
                loss_detection: LossDetection::default(),
                server: ServerUri { proc: server, addr },
            };
            let inbound = {
                let _context = runtime.enter();
                Inbound::new(Arc::new(socket), &[], parts).unwrap()
            };
            Connection {
                runtime,
                inbound: Arc::new(inbound),
                open,
                arrivals,
                server: listener.accept().unwrap().0,
            }
        }

        /// Opens a request of a caller on its own thread.
        fn ask(&self) -> (Tag, oneshot::Receiver<Answer>) {
            let ask = async {
                let place = self.open.place().await.unwrap();
                self.open.ask(CommandCode::Fence, place).unwrap()
            };
            caller::wait(self.runtime.handle(), None, ask)
        }

        fn reply(&mut self, tag: Tag) {
            let reply = Reply::Status(code::PMIX_SUCCESS);
            let reply = codec().encode_reply(CommandCode::Fence, &reply).unwrap();
            self.server.write_all(&frame(tag, reply)).unwrap();
        }
    }

    #[test]
    fn caller_reads_its_reply_without_another_thread() {
        let mut connection = Connection::new();
        for _ in 0..3 {
            let (tag, answer) = connection.ask();
            connection.reply(tag);
            let inbound = Some(connection.inbound.clone());
            let answer = caller::wait(connection.runtime.handle(), inbound, answer);
            assert!(answer.unwrap().unwrap().status().is_success());
        }
    }

    #[test]
    fn event_and_what_follows_are_left_to_the_task() {
        let mut connection = Connection::new();
        let event = Event {
            code: Status(-3001),
            source: None,
            range: Range::Session,
            infos: Vec::new(),
        };
        let event = codec().encode_event(&event).unwrap();
        let (tag, mut answer) = connection.ask();
        let inbound = connection.inbound.clone();
        let mut turn = inbound.caller_turn().unwrap();
        assert!(inbound.caller_turn().is_none(), "only one reads at a time");
        connection
            .server
            .write_all(&frame(Tag::NOTIFY, event))
            .unwrap();
        connection.reply(tag);
        while turn.read() == TurnProgress::Continues {}
        drop(turn);
        assert!(answer.try_recv().is_err());
        assert!(inbound.caller_turn().is_none(), "frames are left");
        connection.server.shutdown(Shutdown::Write).unwrap();
        connection.runtime.block_on(inbound.read());
        assert!(answer.try_recv().unwrap().is_ok());
        let first = connection.runtime.block_on(connection.arrivals.next());
        assert!(matches!(first.item, QueuedItem::Event(_)));
    }

    /// Has the task read the connection to its end.
    fn end(connection: &Connection) {
        let limit = Duration::from_secs(10);
        connection
            .runtime
            .block_on(async { timeout(limit, connection.inbound.read()).await })
            .expect("the task sees the end");
    }

    #[test]
    fn task_sees_the_end_right_behind_a_reply() {
        let mut connection = Connection::new();
        let (answered, mut answer) = connection.ask();
        let (_, mut unanswered) = connection.ask();
        connection.reply(answered);
        connection.server.shutdown(Shutdown::Write).unwrap();
        end(&connection);
        assert!(answer.try_recv().unwrap().is_ok());
        assert_eq!(unanswered.try_recv().err(), Some(TryRecvError::Closed));
    }

    #[test]
    fn caller_that_reads_sees_the_end_right_behind_a_reply() {
        let mut connection = Connection::new();
        let (answered, mut answer) = connection.ask();
        let (_, mut unanswered) = connection.ask();
        connection.reply(answered);
        connection.server.shutdown(Shutdown::Write).unwrap();
        let inbound = connection.inbound.clone();
        let mut turn = inbound.caller_turn().unwrap();
        assert_eq!(turn.read(), TurnProgress::Over);
        drop(turn);
        assert!(answer.try_recv().unwrap().is_ok());
        end(&connection);
        assert_eq!(unanswered.try_recv().err(), Some(TryRecvError::Closed));
    }

    #[test]
    fn interrupted_caller_gives_the_socket_back() {
        let mut connection = Connection::new();
        let inbound = connection.inbound.clone();
        let mut turn = inbound.caller_turn().unwrap();
        inbound.interrupt_caller();
        assert_eq!(turn.read(), TurnProgress::Continues);
        drop(turn);
        let (tag, answer) = connection.ask();
        connection.reply(tag);
        let answered = connection.runtime.block_on(async {
            tokio::select! {
                () = inbound.read() => panic!("the connection has not ended"),
                answer = answer => answer,
            }
        });
        assert!(answered.unwrap().is_ok());
    }
}
