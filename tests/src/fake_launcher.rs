//! Launcher of a job over several nodes, as a test plays it. Each node is a `peal host-server` on this
//! machine, with the launcher's end of its socket in the test. The launcher carries fences, requests
//! for values and events between the nodes, as Slurm's plugin and Open MPI's daemons do.
use crate::peal;
use peal_model::{Bytes, DataArray, Info, Nspace, Proc, Rank, Status, Value, code, key};
use peal_stub::{
    FrameLimit, HostNotice, HostReply, HostRequest, HostUpcall, PROTOCOL, RequestNumber,
    ServerMessage, ServerWelcome, StubDecoder, StubHello, StubMessage, UpcallKind, UpcallNumber,
    UpcallResult, encode,
};
use rustix::process::{getegid, geteuid};
use std::{
    collections::BTreeMap,
    io::{Read, Write},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread::JoinHandle,
};

/// Conduct of a launcher whose upcalls are of interest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Conduct {
    /// Answers each upcall once, on the thread that reads.
    #[default]
    Proper,
    /// Answers each upcall twice, the second time with an error.
    Twice,
    /// Answers no fence.
    NoFence,
}

/// Reply to a request of the launcher.
type Reply = Result<HostReply, Status>;

/// Party that waits for the reply to a request.
enum Waiting {
    /// The test.
    Test(Sender<Reply>),
    /// A node, whose server requested values of another node's proc.
    Node { node: usize, upcall: UpcallNumber },
}

/// State that the threads of all nodes share.
#[derive(Default)]
struct Network {
    streams: Vec<UnixStream>,
    waiting: BTreeMap<RequestNumber, Waiting>,
    next: u64,
    /// Contributions to fences, by their procs.
    fences: BTreeMap<Vec<Proc>, Vec<(usize, UpcallNumber, Bytes)>>,
    /// Notices of the servers, with their node.
    notices: Vec<(usize, HostNotice)>,
    /// Upcalls that the launcher got, by their kinds.
    upcalls: Vec<UpcallKind>,
    /// Statuses of aborts.
    aborts: Vec<Status>,
    /// Procs that have finalized.
    finalized: Vec<Proc>,
    procs_per_node: u32,
    conduct: Conduct,
}

impl Network {
    fn send(&mut self, node: usize, message: &StubMessage) {
        let frame = encode(message, FrameLimit::default()).unwrap();
        // A server that has ended needs no message.
        let _ = self.streams[node].write_all(&frame);
    }

    fn request(&mut self, node: usize, request: HostRequest, waiting: Waiting) {
        self.next += 1;
        let number = RequestNumber(self.next);
        self.waiting.insert(number, waiting);
        self.send(node, &StubMessage::Request { number, request });
    }

    fn answer(&mut self, node: usize, number: UpcallNumber, answer: Result<UpcallResult, Status>) {
        self.send(node, &StubMessage::Answer { number, answer });
        if self.conduct == Conduct::Twice {
            let answer = Err(code::PMIX_ERROR);
            self.send(node, &StubMessage::Answer { number, answer });
        }
    }

    fn upcall(&mut self, node: usize, number: UpcallNumber, upcall: HostUpcall) {
        self.upcalls.push(upcall.kind());
        match upcall {
            HostUpcall::Fence { procs, data, .. } => {
                if self.conduct == Conduct::NoFence {
                    return;
                }
                let arrived = self.fences.entry(procs.clone()).or_default();
                arrived.push((node, number, data));
                if arrived.len() < self.streams.len() {
                    return;
                }
                let arrived = self.fences.remove(&procs).unwrap();
                let all: Vec<u8> = arrived
                    .iter()
                    .flat_map(|(_, _, data)| data.as_slice().to_vec())
                    .collect();
                for (node, number, _) in arrived {
                    let data = UpcallResult::Data(Bytes::from(all.clone()));
                    self.answer(node, number, Ok(data));
                }
            }
            HostUpcall::DirectModex { proc, .. } => {
                let owner = (proc.rank.0 / self.procs_per_node) as usize;
                let waiting = Waiting::Node {
                    node,
                    upcall: number,
                };
                self.request(owner, HostRequest::Modex { proc }, waiting);
            }
            HostUpcall::Notify { event } => {
                for other in (0..self.streams.len()).filter(|other| *other != node) {
                    let request = HostRequest::Notify {
                        event: event.clone(),
                    };
                    let (nobody, _) = channel();
                    self.request(other, request, Waiting::Test(nobody));
                }
                self.answer(node, number, Ok(UpcallResult::Done));
            }
            HostUpcall::ClientFinalized { proc } => {
                self.finalized.push(proc);
                self.answer(node, number, Ok(UpcallResult::Done));
            }
            HostUpcall::Abort { status, .. } => {
                self.aborts.push(status);
                self.answer(node, number, Ok(UpcallResult::Done));
            }
            _ => self.answer(node, number, Err(code::PMIX_ERR_NOT_SUPPORTED)),
        }
    }

    fn reply(&mut self, number: RequestNumber, reply: Reply) {
        match self.waiting.remove(&number).unwrap() {
            // A test that does not wait needs no reply.
            Waiting::Test(test) => drop(test.send(reply)),
            Waiting::Node { node, upcall } => {
                let answer = reply.map(|reply| match reply {
                    HostReply::Data(data) => UpcallResult::Data(data),
                    other => panic!("values should be data: {other:?}"),
                });
                self.answer(node, upcall, answer);
            }
        }
    }
}

/// Server of a node, and the launcher's end of its socket.
struct Node {
    server: Child,
    welcome: ServerWelcome,
    reader: Option<JoinHandle<()>>,
}

/// Launcher of one job.
pub struct FakeLauncher {
    network: Arc<Mutex<Network>>,
    nodes: Vec<Node>,
    nspace: Nspace,
    procs_per_node: u32,
}

/// Upcalls that the launcher offers.
const OFFERED: [UpcallKind; 8] = [
    UpcallKind::Abort,
    UpcallKind::ClientFinalized,
    UpcallKind::Fence,
    UpcallKind::DirectModex,
    UpcallKind::Notify,
    // Offered and not supported, as by Slurm's plugin.
    UpcallKind::Publish,
    UpcallKind::Lookup,
    UpcallKind::JobControl,
];

impl FakeLauncher {
    /// Starts a server for each node, in `dir`, and says hello to it.
    pub fn start(dir: &Path, nodes: usize, procs_per_node: u32, conduct: Conduct) -> FakeLauncher {
        let network = Network {
            procs_per_node,
            conduct,
            ..Network::default()
        };
        let network = Arc::new(Mutex::new(network));
        let nodes = (0..nodes).map(|node| start_node(dir, node, &network));
        FakeLauncher {
            nodes: nodes.collect(),
            network,
            nspace: Nspace::new("fake.pmix.1").unwrap(),
            procs_per_node,
        }
    }

    /// Returns the job.
    pub fn nspace(&self) -> &Nspace {
        &self.nspace
    }

    fn network(&self) -> std::sync::MutexGuard<'_, Network> {
        self.network.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a request of a node's server, and waits for its reply.
    pub fn request(&self, node: usize, request: HostRequest) -> Reply {
        let (sender, reply): (_, Receiver<Reply>) = channel();
        self.network().request(node, request, Waiting::Test(sender));
        reply.recv().unwrap()
    }

    /// Registers the job and its procs with all servers, as Slurm's plugin does.
    #[track_caller]
    pub fn register(&self) {
        for node in 0..self.nodes.len() {
            let request = HostRequest::RegisterNamespace {
                nspace: self.nspace.clone(),
                local: i32::try_from(self.procs_per_node).unwrap(),
                infos: self.infos(),
            };
            assert_eq!(self.request(node, request), Ok(HostReply::Done));
            for rank in self.ranks(node) {
                let request = HostRequest::RegisterClient {
                    proc: Proc::new(self.nspace.clone(), Rank(rank)),
                    uid: geteuid().as_raw(),
                    gid: getegid().as_raw(),
                };
                assert_eq!(self.request(node, request), Ok(HostReply::Done));
            }
        }
    }

    /// Returns the ranks of a node.
    pub fn ranks(&self, node: usize) -> std::ops::Range<u32> {
        let first = u32::try_from(node).unwrap() * self.procs_per_node;
        first..first + self.procs_per_node
    }

    /// Returns the infos of the job's registration.
    pub fn infos(&self) -> Vec<Info> {
        let count = u32::try_from(self.nodes.len()).unwrap();
        let size = count * self.procs_per_node;
        let names: Vec<String> = (0..count).map(|node| format!("n{node}")).collect();
        let ranks: Vec<String> = (0..self.nodes.len())
            .map(|node| {
                let ranks = self.ranks(node).map(|rank| rank.to_string());
                ranks.collect::<Vec<_>>().join(",")
            })
            .collect();
        let mut infos = vec![
            Info::new(key::PMIX_JOB_SIZE, Value::Uint32(size)),
            Info::new(key::PMIX_UNIV_SIZE, Value::Uint32(size)),
            Info::new(key::PMIX_NODE_MAP, Value::string(&names.join(","))),
            Info::new(key::PMIX_PROC_MAP, Value::string(&ranks.join(";"))),
        ];
        infos.extend((0..size).map(|rank| {
            let node = rank / self.procs_per_node;
            let infos = vec![
                Info::new(key::PMIX_RANK, Value::Rank(Rank(rank))),
                Info::new(key::PMIX_HOSTNAME, Value::string(&format!("n{node}"))),
            ];
            let array = Value::DataArray(DataArray::infos(infos));
            Info::new(key::PMIX_PROC_DATA, array)
        }));
        infos
    }

    /// Returns the command for a proc, with the environment by which it finds its server.
    pub fn program(&self, rank: u32, program: &Path) -> Command {
        let node = &self.nodes[(rank / self.procs_per_node) as usize];
        let mut command = Command::new(program);
        for variable in &node.welcome.environment {
            command.env(&variable.name, &variable.value);
        }
        command
            .env("PMIX_NAMESPACE", self.nspace.as_str())
            .env("PMIX_RANK", rank.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns the notices of the servers so far, with their node.
    pub fn notices(&self) -> Vec<(usize, HostNotice)> {
        self.network().notices.clone()
    }

    /// Returns the procs that have finalized so far, in this order.
    pub fn finalized(&self) -> Vec<Proc> {
        self.network().finalized.clone()
    }

    /// Returns the kinds of the upcalls so far.
    pub fn upcalls(&self) -> Vec<UpcallKind> {
        self.network().upcalls.clone()
    }

    /// Returns the statuses of the aborts so far.
    pub fn aborts(&self) -> Vec<Status> {
        self.network().aborts.clone()
    }

    /// Closes the socket of a node, as the end of the launcher's process does, and waits until its
    /// server has ended. Returns what the server printed to its standard error.
    #[track_caller]
    pub fn leave(&mut self, node: usize) -> String {
        let _ = self.network().streams[node].shutdown(Shutdown::Both);
        let server = &mut self.nodes[node].server;
        let mut errors = String::new();
        let stderr = server.stderr.as_mut().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        let status = server.wait().unwrap();
        assert!(status.success(), "{status}: {errors}");
        errors
    }
}

impl Drop for FakeLauncher {
    fn drop(&mut self) {
        for stream in &self.network().streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
        for node in &mut self.nodes {
            let _ = node.server.wait();
            if let Some(reader) = node.reader.take() {
                let _ = reader.join();
            }
        }
    }
}

fn start_node(dir: &Path, node: usize, network: &Arc<Mutex<Network>>) -> Node {
    let (mut own, theirs) = UnixStream::pair().unwrap();
    let runtime = dir.join(format!("n{node}"));
    std::fs::create_dir_all(&runtime).unwrap();
    let mut command = peal(["host-server"]);
    command
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("PMIX_SYSTEM_TMPDIR", &runtime)
        .env("PEAL_ADMIN_SOCKET", runtime.join("admin.sock"))
        .env_remove("PMIX_SERVER_TMPDIR");
    let server = command.spawn().unwrap();
    // The command holds the other end, which must close when the server ends.
    drop(command);
    let hello = StubMessage::Hello(StubHello {
        protocol: PROTOCOL,
        release: "test".to_owned(),
        name: None,
        infos: Vec::new(),
        offered: OFFERED.to_vec(),
    });
    own.write_all(&encode(&hello, FrameLimit::default()).unwrap())
        .unwrap();
    let mut messages = Messages {
        stream: own.try_clone().unwrap(),
        decoder: StubDecoder::new(FrameLimit::default()),
    };
    let welcome = match messages.next() {
        Some(ServerMessage::Welcome(welcome)) => welcome,
        other => panic!("the server should welcome the launcher: {other:?}"),
    };
    network.lock().unwrap().streams.push(own);
    let network = network.clone();
    let reader = std::thread::spawn(move || {
        while let Some(message) = messages.next() {
            let mut network = network.lock().unwrap();
            match message {
                ServerMessage::Reply { number, reply } => network.reply(number, reply),
                ServerMessage::Upcall { number, upcall } => network.upcall(node, number, upcall),
                ServerMessage::Notice(notice) => network.notices.push((node, notice)),
                other => panic!("unexpected message {other:?}"),
            }
        }
    });
    Node {
        server,
        welcome,
        reader: Some(reader),
    }
}

/// Messages of a server.
struct Messages {
    stream: UnixStream,
    decoder: StubDecoder,
}

impl Messages {
    /// Returns the next message; `None` at the end of the stream.
    fn next(&mut self) -> Option<ServerMessage> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(message) = self.decoder.next_message().unwrap() {
                return Some(message);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.decoder.push(&buffer[..count]),
            }
        }
    }
}
