//! Server of the tests: the other end of the library's stream.
use peal_libpmix::{
    abi::{CInfo, CServerModule},
    client::init::initialized,
    heap_array::HeapArray,
    server::init::{server_finalize, server_init},
};
use peal_model::{Info, Nspace, Proc, Rank, Status};
use peal_stub::{
    EnvironmentVariable, FrameLimit, HostReply, HostRequest, HostUpcall, MessageDecoder,
    RequestNumber, ServerMessage, ServerWelcome, StubHello, StubMessage, UpcallNumber,
    UpcallResult, encode,
};
use std::{
    io::Write,
    mem,
    os::{
        fd::{AsRawFd, FromRawFd, OwnedFd, RawFd},
        unix::net::{UnixDatagram, UnixListener, UnixStream},
    },
    ptr,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

/// One test at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Turn of a test, which keeps the others waiting.
pub struct Turn(#[allow(dead_code, reason = "it is only held")] MutexGuard<'static, ()>);

/// Time after which a message that does not come fails a test.
const PATIENCE: Duration = Duration::from_secs(30);

/// Server of one host environment, which is this process.
pub struct TestServer {
    stream: UnixStream,
    decoder: MessageDecoder,
    /// First message of the library.
    pub hello: StubHello,
    /// Socket of forked children.
    pub children: OwnedFd,
    upcalls: u64,
    turn: Option<Turn>,
    _directory: tempfile::TempDir,
}

/// Request of the library.
pub struct Received {
    number: RequestNumber,
    pub request: HostRequest,
}

/// Returns a proc of a job.
pub fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
}

/// Returns a C form of values.
pub fn array<M: peal_libpmix::convert::ToC>(models: &[M]) -> HeapArray<M::Target> {
    HeapArray::from_models(models).unwrap()
}

impl TestServer {
    /// Initializes the library with this server.
    pub fn start(module: &CServerModule, infos: &[Info]) -> TestServer {
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hosts.sock");
        let listener = UnixListener::bind(&path).unwrap();
        // SAFETY: only the thread that has the turn reads or changes the environment.
        unsafe {
            std::env::set_var("PEAL_SERVER", "daemon");
            std::env::set_var("PEAL_HOSTS_SOCKET", &path);
        }
        let accepted = thread::spawn(move || accept(&listener));
        let mut infos: HeapArray<CInfo> = array(infos);
        let (info, ninfo) = (infos.as_mut_ptr(), infos.len());
        let mut module = *module;
        assert_eq!(unsafe { server_init(&mut module, info, ninfo) }, 0);
        let (stream, decoder, hello, children) = accepted.join().unwrap();
        TestServer {
            stream,
            decoder,
            hello,
            children,
            upcalls: 0,
            turn: Some(Turn(turn)),
            _directory: directory,
        }
    }

    /// Waits for a message of the library.
    pub fn next(&mut self) -> StubMessage {
        next(&self.stream, &mut self.decoder).0.expect("a message")
    }

    /// Waits for a request.
    pub fn request(&mut self) -> Received {
        match self.next() {
            StubMessage::Request { number, request } => Received { number, request },
            other => panic!("{other:?} is no request"),
        }
    }

    /// Replies to a request.
    pub fn reply(&mut self, received: Received, reply: Result<HostReply, Status>) {
        let number = received.number;
        self.send(&ServerMessage::Reply { number, reply });
    }

    /// Waits for a request, and says that it was carried out.
    pub fn carry_out(&mut self) -> HostRequest {
        let received = self.request();
        let request = received.request.clone();
        self.reply(received, Ok(HostReply::Done));
        request
    }

    /// Sends an upcall.
    pub fn call(&mut self, upcall: HostUpcall) -> UpcallNumber {
        self.upcalls += 1;
        let number = UpcallNumber(self.upcalls);
        self.send(&ServerMessage::Upcall { number, upcall });
        number
    }

    /// Waits for the answer of the latest upcall.
    pub fn answer(&mut self) -> Result<UpcallResult, Status> {
        match self.next() {
            StubMessage::Answer { number, answer } if number.0 == self.upcalls => answer,
            other => panic!("{other:?} is no answer of upcall {}", self.upcalls),
        }
    }

    /// Sends an upcall, and waits for its answer.
    pub fn ask(&mut self, upcall: HostUpcall) -> Result<UpcallResult, Status> {
        self.call(upcall);
        self.answer()
    }

    /// Sends a message.
    pub fn send(&mut self, message: &ServerMessage) {
        let frame = encode(message, FrameLimit::default()).unwrap();
        self.stream.write_all(&frame).unwrap();
    }

    /// Finalizes the library, which ends the stream. The turn is over when its guard is dropped.
    pub fn finish(mut self) -> Option<Turn> {
        assert_eq!(server_finalize(), 0);
        let (message, _) = next(&self.stream, &mut self.decoder);
        assert_eq!(message, None, "the stream has ended");
        self.turn.take()
    }

    /// Ends the stream, as a server that dies.
    pub fn die(&mut self) {
        self.stream.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

impl Drop for TestServer {
    /// Finalizes the library of a test that has failed, for the next one.
    fn drop(&mut self) {
        while initialized() != 0 {
            server_finalize();
        }
    }
}

/// Accepts a library.
fn accept(listener: &UnixListener) -> (UnixStream, MessageDecoder, StubHello, OwnedFd) {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut decoder = MessageDecoder::new(FrameLimit::default());
    let (message, children) = next(&stream, &mut decoder);
    let Some(StubMessage::Hello(hello)) = message else {
        panic!("{message:?} is no first message");
    };
    let variable = |name: &str, value: &str| EnvironmentVariable {
        name: name.to_owned(),
        value: value.to_owned(),
    };
    let welcome = ServerMessage::Welcome(ServerWelcome {
        name: proc("peal-host.1", 0),
        // Nothing listens there: the library goes on without a connection as a tool.
        uri: "peal.0;tcp4://127.0.0.1:1".to_owned(),
        environment: vec![
            variable("PMIX_SERVER_URI41", "peal.0;tcp4://127.0.0.1:1"),
            variable("PMIX_HOSTNAME", "n1"),
        ],
    });
    let frame = encode(&welcome, FrameLimit::default()).unwrap();
    stream.write_all(&frame).unwrap();
    let children = UnixDatagram::from(children.expect("a socket of children"));
    children.set_read_timeout(Some(PATIENCE)).unwrap();
    (stream, decoder, hello, children.into())
}

/// Reads the next message, and the descriptor that came with its bytes.
fn next(
    stream: &UnixStream,
    decoder: &mut MessageDecoder,
) -> (Option<StubMessage>, Option<OwnedFd>) {
    let mut passed = None;
    loop {
        if let Some(message) = decoder.next_message().unwrap() {
            return (Some(message), passed);
        }
        let mut piece = vec![0; 1000];
        let received = receive(stream.as_raw_fd(), &mut piece);
        passed = received.descriptor.or(passed);
        if received.len == 0 {
            return (None, passed);
        }
        decoder.push(&piece[..received.len]);
    }
}

/// Data that one call has received.
pub struct ReceivedBytes {
    pub len: usize,
    pub descriptor: Option<OwnedFd>,
    pub sender: Option<libc::ucred>,
}

/// Receives bytes with what the kernel adds to them.
pub fn receive(socket: RawFd, bytes: &mut [u8]) -> ReceivedBytes {
    let mut control = [0_u64; 16];
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    let mut found = ReceivedBytes {
        len: 0,
        descriptor: None,
        sender: None,
    };
    // SAFETY: the message has places that live until the end, and the kernel says which parts of the
    // control messages are there.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = mem::size_of_val(&control);
        let len = libc::recvmsg(socket, &mut message, libc::MSG_CMSG_CLOEXEC);
        // A stream that was shut down in the middle may say that it was reset.
        found.len = usize::try_from(len).unwrap_or_else(|_| {
            let error = std::io::Error::last_os_error();
            assert_eq!(error.raw_os_error(), Some(libc::ECONNRESET), "{error}");
            0
        });
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            let data = libc::CMSG_DATA(header);
            match (*header).cmsg_type {
                libc::SCM_RIGHTS => {
                    let descriptor = ptr::read_unaligned(data.cast::<RawFd>());
                    found.descriptor = Some(OwnedFd::from_raw_fd(descriptor));
                }
                libc::SCM_CREDENTIALS => {
                    found.sender = Some(ptr::read_unaligned(data.cast::<libc::ucred>()));
                }
                _ => {}
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
    }
    found
}
