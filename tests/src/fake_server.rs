//! A server that sends any messages of a test to Peal's client.
use crate::in_process::soon;
use peal_client::{Client, ClientSettings, Environment};
use peal_model::{CommandCode, Event, JobInfo, Nspace, Proc, Rank, Reply, Request, code};
use peal_wire::{
    Codec, DecodeLimits, Frame, FrameDecoder, HelloDecoder, ServerUri, Tag, Welcome, WelcomeForm,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

fn proc(name: &str) -> Proc {
    Proc::new(Nspace::new(name).unwrap(), Rank(0))
}

/// Returns a listener, and the environment by which clients take it for a server.
pub async fn listen() -> (TcpListener, Environment) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = ServerUri {
        proc: proc("false"),
        addr: listener.local_addr().unwrap(),
    };
    (
        listener,
        Environment {
            me: proc("job"),
            server,
            release: None,
        },
    )
}

/// Returns a client and the fake server that it is connected to.
pub async fn deceived(settings: ClientSettings) -> (Client, FakeServer) {
    let (listener, environment) = listen().await;
    let serve = async {
        let mut server = FakeServer::welcome(&listener).await;
        server.grant().await;
        server
    };
    let connect = Client::connect_with(&environment, settings);
    let (client, server) = soon("a client connects", async { tokio::join!(connect, serve) }).await;
    (client.unwrap(), server)
}

/// Server's end of a client's connection.
pub struct FakeServer {
    /// The connection.
    pub stream: TcpStream,
    /// Encoding of the messages.
    pub codec: Codec,
    frames: FrameDecoder,
}

impl FakeServer {
    /// Waits for a client or tool and completes its handshake.
    pub async fn welcome(listener: &TcpListener) -> FakeServer {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut decoder = HelloDecoder::new(DecodeLimits::default());
        let hello = loop {
            let byte = stream.read_u8().await.unwrap();
            if let Some(hello) = decoder.feed(&mut [byte].as_slice()).unwrap() {
                break hello;
            }
        };
        let tool = |name| Welcome::Tool {
            name,
            server: proc("false"),
            security: code::PMIX_SUCCESS,
        };
        let welcome = match hello.peer.welcome_form(&hello.dialect()) {
            WelcomeForm::Client => Welcome::Client { index: 0 },
            WelcomeForm::Tool => tool(None),
            WelcomeForm::NamedTool => tool(Some(proc("tool"))),
        };
        stream.write_all(&welcome.encode()).await.unwrap();
        let codec = Codec::of(&hello, DecodeLimits::default());
        FakeServer {
            stream,
            codec,
            frames: FrameDecoder::new(&codec.limits),
        }
    }

    /// Waits for a frame. Returns `None` if the client closes instead.
    pub async fn frame(&mut self) -> Option<Frame> {
        loop {
            let byte = self.stream.read_u8().await.ok()?;
            if let Some(frame) = self.frames.feed(&mut [byte].as_slice()).unwrap() {
                return Some(frame);
            }
        }
    }

    /// Waits for a request. Returns `None` if the client closes instead.
    pub async fn next(&mut self) -> Option<(Tag, Request)> {
        let frame = self.frame().await?;
        Some((
            frame.tag,
            self.codec.decode_request(&frame.payload).unwrap(),
        ))
    }

    /// Waits for a request.
    pub async fn hear(&mut self) -> (Tag, Request) {
        soon("a request comes", self.next())
            .await
            .expect("the client has gone")
    }

    /// Sends these bytes in a frame.
    pub async fn say(&mut self, tag: Tag, payload: Vec<u8>) {
        self.stream
            .write_all(
                &Frame {
                    pindex: 0,
                    tag,
                    payload,
                }
                .encode()
                .unwrap(),
            )
            .await
            .unwrap();
    }

    /// Sends an event.
    pub async fn send(&mut self, event: &Event) {
        self.say(Tag::NOTIFY, self.codec.encode_event(event).unwrap())
            .await;
    }

    /// Answers a request.
    pub async fn answer(&mut self, tag: Tag, command: CommandCode, reply: &Reply) {
        self.say(tag, self.codec.encode_reply(command, reply).unwrap())
            .await;
    }

    /// Waits for a request and grants it.
    pub async fn grant(&mut self) -> Request {
        let (tag, request) = self.hear().await;
        self.answer(tag, request.command(), &granted(request.command()))
            .await;
        request
    }
}

/// Returns an answer that grants a request and holds no data.
pub fn granted(command: CommandCode) -> Reply {
    match command {
        CommandCode::JobData => Reply::JobData(
            JobInfo {
                nspace: Nspace::new("job").unwrap(),
                entries: Vec::new(),
            }
            .into(),
        ),
        _ => Reply::Status(code::PMIX_SUCCESS),
    }
}
