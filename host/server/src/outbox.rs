//! Where what is for one client waits to be written.
use crate::line::Line;
use peal_model::{Event, Reply, Size};
use peal_wire::Output;
use std::sync::Arc;
use tokio::sync::mpsc;

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
    Output(Box<Output>),
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
            Outgoing::Output(output) => size_of::<Output>() + output.data.as_slice().len(),
            Outgoing::Milestone => 0,
        }
    }
}

/// The actor's end of a client's line.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) queue: mpsc::Sender<Outgoing>,
    pub(crate) line: Arc<Line>,
}

/// A client reads so slowly that its outbox is full.
#[derive(Debug)]
pub(crate) struct Full;

impl Outbox {
    /// Queues what is for the client, if no more than so many bytes wait with it.
    pub(crate) fn queue(&self, outgoing: Outgoing, max: usize) -> Result<(), Full> {
        let bytes = outgoing.bytes();
        let waiting = self.line.wait(bytes);
        let full = matches!(self.queue.try_send(outgoing), Err(mpsc::error::TrySendError::Full(_)));
        // One message alone may be larger than all that may wait.
        if full || (waiting > max && waiting > bytes) { Err(Full) } else { Ok(()) }
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
        self.queue.capacity().saturating_mul(16) < self.queue.max_capacity().saturating_mul(15)
            || self.line.waiting() > max / 16
    }
}
