//! Writing side of a connection: messages are written in the order in which they were queued,
//! several at once as far as the send window permits.
use crate::{
    client_writer::ClientWriter,
    connection::ConnectionError,
    outbox::{OutboxReceiver, Outgoing},
    packing::{self, Packing},
    send_window::SendWindow,
    shared_actor::SharedActor,
    trace_limit::warn_once,
};
use peal_core::server::PeerId;
use std::sync::Arc;

/// Writing side of a connection.
pub(crate) struct Delivery {
    pub(crate) writer: Arc<ClientWriter>,
    pub(crate) shared_actor: Arc<SharedActor>,
    pub(crate) packing: Arc<Packing>,
    pub(crate) peer: PeerId,
}

/// Frames that are written together, and the memory that their messages took in the queue.
#[derive(Default)]
struct FrameBatch {
    frames: Vec<u8>,
    waited: usize,
}

impl Delivery {
    /// Completes the handshake and writes queued messages. Returns when the queue is closed, or
    /// fails when the client is cut off.
    pub(crate) async fn run(
        self,
        inbox: OutboxReceiver,
        welcome: Vec<u8>,
    ) -> Result<(), ConnectionError> {
        tokio::select! {
            // First, so that a client that is cut off gets no waiting messages either.
            biased;
            () = self.writer.is_cut() => Err(ConnectionError::NotReading),
            ended = self.deliver(&inbox, welcome) => ended,
        }
    }

    async fn deliver(
        &self,
        inbox: &OutboxReceiver,
        welcome: Vec<u8>,
    ) -> Result<(), ConnectionError> {
        // Boxed, because most connections have nothing to write most of the time.
        Box::pin(self.welcome(welcome)).await?;
        while let Some(first) = inbox.recv().await {
            Box::pin(self.write_batch(first, inbox)).await?;
        }
        self.writer.end()
    }

    async fn welcome(&self, message: Vec<u8>) -> Result<(), ConnectionError> {
        self.writer.welcome(&message).await
    }

    /// Writes a message and those that wait behind it.
    async fn write_batch(
        &self,
        first: Outgoing,
        inbox: &OutboxReceiver,
    ) -> Result<(), ConnectionError> {
        // Allocate one per batch: a kept buffer would stay at 32 KiB after the job data of a large
        // job.
        let mut batch = FrameBatch::default();
        let mut next = Some(first);
        while let Some(outgoing) = next {
            self.take(outgoing, &mut batch).await?;
            next = inbox.try_recv();
        }
        self.write(&mut batch).await
    }

    /// Adds a message to the batch. Writes the batch first if it has no space for the message.
    async fn take(
        &self,
        outgoing: Outgoing,
        batch: &mut FrameBatch,
    ) -> Result<(), ConnectionError> {
        let waited = outgoing.bytes();
        match outgoing {
            Outgoing::Milestone => {
                self.write(batch).await?;
                return Ok(self
                    .shared_actor
                    .with_actor(|actor| actor.resume(self.peer))?);
            }
            Outgoing::Event(event) => match self.packing.event(event, &self.writer.codec) {
                Ok(frame) => self.add(&frame, batch).await?,
                Err(error) => {
                    warn_once!(self.writer.unfit, %error, "event not packed for client and dropped")
                }
            },
            Outgoing::Output(output) => match packing::output(&output, &self.writer.codec) {
                Ok(frame) => self.add(&frame, batch).await?,
                Err(error) => {
                    warn_once!(self.writer.unfit, %error, "output not packed for client and dropped")
                }
            },
            Outgoing::Reply { tag, reply } => {
                if let Some(frame) = packing::reply(tag, &reply, &self.writer)? {
                    self.add(&frame, batch).await?;
                }
            }
            Outgoing::Rest(rest) => self.add(&rest, batch).await?,
        }
        batch.waited += waited;
        Ok(())
    }

    async fn add(&self, frame: &[u8], batch: &mut FrameBatch) -> Result<(), ConnectionError> {
        if batch.frames.len() + frame.len() > SendWindow::AT_ONCE {
            self.write(batch).await?;
        }
        batch.frames.extend_from_slice(frame);
        Ok(())
    }

    async fn write(&self, batch: &mut FrameBatch) -> Result<(), ConnectionError> {
        if !batch.frames.is_empty() {
            self.writer.write(&batch.frames).await?;
        }
        // After the write: until the count is zero, the actor must not write to the connection.
        self.writer.waited(batch.waited);
        batch.frames.clear();
        batch.waited = 0;
        Ok(())
    }
}
