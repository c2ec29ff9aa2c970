//! What is for a client, written in the order in which the server gave it, as much at once as the client is sure to take.
use crate::{
    actor::{FromClient, Outgoing},
    connection::{Fault, Lobby, OpenRequests},
    pace::Pace,
    quiet::{Once, warn_once},
};
use peal_core::server::PeerId;
use peal_model::{CommandCode, code};
use peal_wire::{Codec, Frame, Tag};
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
        if let Outgoing::Milestone = outgoing {
            self.write(bunch).await?;
            let resume = FromClient::Resume(self.peer);
            return self.lobby.clients.send(resume).await.map_err(|_| Fault::Stopping);
        }
        let waited = outgoing.bytes();
        if let Some(frame) = pack(outgoing, self.codec, self.open, unfit)? {
            let frame = frame.encode()?;
            if bunch.frames.len() + frame.len() > Pace::AT_ONCE {
                self.write(bunch).await?;
            }
            bunch.frames.extend(frame);
        }
        bunch.waited += waited;
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

fn pack(outgoing: Outgoing, codec: &Codec, open: &OpenRequests, unfit: &Once) -> Result<Option<Frame>, Fault> {
    let (tag, packed) = match outgoing {
        Outgoing::Milestone => return Ok(None),
        Outgoing::Event(event) => (Tag::NOTIFY, codec.encode_event(&event)),
        Outgoing::Reply { tag, reply } => {
            let Some(command) = open.close(tag) else { return Ok(None) };
            let packed = match codec.encode_reply(command, &reply) {
                Err(error) if command == CommandCode::JobData => return Err(Fault::JobData(error)),
                // The client's release may lack a type that the answer holds; it is told so rather than left waiting.
                Err(error) => {
                    warn_once!(unfit, %error, "an answer cannot be packed for this client");
                    codec.encode_status(code::PMIX_ERR_PACK_FAILURE)
                }
                packed => packed,
            };
            (Tag(tag), packed)
        }
    };
    match packed {
        Ok(payload) => Ok(Some(Frame { pindex: 0, tag, payload })),
        Err(error) => {
            warn_once!(unfit, ?tag, %error, "a message cannot be packed for this client: it is not sent");
            Ok(None)
        }
    }
}
