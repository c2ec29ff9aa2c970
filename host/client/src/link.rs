//! The connection to the server: requests out, answers back to whoever asked, events to the handlers.
use crate::{ClientError, Environment};
use peal_model::{CommandCode, Event, Reply, Request};
use peal_wire::{
    BufferType, Codec, Credential, Dialect, Encoding, Frame, FrameDecoder, GDS_HASH, Hello, Limits, PeerKind, Release,
    Tag, User, Welcome, WelcomeDecoder, WireError,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{mpsc, oneshot},
};

/// The release that this client says it is: the newest whose client library was recorded, and which every server knows.
const RELEASE: &str = "5.0.11";

/// How many events may wait for the handlers before the connection is read no further.
const EVENTS: usize = 4096;

/// How many requests may wait to be written; who has more waits.
const REQUESTS: usize = 256;

/// What comes from the server unasked.
#[derive(Debug)]
pub(crate) enum Arrival {
    /// An event.
    Event(Event),
    /// A message that could not be understood.
    Garbled(WireError),
    /// The end of the connection.
    Lost,
}

/// What a request led to.
type Answer = Result<Reply, WireError>;

/// Requests that await their answer, by tag.
#[derive(Default)]
struct Open {
    requests: HashMap<Tag, (CommandCode, oneshot::Sender<Answer>)>,
    closed: bool,
}

/// An answer that is on its way.
pub(crate) struct Pending(oneshot::Receiver<Answer>);

impl Pending {
    /// Waits for it. An error status is an error.
    pub(crate) async fn answer(self) -> Result<Reply, ClientError> {
        let reply = self.0.await.map_err(|_| ClientError::Lost)??;
        match reply.status().ok() {
            Ok(()) => Ok(reply),
            Err(status) => Err(ClientError::Status(status)),
        }
    }
}

/// A connection that has been welcomed.
pub(crate) struct Link {
    codec: Codec,
    index: i32,
    /// To the task that writes: a caller may give up at any time without leaving half a frame behind.
    frames: mpsc::Sender<Frame>,
    next: Mutex<Tag>,
    open: Arc<Mutex<Open>>,
}

impl Link {
    /// Connects and says hello. Events arrive at the receiver.
    pub(crate) async fn connect(environment: &Environment) -> Result<(Link, mpsc::Receiver<Arrival>), ClientError> {
        let uri = environment.server.to_string();
        let unreachable = |source| ClientError::Unreachable { uri: uri.clone(), source };
        let mut stream = TcpStream::connect(environment.server.addr).await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let limits = Limits::default();
        let release: Release = RELEASE.parse()?;
        let hello = hello(environment, release.clone());
        stream.write_all(&hello.encode(limits)?).await.map_err(unreachable)?;
        let server = environment.release.as_ref().unwrap_or(&release);
        let dialect = Dialect::new(server.version(), Encoding::V41);
        let codec = Codec { dialect, buffer_type: BufferType::NonDescribed, limits };
        let (welcome, rest) = welcome(&mut stream, &hello, &uri).await?;
        let Welcome::Client { index } = welcome else { return Err(ClientError::Refused { uri }) };
        let (reader, writer) = stream.into_split();
        let (arrive, arrivals) = mpsc::channel(EVENTS);
        let open = Arc::new(Mutex::new(Open::default()));
        tokio::spawn(read(reader, rest, codec, open.clone(), arrive));
        let (frames, outgoing) = mpsc::channel(REQUESTS);
        tokio::spawn(write(writer, outgoing));
        let index = i32::try_from(index).unwrap_or(i32::MAX);
        Ok((Link { codec, index, frames, next: Mutex::new(Tag::FIRST_REQUEST), open }, arrivals))
    }

    /// Asks, and waits for the answer. An error status is an error.
    pub(crate) async fn ask(&self, request: Request) -> Result<Reply, ClientError> {
        self.post(request).await?.answer().await
    }

    /// Asks. The answer may be waited for, or not.
    pub(crate) async fn post(&self, request: Request) -> Result<Pending, ClientError> {
        let (tell, told) = oneshot::channel();
        self.send(&request, Some(tell)).await?;
        Ok(Pending(told))
    }

    /// Sends the one request that has no answer.
    pub(crate) async fn tell(&self, request: Request) -> Result<(), ClientError> {
        self.send(&request, None).await
    }

    async fn send(&self, request: &Request, answer: Option<oneshot::Sender<Answer>>) -> Result<(), ClientError> {
        let payload = self.codec.encode_request(request)?;
        let room = self.frames.reserve().await.map_err(|_| ClientError::Lost)?;
        let tag = {
            let mut next = lock(&self.next);
            let tag = *next;
            *next = tag.next_request();
            tag
        };
        if let Some(answer) = answer {
            let mut open = lock(&self.open);
            if open.closed {
                return Err(ClientError::Lost);
            }
            open.requests.insert(tag, (request.command(), answer));
        }
        room.send(Frame { pindex: self.index, tag, payload });
        Ok(())
    }
}

/// Writes requests in their order; ends when nobody can ask any more.
async fn write(mut writer: OwnedWriteHalf, mut frames: mpsc::Receiver<Frame>) {
    while let Some(frame) = frames.recv().await {
        // A payload that no header can hold was refused when it was packed.
        let Ok(bytes) = frame.encode() else { return };
        if let Err(error) = writer.write_all(&bytes).await {
            // The reader notices the end of the connection too, and tells those who wait for answers.
            tracing::debug!(%error, "a request cannot be sent");
            return;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing in here panics half-way, so what a poisoned lock guards is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hello(environment: &Environment, release: Release) -> Hello {
    let user = User { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
    Hello {
        credential: Credential::Native(user),
        peer: PeerKind::Client(environment.me.clone()),
        release,
        encoding: Encoding::V41,
        buffer_type: BufferType::NonDescribed,
        gds: GDS_HASH.into(),
        infos: Vec::new(),
    }
}

/// Waits for the server's half of the handshake; what came behind it belongs to the first frame.
async fn welcome(stream: &mut TcpStream, hello: &Hello, uri: &str) -> Result<(Welcome, Vec<u8>), ClientError> {
    let mut decoder = WelcomeDecoder::new(hello.peer.welcome_form(&hello.dialect()));
    let mut buffer = vec![0; 4096];
    loop {
        // A server that refuses closes without a byte.
        let count = stream.read(&mut buffer).await.unwrap_or_default();
        let mut received = buffer.get(..count).unwrap_or_default();
        if received.is_empty() {
            return Err(ClientError::Refused { uri: uri.to_owned() });
        }
        if let Some(welcome) = decoder.feed(&mut received)? {
            return Ok((welcome, received.to_vec()));
        }
    }
}

/// Reads until the connection ends; then whoever waits for an answer is told that there will be none.
async fn read(
    mut reader: OwnedReadHalf,
    rest: Vec<u8>,
    codec: Codec,
    open: Arc<Mutex<Open>>,
    arrive: mpsc::Sender<Arrival>,
) {
    let mut frames = FrameDecoder::new(&codec.limits);
    let mut buffer = vec![0; 64 * 1024];
    let mut received = rest.as_slice();
    'connection: loop {
        loop {
            match frames.feed(&mut received) {
                Ok(Some(frame)) => {
                    if let Some(arrival) = sort(frame, &codec, &open) {
                        // If nobody handles events any more, answers still count.
                        let _ = arrive.send(arrival).await;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    let _ = arrive.send(Arrival::Garbled(error)).await;
                    break 'connection;
                }
            }
        }
        match reader.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(count) => received = buffer.get(..count).unwrap_or_default(),
        }
    }
    {
        let mut open = lock(&open);
        open.closed = true;
        open.requests.clear();
    }
    let _ = arrive.send(Arrival::Lost).await;
}

fn sort(frame: Frame, codec: &Codec, open: &Mutex<Open>) -> Option<Arrival> {
    if frame.tag == Tag::NOTIFY {
        return Some(match codec.decode_event(&frame.payload) {
            Ok(event) => Arrival::Event(event),
            Err(error) => Arrival::Garbled(error),
        });
    }
    let (command, answer) = lock(open).requests.remove(&frame.tag)?;
    let reply = codec.decode_reply(command, &frame.payload);
    let garbled = reply.as_ref().err().cloned().map(Arrival::Garbled);
    // Whoever asked may have given up.
    let _ = answer.send(reply);
    garbled
}
