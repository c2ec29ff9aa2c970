//! What is for a client, written in the order in which the server gave it, as much at once as the client is sure to take.
use crate::{
    actor::{FromClient, Outgoing},
    connection::{Fault, Lobby, OpenRequests},
    pace::Pace,
    packing,
    quiet::{Once, warn_once},
};
use peal_core::server::PeerId;
use peal_wire::Codec;
use std::sync::atomic::Ordering;
use tokio::{io::AsyncWriteExt, net::tcp::OwnedWriteHalf, sync::mpsc};

/// The writing side of a connection.
pub(crate) struct Delivery<'a> {
    pub(crate) writer: OwnedWriteHalf,
    pub(crate) pace: Pace,
    pub(crate) codec: &'a Codec,
    pub(crate) open: &'a OpenRequests,
    pub(crate) lobby: &'a Lobby,
    pub(crate) peer: PeerId,
}

/// Frames that are written together, and what they took while they waited.
#[derive(Default)]
struct Bunch {
    frames: Vec<u8>,
    waited: usize,
}

impl Delivery<'_> {
    /// Welcomes the client and writes what comes; ends when the server has no more for this client.
    pub(crate) async fn run(mut self, mut inbox: mpsc::Receiver<Outgoing>, welcome: &[u8]) -> Result<(), Fault> {
        self.writer.write_all(welcome).await?;
        let unfit = Once::default();
        let mut bunch = Bunch::default();
        while let Some(first) = inbox.recv().await {
            let mut next = Some(first);
            while let Some(outgoing) = next {
                self.take(outgoing, &mut bunch, &unfit).await?;
                next = inbox.try_recv().ok();
            }
            self.write(&mut bunch).await?;
        }
        self.writer.shutdown().await?;
        Ok(())
    }

    /// Puts one message to those that are written next; writes these first if it is too many for them.
    async fn take(&mut self, outgoing: Outgoing, bunch: &mut Bunch, unfit: &Once) -> Result<(), Fault> {
        let waited = outgoing.bytes();
        match outgoing {
            Outgoing::Milestone => {
                self.write(bunch).await?;
                let resume = FromClient::Resume(self.peer);
                return self.lobby.clients.send(resume).await.map_err(|_| Fault::Stopping);
            }
            Outgoing::Event(event) => match self.lobby.packing.event(event, self.codec) {
                Ok(frame) => self.add(&frame, bunch).await?,
                Err(error) => warn_once!(unfit, %error, "an event cannot be packed for this client: it is not sent"),
            },
            Outgoing::Output(output) => match packing::output(&output, self.codec) {
                Ok(frame) => self.add(&frame, bunch).await?,
                Err(error) => warn_once!(unfit, %error, "output cannot be packed for this client: it is not sent"),
            },
            Outgoing::Reply { tag, reply } => {
                if let Some(frame) = packing::reply(tag, &reply, self.codec, self.open, unfit)? {
                    self.add(&frame, bunch).await?;
                }
            }
        }
        bunch.waited += waited;
        Ok(())
    }

    async fn add(&mut self, frame: &[u8], bunch: &mut Bunch) -> Result<(), Fault> {
        if bunch.frames.len() + frame.len() > Pace::AT_ONCE {
            self.write(bunch).await?;
        }
        bunch.frames.extend_from_slice(frame);
        Ok(())
    }

    async fn write(&mut self, bunch: &mut Bunch) -> Result<(), Fault> {
        if !bunch.frames.is_empty() {
            self.pace.room(bunch.frames.len()).await;
            self.writer.write_all(&bunch.frames).await?;
        }
        self.open.waiting.fetch_sub(bunch.waited, Ordering::Relaxed);
        self.open.written.notify_one();
        // A large answer must not be remembered for ever.
        bunch.frames.clear();
        bunch.frames.shrink_to(Pace::AT_ONCE);
        bunch.waited = 0;
        Ok(())
    }
}
