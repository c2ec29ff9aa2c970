//! How messages of one connection become bytes and bytes become messages.
use crate::{
    BufferType, DecodeLimits, Dialect, Hello, IofOutput, WireError, packed::CommandNumber,
    reader::MessageReader, reply, request, unsolicited, writer::MessageWriter,
};
use peal_model::{CommandCode, Event, Nspace, Reply, Request, Status};

/// The way one connection speaks. A server takes it from its client's [`Hello`], a client from what it knows of its
/// server; either way the dialect is the other side's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Codec {
    /// What the peer understands.
    pub dialect: Dialect,
    /// Whether fields say which type they have.
    pub buffer_type: BufferType,
    /// What is refused for its size.
    pub limits: DecodeLimits,
}

impl Codec {
    /// The way the client speaks that said this.
    pub fn of(hello: &Hello, limits: DecodeLimits) -> Codec {
        Codec {
            dialect: hello.dialect(),
            buffer_type: hello.buffer_type,
            limits,
        }
    }

    /// The payload of a request. An error also if the peer's release does not know the command.
    pub fn encode_request(&self, request: &Request) -> Result<Vec<u8>, WireError> {
        self.encode(|w| request::write(w, request))
    }

    /// The request in a payload. What to do about an error depends on [`Codec::command_of`].
    pub fn decode_request(&self, payload: &[u8]) -> Result<Request, WireError> {
        self.decode_request_of(&Nspace::default(), payload)
    }

    /// The same for a proc of this namespace: procs of the same that it names share that name.
    pub fn decode_request_of(&self, nspace: &Nspace, payload: &[u8]) -> Result<Request, WireError> {
        request::read(&mut MessageReader::of(self, nspace.clone(), payload)?)
    }

    /// The command of a request whose arguments may be beyond understanding; nothing if it is itself. A broken
    /// `DeregisterEvents` is never answered; a broken `JobData`, whose reply has no status, by closing the connection;
    /// any other request with [`WireError::status`] (sections 3.4, 5.8 and 6.1 of the wire reference).
    pub fn command_of(&self, payload: &[u8]) -> Option<CommandCode> {
        let CommandNumber(number) = MessageReader::new(self, payload).ok()?.one().ok()?;
        CommandCode::try_from(number).ok()
    }

    /// The payload of a reply to that command. Of a group, only what the peer's release reads is sent.
    pub fn encode_reply(&self, command: CommandCode, reply: &Reply) -> Result<Vec<u8>, WireError> {
        self.encode(|w| reply::write(w, command, reply))
    }

    /// The reply to that command in a payload. One that is only a status is [`Reply::Status`], whatever the command.
    pub fn decode_reply(&self, command: CommandCode, payload: &[u8]) -> Result<Reply, WireError> {
        reply::read(&mut MessageReader::new(self, payload)?, command)
    }

    /// The payload of a reply that is only a status: the answer to what could not be decoded.
    pub fn encode_status(&self, status: Status) -> Result<Vec<u8>, WireError> {
        self.encode(|w| w.one(&status))
    }

    /// The payload of an event on its way to a client ([`crate::Tag::NOTIFY`]). A range that is not given
    /// ([`peal_model::Range::Undef`]) is left out.
    pub fn encode_event(&self, event: &Event) -> Result<Vec<u8>, WireError> {
        self.encode(|w| unsolicited::put_event(w, event))
    }

    /// The event in a payload.
    pub fn decode_event(&self, payload: &[u8]) -> Result<Event, WireError> {
        unsolicited::event(&mut MessageReader::new(self, payload)?)
    }

    /// The payload of forwarded output ([`crate::Tag::IOF`]).
    pub fn encode_output(&self, output: &IofOutput) -> Result<Vec<u8>, WireError> {
        self.encode(|w| unsolicited::put_output(w, output))
    }

    /// The forwarded output in a payload.
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
