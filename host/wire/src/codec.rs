//! Encoding and decoding of the messages of one connection.
use crate::{
    BufferType, DecodeLimits, Dialect, Hello, IofOutput, WireError, packed::CommandNumber,
    reader::MessageReader, reply, request, unsolicited, writer::MessageWriter,
};
use peal_model::{CommandCode, Event, Nspace, Reply, Request, Status};

/// Codec of one connection. A server derives it from its client's [`Hello`], a client from what it
/// knows of its server. Either way the dialect is the peer's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codec {
    /// Dialect of the peer.
    pub dialect: Dialect,
    /// Presence of types in packed fields.
    pub buffer_type: BufferType,
    /// Bounds on messages.
    pub limits: DecodeLimits,
}

impl Codec {
    /// Returns the codec of the client that sent a [`Hello`].
    pub fn of(hello: &Hello, limits: DecodeLimits) -> Codec {
        Codec {
            dialect: hello.dialect(),
            buffer_type: hello.buffer_type,
            limits,
        }
    }

    /// Encodes a request. Returns an error also if the peer's release has no such command.
    pub fn encode_request(&self, request: &Request) -> Result<Vec<u8>, WireError> {
        self.encode(|w| request::write(w, request))
    }

    /// Decodes a request. [`Codec::command_of`] returns the command to answer after an error.
    pub fn decode_request(&self, payload: &[u8]) -> Result<Request, WireError> {
        self.decode_request_of(&Nspace::default(), payload)
    }

    /// Decodes a request of a proc of this namespace. Procs in the request that have the same
    /// namespace share its allocation.
    pub fn decode_request_of(&self, nspace: &Nspace, payload: &[u8]) -> Result<Request, WireError> {
        request::read(&mut MessageReader::of(self, nspace.clone(), payload)?)
    }

    /// Returns the command of a request whose arguments may be malformed; `None` if the command
    /// itself is.
    ///
    /// A malformed `DeregisterEvents` is never answered. A malformed `JobData`, whose reply has no
    /// status, is answered by closing the connection. Any other malformed request is answered with
    /// [`WireError::status`].
    pub fn command_of(&self, payload: &[u8]) -> Option<CommandCode> {
        let CommandNumber(number) = MessageReader::new(self, payload).ok()?.one().ok()?;
        CommandCode::try_from(number).ok()
    }

    /// Encodes the reply to a command. Of a group's result, only the parts that the peer's release
    /// reads are sent.
    pub fn encode_reply(&self, command: CommandCode, reply: &Reply) -> Result<Vec<u8>, WireError> {
        self.encode(|w| reply::write(w, command, reply))
    }

    /// Decodes the reply to a command. A reply that is only a status is [`Reply::Status`], whatever
    /// the command.
    pub fn decode_reply(&self, command: CommandCode, payload: &[u8]) -> Result<Reply, WireError> {
        reply::read(&mut MessageReader::new(self, payload)?, command)
    }

    /// Encodes a reply that is only a status: the answer to a request that could not be decoded.
    pub fn encode_status(&self, status: Status) -> Result<Vec<u8>, WireError> {
        self.encode(|w| w.one(&status))
    }

    /// Encodes an event for a client ([`crate::Tag::NOTIFY`]). An undefined range
    /// ([`peal_model::Range::Undef`]) is left out.
    pub fn encode_event(&self, event: &Event) -> Result<Vec<u8>, WireError> {
        self.encode(|w| unsolicited::put_event(w, event))
    }

    /// Decodes an event.
    pub fn decode_event(&self, payload: &[u8]) -> Result<Event, WireError> {
        unsolicited::event(&mut MessageReader::new(self, payload)?)
    }

    /// Decodes an event for a proc of this namespace. Procs in the event that have the same namespace
    /// share its allocation.
    pub fn decode_event_of(&self, nspace: &Nspace, payload: &[u8]) -> Result<Event, WireError> {
        unsolicited::event(&mut MessageReader::of(self, nspace.clone(), payload)?)
    }

    /// Encodes forwarded output ([`crate::Tag::IOF`]).
    pub fn encode_output(&self, output: &IofOutput) -> Result<Vec<u8>, WireError> {
        self.encode(|w| unsolicited::put_output(w, output))
    }

    /// Decodes forwarded output.
    pub fn decode_output(&self, payload: &[u8]) -> Result<IofOutput, WireError> {
        unsolicited::output(&mut MessageReader::new(self, payload)?)
    }

    pub(crate) fn encode<'a>(
        &'a self,
        write: impl FnOnce(&mut MessageWriter<'a>) -> Result<(), WireError>,
    ) -> Result<Vec<u8>, WireError> {
        let mut w = MessageWriter::new(self);
        write(&mut w)?;
        w.finish()
    }
}
