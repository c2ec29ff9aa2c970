//! `PMIx_Log` through a channel component to the output of the requester's job, without delay of
//! other requests.
use peal_client::{Client, ClientError, Environment};
use peal_core::registration::ChainPlacement;
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{
    Info, InfoFlags, Infos, Key, KeyName, LogRequest, Nspace, Proc, Query, Range, Rank, Status,
    Value, code, key,
};
use peal_needs::needs;
use peal_sandbox::{
    Capability, Engine, EngineSettings, Grants, Module, ModuleLimits, Services, Sink,
};
use peal_server::{
    HostEnvironment, Hosted, HostedChannels, InProcessNetwork, Notices, ServerSettings,
    UpcallFuture,
    admin::{
        self, AdminChannel, AdminParts, AdminReply, AdminRequest, NewJob, SocketClaim,
        WatcherLimits,
    },
};
use peal_tests::{
    Done, c_program, guest,
    in_process::{Modules, Node, listener, next, soon},
    peal, run,
};
use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

const BOARD: KeyName = KeyName("site.log.board");

/// Destination of a test's channel.
#[derive(Default)]
struct Paper {
    written: Mutex<Vec<String>>,
    /// True if writes complete; otherwise they wait until it is set.
    ink: Mutex<bool>,
    filled: Condvar,
    refuses: Option<Status>,
}

impl Paper {
    fn with_ink() -> Paper {
        Paper {
            ink: Mutex::new(true),
            ..Paper::default()
        }
    }

    fn fill(&self) {
        *self.ink.lock().unwrap() = true;
        self.filled.notify_all();
    }

    fn written(&self) -> Vec<String> {
        self.written.lock().unwrap().clone()
    }
}

impl Sink for Paper {
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        drop(
            self.filled
                .wait_while(self.ink.lock().unwrap(), |ink| !*ink)
                .unwrap(),
        );
        if let Some(status) = self.refuses {
            return Err(status);
        }
        let source = request
            .source
            .as_ref()
            .map(Proc::to_string)
            .unwrap_or_default();
        let text = String::from_utf8_lossy(bytes);
        self.written
            .lock()
            .unwrap()
            .push(format!("{source}: {text}"));
        Ok(())
    }
}

/// Host environment that writes to one log channel, and records the requests.
#[derive(Default)]
struct Board(Mutex<Vec<Vec<Info>>>);

impl HostEnvironment for Board {
    fn log(
        &self,
        _: Proc,
        channel: Key,
        _timestamp: u64,
        data: Vec<Info>,
        _: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        let known = channel == KeyName("pmix.log.board");
        if known {
            self.0.lock().unwrap().push(data);
        }
        Box::pin(std::future::ready(if known {
            Ok(())
        } else {
            Err(code::PMIX_ERR_NOT_SUPPORTED)
        }))
    }
}

/// Starts a server with the channels stdout and stderr on these destinations, and a job of two
/// procs.
async fn node(settings: ServerSettings, out: &Arc<Paper>, err: &Arc<Paper>) -> (Node, Arc<Board>) {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let (out, err): (Arc<dyn Sink>, Arc<dyn Sink>) = (out.clone(), err.clone());
    let sinks = [("stdout".to_owned(), out), ("stderr".to_owned(), err)].into();
    let patience = Duration::from_secs(60);
    let limits = ModuleLimits {
        call_time: patience,
        host_call_time: patience,
        ..ModuleLimits::default()
    };
    let bytes = std::fs::read(guest("stdio")).unwrap();
    let grants = [Capability::Sink].into_iter().collect::<Grants>();
    let stdio = Module::load(
        &engine,
        "stdio",
        &bytes,
        &grants,
        limits,
        Services {
            sinks,
            ..Services::default()
        },
    )
    .unwrap();
    let mut channels = HostedChannels::default();
    let keys = vec![
        Key::from(key::PMIX_LOG_STDOUT),
        Key::from(key::PMIX_LOG_STDERR),
    ];
    let stdio = Arc::new(stdio);
    channels
        .register("stdio", keys.clone(), ChainPlacement::Append, stdio.clone())
        .unwrap();
    let twice = channels
        .register("again", keys, ChainPlacement::Append, stdio)
        .unwrap_err();
    assert_eq!(
        twice.to_string(),
        "pmix.log.stdout is served by \"stdio\" already; only one module may"
    );
    let host = Arc::new(Board::default());
    let modules = Modules {
        hosted: Hosted {
            channels,
            ..Hosted::default()
        },
        ..Modules::default()
    };
    (
        Node::with(
            modules,
            host.clone(),
            settings,
            &InProcessNetwork::new(),
            "job",
            2,
        )
        .await,
        host,
    )
}

fn text(key: KeyName, text: &str) -> Info {
    Info::new(key, Value::string(text))
}

fn status<T>(outcome: Result<T, ClientError>) -> Status {
    outcome.map_or_else(|error| error.status(), |_| code::PMIX_SUCCESS)
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn channel_components_write_and_host_gets_other_channels() {
    let out = Arc::new(Paper::with_ink());
    let broken = Paper::with_ink();
    let broken = Arc::new(Paper {
        refuses: Some(code::PMIX_ERR_NO_PERMISSIONS),
        ..broken
    });
    let (node, host) = node(ServerSettings::default(), &out, &broken).await;
    let client = node.client(1).await;
    let log = async |data: &[Info]| {
        status(soon("a log request is answered", client.log(data, &[])).await)
    };
    let fine = text(key::PMIX_LOG_STDOUT, "fine");
    let fails = text(key::PMIX_LOG_STDERR, "fails");
    assert_eq!(log(std::slice::from_ref(&fine)).await, code::PMIX_SUCCESS);
    assert_eq!(out.written(), ["job:1: fine\n"]);
    assert_eq!(
        log(&[fails.clone(), fine.clone()]).await,
        code::PMIX_ERR_PARTIAL_SUCCESS
    );
    assert_eq!(log(std::slice::from_ref(&fails)).await, code::PMIX_ERROR);
    let required = Info {
        flags: InfoFlags::REQUIRED,
        ..fails
    };
    assert_eq!(
        log(&[required, fine.clone()]).await,
        code::PMIX_ERR_OPERATION_FAILED
    );
    assert_eq!(out.written().len(), 3, "the writable channels were written");
    let missing = Info {
        flags: InfoFlags::REQUIRED,
        ..text(KeyName("pmix.log.nowhere"), "lost")
    };
    assert_eq!(log(&[missing]).await, code::PMIX_ERR_OPERATION_FAILED);

    let board = text(KeyName("pmix.log.board"), "to all");
    let payload = text(BOARD, "payload");
    assert_eq!(
        log(&[fine, board.clone(), payload.clone()]).await,
        code::PMIX_SUCCESS
    );
    assert_eq!(
        *host.0.lock().unwrap(),
        [vec![board, payload]],
        "data for other channels do not go to the host environment"
    );
    assert_eq!(
        log(&[text(KeyName("pmix.log.nowhere"), "lost")]).await,
        code::PMIX_ERR_NOT_AVAILABLE
    );
    assert_eq!(
        log(&[Info::new(key::PMIX_LOG_STDOUT, Value::Bool(true))]).await,
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(log(&[]).await, code::PMIX_ERR_BAD_PARAM);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn equal_lines_of_many_procs_are_logged_once_with_count() {
    let out = Arc::new(Paper::with_ink());
    let err = Arc::new(Paper::with_ink());
    let mut settings = ServerSettings::default();
    // The window is longer than the test: the aggregated requests are logged when the server stops.
    settings.channels.log.aggregation.window = Duration::from_secs(3600);
    let (node, _) = node(settings, &out, &err).await;
    let alike = [
        text(key::PMIX_LOG_KEY, "help.txt"),
        text(key::PMIX_LOG_VAL, "no-route"),
    ];
    let clients = [node.client(0).await, node.client(1).await];
    for (rank, client) in [(0, &clients[0]), (1, &clients[1]), (0, &clients[0])] {
        let data = [text(
            key::PMIX_LOG_STDERR,
            &format!("rank {rank} has no route"),
        )];
        let told = status(soon("a log request is answered", client.log(&data, &alike)).await);
        assert_eq!(told, code::PMIX_SUCCESS);
    }
    assert_eq!(err.written(), ["job:0: rank 0 has no route\n"]);
    assert_eq!(node.server.counters().log_requests_aggregated.get(), 2);
    soon("the server stops", node.server.shutdown()).await;
    assert_eq!(
        err.written()[1..],
        ["job:0: 2 more of the same: help.txt / no-route\n"]
    );
    assert!(out.written().is_empty());
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn a_window_is_over_by_itself() {
    let out = Arc::new(Paper::with_ink());
    let err = Arc::new(Paper::with_ink());
    let mut settings = ServerSettings::default();
    settings.channels.log.aggregation.window = Duration::from_millis(20);
    let (node, _) = node(settings, &out, &err).await;
    let client = node.client(0).await;
    let alike = [
        text(key::PMIX_LOG_KEY, "help.txt"),
        text(key::PMIX_LOG_VAL, "no-route"),
    ];
    soon("the count is logged", async {
        while !out
            .written()
            .iter()
            .any(|line| line.ends_with(" more of the same: help.txt / no-route\n"))
        {
            client
                .log(&[text(key::PMIX_LOG_STDOUT, "no route")], &alike)
                .await
                .unwrap();
        }
    })
    .await;
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn lines_of_channel_without_clock_have_arrival_time() {
    let out = Arc::new(Paper::with_ink());
    let err = Arc::new(Paper::with_ink());
    let (node, _) = node(ServerSettings::default(), &out, &err).await;
    let client = node.client(0).await;
    let log = async |directive: Info| {
        let data = [text(key::PMIX_LOG_STDOUT, "dated")];
        status(soon("a log request is answered", client.log(&data, &[directive])).await)
    };
    assert_eq!(
        log(Info::new(key::PMIX_LOG_TIMESTAMP_OUTPUT, Value::Bool(true))).await,
        code::PMIX_SUCCESS
    );
    let written = out.written();
    let (time, words) = written[0]
        .strip_prefix("job:0: ")
        .unwrap()
        .split_once(' ')
        .unwrap();
    assert_eq!(words, "dated\n");
    assert!(
        time.starts_with("20") && time.ends_with('Z') && time.len() == 20,
        "{time}"
    );
    assert_eq!(
        log(Info::new(
            key::PMIX_LOG_TIMESTAMP_OUTPUT,
            Value::string("%H")
        ))
        .await,
        code::PMIX_ERR_BAD_PARAM
    );
    assert_eq!(out.written().len(), 1);
}

/// Returns the answer to a query for the log channels.
async fn channels(client: &Client) -> String {
    let keys = vec![Some(key::PMIX_QUERY_LOG_CHANNELS.0.into())];
    let found = soon(
        "a query",
        client.query(&[Query {
            keys,
            qualifiers: Vec::new(),
        }]),
    )
    .await
    .unwrap();
    assert!(!found.partial);
    found
        .infos
        .value_of(key::PMIX_QUERY_LOG_CHANNELS)
        .and_then(Value::as_str)
        .unwrap()
        .to_owned()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn query_returns_the_available_log_channels() {
    let out = Arc::new(Paper::with_ink());
    let err = Arc::new(Paper::with_ink());
    // This host environment answers no queries.
    let (node, _) = node(ServerSettings::default(), &out, &err).await;
    assert_eq!(
        channels(&node.client(0).await).await,
        "pmix.log.stdout,pmix.log.stderr"
    );
}

/// Host environment that never answers.
#[derive(Debug, Default)]
struct Mute(AtomicUsize);

impl HostEnvironment for Mute {
    fn log(
        &self,
        _: Proc,
        _: Key,
        _timestamp: u64,
        _data: Vec<Info>,
        _: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn request_delays_others_no_longer_than_its_time_limit() {
    let host = Arc::new(Mute::default());
    let mut settings = ServerSettings::default();
    settings.channels.host_timeout = Duration::from_millis(20);
    let node = Node::under(host.clone(), settings, &InProcessNetwork::new(), "job", 1).await;
    let client = node.client(0).await;
    let data: Vec<Info> = (0..60)
        .map(|at| {
            Info::new(
                Key::new(&format!("pmix.log.{at}")).unwrap(),
                Value::string("x"),
            )
        })
        .collect();
    let told = status(soon("a log request is answered", client.log(&data, &[])).await);
    assert_eq!(told, code::PMIX_ERROR);
    // Each channel but the last used its time limit.
    assert!(
        (1..=4).contains(&host.0.load(Ordering::SeqCst)),
        "{host:?} channels were tried"
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn slow_channel_delays_nothing_else_and_excess_is_refused() {
    let dry = Arc::new(Paper::default());
    let err = Arc::new(Paper::with_ink());
    let mut settings = ServerSettings::default();
    settings.channels.queue.requests = 1;
    let (node, _) = node(settings, &dry, &err).await;
    let client = node.client(0).await;
    let other = node.client(1).await;
    let (handler, mut heard) = listener();
    other
        .register(&[Status(-3101)], &[], handler)
        .await
        .unwrap();
    let data = [text(key::PMIX_LOG_STDOUT, "line")];
    let (refused, done) = soon("the slow channel is over", async {
        let logs = async {
            tokio::join!(
                client.log(&data, &[]),
                client.log(&data, &[]),
                client.log(&data, &[])
            )
        };
        let others = async {
            // One request is being written and one waits, so the third is refused.
            while node.server.counters().log_requests_refused.get() == 0 {
                tokio::task::yield_now().await;
            }
            other.fence(&[other.me().clone()], &[]).await.unwrap();
            client
                .notify(Status(-3101), Range::Namespace, Vec::new())
                .await
                .unwrap();
            next(&mut heard).await;
            assert!(dry.written().is_empty());
            dry.fill();
        };
        let ((one, two, three), ()) = tokio::join!(logs, others);
        let all = [one, two, three].map(status);
        let refused = all
            .iter()
            .filter(|status| **status == code::PMIX_ERR_OUT_OF_RESOURCE)
            .count();
        (
            refused,
            all.iter()
                .filter(|status| **status == code::PMIX_SUCCESS)
                .count(),
        )
    })
    .await;
    // The worker may have taken the first request before or after the second came.
    assert!(refused >= 1 && refused + done == 3, "{refused} and {done}");
    assert_eq!(dry.written().len(), done);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn slow_channel_delays_no_other_and_each_keeps_its_order() {
    let dry = Arc::new(Paper::default());
    let err = Arc::new(Paper::with_ink());
    let (node, _) = node(ServerSettings::default(), &dry, &err).await;
    let client = node.client(0).await;
    let lines = ["one", "two", "three"];
    let slow = lines.map(|line| [text(key::PMIX_LOG_STDOUT, line)]);
    let logs = async {
        let [one, two, three] = &slow;
        let answers = tokio::join!(
            client.log(one, &[]),
            client.log(two, &[]),
            client.log(three, &[])
        );
        [answers.0, answers.1, answers.2].map(status)
    };
    let others = async {
        for line in lines {
            assert_eq!(
                status(client.log(&[text(key::PMIX_LOG_STDERR, line)], &[]).await),
                code::PMIX_SUCCESS
            );
        }
        assert!(dry.written().is_empty());
        dry.fill();
    };
    let (statuses, ()) = soon("the slow channel is over", async {
        tokio::join!(logs, others)
    })
    .await;
    assert_eq!(statuses, [code::PMIX_SUCCESS; 3]);
    for paper in [&dry, &err] {
        let written = paper.written();
        assert!(
            written
                .iter()
                .zip(lines)
                .all(|(found, line)| found.contains(line)),
            "{written:?}"
        );
        assert_eq!(written.len(), lines.len());
    }
}

/// Runs the program as a job of two procs that log.
#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn jobs_that_are_registered_log_to_the_servers_own_output() {
    let dir = tempfile::tempdir().unwrap();
    let host = Arc::new(EmbeddedHostEnvironment::new(Notices::default()));
    let node = Node::under(
        host.clone(),
        ServerSettings::default(),
        &InProcessNetwork::new(),
        "job",
        1,
    )
    .await;
    let parts = AdminParts {
        group: None,
        max_jobs: 1,
        watchers: WatcherLimits::default(),
        handle: node.server.handle(),
        host,
        uri: node.server.uri().clone(),
        hostname: "node".to_owned(),
        metrics: node.server.metrics(),
        pacer: node.server.pacer(),
        chains: node.server.chains(),
        notices: Notices::default(),
        store: None,
        troubles: Box::new(Vec::new),
        continued: None,
        cluster: Box::new(|| None),
    };
    let socket = dir.path().join("admin.sock");
    // Requests that concern the process as a whole are not carried out here.
    let (_channel, _) = AdminChannel::start(SocketClaim::new(&socket).unwrap(), parts).unwrap();
    let ask = async |call: AdminRequest| {
        let socket = socket.clone();
        let asked = move || admin::request(&socket, &call).unwrap().reply().unwrap();
        soon("the server answers", tokio::task::spawn_blocking(asked))
            .await
            .unwrap()
    };
    let job = NewJob {
        nspace: "theirs".into(),
        size: 1,
        uid: None,
        gid: None,
    };
    assert!(matches!(
        ask(AdminRequest::Register(job)).await,
        AdminReply::Registered(_)
    ));
    let me = Proc::new(Nspace::new("theirs").unwrap(), Rank(0));
    let environment = Environment {
        me,
        ..node.environment(0)
    };
    let client = soon("a client connects", Client::connect(&environment))
        .await
        .unwrap();
    let line = [text(key::PMIX_LOG_STDERR, "logged by a test")];
    assert_eq!(
        status(soon("it is logged", client.log(&line, &[])).await),
        code::PMIX_SUCCESS
    );
    assert_eq!(
        channels(&client).await,
        "pmix.log.stdout,pmix.log.stderr",
        "the host is these, without any module"
    );
    // The other job has no registration, which would define the destination of its output.
    let other = node.client(0).await;
    assert_eq!(channels(&other).await, "");
    assert_eq!(
        status(soon("it is not", other.log(&line, &[])).await),
        code::PMIX_ERR_NOT_AVAILABLE
    );
}

fn log(more: &[&str]) -> Done {
    let program = c_program("control");
    run(peal(["run", "-n", "2"])
        .args(more)
        .arg("--")
        .arg(program)
        .arg("log"))
    .expect_status(0)
}

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[needs(prepared, libpmix)]
#[test]
fn libpmix_log_appears_with_output_of_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    let text = format!(
        "[[module]]\nname = \"stdio\"\npath = {:?}\nchannels = [\"stdout\", \"stderr\"]\n\
         grants = [\"sink\"]\nsinks = [\"stdout\", \"stderr\"]\n",
        guest("stdio")
    );
    std::fs::write(&config, text).unwrap();
    let config = config.to_str().unwrap();
    // The channel is the component in the first round, and the host environment in the second.
    for more in [&["--config", config][..], &[]] {
        let done = log(more);
        let out = sorted(&done.stdout);
        let err = sorted(&done.stderr);
        let success = |rank| format!("rank {rank}: log: SUCCESS (0)");
        assert_eq!(
            out,
            [
                "rank 0 logs to stdout",
                &success(0),
                "rank 1 logs to stdout",
                &success(1)
            ],
            "{more:?}"
        );
        assert_eq!(
            err,
            ["rank 0 logs to stderr", "rank 1 logs to stderr"],
            "{more:?}"
        );
    }
    let done = log(&["--config", config, "--tag-output"]);
    assert_eq!(
        sorted(&done.stderr),
        ["[0] rank 0 logs to stderr", "[1] rank 1 logs to stderr"]
    );
}
