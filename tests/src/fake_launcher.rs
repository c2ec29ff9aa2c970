//! Launcher of a job over several nodes, as a test plays it. Each node is a `peal host-server` on
//! this machine, with the launcher's end of its socket in the test. The launcher carries fences,
//! requests for values and events between the nodes, as Slurm's plugin and Open MPI's daemons do.
use crate::peal;
use peal_client::Environment;
use peal_model::{
    Bytes, DataArray, Event, Info, Infos, IofChannel, Key, KeyName, Nspace, Proc, Range, Rank,
    Status, Text, Value, code, key,
};
use peal_stub::{
    FrameLimit, HostNotice, HostReply, HostRequest, HostUpcall, MessageDecoder, PROTOCOL,
    RequestNumber, ServerMessage, ServerWelcome, StubHello, StubMessage, UpcallKind, UpcallNumber,
    UpcallResult, encode,
};
use rustix::process::{getegid, geteuid};
use std::{
    collections::{BTreeMap, BTreeSet},
    io::{Read, Write},
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
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
    /// Offers every upcall and answers none.
    Silent,
    /// Offers every upcall and answers each with this status.
    Refusing(Status),
    /// Answers job control, queries and monitors as well, for the procs of all nodes.
    Managing,
}

impl Conduct {
    /// Returns the upcalls that the launcher offers.
    fn offered(self) -> Vec<UpcallKind> {
        match self {
            Conduct::Proper | Conduct::Twice => OFFERED.to_vec(),
            Conduct::Silent | Conduct::Refusing(_) | Conduct::Managing => {
                [&OFFERED[..], &OFFERED_BY_OTHERS].concat()
            }
        }
    }
}

/// Key of the launcher's answers to job control and monitors.
pub const ANSWER: KeyName = KeyName("test.answer");

/// An operation on a group that a server asked for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedGroup {
    /// The node of the server.
    pub node: usize,
    /// The operation, as `pmix_group_operation_t`.
    pub operation: u8,
    /// The group.
    pub group: String,
    /// The keys of the infos.
    pub keys: Vec<String>,
    /// The status of the operation on the node.
    pub status: Option<Status>,
}

/// Keys of a log request that the launcher got.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedKeys {
    /// Keys of the data.
    pub data: Vec<String>,
    /// Keys of the directives.
    pub directives: Vec<String>,
}

/// Reply to a request of the launcher.
type Reply = Result<HostReply, Status>;

/// Arrival of a node at a collective: the node, its upcall and its data.
type NodeArrival = (usize, UpcallNumber, Bytes);

fn keys_of(infos: &[Info]) -> Vec<String> {
    let keys = infos.iter().map(|info| info.key.as_str().to_owned());
    keys.collect()
}

/// Returns the launcher's answer to job control and monitors.
fn answer() -> Info {
    Info::new(ANSWER, Value::string("all nodes"))
}

fn all_behind_each_other(arrived: &[NodeArrival]) -> Bytes {
    let data = arrived.iter().map(|(_, _, data)| data.as_slice().to_vec());
    Bytes::from(data.collect::<Vec<_>>().concat())
}

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
    fences: BTreeMap<Vec<Proc>, Vec<NodeArrival>>,
    /// Contributions to operations on groups, by the operation and the group.
    groups: BTreeMap<(u8, Text), Vec<NodeArrival>>,
    /// Number of operations on groups so far, which is the context id of the latest.
    groups_formed: u64,
    /// Notices of the servers, with their node.
    notices: Vec<(usize, HostNotice)>,
    /// Upcalls that the launcher got, by their kinds.
    upcalls: Vec<UpcallKind>,
    /// Statuses of aborts.
    aborts: Vec<Status>,
    /// Procs that have finalized.
    finalized: Vec<Proc>,
    /// Log requests.
    logged: Vec<LoggedKeys>,
    /// Targets of job control, as they were named.
    controlled: Vec<Vec<Proc>>,
    /// Operations on groups that servers asked for.
    asked_groups: Vec<AskedGroup>,
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
        match self.conduct {
            Conduct::Proper | Conduct::Twice | Conduct::Managing => {}
            Conduct::Silent => return,
            Conduct::Refusing(status) => return self.answer(node, number, Err(status)),
        }
        match upcall {
            HostUpcall::Fence { procs, data, .. } => {
                let arrived = self.fences.entry(procs.clone()).or_default();
                arrived.push((node, number, data));
                if arrived.len() < self.streams.len() {
                    return;
                }
                let arrived = self.fences.remove(&procs).unwrap();
                let all = all_behind_each_other(&arrived);
                for (node, number, _) in arrived {
                    let data = UpcallResult::Data(all.clone());
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
            HostUpcall::Group {
                operation,
                group,
                procs,
                directives,
            } => {
                let status = directives.value_of(key::PMIX_LOCAL_COLLECTIVE_STATUS);
                self.asked_groups.push(AskedGroup {
                    node,
                    operation,
                    group: group.as_str().unwrap().to_owned(),
                    keys: keys_of(&directives),
                    status: status.and_then(Value::as_status),
                });
                let nodes = self.nodes_of(&procs);
                let name = (operation, group);
                let arrived = self.groups.entry(name.clone()).or_default();
                let data = match directives.value_of(key::PMIX_GROUP_ENDPT_DATA) {
                    Some(Value::ByteObject(data)) => data.clone(),
                    _ => Bytes::default(),
                };
                arrived.push((node, number, data));
                if arrived.len() < nodes {
                    return;
                }
                let arrived = self.groups.remove(&name).unwrap();
                let all = all_behind_each_other(&arrived);
                self.groups_formed += 1;
                let infos = vec![
                    Info::new(key::PMIX_GROUP_ENDPT_DATA, Value::ByteObject(all)),
                    Info::new(key::PMIX_GROUP_CONTEXT_ID, Value::Size(self.groups_formed)),
                ];
                for (node, number, _) in arrived {
                    self.answer(node, number, Ok(UpcallResult::Infos(infos.clone())));
                }
            }
            HostUpcall::IofPull { .. } => self.answer(node, number, Ok(UpcallResult::Done)),
            HostUpcall::ToolConnected { .. } => {
                let name = Proc::new(Nspace::new("tools").unwrap(), Rank(0));
                self.answer(node, number, Ok(UpcallResult::Tool(name)));
            }
            HostUpcall::Log {
                data, directives, ..
            } => {
                self.logged.push(LoggedKeys {
                    data: keys_of(&data),
                    directives: keys_of(&directives),
                });
                self.answer(node, number, Ok(UpcallResult::Done));
            }
            HostUpcall::JobControl { targets, .. } if self.conduct == Conduct::Managing => {
                self.controlled.push(targets);
                self.answer(node, number, Ok(UpcallResult::Infos(vec![answer()])));
            }
            HostUpcall::Monitor { .. } if self.conduct == Conduct::Managing => {
                self.answer(node, number, Ok(UpcallResult::Infos(vec![answer()])));
            }
            HostUpcall::Query { queries, .. } if self.conduct == Conduct::Managing => {
                let keys = queries.iter().flat_map(|query| query.keys.iter().flatten());
                let infos = keys.map(|key| Info {
                    key: Key::new(key.as_str().unwrap()).unwrap(),
                    ..answer()
                });
                let infos = infos.collect();
                self.answer(node, number, Ok(UpcallResult::Infos(infos)));
            }
            _ => self.answer(node, number, Err(code::PMIX_ERR_NOT_SUPPORTED)),
        }
    }

    /// Returns the number of nodes of procs.
    fn nodes_of(&self, procs: &[Proc]) -> usize {
        if procs.iter().any(|proc| !proc.rank.is_valid()) {
            return self.streams.len();
        }
        let nodes = procs.iter().map(|proc| proc.rank.0 / self.procs_per_node);
        nodes.collect::<BTreeSet<_>>().len()
    }

    /// Reports the end of a proc to the other nodes, in the form of PRRTE.
    fn report_end(&mut self, node: usize, proc: &Proc) {
        let infos = vec![
            Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone())),
            Info::new(
                key::PMIX_EVENT_CUSTOM_RANGE,
                Value::procs([Proc::all(proc.nspace.clone())]),
            ),
        ];
        let event = Event {
            code: code::PMIX_ERR_PROC_ABORTED_BY_SIG,
            source: Some(proc.clone()),
            range: Range::Custom,
            infos,
        };
        for other in (0..self.streams.len()).filter(|other| *other != node) {
            let (nobody, _) = channel();
            let event = event.clone();
            self.request(other, HostRequest::Notify { event }, Waiting::Test(nobody));
        }
    }

    fn notice(&mut self, node: usize, notice: HostNotice) {
        if let HostNotice::ClientLost(proc) = &notice {
            let proc = proc.clone();
            self.report_end(node, &proc);
        }
        self.notices.push((node, notice));
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
    /// Server of this launcher alone.
    server: Option<Child>,
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

/// Time that a launcher has which does not answer.
const SHORT_TIMEOUT_MS: &str = "300";

/// Upcalls that the launcher offers.
const OFFERED: [UpcallKind; 12] = [
    UpcallKind::Abort,
    UpcallKind::ClientFinalized,
    UpcallKind::Fence,
    UpcallKind::DirectModex,
    UpcallKind::Notify,
    UpcallKind::Group,
    UpcallKind::Log,
    UpcallKind::IofPull,
    UpcallKind::ToolConnected,
    // Offered and not supported, as by Slurm's plugin.
    UpcallKind::Publish,
    UpcallKind::Lookup,
    UpcallKind::JobControl,
];

/// Further upcalls that launchers offer which do not answer properly.
const OFFERED_BY_OTHERS: [UpcallKind; 6] = [
    UpcallKind::Unpublish,
    UpcallKind::Spawn,
    UpcallKind::Connect,
    UpcallKind::Query,
    UpcallKind::Allocate,
    UpcallKind::Monitor,
];

impl FakeLauncher {
    /// Starts a server for each node, in `dir`, and says hello to it.
    pub fn start(dir: &Path, nodes: usize, procs_per_node: u32, conduct: Conduct) -> FakeLauncher {
        FakeLauncher::over(nodes, procs_per_node, conduct, |node, network| {
            start_node(dir, node, network)
        })
    }

    /// Says hello to the servers of the nodes, which listen on these sockets.
    pub fn at(sockets: &[PathBuf], procs_per_node: u32) -> FakeLauncher {
        let conduct = Conduct::Proper;
        FakeLauncher::over(sockets.len(), procs_per_node, conduct, |node, network| {
            let own = UnixStream::connect(&sockets[node]).unwrap();
            greet(own, node, network)
        })
    }

    fn over(
        nodes: usize,
        procs_per_node: u32,
        conduct: Conduct,
        start: impl Fn(usize, &Arc<Mutex<Network>>) -> Node,
    ) -> FakeLauncher {
        let network = Network {
            procs_per_node,
            conduct,
            ..Network::default()
        };
        let network = Arc::new(Mutex::new(network));
        let nodes = (0..nodes).map(|node| start(node, &network));
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
        let mut command = command_with_pipes(program);
        for variable in &node.welcome.environment {
            command.env(&variable.name, &variable.value);
        }
        command
            .env("PMIX_NAMESPACE", self.nspace.as_str())
            .env("PMIX_RANK", rank.to_string());
        command
    }

    /// Returns the environment of a proc, by which it finds its server.
    pub fn environment(&self, rank: u32) -> Environment {
        let node = &self.nodes[(rank / self.procs_per_node) as usize];
        Environment::from(|name| match name {
            "PMIX_NAMESPACE" => Some(self.nspace.as_str().into()),
            "PMIX_RANK" => Some(rank.to_string().into()),
            name => {
                let mut variables = node.welcome.environment.iter();
                let found = variables.find(|variable| variable.name == name);
                found.map(|variable| variable.value.clone().into())
            }
        })
        .unwrap()
    }

    /// Returns the command for a tool of a node's server.
    pub fn tool(&self, node: usize, program: &Path) -> Command {
        let mut command = command_with_pipes(program);
        command.env("PMIX_SERVER_URI41", &self.nodes[node].welcome.uri);
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

    /// Returns the log requests so far.
    pub fn logged(&self) -> Vec<LoggedKeys> {
        self.network().logged.clone()
    }

    /// Returns the targets of job control so far, as they were named.
    pub fn controlled(&self) -> Vec<Vec<Proc>> {
        self.network().controlled.clone()
    }

    /// Returns the operations on groups that servers asked for so far.
    pub fn asked_groups(&self) -> Vec<AskedGroup> {
        self.network().asked_groups.clone()
    }

    /// Delivers output of a proc, empty at its end.
    #[track_caller]
    pub fn deliver(&self, rank: u32, output: &str) {
        let request = HostRequest::ForwardOutput {
            source: Proc::new(self.nspace.clone(), Rank(rank)),
            channel: IofChannel::STDOUT,
            data: Bytes::from(output.as_bytes()),
            infos: Vec::new(),
        };
        let node = (rank / self.procs_per_node) as usize;
        assert_eq!(self.request(node, request), Ok(HostReply::Done));
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
        let server = self.nodes[node].server.as_mut().unwrap();
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
            if let Some(server) = &mut node.server {
                let _ = server.wait();
            }
            if let Some(reader) = node.reader.take() {
                let _ = reader.join();
            }
        }
    }
}

fn command_with_pipes(program: &Path) -> Command {
    let mut command = Command::new(program);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Returns the command for the server of a node, without its socket. It reads `peal.toml` in `dir`
/// if there is one.
pub fn server_command(dir: &Path, node: usize) -> Command {
    let runtime = dir.join(format!("n{node}"));
    std::fs::create_dir_all(&runtime).unwrap();
    let mut command = peal(["host-server"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .env("PMIX_SYSTEM_TMPDIR", &runtime)
        .env("PEAL_ADMIN_SOCKET", runtime.join("admin.sock"))
        .env_remove("PMIX_SERVER_TMPDIR");
    let config = dir.join("peal.toml");
    if config.exists() {
        command.env("PEAL_CONFIG", config);
    }
    command
}

fn start_node(dir: &Path, node: usize, network: &Arc<Mutex<Network>>) -> Node {
    let (own, theirs) = UnixStream::pair().unwrap();
    let mut command = server_command(dir, node);
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    let conduct = network.lock().unwrap().conduct;
    if conduct == Conduct::Silent {
        command.env("PEAL_HOSTS_ANSWER_TIMEOUT_MS", SHORT_TIMEOUT_MS);
    }
    let server = command.spawn().unwrap();
    // The command holds the other end, which must close when the server ends.
    drop(command);
    let node = greet(own, node, network);
    Node {
        server: Some(server),
        ..node
    }
}

/// Says hello to the server at the other end of a socket, and follows its messages.
fn greet(mut own: UnixStream, node: usize, network: &Arc<Mutex<Network>>) -> Node {
    let conduct = network.lock().unwrap().conduct;
    let hello = StubMessage::Hello(StubHello {
        protocol: PROTOCOL,
        release: "test".to_owned(),
        name: None,
        infos: Vec::new(),
        offered: conduct.offered(),
    });
    own.write_all(&encode(&hello, FrameLimit::default()).unwrap())
        .unwrap();
    let mut messages = Messages {
        stream: own.try_clone().unwrap(),
        decoder: MessageDecoder::new(FrameLimit::default()),
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
                ServerMessage::Notice(notice) => network.notice(node, notice),
                other => panic!("unexpected message {other:?}"),
            }
        }
    });
    Node {
        server: None,
        welcome,
        reader: Some(reader),
    }
}

/// Messages of a server.
struct Messages {
    stream: UnixStream,
    decoder: MessageDecoder,
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
