//! Connections of a server that is handed over.
use super::HandoverError;
use crate::{
    client_writer::ClientWriter,
    connection::{ConnectionContext, ServedConnection},
    connection_reader::ConnectionInput,
    connection_writer::FrameBatch,
    identity::PeerSocket,
    open_requests::{OpenCommand, OpenRequests},
    outbox::{MessageQueue, Outbox, Outgoing, QueueState},
};
use peal_core::server::PeerId;
use peal_model::Proc;
use peal_system::process::{ProcessId, RunningProcess};
use peal_wire::{BufferType, Codec, DecodeLimits, Dialect, Encoding, Version};
use serde::{Deserialize, Serialize};
use std::{net::TcpStream as BlockingStream, os::fd::OwnedFd, sync::Arc};
use tokio::net::TcpStream;

/// Connection of an admitted peer. Its socket comes beside the state.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct HandedConnection {
    pub(crate) peer: PeerId,
    pub(crate) proc: Proc,
    /// User that is charged.
    uid: u32,
    /// Process at the other end, if it was searched for and found.
    process: Option<PeerProcess>,
    /// Socket of the claim on the proc, if there is one.
    claim: Option<PeerSocket>,
    codec: HandedCodec,
    /// True if the end of the handshake has been written.
    is_welcomed: bool,
    /// Bytes that were received and not executed.
    #[serde(with = "serde_bytes")]
    unexecuted: Vec<u8>,
    unwritten: Vec<HandedMessage>,
    open: Vec<OpenCommand>,
}

/// Process at the other end of a connection.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct PeerProcess {
    pid: u32,
    /// Identity, unless the process has ended.
    id: Option<ProcessId>,
    /// True if the server watches it.
    is_watched: bool,
}

/// Part of what is still to be written.
#[derive(Debug, Serialize, Deserialize)]
enum HandedMessage {
    Bytes(#[serde(with = "serde_bytes")] Vec<u8>),
    Milestone,
}

/// Codec of a connection.
#[derive(Debug, Serialize, Deserialize)]
struct HandedCodec {
    major: u16,
    minor: u16,
    release: u16,
    encoding: String,
    buffer_type: u8,
}

impl From<&Codec> for HandedCodec {
    fn from(codec: &Codec) -> HandedCodec {
        let Version {
            major,
            minor,
            release,
        } = codec.dialect.version();
        HandedCodec {
            major,
            minor,
            release,
            encoding: codec.dialect.encoding().name().to_owned(),
            buffer_type: codec.buffer_type.number(),
        }
    }
}

impl HandedConnection {
    /// Reads a suspended connection. Its messages are packed then.
    ///
    /// # Errors
    ///
    /// Fails if the client has sent or is to get something malformed, so that its connection must end.
    pub(crate) fn of(
        connection: &ServedConnection,
        context: &ConnectionContext,
    ) -> Result<HandedConnection, HandoverError> {
        let fails = |why: String| HandoverError::Connection {
            proc: connection.proc.clone(),
            why,
        };
        if connection.inbox.state() == QueueState::Cut {
            return Err(fails("the client does not read".to_owned()));
        }
        let unexecuted = connection.input.unexecuted();
        let unexecuted = unexecuted.map_err(|error| fails(error.to_string()))?;
        let writer = &connection.writer;
        let mut unwritten = Vec::new();
        let batch = &connection.batch;
        if !batch.unwritten().is_empty() {
            unwritten.push(HandedMessage::Bytes(batch.unwritten().to_vec()));
        }
        if batch.has_milestone() {
            unwritten.push(HandedMessage::Milestone);
        }
        for outgoing in std::iter::from_fn(|| connection.inbox.try_recv()).collect::<Vec<_>>() {
            let waited = outgoing.bytes();
            let packed = match outgoing {
                Outgoing::Milestone => Some(Outgoing::Milestone),
                outgoing => {
                    let packed = context.packing.message(&outgoing, writer);
                    let frame = packed.map_err(|error| fails(error.to_string()))?;
                    frame.map(|frame| Outgoing::Rest(frame.to_vec()))
                }
            };
            if let Some(packed) = packed {
                unwritten.push(match &packed {
                    Outgoing::Rest(bytes) => HandedMessage::Bytes(bytes.clone()),
                    _ => HandedMessage::Milestone,
                });
                // It stays, since this process may go on with the connection.
                writer.keep(packed);
            }
            writer.waited(waited);
        }
        Ok(HandedConnection {
            peer: connection.peer,
            proc: connection.proc.clone(),
            uid: connection.share.uid(),
            process: connection.process.map(|pid| PeerProcess {
                pid,
                id: RunningProcess::of(pid).map(|process| process.id),
                is_watched: connection.open.is_some(),
            }),
            claim: connection.claim.as_ref().map(|claim| claim.socket()),
            codec: (&writer.codec).into(),
            is_welcomed: writer.is_welcomed(),
            unexecuted,
            unwritten,
            open: writer.open.list(),
        })
    }

    /// Checks that this release knows the codec of the connection.
    ///
    /// # Errors
    ///
    /// Fails if it does not.
    pub(crate) fn check(&self) -> Result<(), HandoverError> {
        self.codec
            .read(&self.proc, DecodeLimits::default())
            .map(drop)
    }

    /// Makes the connection that goes on, and the actor's end of its queue.
    ///
    /// # Errors
    ///
    /// Fails if the socket cannot be used, or this release does not know the codec.
    pub(crate) fn continued(
        self,
        socket: OwnedFd,
        context: &ConnectionContext,
    ) -> Result<ContinuedConnection, HandoverError> {
        let HandedConnection {
            peer,
            proc,
            uid,
            process,
            claim,
            codec,
            is_welcomed,
            unexecuted,
            unwritten,
            open,
        } = self;
        let codec = codec.read(&proc, context.limits)?;
        let socket = BlockingStream::from(socket);
        socket.set_nonblocking(true)?;
        let (reader, write_half) = TcpStream::from_std(socket)?.into_split();
        let share = context.user_shares.reconnect(uid);
        let requests = OpenRequests::new(context.max_open_requests);
        requests.restore(open);
        let writer = Arc::new(ClientWriter::new(
            write_half,
            codec,
            requests,
            MessageQueue::new(context.outbox),
            share.outbox(),
        ));
        if is_welcomed {
            writer.welcomed();
        }
        let (outbox, inbox) = Outbox::of(&writer);
        for message in unwritten {
            let outgoing = match message {
                HandedMessage::Bytes(bytes) => Outgoing::Rest(bytes),
                HandedMessage::Milestone => Outgoing::Milestone,
            };
            outbox.restore(outgoing);
        }
        let claim = claim.map(|end| Box::new(context.checker.reclaim(&proc, end)));
        let open = process.filter(|process| process.is_watched).map(|process| {
            context
                .processes
                .note_connecting(&proc, process.pid)
                .watch()
        });
        // The number may have become that of another process.
        let is_there = |id: ProcessId| id.is_there();
        if let Some(process) = process.filter(|process| process.id.is_some_and(is_there)) {
            context.host.process_found(&proc, process.pid);
        }
        Ok(ContinuedConnection {
            outbox,
            connection: ServedConnection {
                reader,
                input: ConnectionInput::of(unexecuted, &context.limits),
                writer,
                inbox,
                batch: FrameBatch::default(),
                peer,
                proc,
                process: process.map(|process| process.pid),
                violation: None,
                share,
                claim,
                open,
            },
        })
    }
}

impl HandedCodec {
    fn read(&self, proc: &Proc, limits: DecodeLimits) -> Result<Codec, HandoverError> {
        let fails = |why: String| HandoverError::Connection {
            proc: proc.clone(),
            why,
        };
        let encoding: Result<Encoding, _> = self.encoding.parse();
        let version = Version {
            major: self.major,
            minor: self.minor,
            release: self.release,
        };
        Ok(Codec {
            dialect: Dialect::new(version, encoding.map_err(|error| fails(error.to_string()))?),
            buffer_type: BufferType::try_from(self.buffer_type)
                .map_err(|error| fails(error.to_string()))?,
            limits,
        })
    }
}

/// Connection that this process continues.
pub(crate) struct ContinuedConnection {
    /// End of the queue for the actor.
    pub(crate) outbox: Outbox,
    pub(crate) connection: ServedConnection,
}
