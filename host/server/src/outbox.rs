//! Queue of the messages that wait to be written to one client.
use crate::{client_writer::ClientWriter, outbox_share::OutboxShareLimit, packing::Packing};
use peal_model::{Event, Reply, Size};
use peal_wire::IofOutput;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use thiserror::Error;
use tokio::sync::{Notify, futures::Notified};

/// Message to a client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// Answer, boxed because the queue of each connection reserves memory for several messages.
    Reply { tag: u32, reply: Box<Reply> },
    /// Rest of an answer that was written in part.
    Rest(Vec<u8>),
    /// Event.
    Event(Arc<Event>),
    /// Output of a proc.
    Output(Box<IofOutput>),
    /// Mark without content. The task that reaches it reports that all messages before it were
    /// written.
    Milestone,
}

impl Outgoing {
    /// Returns the memory of the message in bytes, approximately.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Outgoing::Event(event) => Size::of_event(event).bytes,
            Outgoing::Reply { reply, .. } => reply.bytes(),
            Outgoing::Rest(rest) => rest.len(),
            Outgoing::Output(output) => size_of::<IofOutput>() + output.data.as_slice().len(),
            Outgoing::Milestone => 0,
        }
    }
}

/// Queue of the messages for one client. An empty queue takes no memory, unlike that of a tokio
/// channel, which keeps space for 32 messages: most clients are idle most of the time.
#[derive(Debug)]
pub(crate) struct MessageQueue {
    inner: Mutex<QueuedMessages>,
    /// Notified of a new message and of the end of the queue.
    changed: Notify,
    max_messages: usize,
}

#[derive(Debug, Default)]
struct QueuedMessages {
    messages: VecDeque<Outgoing>,
    /// Reason for which no more messages are queued, if there is one.
    end: Option<QueueEnd>,
    /// True while the connection's task must write nothing. Messages are still queued.
    is_suspended: bool,
}

/// State of a queue of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueState {
    /// No message waits.
    Empty,
    /// Messages wait.
    Waiting,
    /// No message waits, and none will be queued.
    Closed,
    /// The client is cut off. Waiting messages are not written.
    Cut,
    /// The connection is suspended. Waiting messages are kept.
    Suspended,
}

/// Reason for which no more messages are queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueEnd {
    /// One of the ends was dropped.
    Closed,
    /// The client is cut off.
    Cut,
}

impl MessageQueue {
    pub(crate) fn new(max_messages: usize) -> MessageQueue {
        MessageQueue {
            inner: Mutex::default(),
            changed: Notify::new(),
            max_messages,
        }
    }

    /// Appends a message, or drops it if the queue is closed.
    pub(crate) fn push(&self, outgoing: Outgoing) -> Result<(), Full> {
        let mut inner = self.lock();
        // The connection is ending, and its task reports that.
        if inner.end.is_some() {
            return Ok(());
        }
        if inner.messages.len() >= self.max_messages {
            return Err(Full::Messages);
        }
        inner.messages.push_back(outgoing);
        drop(inner);
        self.changed.notify_one();
        Ok(())
    }

    /// Appends a message that another process of the server had queued within its limits.
    pub(crate) fn restore(&self, outgoing: Outgoing) {
        self.lock().messages.push_back(outgoing);
        self.changed.notify_one();
    }

    fn pop(&self) -> Option<Outgoing> {
        let mut inner = self.lock();
        let next = inner.messages.pop_front();
        if inner.messages.is_empty() {
            // Free the buffer.
            inner.messages = VecDeque::new();
        }
        next
    }

    /// Returns the number of waiting messages.
    fn len(&self) -> usize {
        self.lock().messages.len()
    }

    /// Ends the queue. A client that is cut off stays so.
    pub(crate) fn end(&self, end: QueueEnd) {
        let mut inner = self.lock();
        if inner.end != Some(QueueEnd::Cut) {
            inner.end = Some(end);
        }
        drop(inner);
        self.changed.notify_one();
    }

    /// Suspends the connection, or lets it go on.
    pub(crate) fn suspend(&self, is_suspended: bool) {
        self.lock().is_suspended = is_suspended;
        self.changed.notify_one();
    }

    pub(crate) fn state(&self) -> QueueState {
        let inner = self.lock();
        match inner.end {
            Some(QueueEnd::Cut) => QueueState::Cut,
            _ if inner.is_suspended => QueueState::Suspended,
            _ if !inner.messages.is_empty() => QueueState::Waiting,
            Some(QueueEnd::Closed) => QueueState::Closed,
            None => QueueState::Empty,
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueuedMessages> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receiving end of a client's queue, held by its connection.
#[derive(Debug)]
pub(crate) struct OutboxReceiver {
    writer: Arc<ClientWriter>,
}

impl OutboxReceiver {
    /// Returns the state of the queue.
    pub(crate) fn state(&self) -> QueueState {
        self.writer.queue.state()
    }

    /// Waits for a change of the state. A change since the last wait is stored, so it is not
    /// missed.
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.writer.queue.changed.notified()
    }

    /// Returns the next message, if there is one.
    pub(crate) fn try_recv(&self) -> Option<Outgoing> {
        self.writer.queue.pop()
    }
}

impl Drop for OutboxReceiver {
    fn drop(&mut self) {
        self.writer.queue.end(QueueEnd::Closed);
    }
}

/// Sending end of a client's queue, held by the actor.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) writer: Arc<ClientWriter>,
}

/// Limit that a message exceeds, because its client, or others of the same user, read too slowly.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub(crate) enum Full {
    #[error("server.max_outbox_messages")]
    Messages,
    #[error("server.max_outbox_bytes")]
    Bytes,
    #[error("server.max_outbox_bytes_per_user")]
    UserBytes,
    #[error("server.max_outbox_bytes_total")]
    TotalBytes,
}

impl Outbox {
    /// Returns both ends of a client's queue.
    pub(crate) fn of(writer: &Arc<ClientWriter>) -> (Outbox, OutboxReceiver) {
        (
            Outbox {
                writer: writer.clone(),
            },
            OutboxReceiver {
                writer: writer.clone(),
            },
        )
    }

    /// Queues a message. Fails if the queue has the maximum number of messages, if more than `max`
    /// bytes wait with this one, or if the share of the user or the total is exceeded.
    pub(crate) fn queue(&self, outgoing: Outgoing, max: usize) -> Result<(), Full> {
        let bytes = outgoing.bytes();
        // Counted first: the task may write and subtract the message as soon as it is queued.
        let waiting = self.writer.wait(bytes);
        // The count stays after an error, since the actor then disconnects the client.
        self.writer.queue.push(outgoing)?;
        // A single message may exceed the limits.
        if waiting <= bytes {
            return Ok(());
        }
        match self.writer.share().exceeded() {
            _ if waiting > max => Err(Full::Bytes),
            Some(OutboxShareLimit::User) => Err(Full::UserBytes),
            Some(OutboxShareLimit::Total) => Err(Full::TotalBytes),
            None => Ok(()),
        }
    }

    /// Queues a message that another process of the server had queued.
    pub(crate) fn restore(&self, outgoing: Outgoing) {
        self.writer.wait(outgoing.bytes());
        self.writer.queue.restore(outgoing);
    }

    /// Writes an answer at once if possible, and otherwise queues it.
    pub(crate) fn answer(
        &self,
        tag: u32,
        reply: Reply,
        packing: &Packing,
        max: usize,
    ) -> Result<(), Full> {
        match self.writer.answer(tag, reply, packing) {
            None => Ok(()),
            Some(left) => self.queue(left, max),
        }
    }

    /// Writes an event at once if possible, and otherwise queues it.
    pub(crate) fn event(
        &self,
        event: Arc<Event>,
        packing: &Packing,
        max: usize,
    ) -> Result<(), Full> {
        match self.writer.event(event, packing) {
            None => Ok(()),
            Some(left) => self.queue(left, max),
        }
    }

    /// Returns true if more than a sixteenth of the outbox is used, or half of the user's share.
    /// Events for the client should then be retained rather than queued.
    pub(crate) fn is_filling(&self, max: usize) -> bool {
        let queue = &self.writer.queue;
        let waiting = self.writer.waiting();
        queue.len().saturating_mul(16) > queue.max_messages
            || waiting > max / 16
            || (waiting > 0 && self.writer.share().is_half_used_with(0))
    }

    /// Returns true if fewer than half of the permitted messages wait.
    pub(crate) fn is_half_empty(&self) -> bool {
        self.writer.queue.len() < self.writer.queue.max_messages / 2
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.writer.queue.end(QueueEnd::Closed);
    }
}
