//! Packing of messages to clients. An event for many clients is packed once for all with the same
//! codec.
use crate::{client_writer::ClientWriter, connection::ConnectionError, trace_limit::warn_once};
use peal_model::{CommandCode, Event, Reply, code};
use peal_wire::{Codec, Frame, IofOutput, Tag, WireError};
use std::sync::{Arc, Mutex, PoisonError};

/// Cache of the event that was packed last. Its other recipients are usually served right after.
#[derive(Default)]
pub(crate) struct Packing(Mutex<Option<PackedEvent>>);

struct PackedEvent {
    event: Arc<Event>,
    codec: Codec,
    frame: Arc<[u8]>,
}

impl Packing {
    /// Packs an event for a client of this codec.
    pub(crate) fn event(&self, event: Arc<Event>, codec: &Codec) -> Result<Arc<[u8]>, WireError> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
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

/// Packs output of a proc for a client of this codec.
pub(crate) fn output(output: &IofOutput, codec: &Codec) -> Result<Vec<u8>, WireError> {
    Frame {
        pindex: 0,
        tag: Tag::IOF,
        payload: codec.encode_output(output)?,
    }
    .encode()
}

/// Packs the answer to a request with this command for a client of this codec.
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

/// Packs the answer to an open request of a client, and closes the request. An answer that cannot
/// be packed is replaced by a status. Returns `None` if no request of this tag is open.
pub(crate) fn reply(
    tag: u32,
    reply: &Reply,
    writer: &ClientWriter,
) -> Result<Option<Vec<u8>>, ConnectionError> {
    let Some(command) = writer.open.close(tag) else {
        return Ok(None);
    };
    match answer(tag, command, reply, &writer.codec) {
        Ok(frame) => Ok(Some(frame)),
        // The client would take a status for the job data.
        Err(error) if command == CommandCode::JobData => Err(ConnectionError::JobData(error)),
        // The client's release may lack a type of the answer. Send a status, so that the client
        // does not wait for ever.
        Err(error) => {
            warn_once!(writer.unfit, %error, "answer not packed for client");
            let payload = writer.codec.encode_status(code::PMIX_ERR_PACK_FAILURE)?;
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
