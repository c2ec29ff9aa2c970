//! Where what is for one client waits to be written.
use crate::client_writer::ClientWriter;
use peal_model::{Event, Reply, Size};
use peal_wire::IofOutput;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::Notify;

/// What is to be written to a client.
#[derive(Debug)]
pub(crate) enum Outgoing {
    /// An answer; in a box, because the queue of each connection keeps room for some messages however few there are.
    Reply { tag: u32, reply: Box<Reply> },
    /// What is left of an answer that the client did not take at once.
    Rest(Vec<u8>),
    /// An event.
    Event(Arc<Event>),
    /// Output of a proc.
    Output(Box<IofOutput>),
    /// Nothing: whoever comes to it says that everything before it has been written.
    Milestone,
}

impl Outgoing {
    /// The memory it takes, nearly.
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

/// The messages that wait for one client, in their order. It takes no memory while there are none: the queue of a tokio channel keeps
/// room for 32, and most clients wait most of the time.
#[derive(Debug)]
pub(crate) struct MessageQueue {
    inner: Mutex<QueuedMessages>,
    /// Told when there is a message, or no more to come.
    changed: Notify,
    max_messages: usize,
}

#[derive(Debug, Default)]
struct QueuedMessages {
    messages: VecDeque<Outgoing>,
    /// Whether one of the ends is gone.
    is_closed: bool,
}

impl MessageQueue {
    pub(crate) fn new(max_messages: usize) -> MessageQueue {
        MessageQueue {
            inner: Mutex::default(),
            changed: Notify::new(),
            max_messages,
        }
    }

    /// Puts a message behind the others; where nobody takes any more, nothing is kept.
    fn push(&self, outgoing: Outgoing) -> Result<(), Full> {
        let mut inner = self.lock();
        if inner.is_closed {
            return Ok(());
        }
        if inner.messages.len() >= self.max_messages {
            return Err(Full);
        }
        inner.messages.push_back(outgoing);
        drop(inner);
        self.changed.notify_one();
        Ok(())
    }

    fn pop(&self) -> Option<Outgoing> {
        let mut inner = self.lock();
        let next = inner.messages.pop_front();
        if inner.messages.is_empty() {
            inner.messages = VecDeque::new();
        }
        next
    }

    /// How many messages wait.
    fn len(&self) -> usize {
        self.lock().messages.len()
    }

    fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, QueuedMessages> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The delivery's end of a client's line.
#[derive(Debug)]
pub(crate) struct OutboxReceiver {
    line: Arc<ClientWriter>,
}

impl OutboxReceiver {
    /// Waits for the next message; none when the actor has no more for this client.
    pub(crate) async fn recv(&self) -> Option<Outgoing> {
        loop {
            if let Some(outgoing) = self.try_recv() {
                return Some(outgoing);
            }
            if self.line.queue.lock().is_closed {
                // What came before the end.
                return self.try_recv();
            }
            self.line.queue.changed.notified().await;
        }
    }

    /// The next message, if there is one.
    pub(crate) fn try_recv(&self) -> Option<Outgoing> {
        self.line.queue.pop()
    }
}

impl Drop for OutboxReceiver {
    fn drop(&mut self) {
        self.line.queue.close();
    }
}

/// The actor's end of a client's line.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) line: Arc<ClientWriter>,
}

/// A client reads so slowly that its outbox is full.
#[derive(Debug)]
pub(crate) struct Full;

impl Outbox {
    /// Both ends of a line.
    pub(crate) fn of(line: &Arc<ClientWriter>) -> (Outbox, OutboxReceiver) {
        (
            Outbox { line: line.clone() },
            OutboxReceiver { line: line.clone() },
        )
    }

    /// Queues what is for the client, if no more than so many bytes wait with it.
    pub(crate) fn queue(&self, outgoing: Outgoing, max: usize) -> Result<(), Full> {
        let bytes = outgoing.bytes();
        let waiting = self.line.wait(bytes);
        self.line.queue.push(outgoing)?;
        // One message alone may be larger than all that may wait.
        if waiting > max && waiting > bytes {
            Err(Full)
        } else {
            Ok(())
        }
    }

    /// Gives the client an answer: at once, if nothing else is on its way.
    pub(crate) fn answer(&self, tag: u32, reply: Reply, max: usize) -> Result<(), Full> {
        match self.line.answer(tag, reply) {
            None => Ok(()),
            Some(left) => self.queue(left, max),
        }
    }

    /// Whether the client reads so slowly that events had better be kept for it than wait here.
    pub(crate) fn is_filling(&self, max: usize) -> bool {
        let queue = &self.line.queue;
        queue.len().saturating_mul(16) > queue.max_messages || self.line.waiting() > max / 16
    }

    /// Whether fewer messages wait than half of those that may.
    pub(crate) fn is_half_empty(&self) -> bool {
        self.line.queue.len() < self.line.queue.max_messages / 2
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.line.queue.close();
    }
}
