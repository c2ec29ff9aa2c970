//! Writing side of a connection: messages are written in the order in which they were queued,
//! several at once as far as the send window permits.
use crate::{
    client_writer::ClientWriter,
    connection::{ConnectionContext, ConnectionError},
    outbox::{OutboxReceiver, Outgoing, QueueState},
    send_window::SendWindow,
};
use peal_core::server::PeerId;

/// Writing side of a connection.
pub(crate) struct ConnectionWriter<'a> {
    pub(crate) writer: &'a ClientWriter,
    pub(crate) inbox: &'a OutboxReceiver,
    pub(crate) peer: PeerId,
    pub(crate) context: &'a ConnectionContext,
}

/// Frames that are written together. What is left of them when the connection is suspended stays here.
#[derive(Debug, Default)]
pub(crate) struct FrameBatch {
    frames: Vec<u8>,
    /// Number of bytes of the frames that have been written.
    written: usize,
    /// Memory that the messages of the frames took in the queue.
    waited: usize,
    /// Memory of the message that is being added.
    adding: usize,
    /// True if a milestone follows the frames.
    has_milestone: bool,
}

impl FrameBatch {
    /// Returns a batch of these bytes, for which nothing has waited.
    pub(crate) fn of(frames: Vec<u8>) -> FrameBatch {
        FrameBatch {
            frames,
            ..FrameBatch::default()
        }
    }

    /// Returns the bytes that are left.
    pub(crate) fn unwritten(&self) -> &[u8] {
        self.frames.get(self.written..).unwrap_or_default()
    }

    /// Returns true if a milestone follows the frames.
    pub(crate) fn has_milestone(&self) -> bool {
        self.has_milestone
    }
}

/// Frame that is being added to a batch. What has not been written of it joins the batch in the end, also
/// if the writing is interrupted.
struct AddedFrame<'a> {
    rest: &'a [u8],
    batch: &'a mut FrameBatch,
}

impl Drop for AddedFrame<'_> {
    fn drop(&mut self) {
        self.batch.frames.extend_from_slice(self.rest);
    }
}

impl ConnectionWriter<'_> {
    /// Completes the handshake and writes queued messages. Returns when the queue is closed, or
    /// fails when the client is cut off or the connection is suspended. The batch contains what an earlier
    /// run has not written, at first the message that ends the handshake.
    pub(crate) async fn run(&self, batch: &mut FrameBatch) -> Result<(), ConnectionError> {
        // Boxed, because most connections have nothing to write most of the time.
        Box::pin(self.unless_interrupted(self.finish(batch))).await?;
        loop {
            match self.inbox.state() {
                QueueState::Empty => self.inbox.changed().await,
                QueueState::Waiting => {
                    Box::pin(self.unless_interrupted(self.write_batch(batch))).await?;
                }
                QueueState::Closed => return self.writer.end(),
                QueueState::Cut => return Err(ConnectionError::NotReading),
                QueueState::Suspended => return Err(ConnectionError::Suspended),
            }
        }
    }

    /// Writes until the client is cut off, which then gets no waiting messages either, or the connection is
    /// suspended.
    async fn unless_interrupted(
        &self,
        write: impl Future<Output = Result<(), ConnectionError>>,
    ) -> Result<(), ConnectionError> {
        tokio::select! {
            biased;
            interruption = self.writer.interruption() => Err(interruption),
            written = write => written,
        }
    }

    /// Writes what is left of an earlier batch.
    async fn finish(&self, batch: &mut FrameBatch) -> Result<(), ConnectionError> {
        batch.waited += std::mem::take(&mut batch.adding);
        self.write(batch).await?;
        self.writer.welcomed();
        self.pass_milestone(batch)?;
        *batch = FrameBatch::default();
        Ok(())
    }

    /// Writes the messages that wait.
    async fn write_batch(&self, batch: &mut FrameBatch) -> Result<(), ConnectionError> {
        while let Some(outgoing) = self.inbox.try_recv() {
            self.take(outgoing, batch).await?;
        }
        self.write(batch).await?;
        // A kept buffer would stay at 32 KiB after the job data of a large job.
        *batch = FrameBatch::default();
        Ok(())
    }

    /// Adds a message to the batch. Writes the batch first if it has no space for the message.
    async fn take(
        &self,
        outgoing: Outgoing,
        batch: &mut FrameBatch,
    ) -> Result<(), ConnectionError> {
        batch.adding = outgoing.bytes();
        match outgoing {
            Outgoing::Milestone => {
                batch.has_milestone = true;
                self.write(batch).await?;
                self.pass_milestone(batch)?;
            }
            Outgoing::Rest(rest) => self.add(&rest, batch).await?,
            outgoing => {
                if let Some(frame) = self.context.packing.message(&outgoing, self.writer)? {
                    self.add(&frame, batch).await?;
                }
            }
        }
        batch.waited += std::mem::take(&mut batch.adding);
        Ok(())
    }

    /// Reports that everything before a milestone was written, if there is one.
    fn pass_milestone(&self, batch: &mut FrameBatch) -> Result<(), ConnectionError> {
        if std::mem::take(&mut batch.has_milestone) {
            let shared_actor = &self.context.shared_actor;
            shared_actor.with_actor(|actor| actor.resume(self.peer))?;
        }
        Ok(())
    }

    async fn add(&self, frame: &[u8], batch: &mut FrameBatch) -> Result<(), ConnectionError> {
        let added = AddedFrame { rest: frame, batch };
        if added.batch.frames.len() + frame.len() > SendWindow::AT_ONCE {
            self.write(added.batch).await?;
        }
        // Not copied, since the job data of a large job are shared by many clients.
        if frame.len() > SendWindow::AT_ONCE {
            self.write_large(added).await?;
        }
        Ok(())
    }

    async fn write_large(&self, mut added: AddedFrame<'_>) -> Result<(), ConnectionError> {
        self.writer.room_for(added.rest.len()).await;
        while !added.rest.is_empty() {
            let written = self.writer.write_some(added.rest).await?;
            added.rest = added.rest.get(written..).unwrap_or_default();
        }
        Ok(())
    }

    async fn write(&self, batch: &mut FrameBatch) -> Result<(), ConnectionError> {
        if !batch.unwritten().is_empty() {
            self.writer.room_for(batch.unwritten().len()).await;
        }
        while !batch.unwritten().is_empty() {
            batch.written += self.writer.write_some(batch.unwritten()).await?;
        }
        // After the write: until the count is zero, the actor must not write to the connection.
        self.writer.waited(batch.waited);
        batch.frames.clear();
        batch.written = 0;
        batch.waited = 0;
        Ok(())
    }
}
