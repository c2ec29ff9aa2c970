//! Tools: their search for a server, the permission to attach, and the answers that they get.
use peal_client::{AttachTarget, Tool, ToolSettings};
use peal_model::{
    CommandCode, Info, Infos, KeyName, Nspace, Proc, Query, Rank, Reply, Request, Scope, Value,
    code, key,
};
use peal_needs::needs;
use peal_server::ServerSettings;
use peal_tests::{
    Done, c_program, finish,
    in_process::{Node, everything, listener, next, soon},
    peal,
    raw_client::{Peer, RawClient, encoded, hello},
    run,
};
use peal_wire::{ClaimedUser, Hello, PeerKind, ToolIdentifier, Welcome};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader, Write},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// Running `peal run` with a directory of its own for system rendezvous files.
struct ShellJob {
    dir: TempDir,
    peal: Child,
}

impl ShellJob {
    /// Starts a job and waits until one of its procs has printed that it is ready.
    fn start(dir: TempDir, args: &[&str]) -> ShellJob {
        let mut command = peal(["run"]);
        command
            .args(args)
            .env("PMIX_SYSTEM_TMPDIR", dir.path())
            .env_remove("PMIX_SERVER_TMPDIR");
        let mut peal = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(peal.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        peal.stdout = Some(output.into_inner());
        ShellJob { dir, peal }
    }

    fn asleep(args: &[&str]) -> ShellJob {
        ShellJob::start(
            tempfile::tempdir().unwrap(),
            &[args, &["--", "sh", "-c", "echo ready; exec sleep 1000"]].concat(),
        )
    }

    /// Returns a tool that finds this server and no other.
    fn tool(&self, program: impl Into<PathBuf>, args: &[&str]) -> Command {
        let mut command = Command::new(program.into());
        command
            .args(args)
            .env("PMIX_SYSTEM_TMPDIR", self.dir.path())
            .env_remove("PMIX_SERVER_URI41");
        command
    }

    /// Returns its rendezvous files.
    fn files(&self) -> Vec<String> {
        files(&self.dir)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.peal.id().cast_signed()).unwrap(), signal).unwrap();
    }

    fn ends(self, signal: Signal) -> TempDir {
        self.signal(signal);
        finish(self.peal);
        self.dir
    }
}

fn files(dir: &TempDir) -> Vec<String> {
    let session = dir
        .path()
        .join(format!("peal-{}", rustix::process::geteuid().as_raw()));
    let names = session
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("pmix.")).collect()
}

#[needs(prepared, libpmix)]
#[test]
fn tool_of_c_library_learns_procs_and_nodes() {
    let tool = c_program("tool");
    let running = ShellJob::asleep(&["-n", "2"]);
    let proc = |rank: u32| format!("proc {rank}: sh on this host, with a process, state 5");
    for (args, name) in [
        (&[][..], "a tool with a given name"),
        (&["some.name.7"][..], "some.name.7"),
    ] {
        let done = run(&mut running.tool(&tool, args)).expect_status(0);
        let lines: Vec<&str> = done.stdout.lines().collect();
        let wanted = [
            &format!("I am {name}"),
            "namespaces: one job",
            "a job runs: sh -c echo ready; exec sleep 1000",
            &proc(0),
            &proc(1),
            "a proc table of nobody: NOT-FOUND",
            "what nobody knows: NOT-FOUND",
            "its size: 2",
        ];
        assert_eq!(lines, wanted, "{done:?}");
    }
    running.ends(Signal::TERM);
}

#[needs(prepared)]
#[tokio::test]
async fn tool_of_peal_finds_server_by_process_and_returns() {
    let running = ShellJob::asleep(&[]);
    let mut settings = ToolSettings::from(|_| None).unwrap();
    settings.attach = AttachTarget::Pid(running.peal.id());
    settings.places.directory = running.dir.path().to_owned();
    let mut names = Vec::new();
    for attempt in 1..=2 {
        let tool = soon("a tool connects", Tool::init(settings.clone()))
            .await
            .unwrap();
        let keys = vec![Some(key::PMIX_QUERY_NAMESPACES.0.into())];
        let found = soon(
            "a query",
            tool.query(&[Query {
                keys,
                qualifiers: Vec::new(),
            }]),
        )
        .await
        .unwrap();
        let namespaces = found
            .infos
            .value_of(key::PMIX_QUERY_NAMESPACES)
            .and_then(Value::as_str)
            .unwrap()
            .to_owned();
        assert!(namespaces.ends_with("@1"), "{namespaces}");
        assert!(
            tool.me().nspace.as_str().ends_with("-tool-1"),
            "attempt {attempt}: {}",
            tool.me()
        );
        // The next time, the tool sends the name that it was given.
        settings.me = Some(tool.me().clone());
        names.push(tool.me().clone());
        soon("a tool leaves", tool.finalize()).await.unwrap();
    }
    assert_eq!(names[0], names[1]);
    running.ends(Signal::TERM);
}

#[needs(prepared, libpmix)]
#[test]
fn a_tool_that_a_job_starts_is_its_proc() {
    let tool = c_program("tool");
    let done = run(peal(["run", "--", tool.to_str().unwrap()])
        .env("PMIX_SYSTEM_TMPDIR", tempfile::tempdir().unwrap().path()));
    let first = done.stdout.lines().next().unwrap_or_default();
    assert!(
        first.starts_with("I am peal-") && first.ends_with("@1"),
        "{done:?}"
    );
    assert!(done.expect_status(0).stdout.ends_with("its size: 1\n"));
}

#[needs(prepared)]
#[test]
fn files_of_killed_server_are_removed_by_next_one() {
    let running = ShellJob::asleep(&[]);
    let mut left = running.files();
    assert_eq!(left.len(), 3, "{left:?}");
    let dir = running.ends(Signal::KILL);
    assert_eq!(files(&dir).len(), 3, "a killed server removes no files");
    let next = ShellJob::start(dir, &["--", "sh", "-c", "echo ready; exec sleep 1000"]);
    left.retain(|name| next.files().contains(name));
    assert_eq!((left, next.files().len()), (Vec::new(), 3));
    assert_eq!(files(&next.ends(Signal::TERM)), Vec::<String>::new());
}

/// Returns the handshake of a tool of this user.
fn greeting(kind: impl FnOnce(ClaimedUser) -> PeerKind) -> Hello {
    let user = ClaimedUser {
        uid: rustix::process::geteuid().as_raw(),
        gid: rustix::process::getegid().as_raw(),
    };
    Hello {
        peer: kind(user),
        release: "4.2.2".parse().unwrap(),
        ..hello(proc("unused", 0))
    }
}

fn proc(nspace: &str, rank: u32) -> Proc {
    Proc::new(Nspace::new(nspace).unwrap(), Rank(rank))
}

async fn attach(node: &Node, hello: &Hello) -> Option<Peer> {
    RawClient::connect(node).await.greet(hello).await
}

async fn reply(peer: &mut Peer, command: CommandCode, request: &Request) -> Reply {
    peer.request(101, request).await;
    let frame = peer.next().await.expect("the connection is still there");
    peer.codec.decode_reply(command, &frame.payload).unwrap()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_tool_is_welcomed_in_its_form() {
    let node = Node::alone(ServerSettings::default(), 2).await;
    let server = node.server.uri().proc.clone();
    let welcome = |name: Option<Proc>| Welcome::Tool {
        name,
        server: server.clone(),
        security: code::PMIX_SUCCESS,
    };
    let own = |name: &str| ToolIdentifier::Own(proc(name, 3));
    let started = || ToolIdentifier::Started(node.proc(1));
    // A tool with a name of its own sends the same identifier as one that a proc of a job started.
    let stray = || ToolIdentifier::Started(proc("a.stray", 3));
    let kinds: [(Hello, Option<Proc>); 7] = [
        (
            greeting(|user| PeerKind::Tool(user, ToolIdentifier::Wanted)),
            Some(proc("server-tool-1", 0)),
        ),
        (
            greeting(|user| PeerKind::Launcher(user, ToolIdentifier::Wanted)),
            Some(proc("server-tool-2", 0)),
        ),
        (greeting(|user| PeerKind::Tool(user, own("a.tool"))), None),
        (
            greeting(|user| PeerKind::Launcher(user, own("a.launcher"))),
            None,
        ),
        (greeting(|user| PeerKind::Tool(user, stray())), None),
        (greeting(|user| PeerKind::Tool(user, started())), None),
        (greeting(|user| PeerKind::Launcher(user, started())), None),
    ];
    let mut connected = Vec::new();
    for (hello, name) in kinds {
        let peer = attach(&node, &hello).await.expect("a tool is welcome");
        assert_eq!(peer.welcome, welcome(name), "{:?}", hello.peer);
        connected.push(peer);
    }
    // The last two are clones of a rank, and have its data. The others have their own.
    for (at, nspace) in [
        "server-tool-1",
        "server-tool-2",
        "a.tool",
        "a.launcher",
        "a.stray",
        "job",
        "job",
    ]
    .iter()
    .enumerate()
    {
        let Reply::JobData(info) =
            reply(&mut connected[at], CommandCode::JobData, &Request::JobData).await
        else {
            panic!("no job data")
        };
        assert_eq!(info.nspace.as_str(), *nspace);
    }
    assert_eq!(node.server.counters().connections_open.get(), 7);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn tool_receives_and_raises_events_and_finalizes() {
    let node = Node::alone(ServerSettings::default(), 1).await;
    let client = node.client(0).await;
    let (handler, mut heard) = listener();
    let news = peal_model::Status(-3100);
    client
        .register(&[news], everything(), handler)
        .await
        .unwrap();
    let mut tool = attach(
        &node,
        &greeting(|user| PeerKind::Tool(user, ToolIdentifier::Wanted)),
    )
    .await
    .unwrap();
    tool.request(
        101,
        &Request::RegisterEvents {
            codes: vec![news],
            infos: Vec::new(),
        },
    )
    .await;
    assert_eq!(tool.status(101).await, code::PMIX_SUCCESS);
    tool.request(
        102,
        &Request::Notify {
            code: news,
            range: peal_model::Range::Session,
            infos: Vec::new(),
        },
    )
    .await;
    assert_eq!(tool.status(102).await, code::PMIX_SUCCESS);
    assert_eq!(
        next(&mut heard).await.source,
        Some(proc("server-tool-1", 0))
    );
    client
        .notify(news, peal_model::Range::Session, Vec::new())
        .await
        .unwrap();
    let event = tool.next().await.unwrap();
    assert_eq!(
        tool.codec.decode_event(&event.payload).unwrap().source,
        Some(node.proc(0))
    );
    // The embedded host environment does not know this key, so the status is "not found".
    let queries = vec![Query {
        keys: vec![Some(key::PMIX_QUERY_QUEUE_LIST.0.into())],
        qualifiers: Vec::new(),
    }];
    tool.request(103, &Request::Query { queries }).await;
    assert_eq!(tool.status(103).await, code::PMIX_ERR_NOT_FOUND);
    // The tool is the only participant, so the fence does not wait.
    tool.request(
        104,
        &Request::Fence {
            procs: Vec::new(),
            infos: Vec::new(),
        },
    )
    .await;
    assert_eq!(tool.status(104).await, code::PMIX_SUCCESS);
    tool.request(105, &Request::Finalize).await;
    assert_eq!(tool.status(105).await, code::PMIX_SUCCESS);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn names_are_taken_once_and_tools_are_counted() {
    let core = peal_core::server::StateSettings {
        max_tools: 2,
        ..Default::default()
    };
    let node = Node::alone(
        ServerSettings {
            core,
            ..ServerSettings::default()
        },
        1,
    )
    .await;
    let named =
        |name: &str| greeting(|user| PeerKind::Tool(user, ToolIdentifier::Own(proc(name, 0))));
    let first = attach(&node, &named("first")).await.expect("a free name");
    for taken in ["first", "job", "server", "server-tool-9"] {
        assert!(attach(&node, &named(taken)).await.is_none(), "{taken}");
    }
    let _second = attach(&node, &named("second"))
        .await
        .expect("a second tool");
    assert!(
        attach(&node, &named("third")).await.is_none(),
        "there may be two"
    );
    assert_eq!(node.server.counters().connections_refused.get(), 5);
    drop(first);
    let again = async { while attach(&node, &named("first")).await.is_none() {} };
    soon("the name is free again", again).await;
}

/// Sends these bytes to a port as another user, and prints the number of bytes in the answer.
fn answer_to(user: u32, port: u16, bytes: &[u8]) -> Done {
    let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat >&3; head -c 4 <&3 | wc -c");
    let mut command = Command::new("bash");
    command.args(["-c", &script]).uid(user).gid(user);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    finish(child)
}

#[needs(root)]
#[tokio::test(flavor = "multi_thread")]
async fn tool_of_user_without_job_is_refused_and_lying_one_counted() {
    let node = Node::alone(ServerSettings::default(), 1).await;
    let port = node.server.uri().addr.port();
    let tool = |uid: u32, gid: u32| {
        let user = ClaimedUser { uid, gid };
        let credential = peal_wire::Credential::Native(user);
        encoded(&Hello {
            credential,
            ..greeting(|_| PeerKind::Tool(user, ToolIdentifier::Wanted))
        })
    };
    let impostors = || node.server.counters().connections_identity_mismatch.get();
    let answer = async |bytes: Vec<u8>| {
        let done = tokio::task::spawn_blocking(move || answer_to(65_534, port, &bytes))
            .await
            .unwrap();
        done.expect_status(0).stdout.trim().to_owned()
    };
    assert_eq!(
        (answer(tool(65_534, 65_534)).await.as_str(), impostors()),
        ("0", 0),
        "no job is theirs"
    );
    let spec = peal_core::job::JobSpec::new(
        Nspace::new("theirs").unwrap(),
        1,
        "node",
        peal_model::UserIdentity {
            uid: 65_534,
            gid: 65_534,
        },
    );
    node.server.handle().add_job(spec).await.unwrap();
    assert_eq!(answer(tool(65_534, 65_534)).await, "4", "now one is");
    assert_eq!(
        (answer(tool(0, 65_534)).await.as_str(), impostors()),
        ("0", 1),
        "another user"
    );
    assert_eq!(
        (answer(tool(65_534, 0)).await.as_str(), impostors()),
        ("0", 2),
        "another group"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_other_users_procs_are_not_given() {
    let node = Node::alone(ServerSettings::default(), 1).await;
    let uid = rustix::process::geteuid().as_raw();
    let spec = peal_core::job::JobSpec::new(
        Nspace::new("theirs").unwrap(),
        1,
        "node",
        peal_model::UserIdentity {
            uid: uid + 1,
            gid: 0,
        },
    );
    node.server.handle().add_job(spec).await.unwrap();
    let client = node.client(0).await;
    let theirs = Proc::all(Nspace::new("theirs").unwrap());
    let get = client.get(&theirs, key::PMIX_JOB_SIZE, &[]).await;
    match (uid, get) {
        (0, got) => assert_eq!(got.unwrap(), Value::Uint32(1), "root may see everything"),
        (_, got) => assert_eq!(got.unwrap_err().status(), code::PMIX_ERR_NO_PERMISSIONS),
    }
    client.put(Scope::Global, KeyName("test.key").into(), Value::Bool(true));
    client.commit().await.unwrap();
    let mine = client
        .get(
            client.me(),
            KeyName("test.key"),
            &[Info::new(key::PMIX_IMMEDIATE, Value::Bool(true))],
        )
        .await;
    assert_eq!(mine.unwrap(), Value::Bool(true));
}
