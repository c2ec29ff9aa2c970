//! Connected procs of two jobs: unmodified `libpmix` programs at one server, and the effects on a
//! connect if one of them goes.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test may panic"
)]
use peal_client::{Client, ClientError};
use peal_core::server::Purpose;
use peal_model::{Info, Infos, KeyName, Nspace, Proc, Scope, Value, code, key};
use peal_needs::needs;
use peal_server::{InProcessNetwork, ServerSettings, client_environment};
use peal_tests::{
    Done, c_program, finish,
    in_process::{Node, begin, everything, listener, next, soon},
    libpmix::Release,
};
use std::process::{Command, Stdio};

const JOBS: [&str; 2] = ["one", "two"];

async fn node() -> Node {
    let node = Node::start(
        ServerSettings::default(),
        &InProcessNetwork::new(),
        JOBS[0],
        2,
    )
    .await;
    node.add_job(JOBS[1], 2).await;
    node
}

fn all(job: &str) -> Proc {
    Proc::all(Nspace::new(job).unwrap())
}

fn both() -> [Proc; 2] {
    JOBS.map(all)
}

/// Placement of two jobs.
#[derive(Clone, Copy, Debug)]
enum At {
    OneServer,
    TwoServers,
}

impl At {
    const ALL: [At; 2] = [At::OneServer, At::TwoServers];

    /// Starts the servers. Returns them and the address of each job's server.
    async fn start(self) -> (Vec<Node>, [String; 2]) {
        let nodes = match self {
            At::OneServer => vec![node().await],
            At::TwoServers => two_nodes().await,
        };
        let uris = [nodes.first(), nodes.last()].map(|node| node.unwrap().server.uri().to_string());
        (nodes, uris)
    }
}

/// Starts two servers with a job of two procs each.
async fn two_nodes() -> Vec<Node> {
    let network = InProcessNetwork::new();
    let mut nodes = Vec::new();
    for job in JOBS {
        nodes.push(Node::start(ServerSettings::default(), &network, job, 2).await);
    }
    nodes
}

/// Returns the output of each proc of two jobs of two procs, each job with its release.
async fn connected(at: At, releases: [&Release; 2], args: &[&str]) -> Vec<(String, Done)> {
    let program = c_program("connect");
    let (_nodes, uris) = at.start().await;
    let jobs = JOBS.iter().zip(JOBS.iter().rev()).zip(releases).zip(&uris);
    let procs = jobs.flat_map(|(((job, other), release), uri)| {
        let program = &program;
        (0..2).map(move |rank| {
            let mut command = Command::new(program);
            let variables = client_environment(
                &Nspace::new(job).unwrap(),
                "node",
                peal_model::Rank(rank),
                uri,
            );
            command.envs(variables).arg(other).args(args);
            release
                .of(&mut command)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            (format!("{job}:{rank}"), command.spawn().unwrap())
        })
    });
    let procs: Vec<_> = procs.collect();
    let ended = procs.into_iter().map(|(proc, child)| (proc, finish(child)));
    tokio::task::block_in_place(|| ended.collect())
}

/// Returns the output without the rank, with the names of release 4.2.
fn printed(done: &Done) -> String {
    let said = done.stdout.replace("PMIX_SUCCESS", "SUCCESS");
    said.lines()
        .map(|line| line.split_once(": ").unwrap().1.to_owned() + "\n")
        .collect()
}

const KNOWN: &str = "connect: SUCCESS (0)
pmix.job.size of the job: uint32 2
pmix.lrank of 0: uint16 0
test.posted of 0: uint32 1000
pmix.lrank of 1: uint16 1
test.posted of 1: uint32 1001
fence: SUCCESS (0)
";

const PARTED: &str = "disconnect: SUCCESS (0)\nfinalize: SUCCESS (0)\n";

#[needs(prepared, libpmix, openmpi5)]
#[tokio::test(flavor = "multi_thread")]
async fn procs_of_two_jobs_know_of_each_other_until_they_disconnect() {
    let releases = Release::all();
    let [first, newer, peal] = &releases;
    // The runs use each library alone, and two of them in one job each.
    let together =
        releases
            .iter()
            .map(|one| [one, one])
            .chain([[first, newer], [first, peal], [peal, newer]]);
    for (pair, at) in together.flat_map(|pair| At::ALL.map(|at| (pair, at))) {
        let ended = connected(at, pair, &[]).await;
        for (proc, done) in ended {
            assert_eq!(
                printed(&done),
                format!("{KNOWN}{PARTED}"),
                "{at:?} {pair:?} {proc}: {}",
                done.stderr
            );
        }
    }
}

#[needs(prepared, libpmix, openmpi5)]
#[tokio::test(flavor = "multi_thread")]
async fn connected_procs_receive_a_death() {
    for (release, at) in Release::all()
        .into_iter()
        .flat_map(|release| At::ALL.map(|at| (release.clone(), at)))
    {
        let ended = connected(at, [&release; 2], &["1"]).await;
        for (proc, done) in ended {
            let then = match proc.as_str() {
                "one:0" => PARTED.to_owned(),
                "one:1" => String::new(),
                _ => format!("hears -200 about other:1\n{PARTED}"),
            };
            assert_eq!(
                printed(&done),
                format!("{KNOWN}{then}"),
                "{at:?} {release:?} {proc}: {}",
                done.stderr
            );
        }
    }
}

async fn refused(client: &Client, procs: &[Proc], infos: &[Info]) -> peal_model::Status {
    match soon("connect is answered", client.connect_procs(procs, infos)).await {
        Err(ClientError::Refused { status, .. }) => status,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_with_gone_unknown_or_absent_proc_does_not_wait() {
    let node = node().await;
    let one = node.client_of("one", 0).await;
    let two = node.client_of("two", 0).await;
    let pair = [one.me().clone(), two.me().clone()];
    let timeout = [Info::new(key::PMIX_TIMEOUT, Value::Uint32(1))];
    assert_eq!(refused(&one, &pair, &timeout).await, code::PMIX_ERR_TIMEOUT);
    let waits = one.clone();
    let named = pair.clone();
    let waits = begin(async move { refused(&waits, &named, &[]).await }).await;
    // The next request of this client follows the earlier ones, so those were processed.
    two.connect_procs(&[two.me().clone()], &[]).await.unwrap();
    two.finalize().await.unwrap();
    assert_eq!(
        soon("the wait ends", waits).await.unwrap(),
        code::PMIX_ERR_LOST_CONNECTION
    );
    assert_eq!(
        refused(&one, &pair, &[]).await,
        code::PMIX_ERR_LOST_CONNECTION
    );
    assert_eq!(
        refused(&one, &[one.me().clone(), all("three")], &[]).await,
        code::PMIX_ERR_NOT_FOUND
    );
    assert_eq!(
        refused(&one, &[all("two")], &[]).await,
        code::PMIX_ERR_BAD_PARAM
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_is_independent_of_fences_and_ends_at_disconnect() {
    let node = node().await;
    let mut clients = Vec::new();
    for job in JOBS {
        for rank in 0..2 {
            clients.push(node.client_of(job, rank).await);
        }
    }
    let [one, _, two, dies] = &clients[..] else {
        panic!()
    };
    let (handler, mut hears) = listener();
    one.register(&[code::PMIX_ERR_PROC_TERM_WO_SYNC], everything(), handler)
        .await
        .unwrap();
    let pair = [one.me().clone(), two.me().clone()];
    let fence = one.within(std::time::Duration::from_millis(200));
    let connect = two.clone();
    let (fenced, connected) = tokio::join!(fence.fence(&pair, &[]), async {
        let timeout = [Info::new(key::PMIX_TIMEOUT, Value::Uint32(1))];
        connect.connect_procs(&pair, &timeout).await
    });
    assert!(
        matches!(fenced, Err(ClientError::TimedOut { .. })),
        "{fenced:?}"
    );
    assert_eq!(connected.unwrap_err().status(), code::PMIX_ERR_TIMEOUT);

    let everybody = |call: &'static str| {
        let calls = clients.iter().cloned().map(move |client| async move {
            match call {
                "connect" => client.connect_procs(&both(), &[]).await.unwrap(),
                _ => client.disconnect_procs(&both(), &[]).await.unwrap(),
            }
        });
        calls.map(tokio::spawn).collect::<Vec<_>>()
    };
    for call in ["connect", "disconnect", "connect"] {
        for done in everybody(call) {
            soon(call, done).await.unwrap();
        }
    }
    let size = one
        .get(
            &all("two"),
            key::PMIX_JOB_SIZE,
            &[Info::new(key::PMIX_OPTIONAL, Value::Bool(true))],
        )
        .await;
    assert_eq!(
        size.unwrap(),
        Value::Uint32(2),
        "its job data came with the answer"
    );
    node.server.handle().proc_ended(dies.me().clone(), None);
    let event = next(&mut hears).await;
    assert_eq!(
        event.infos.value_of(key::PMIX_EVENT_AFFECTED_PROC),
        Some(&Value::Proc(dies.me().clone()))
    );
}

/// Starts two servers with a job of two procs each, and a client for each proc.
async fn across() -> (Vec<Node>, Vec<Client>) {
    let nodes = two_nodes().await;
    let mut clients = Vec::new();
    for (node, job) in nodes.iter().zip(JOBS) {
        for rank in 0..2 {
            clients.push(node.client_of(job, rank).await);
        }
    }
    (nodes, clients)
}

/// Connects or disconnects all of them.
async fn all_of(clients: &[Client], purpose: Purpose) {
    let calls = clients.iter().cloned().map(|client| async move {
        match purpose {
            Purpose::Disconnect => client.disconnect_procs(&both(), &[]).await,
            Purpose::Connect | Purpose::Fence => client.connect_procs(&both(), &[]).await,
        }
    });
    for call in calls.map(tokio::spawn).collect::<Vec<_>>() {
        soon("all have called it", call).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn procs_of_two_servers_know_each_other_until_disconnect() {
    let (nodes, clients) = across().await;
    let [one, _, two, dies] = &clients[..] else {
        panic!()
    };
    let word = KeyName("test.word");
    two.put(Scope::Global, word.into(), Value::string("here"));
    two.commit().await.unwrap();
    let at_once = [Info::new(key::PMIX_IMMEDIATE, Value::Bool(true))];
    assert!(
        one.get(two.me(), word, &at_once).await.is_err(),
        "nothing is known of it before"
    );
    for _ in 0..2 {
        all_of(&clients, Purpose::Connect).await;
        let size = one
            .get(
                &all("two"),
                key::PMIX_JOB_SIZE,
                &[Info::new(key::PMIX_OPTIONAL, Value::Bool(true))],
            )
            .await;
        assert_eq!(
            size.unwrap(),
            Value::Uint32(2),
            "its job data came with the answer"
        );
        assert_eq!(
            one.get(two.me(), word, &at_once).await.unwrap(),
            Value::string("here")
        );
        let pair = [one.me().clone(), two.me().clone()];
        let met = soon("they meet", async {
            tokio::join!(one.fence(&pair, &[]), two.fence(&pair, &[]))
        })
        .await;
        assert!(met.0.is_ok() && met.1.is_ok(), "{met:?}");
        all_of(&clients, Purpose::Disconnect).await;
    }
    let error = one
        .fence(&[one.me().clone(), two.me().clone()], &[])
        .await
        .unwrap_err();
    assert_eq!(
        error.status(),
        code::PMIX_ERR_INVALID_NAMESPACE,
        "they do not know of each other any more"
    );

    all_of(&clients, Purpose::Connect).await;
    let (handler, mut hears) = listener();
    one.register(&[code::PMIX_ERR_PROC_TERM_WO_SYNC], everything(), handler)
        .await
        .unwrap();
    // A client that finalizes causes no event.
    two.clone().finalize().await.unwrap();
    nodes[1].server.handle().proc_ended(dies.me().clone(), None);
    let event = next(&mut hears).await;
    assert_eq!(
        event.infos.value_of(key::PMIX_EVENT_AFFECTED_PROC),
        Some(&Value::Proc(dies.me().clone()))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connect_with_gone_proc_of_another_server_does_not_wait() {
    let (nodes, clients) = across().await;
    let [one, _, two, other] = &clients[..] else {
        panic!()
    };
    let pair = [one.me().clone(), two.me().clone()];
    let timeout = [Info::new(key::PMIX_TIMEOUT, Value::Uint32(1))];
    assert_eq!(refused(one, &pair, &timeout).await, code::PMIX_ERR_TIMEOUT);
    assert_eq!(
        refused(one, &[all("two")], &[]).await,
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(
        refused(one, &[one.me().clone(), all("three")], &[]).await,
        code::PMIX_ERR_NOT_FOUND
    );
    let disconnected = one.disconnect_procs(&pair, &[]).await.unwrap_err();
    assert_eq!(
        disconnected.status(),
        code::PMIX_ERR_NOT_FOUND,
        "{disconnected}"
    );
    for (gone, dies) in [(two, false), (other, true)] {
        let named = [one.me().clone(), gone.me().clone()];
        let waits = one.clone();
        let waits = begin(async move { refused(&waits, &named, &[]).await }).await;
        // The next request of this client follows the earlier ones, so those were processed.
        one.connect_procs(&[one.me().clone()], &[]).await.unwrap();
        if dies {
            nodes[1].server.handle().proc_ended(gone.me().clone(), None);
        } else {
            gone.clone().finalize().await.unwrap();
        }
        assert_eq!(
            soon("the wait ends", waits).await.unwrap(),
            code::PMIX_ERR_LOST_CONNECTION
        );
    }
}
