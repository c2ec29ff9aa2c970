//! Bad input to Peal's client: a server that refuses, answers nonsense or breaks off costs the client no more than the
//! request or the connection, and becomes an internal event where nobody asked (design, section 4).
use peal_client::{Client, ClientError, Environment};
use peal_model::{
    CommandCode, Event, JobInfo, KeyName, Nspace, Proc, Range, Rank, Reply, Request, Scope, Status, Value, code,
};
use peal_tests::in_process::{listener, next, soon};
use peal_wire::{Codec, Frame, FrameDecoder, Header, HelloDecoder, Limits, ServerUri, Tag, Welcome};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const NEWS: Status = Status(-3301);

/// Where clients find a server that is none.
async fn listen() -> (TcpListener, Environment) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proc = |name| Proc::new(Nspace::new(name).unwrap(), Rank(0));
    let server = ServerUri { proc: proc("false"), addr: listener.local_addr().unwrap() };
    (listener, Environment { me: proc("job"), server, release: None })
}

/// The other end of a client's connection.
struct FalseServer {
    stream: TcpStream,
    codec: Codec,
    frames: FrameDecoder,
}

impl FalseServer {
    /// Waits for a client and welcomes it.
    async fn welcome(listener: &TcpListener) -> FalseServer {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut decoder = HelloDecoder::new(Limits::default());
        let hello = loop {
            let byte = stream.read_u8().await.unwrap();
            if let Some(hello) = decoder.feed(&mut [byte].as_slice()).unwrap() {
                break hello;
            }
        };
        stream.write_all(&Welcome::Client { index: 0 }.encode()).await.unwrap();
        let codec = Codec::of(&hello, Limits::default());
        FalseServer { stream, codec, frames: FrameDecoder::new(&codec.limits) }
    }

    /// Waits for a request.
    async fn hear(&mut self) -> (Tag, CommandCode) {
        loop {
            let byte = self.stream.read_u8().await.unwrap();
            if let Some(frame) = self.frames.feed(&mut [byte].as_slice()).unwrap() {
                return (frame.tag, self.codec.decode_request(&frame.payload).unwrap().command());
            }
        }
    }

    async fn say(&mut self, tag: Tag, payload: Vec<u8>) {
        self.stream.write_all(&Frame { pindex: 0, tag, payload }.encode().unwrap()).await.unwrap();
    }

    /// Waits for a request and grants it.
    async fn grant(&mut self) {
        let (tag, command) = self.hear().await;
        let reply = match command {
            CommandCode::JobData => {
                Reply::JobData(JobInfo { nspace: Nspace::new("job").unwrap(), entries: Vec::new() }.into())
            }
            _ => Reply::Status(code::PMIX_SUCCESS),
        };
        self.say(tag, self.codec.encode_reply(command, &reply).unwrap()).await;
    }
}

/// A client and the false server that it believes in.
async fn deceived() -> (Client, FalseServer) {
    let (listener, environment) = listen().await;
    let serve = async {
        let mut server = FalseServer::welcome(&listener).await;
        server.grant().await;
        server
    };
    let (client, server) =
        soon("a client connects", async { tokio::join!(Client::connect(&environment), serve) }).await;
    (client.unwrap(), server)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_the_handshake_that_is_none_is_a_refusal() {
    let (listener, environment) = listen().await;
    for answer in [&b""[..], &[0, 0], &[0xff, 0xff, 0xff, 0xe1]] {
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(answer).await.unwrap();
        };
        let (client, ()) =
            soon("the client gives up", async { tokio::join!(Client::connect(&environment), serve) }).await;
        let error = client.err().unwrap();
        assert!(matches!(error, ClientError::Refused { .. }), "{answer:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_sense_fails_its_request_alone() {
    let (client, mut server) = deceived().await;
    let serve = async {
        let (tag, command) = server.hear().await;
        // One that nobody waits for is passed over.
        server.say(Tag(999), vec![0xff; 40]).await;
        server.say(tag, vec![0xff; 40]).await;
        server.grant().await;
        command
    };
    let ask = async {
        client.put(Scope::Local, KeyName("test.key").into(), Value::Bool(true));
        (client.commit().await, client.fence(&[], &[]).await)
    };
    let ((commit, fence), command) = soon("both are answered", async { tokio::join!(ask, serve) }).await;
    assert_eq!(command, CommandCode::Commit);
    let error = commit.unwrap_err();
    assert!(matches!(error, ClientError::Wire(_)), "{error}");
    fence.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn events_without_sense_are_internal_events_and_those_behind_them_are_heard() {
    let (client, mut server) = deceived().await;
    let (handler, mut heard) = listener();
    let (registered, ()) =
        soon("it is registered", async { tokio::join!(client.register(&[], &[], handler), server.grant()) }).await;
    registered.unwrap();
    let event = Event { code: NEWS, source: None, range: Range::Global, infos: Vec::new() };
    server.say(Tag::NOTIFY, vec![0xff; 40]).await;
    server.say(Tag::NOTIFY, server.codec.encode_event(&event).unwrap()).await;
    // A request where an event must be.
    server.say(Tag::NOTIFY, server.codec.encode_request(&Request::Finalize).unwrap()).await;
    for code in [code::PMIX_ERR_COMM_FAILURE, NEWS, code::PMIX_ERR_COMM_FAILURE] {
        assert_eq!(next(&mut heard).await.code, code);
    }
    // Where not even the length makes sense, nothing behind it does.
    let header = Header { pindex: 0, tag: Tag::NOTIFY, len: u32::MAX };
    server.stream.write_all(&header.encode()).await.unwrap();
    for code in [code::PMIX_ERR_COMM_FAILURE, code::PMIX_ERR_LOST_CONNECTION_TO_SERVER] {
        let event = next(&mut heard).await;
        assert_eq!((event.code, event.source.as_ref(), event.range), (code, Some(client.me()), Range::ProcLocal));
    }
    assert!(matches!(client.fence(&[], &[]).await, Err(ClientError::Lost)));
}
