//! Writing side of a connection: messages are written in the order in which they were queued,
//! several at once as far as the send window permits.
use crate::{
    client_writer::ClientWriter,
    connection::{ConnectionContext, ConnectionError},
    outbox::{OutboxReceiver, Outgoing, QueueState},
    packing,
    send_window::SendWindow,
    trace_limit::warn_once,
};
use peal_core::server::PeerId;

/// Writing side of a connection.
pub(crate) struct ConnectionWriter<'a> {
    pub(crate) writer: &'a ClientWriter,
    pub(crate) inbox: &'a OutboxReceiver,
    pub(crate) peer: PeerId,
    pub(crate) context: &'a ConnectionContext,
}

/// Frames that are written together, and the memory that their messages took in the queue.
#[derive(Default)]
struct FrameBatch {
    frames: Vec<u8>,
    waited: usize,
}

impl ConnectionWriter<'_> {
    /// Completes the handshake and writes queued messages. Returns when the queue is closed, or
    /// fails when the client is cut off.
    pub(crate) async fn run(&self, welcome: Vec<u8>) -> Result<(), ConnectionError> {
        // Boxed, because most connections have nothing to write most of the time.
        Box::pin(self.unless_cut(self.writer.welcome(welcome))).await?;
        loop {
            match self.inbox.state() {
                QueueState::Empty => self.inbox.changed().await,
                QueueState::Waiting => Box::pin(self.unless_cut(self.write_batch())).await?,
                QueueState::Closed => return self.writer.end(),
                QueueState::Cut => return Err(ConnectionError::NotReading),
            }
        }
    }

    /// Writes until the client is cut off, which then gets no waiting messages either.
    async fn unless_cut(
        &self,
        write: impl Future<Output = Result<(), ConnectionError>>,
    ) -> Result<(), ConnectionError> {
        tokio::select! {
            biased;
            () = self.writer.is_cut() => Err(ConnectionError::NotReading),
            written = write => written,
        }
    }

    /// Writes the messages that wait.
    async fn write_batch(&self) -> Result<(), ConnectionError> {
        // Allocate one per batch: a kept buffer would stay at 32 KiB after the job data of a large
        // job.
        let mut batch = FrameBatch::default();
        while let Some(outgoing) = self.inbox.try_recv() {
            self.take(outgoing, &mut batch).await?;
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
                    .context
                    .shared_actor
                    .with_actor(|actor| actor.resume(self.peer))?);
            }
            Outgoing::Event(event) => match self.context.packing.event(event, &self.writer.codec) {
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
                if let Some(frame) = self.context.packing.reply(tag, &reply, self.writer)? {
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
        // Not copied, since the job data of a large job are shared by many clients.
        if frame.len() > SendWindow::AT_ONCE {
            return self.writer.write(frame).await;
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
