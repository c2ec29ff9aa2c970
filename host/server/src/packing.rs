//! What is for clients as the bytes that travel; an event that goes to many is packed once for all who speak alike.
use crate::{client_writer::ClientWriter, connection::ConnectionError, trace_limit::warn_once};
use peal_model::{CommandCode, Event, Reply, code};
use peal_wire::{Codec, Frame, IofOutput, Tag, WireError};
use std::sync::{Arc, Mutex, PoisonError};

/// The event that was packed last, and how: whoever else is to be told of it comes right behind.
#[derive(Default)]
pub(crate) struct Packing(Mutex<Option<PackedEvent>>);

struct PackedEvent {
    event: Arc<Event>,
    codec: Codec,
    frame: Arc<[u8]>,
}

impl Packing {
    /// An event for a client that speaks like this.
    pub(crate) fn event(&self, event: Arc<Event>, codec: &Codec) -> Result<Arc<[u8]>, WireError> {
        // Nothing panics while it is held, so what a poisoned lock guards is whole.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(PackedEvent { frame, .. }) = last
            .as_ref()
            .filter(|last| Arc::ptr_eq(&last.event, &event) && last.codec == *codec)
        {
            return Ok(frame.clone());
        }
        let payload = codec.encode_event(&event)?;
        let frame: Arc<[u8]> = Frame {
            pindex: 0,
            tag: Tag::NOTIFY,
            payload,
        }
        .encode()?
        .into();
        *last = Some(PackedEvent {
            event,
            codec: *codec,
            frame: frame.clone(),
        });
        Ok(frame)
    }
}

/// Output of a proc for a client that speaks like this.
pub(crate) fn output(output: &IofOutput, codec: &Codec) -> Result<Vec<u8>, WireError> {
    Frame {
        pindex: 0,
        tag: Tag::IOF,
        payload: codec.encode_output(output)?,
    }
    .encode()
}

/// The answer to such a request for a client that speaks like this.
pub(crate) fn answer(
    tag: u32,
    command: CommandCode,
    reply: &Reply,
    codec: &Codec,
) -> Result<Vec<u8>, WireError> {
    Frame {
        pindex: 0,
        tag: Tag(tag),
        payload: codec.encode_reply(command, reply)?,
    }
    .encode()
}

/// The same; what cannot be packed is answered with a status. None where nobody asked.
pub(crate) fn reply(
    tag: u32,
    reply: &Reply,
    line: &ClientWriter,
) -> Result<Option<Vec<u8>>, ConnectionError> {
    let Some(command) = line.open.close(tag) else {
        return Ok(None);
    };
    match answer(tag, command, reply, &line.codec) {
        Ok(frame) => Ok(Some(frame)),
        Err(error) if command == CommandCode::JobData => Err(ConnectionError::JobData(error)),
        // The client's release may lack a type that the answer holds; it is told so rather than left waiting.
        Err(error) => {
            warn_once!(line.unfit, %error, "an answer cannot be packed for this client");
            let payload = line.codec.encode_status(code::PMIX_ERR_PACK_FAILURE)?;
            Ok(Some(
                Frame {
                    pindex: 0,
                    tag: Tag(tag),
                    payload,
                }
                .encode()?,
            ))
        }
    }
}
