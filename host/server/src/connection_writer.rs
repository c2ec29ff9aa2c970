//! What is for a client, written in the order in which the server gave it, as much at once as the client is sure to take.
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

/// The writing side of a connection.
pub(crate) struct Delivery {
    pub(crate) line: Arc<ClientWriter>,
    pub(crate) office: Arc<SharedActor>,
    pub(crate) packing: Arc<Packing>,
    pub(crate) peer: PeerId,
}

/// Frames that are written together, and what they took while they waited.
#[derive(Default)]
struct Bunch {
    frames: Vec<u8>,
    waited: usize,
}

impl Delivery {
    /// Welcomes the client and writes what comes; ends when the server has no more for this client, or cuts it off.
    pub(crate) async fn run(
        self,
        inbox: OutboxReceiver,
        welcome: Vec<u8>,
    ) -> Result<(), ConnectionError> {
        tokio::select! {
            // Then not even what waits is written.
            biased;
            () = self.line.is_cut() => Err(ConnectionError::NotReading),
            ended = self.deliver(&inbox, welcome) => ended,
        }
    }

    async fn deliver(
        &self,
        inbox: &OutboxReceiver,
        welcome: Vec<u8>,
    ) -> Result<(), ConnectionError> {
        // In boxes, as all that is kept while something is written: most connections wait for something to write.
        Box::pin(self.welcome(welcome)).await?;
        while let Some(first) = inbox.recv().await {
            Box::pin(self.write_batch(first, inbox)).await?;
        }
        self.line.end()
    }

    async fn welcome(&self, message: Vec<u8>) -> Result<(), ConnectionError> {
        self.line.welcome(&message).await
    }

    /// Writes a message and those that wait behind it.
    async fn write_batch(
        &self,
        first: Outgoing,
        inbox: &OutboxReceiver,
    ) -> Result<(), ConnectionError> {
        // A new one for each batch: the job data of a large job would leave 32 KiB.
        let mut bunch = Bunch::default();
        let mut next = Some(first);
        while let Some(outgoing) = next {
            self.take(outgoing, &mut bunch).await?;
            next = inbox.try_recv();
        }
        self.write(&mut bunch).await
    }

    /// Puts one message to those that are written next; writes these first if it is too many for them.
    async fn take(&self, outgoing: Outgoing, bunch: &mut Bunch) -> Result<(), ConnectionError> {
        let waited = outgoing.bytes();
        match outgoing {
            Outgoing::Milestone => {
                self.write(bunch).await?;
                return Ok(self.office.with_actor(|actor| actor.resume(self.peer))?);
            }
            Outgoing::Event(event) => match self.packing.event(event, &self.line.codec) {
                Ok(frame) => self.add(&frame, bunch).await?,
                Err(error) => {
                    warn_once!(self.line.unfit, %error, "an event cannot be packed for this client: it is not sent")
                }
            },
            Outgoing::Output(output) => match packing::output(&output, &self.line.codec) {
                Ok(frame) => self.add(&frame, bunch).await?,
                Err(error) => {
                    warn_once!(self.line.unfit, %error, "output cannot be packed for this client: it is not sent")
                }
            },
            Outgoing::Reply { tag, reply } => {
                if let Some(frame) = packing::reply(tag, &reply, &self.line)? {
                    self.add(&frame, bunch).await?;
                }
            }
            Outgoing::Rest(rest) => self.add(&rest, bunch).await?,
        }
        bunch.waited += waited;
        Ok(())
    }

    async fn add(&self, frame: &[u8], bunch: &mut Bunch) -> Result<(), ConnectionError> {
        if bunch.frames.len() + frame.len() > SendWindow::AT_ONCE {
            self.write(bunch).await?;
        }
        bunch.frames.extend_from_slice(frame);
        Ok(())
    }

    async fn write(&self, bunch: &mut Bunch) -> Result<(), ConnectionError> {
        if !bunch.frames.is_empty() {
            self.line.write(&bunch.frames).await?;
        }
        self.line.waited(bunch.waited);
        bunch.frames.clear();
        bunch.waited = 0;
        Ok(())
    }
}
