//! A client that sends any bytes of a test.
use crate::in_process::{Node, soon};
use peal_model::{Info, Proc, Request, Status};
use peal_wire::{
    BufferType, ClaimedUser, Codec, Credential, DecodeLimits, Encoding, Frame, FrameDecoder,
    GDS_HASH, Header, Hello, PeerKind, Tag, Welcome, WelcomeDecoder,
};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// Size of the system's buffer for a client that does not read, in bytes. The system doubles and
/// rounds it.
const UNREAD: u32 = 16 * 1024;

/// Returns the handshake of a well-behaved client.
pub fn hello(proc: Proc) -> Hello {
    let user = ClaimedUser {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    Hello {
        credential: Credential::Native(user),
        peer: PeerKind::Client(proc),
        release: "5.0.11".parse().unwrap(),
        encoding: Encoding::V41,
        buffer_type: BufferType::NonDescribed,
        gds: GDS_HASH.into(),
        infos: Vec::<Info>::new(),
    }
}

/// Returns the bytes of a handshake of any size.
pub fn encoded(hello: &Hello) -> Vec<u8> {
    hello
        .encode(DecodeLimits {
            max_handshake: usize::MAX,
            ..DecodeLimits::default()
        })
        .unwrap()
}

/// Returns the bytes that precede a handshake of that length.
pub fn handshake_header(len: u32) -> Vec<u8> {
    [&[0xff; 8][..], &len.to_ne_bytes(), &[0; 4]].concat()
}

/// Connection, byte by byte.
pub struct RawClient {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl RawClient {
    /// Connects and sends nothing yet.
    pub async fn connect(node: &Node) -> RawClient {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(UNREAD).unwrap();
        let server: SocketAddr = node.server.uri().addr;
        let stream = soon("the server listens", socket.connect(server))
            .await
            .unwrap();
        stream.set_nodelay(true).unwrap();
        RawClient {
            stream,
            unread: Vec::new(),
        }
    }

    /// Sends these bytes. It is no failure if the server closes meanwhile: reading shows the close.
    pub async fn say(&mut self, bytes: &[u8]) {
        let _ = soon("the server reads", self.stream.write_all(bytes)).await;
    }

    /// Shuts down the sending direction.
    pub async fn say_no_more(&mut self) {
        let _ = self.stream.shutdown().await;
    }

    /// Reads further bytes. Returns false at the end. A reset counts as an end: the system sends it
    /// if the server leaves bytes unread.
    async fn read(&mut self) -> bool {
        soon(
            "the server sends bytes or closes",
            self.stream.read_buf(&mut self.unread),
        )
        .await
        .unwrap_or(0)
            > 0
    }

    /// Waits for the close. Returns true if no byte came before it.
    pub async fn is_closed_without_a_byte(mut self) -> bool {
        !self.read().await
    }

    /// Sends the handshake and waits for the answer. Returns `None` if the server closes instead.
    pub async fn greet(mut self, hello: &Hello) -> Option<Peer> {
        self.say(&encoded(hello)).await;
        self.welcomed(hello).await
    }

    /// Waits for the answer to a handshake. Returns `None` if the server closes instead.
    pub async fn welcomed(mut self, hello: &Hello) -> Option<Peer> {
        let mut decoder = WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()));
        while self.read().await {
            let mut unread = self.unread.as_slice();
            let welcome = decoder.feed(&mut unread).unwrap();
            self.unread = unread.to_vec();
            if let Some(welcome) = welcome {
                let codec = Codec::of(hello, DecodeLimits::default());
                return Some(Peer {
                    raw: self,
                    welcome,
                    codec,
                    frames: FrameDecoder::new(&codec.limits),
                });
            }
        }
        None
    }
}

/// Connection after its handshake.
pub struct Peer {
    raw: RawClient,
    /// Server's answer to the handshake.
    pub welcome: Welcome,
    /// Encoding of the messages.
    pub codec: Codec,
    frames: FrameDecoder,
}

impl Peer {
    /// Connects as a proc of the job.
    pub async fn connect(node: &Node, rank: u32) -> Peer {
        let raw = RawClient::connect(node).await;
        raw.greet(&hello(node.proc(rank)))
            .await
            .expect("a good handshake is welcome")
    }

    /// Sends the header of a frame without the payload.
    pub async fn say_header(&mut self, tag: u32, len: u32) {
        self.raw
            .say(
                &Header {
                    pindex: 0,
                    tag: Tag(tag),
                    len,
                }
                .encode(),
            )
            .await;
    }

    /// Sends a frame.
    pub async fn say(&mut self, tag: u32, payload: Vec<u8>) {
        self.raw
            .say(
                &Frame {
                    pindex: 0,
                    tag: Tag(tag),
                    payload,
                }
                .encode()
                .unwrap(),
            )
            .await;
    }

    /// Sends a request.
    pub async fn request(&mut self, tag: u32, request: &Request) {
        self.say(tag, self.codec.encode_request(request).unwrap())
            .await;
    }

    /// Returns the next frame, or `None` if the server closes instead.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            let mut unread = self.raw.unread.as_slice();
            let frame = self.frames.feed(&mut unread).unwrap();
            self.raw.unread = unread.to_vec();
            if frame.is_some() || !self.raw.read().await {
                return frame;
            }
        }
    }

    /// Returns the status in the next frame, which must be an answer with that tag.
    pub async fn status(&mut self, tag: u32) -> Status {
        self.reply(tag, peal_model::CommandCode::Finalize)
            .await
            .status()
    }

    /// Returns the answer to a request of this kind from the next frame, which must have that tag.
    pub async fn reply(&mut self, tag: u32, command: peal_model::CommandCode) -> peal_model::Reply {
        let frame = self.next().await.expect("the connection is still there");
        assert_eq!(frame.tag, Tag(tag));
        self.codec.decode_reply(command, &frame.payload).unwrap()
    }
}
