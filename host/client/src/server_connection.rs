//! Connection to a server: requests out, replies back to their callers, events to the handlers.
use crate::{
    Call, ClientError, ClientSettings, ServerInfo,
    caller::CallerWait,
    inbound::{Inbound, InboundParts},
    open_requests::{Answer, NoRoom, OpenReplies, RaisedRequest},
    outbound::{Outbound, Urgency},
    queue::EventQueue,
    queued_item::{LossDetection, QueuedItem},
    spawn,
};
use peal_model::{CommandCode, Info, Proc, Reply, Request};
use peal_wire::{
    BufferType, ClaimedUser, Codec, Credential, Dialect, Encoding, Frame, GDS_HASH, Hello,
    PeerKind, Release, ServerUri, Tag, Welcome, WelcomeDecoder, WireError,
};
use std::sync::Arc;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, oneshot},
};

/// Release that this client states. It is the first to which servers send the infos of the other
/// members of a group; every server accepts it.
const RELEASE: &str = "6.0.0";

/// Number of requests without a reply above which further ones are written together.
const MANY_OPEN: usize = 8;

/// Server to connect to, and the peer that connects.
pub(crate) struct ConnectTarget {
    pub(crate) server: ServerUri,
    /// Release of the server, if known.
    pub(crate) release: Option<Release>,
    pub(crate) peer: PeerKind,
    /// Infos that a tool sends about itself.
    pub(crate) infos: Vec<Info>,
}

/// Pending reply to a request.
pub(crate) struct PendingReply {
    answer: oneshot::Receiver<Answer>,
    call: Call,
    link: Arc<ServerConnection>,
}

impl PendingReply {
    /// Waits for the reply. An error status is returned as an error.
    pub(crate) async fn answer(self) -> Result<Reply, ClientError> {
        let PendingReply { answer, call, link } = self;
        let server = || link.server.clone();
        let answer = answer.await.map_err(|_| ClientError::Lost {
            call,
            server: server(),
        })?;
        let reply = answer.map_err(|source| ClientError::Unpack {
            call,
            server: server(),
            source: Box::new(source),
        })?;
        match (reply.status().ok(), reply) {
            (Ok(()), reply) => Ok(reply),
            (Err(status), reply) => {
                let infos = match reply {
                    Reply::Infos { infos, .. } => infos,
                    Reply::Group(result) => Arc::unwrap_or_clone(result).infos,
                    _ => Vec::new(),
                };
                Err(ClientError::Refused {
                    call,
                    server: server(),
                    status,
                    infos,
                })
            }
        }
    }
}

/// Permits of a call, until it is sent.
struct CallPermits<'a> {
    /// Permit for one more open request.
    place: OwnedSemaphorePermit,
    /// Permit for the bytes of the frame.
    room: OwnedSemaphorePermit,
    /// Held so that no later call is sent first.
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

/// Connection after its handshake.
pub(crate) struct ServerConnection {
    /// Flag that the end of the connection is a loss.
    pub(crate) loss_detection: LossDetection,
    /// Server, by the name that it states.
    pub(crate) server: ServerUri,
    /// Release of the server, if stated.
    release: Option<Release>,
    codec: Codec,
    index: i32,
    /// Sending side, which writes whole frames even if a caller gives up.
    outbound: Arc<Outbound>,
    /// Receiving side.
    pub(crate) inbound: Arc<Inbound>,
    /// Held by a caller while it waits for its permits. Otherwise a later call could take a permit
    /// while an earlier one, which has been granted its own, is not polled yet.
    turn: tokio::sync::Mutex<()>,
    /// The drop closes the connection, after what callers sent.
    _callers: oneshot::Sender<()>,
    open: Arc<OpenReplies>,
    /// Queue of the handlers, for messages that cannot be packed.
    queue: EventQueue,
}

/// New connection, and the name that the server assigned if one was requested.
pub(crate) struct Connected {
    pub(crate) link: Arc<ServerConnection>,
    pub(crate) name: Option<Proc>,
}

impl ServerConnection {
    /// Connects and does the handshake. Events of the server then arrive in the queue.
    pub(crate) async fn connect(
        to: ConnectTarget,
        settings: &ClientSettings,
        queue: EventQueue,
    ) -> Result<Connected, ClientError> {
        let limit = settings.connect_timeout;
        let server = to.server.clone();
        let connect = ServerConnection::connect_in_own_time(to, settings, queue);
        tokio::time::timeout(limit, connect)
            .await
            .unwrap_or(Err(ClientError::NoWelcome { server, limit }))
    }

    async fn connect_in_own_time(
        to: ConnectTarget,
        settings: &ClientSettings,
        queue: EventQueue,
    ) -> Result<Connected, ClientError> {
        let mut server = to.server;
        let unreachable = |source| ClientError::Unreachable {
            server: server.clone(),
            source,
        };
        let failed = |source| ClientError::Handshake {
            server: server.clone(),
            source: Box::new(source),
        };
        let mut stream = TcpStream::connect(server.addr).await.map_err(unreachable)?;
        // Requests are small. Nagle's algorithm would hold each back until the server has
        // acknowledged the one before.
        stream.set_nodelay(true).map_err(unreachable)?;
        let own: Release = RELEASE.parse().map_err(failed)?;
        // Servers of the C library use the message forms of their own release, whatever the client
        // states. A server that adapts uses those of the client's release.
        let version = to
            .release
            .as_ref()
            .filter(|release| !release.adapts())
            .unwrap_or(&own)
            .version();
        let nspace = to.peer.proc().map(|proc| proc.nspace.clone());
        let nspace = nspace.unwrap_or_default();
        let hello = hello(to.peer, to.infos, own);
        stream
            .write_all(&hello.encode(settings.wire).map_err(failed)?)
            .await
            .map_err(unreachable)?;
        let (welcome, rest) = welcome(&mut stream, &hello).await.map_err(failed)?;
        let (index, name) = match welcome {
            // A wrong index does no harm: servers know a peer by its connection.
            Some(Welcome::Client { index }) => (i32::try_from(index).unwrap_or(i32::MAX), None),
            Some(Welcome::Tool {
                name,
                server: proc,
                security,
            }) if security.is_success() => {
                server.proc = proc;
                // A tool receives no index; tools of the C library send 0.
                (0, name)
            }
            Some(
                Welcome::Tool {
                    security: status, ..
                }
                | Welcome::Refused(status),
            ) => {
                return Err(ClientError::Unwelcome {
                    server,
                    status: Some(status),
                });
            }
            None => {
                return Err(ClientError::Unwelcome {
                    server,
                    status: None,
                });
            }
        };
        let dialect = Dialect::new(version, Encoding::V41);
        let codec = Codec {
            dialect,
            buffer_type: BufferType::NonDescribed,
            limits: settings.wire,
        };
        let (callers, unused) = oneshot::channel();
        let open = Arc::new(OpenReplies::new(
            settings.max_open_calls,
            settings.max_open_events,
        ));
        let unreachable = |source| ClientError::Unreachable {
            server: server.clone(),
            source,
        };
        let socket = Arc::new(stream.into_std().map_err(unreachable)?);
        let loss_detection = LossDetection::default();
        let parts = InboundParts {
            codec,
            nspace,
            open: open.clone(),
            queue: queue.clone(),
            loss_detection: loss_detection.clone(),
            server: server.clone(),
        };
        let inbound = Inbound::new(socket.clone(), &rest, parts).map_err(unreachable)?;
        let inbound = Arc::new(inbound);
        let outbound = Arc::new(Outbound::new(socket).await.map_err(unreachable)?);
        let (receiving, sending) = (inbound.clone(), outbound.clone());
        // The close by the server ends the reader, the drop of the last reference ends the writer.
        // Either one then ends the other, and with both halves the connection. They are tasks of their
        // own, so that input does not wake the writer.
        let (reads, writes) = (receiving.clone(), sending.clone());
        let mut reader = spawn(async move { reads.read().await });
        let mut writer = spawn(async move { writes.write_rest(unused).await });
        spawn(async move {
            tokio::select! {
                _ = &mut reader => writer.abort(),
                _ = &mut writer => reader.abort(),
            }
            receiving.close();
            sending.close();
        });
        let release = to.release;
        Ok(Connected {
            link: Arc::new(ServerConnection {
                loss_detection,
                server,
                release,
                codec,
                index,
                outbound,
                inbound,
                turn: tokio::sync::Mutex::default(),
                _callers: callers,
                open,
                queue,
            }),
            name,
        })
    }

    /// Sends a request, and waits for the reply. An error status is returned as an error.
    pub(crate) async fn ask(self: &Arc<Self>, request: Request) -> Result<Reply, ClientError> {
        self.post(request).await?.answer().await
    }

    /// Sends a request. The caller may wait for the reply, or drop it.
    pub(crate) async fn post(
        self: &Arc<Self>,
        request: Request,
    ) -> Result<PendingReply, ClientError> {
        let (call, payload) = self.pack_call(&request)?;
        let CallPermits { place, room, _turn } = self.permits(call, &payload).await?;
        let (tag, answer) = self
            .open
            .ask(request.command(), place)
            .map_err(|_| self.lost(call))?;
        // A caller that does not wait and has many open requests does not wait for each.
        let is_one_of_many =
            CallerWait::current() == CallerWait::InTask && self.open.count() > MANY_OPEN;
        let urgency = if is_one_of_many {
            Urgency::Soon
        } else {
            Urgency::Now
        };
        self.send(tag, payload, room, urgency);
        Ok(PendingReply {
            answer,
            call,
            link: self.clone(),
        })
    }

    /// Sends the one request that has no reply.
    pub(crate) async fn send_without_reply(&self, request: Request) -> Result<(), ClientError> {
        let (call, payload) = self.pack_call(&request)?;
        let room = self.room(call, &payload).await?;
        let tag = self.open.tag().map_err(|_| self.lost(call))?;
        self.send(tag, payload, room, Urgency::Soon);
        Ok(())
    }

    /// Sends a heartbeat: a frame without a payload and without a reply.
    pub(crate) async fn beat(&self) -> Result<(), ClientError> {
        let room = self.room(Call(CommandCode::Monitor), &[]).await?;
        self.send(Tag::HEARTBEAT, Vec::new(), room, Urgency::Soon);
        Ok(())
    }

    /// Sends a request whose reply only the trace shows; false if too many of these await their
    /// reply.
    pub(crate) async fn raise(&self, request: Request) -> Result<bool, ClientError> {
        let (call, payload) = self.pack(&request)?;
        let room = self.room(call, &payload).await?;
        match self.open.raise(request.command(), None) {
            Ok(raised) => {
                self.send_raised(raised, payload, room);
                Ok(true)
            }
            Err(NoRoom::Full) => Ok(false),
            Err(NoRoom::Closed) => Err(self.lost(call)),
        }
    }

    /// Sends a request whose reply only the trace shows, when one more request may await its reply.
    pub(crate) async fn raise_in_turn(&self, request: Request) -> Result<(), ClientError> {
        let (call, payload) = self.pack_call(&request)?;
        let CallPermits { place, room, _turn } = self.permits(call, &payload).await?;
        let raised = self.open.raise(request.command(), Some(place));
        self.send_raised(raised.map_err(|_| self.lost(call))?, payload, room);
        Ok(())
    }

    fn send_raised(&self, raised: RaisedRequest, payload: Vec<u8>, room: OwnedSemaphorePermit) {
        // A proc that raises many events does not wait for each, so that they are written together.
        let urgency = if raised.open < MANY_OPEN {
            Urgency::Now
        } else {
            Urgency::Soon
        };
        self.send(raised.tag, payload, room, urgency);
    }

    /// Returns the server of this connection, for errors.
    pub(crate) fn server_info(&self) -> Box<ServerInfo> {
        Box::new(ServerInfo {
            uri: self.server.clone(),
            release: self.release.clone(),
        })
    }

    /// Returns true if the connection has ended.
    pub(crate) fn is_lost(&self) -> bool {
        self.open.is_closed()
    }

    /// Packs the request of a call. The handlers receive an event if that fails.
    fn pack_call(&self, request: &Request) -> Result<(Call, Vec<u8>), ClientError> {
        self.pack(request).inspect_err(|error| {
            if let ClientError::Pack { server, source, .. } = error {
                self.queue
                    .try_put(QueuedItem::Garbled(server.clone(), source.clone()));
            }
        })
    }

    fn pack(&self, request: &Request) -> Result<(Call, Vec<u8>), ClientError> {
        let call = Call(request.command());
        let packed = self.codec.encode_request(request);
        let server = || self.server.clone();
        let payload = packed.map_err(|source| ClientError::Pack {
            call,
            server: server(),
            source: Box::new(source),
        })?;
        Ok((call, payload))
    }

    /// Waits for the permits of a call, behind earlier ones. All waits come before the request is
    /// opened: a caller that gives up in them leaves no open request behind.
    async fn permits(&self, call: Call, payload: &[u8]) -> Result<CallPermits<'_>, ClientError> {
        let turn = self.turn.lock().await;
        let place = self.open.place().await.map_err(|_| self.lost(call))?;
        let room = self.room(call, payload).await?;
        Ok(CallPermits {
            place,
            room,
            _turn: turn,
        })
    }

    async fn room(&self, call: Call, payload: &[u8]) -> Result<OwnedSemaphorePermit, ClientError> {
        let room = self.outbound.room(payload.len()).await;
        room.map_err(|_| self.lost(call))
    }

    fn send(&self, tag: Tag, payload: Vec<u8>, room: OwnedSemaphorePermit, urgency: Urgency) {
        let frame = Frame {
            pindex: self.index,
            tag,
            payload,
        };
        // A payload that is too long for the header was refused when it was packed.
        if let Ok(bytes) = frame.encode() {
            self.outbound.send(bytes, room, urgency);
        }
    }

    fn lost(&self, call: Call) -> ClientError {
        ClientError::Lost {
            call,
            server: self.server.clone(),
        }
    }
}

fn hello(peer: PeerKind, infos: Vec<Info>, release: Release) -> Hello {
    // Every release from 4.1 on has this encoding. With the store `hash` all data come in messages;
    // other stores use shared memory in a layout that is private to a release.
    let encoding = Encoding::V41;
    let buffer_type = BufferType::NonDescribed;
    Hello {
        credential: Credential::Native(user()),
        peer,
        release,
        encoding,
        buffer_type,
        gds: GDS_HASH.into(),
        infos,
    }
}

/// Returns the effective user and group of this process.
pub(crate) fn user() -> ClaimedUser {
    ClaimedUser {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    }
}

/// Waits for the server's half of the handshake, or for the close by a server that refuses. Bytes
/// behind it belong to the first frame.
async fn welcome(
    stream: &mut TcpStream,
    hello: &Hello,
) -> Result<(Option<Welcome>, Vec<u8>), WireError> {
    let mut decoder = WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()));
    let mut buffer = vec![0; 4096];
    loop {
        // Servers of the C library refuse a client by a close without a byte. A reset counts as
        // one.
        let count = stream.read(&mut buffer).await.unwrap_or_default();
        let mut received = buffer.get(..count).unwrap_or_default();
        if received.is_empty() {
            return Ok((None, Vec::new()));
        }
        if let Some(welcome) = decoder.feed(&mut received)? {
            return Ok((Some(welcome), received.to_vec()));
        }
    }
}
