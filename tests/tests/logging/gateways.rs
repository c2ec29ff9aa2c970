//! Gateways: servers that write to log channels for other servers. A request without a module at
//! its server has three possible results: a gateway writes it, the host environment writes it, or
//! the requester gets an error (RFC "Logging extension"). No request is forwarded in a circle.
use peal_client::Client;
use peal_core::registration::ChainPlacement;
use peal_model::{Info, Infos, Key, KeyName, LogRequest, Proc, Query, Status, Value, code, key};
use peal_needs::needs;
use peal_sandbox::{
    Capability, Engine, EngineSettings, Grants, Module, ModuleLimits, Services, Sink,
};
use peal_server::{
    HostEnvironment, Hosted, HostedChannels, InProcessNetwork, ServerKind, ServerSettings,
    UpcallFuture,
};
use peal_tests::{
    guest,
    in_process::{Modules, Node, soon},
};
use std::sync::{Arc, Mutex};

const BOARD: KeyName = KeyName("site.log.board");
const FUTURE: KeyName = KeyName("pmix.log.future");

/// Record of what was written, and of the source of each request.
#[derive(Default)]
struct Paper(Mutex<Vec<String>>);

impl Paper {
    fn lines(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Sink for Paper {
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        let source = request
            .source
            .as_ref()
            .map_or("the host".to_owned(), Proc::to_string);
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end().rsplit("] ").next().unwrap_or_default();
        self.0.lock().unwrap().push(format!("{source}: {text}"));
        Ok(())
    }
}

/// Host environment that knows at most one channel, and records all requests.
#[derive(Default)]
struct Above {
    knows: Option<KeyName>,
    asked: Mutex<Vec<String>>,
}

impl HostEnvironment for Above {
    fn log(
        &self,
        source: Proc,
        channel: Key,
        _timestamp: u64,
        data: Vec<Info>,
        _: Vec<Info>,
    ) -> UpcallFuture<'_, ()> {
        let keys: Vec<&str> = data.iter().map(|info| info.key.as_str()).collect();
        self.asked
            .lock()
            .unwrap()
            .push(format!("{source}: {}", keys.join(" ")));
        let knows = self.knows.is_some_and(|known| channel == known);
        Box::pin(std::future::ready(if knows {
            Ok(())
        } else {
            Err(code::PMIX_ERR_NOT_SUPPORTED)
        }))
    }
}

impl Above {
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Adds a channel component with this destination.
fn channel(
    channels: &mut HostedChannels,
    name: &str,
    sink: &str,
    keys: &[KeyName],
    paper: &Arc<Paper>,
) {
    let engine = Engine::new(&EngineSettings::default()).unwrap();
    let bytes = std::fs::read(guest(name)).unwrap();
    let grants = [Capability::Sink, Capability::Clock]
        .into_iter()
        .collect::<Grants>();
    let paper: Arc<dyn Sink> = paper.clone();
    let sinks = sink
        .split(' ')
        .map(|sink| (sink.to_owned(), paper.clone()))
        .collect();
    let services = Services {
        sinks,
        ..Services::default()
    };
    let module = Arc::new(
        Module::load(
            &engine,
            name,
            &bytes,
            &grants,
            ModuleLimits::default(),
            services,
        )
        .unwrap(),
    );
    module.init(&[]).unwrap();
    channels
        .register(
            name,
            keys.iter().map(|key| Key::from(*key)).collect(),
            ChainPlacement::Append,
            module,
        )
        .unwrap();
}

/// Returns the channels stdout and stderr with this destination, and further ones if there is a
/// sink for them.
fn channels(paper: &Arc<Paper>, more: &[KeyName]) -> HostedChannels {
    let mut channels = HostedChannels::default();
    channel(
        &mut channels,
        "stdio",
        "stdout stderr",
        &[key::PMIX_LOG_STDOUT, key::PMIX_LOG_STDERR],
        paper,
    );
    if !more.is_empty() {
        channel(&mut channels, "file", "file", more, paper);
    }
    channels
}

/// Server with a client.
struct Site {
    node: Node,
    client: Client,
}

async fn server(
    channels: HostedChannels,
    host: &Arc<Above>,
    duty: ServerKind,
    network: &Arc<InProcessNetwork>,
    job: &str,
) -> Site {
    let modules = Modules {
        hosted: Hosted {
            channels,
            ..Hosted::default()
        },
        ..Modules::default()
    };
    let settings = ServerSettings {
        duty,
        ..ServerSettings::default()
    };
    let node = Node::with(modules, host.clone(), settings, network, job, 1).await;
    let client = node.client(0).await;
    Site { node, client }
}

fn text(key: KeyName) -> Info {
    Info::new(key, Value::string("text"))
}

/// Returns the status of a client's request, and that of a request of the host environment.
async fn log(Site { node, client }: &Site, key: KeyName) -> (Status, Status) {
    let asked = soon("a request is answered", client.log(&[text(key)], &[])).await;
    let status = asked.map_or_else(|error| error.status(), |_| code::PMIX_SUCCESS);
    let handle = node.server.handle();
    (
        status,
        soon(
            "the host is answered",
            handle.log(None, None, vec![text(key)], Vec::new()),
        )
        .await,
    )
}

const FINE: Status = code::PMIX_SUCCESS;
const NOBODY: Status = code::PMIX_ERR_NOT_AVAILABLE;

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn gateway_writes_for_servers_without_channel_and_for_stdout() {
    let network = InProcessNetwork::new();
    let near = Arc::new(Paper::default());
    let far = Arc::new(Paper::default());
    let own = Arc::new(Above::default());
    let other = Arc::new(Above::default());
    let node = server(
        channels(&near, &[]),
        &own,
        ServerKind::Node,
        &network,
        "one",
    )
    .await;

    // Without a gateway, channels of this server are written here. Other requests go to the host
    // environment, except for those that it made itself.
    assert_eq!(log(&node, key::PMIX_LOG_STDOUT).await, (FINE, FINE));
    assert_eq!(near.lines(), ["one:0: text", "the host: text"]);
    assert_eq!(log(&node, FUTURE).await, (NOBODY, NOBODY));
    assert_eq!(own.asked(), ["one:0: pmix.log.future"]);

    let gateway = server(
        channels(&far, &[BOARD, FUTURE]),
        &other,
        ServerKind::Gateway,
        &network,
        "two",
    )
    .await;
    assert_eq!(log(&node, FUTURE).await, (FINE, FINE));
    assert_eq!(far.lines(), ["one:0: text", "the host: text"]);
    // Standard output appears on the gateway, although there is a module here.
    assert_eq!(log(&node, key::PMIX_LOG_STDOUT).await, (FINE, FINE));
    assert_eq!((near.lines(), far.lines().len()), (vec![], 2));
    // The gateway writes its own requests itself.
    assert_eq!(log(&gateway, key::PMIX_LOG_STDOUT).await, (FINE, FINE));
    assert_eq!(far.lines(), ["two:0: text", "the host: text"]);
    assert_eq!(
        (own.asked(), other.asked()),
        (vec![], vec![]),
        "no host environment got a request"
    );
}

/// Returns the three channels of syslog on a server that has one sink of the two kinds.
fn syslog(sink: &str, paper: &Arc<Paper>) -> HostedChannels {
    let mut channels = HostedChannels::default();
    let keys = [
        key::PMIX_LOG_LOCAL_SYSLOG,
        key::PMIX_LOG_GLOBAL_SYSLOG,
        key::PMIX_LOG_SYSLOG,
    ];
    channel(&mut channels, "syslog", sink, &keys, paper);
    channels
}

/// Returns the log channels that a query of a client reports.
async fn listed(Site { client, .. }: &Site) -> String {
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
    found
        .infos
        .value_of(key::PMIX_QUERY_LOG_CHANNELS)
        .and_then(Value::as_str)
        .unwrap()
        .to_owned()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn global_syslog_without_sink_is_looked_for_elsewhere() {
    let network = InProcessNetwork::new();
    let near = Arc::new(Paper::default());
    let far = Arc::new(Paper::default());
    let own = Arc::new(Above::default());
    let other = Arc::new(Above::default());
    let node = server(
        syslog("local-syslog", &near),
        &own,
        ServerKind::Node,
        &network,
        "one",
    )
    .await;
    let written = || (near.lines().len(), far.lines().len());
    let asked = || own.asked();

    assert_eq!(
        listed(&node).await,
        "pmix.log.lsys,pmix.log.syslog",
        "channels that cannot be written are not listed"
    );
    assert_eq!(
        written(),
        (0, 0),
        "nor is anything written to find that out"
    );
    // Without a gateway, only the host environment could have a global channel.
    assert_eq!(
        log(&node, key::PMIX_LOG_GLOBAL_SYSLOG).await,
        (NOBODY, NOBODY)
    );
    assert_eq!(
        (written(), asked()),
        ((0, 0), vec!["one:0: pmix.log.gsys".to_owned()])
    );
    assert_eq!(log(&node, key::PMIX_LOG_SYSLOG).await, (FINE, FINE));
    assert_eq!(
        (written(), asked()),
        ((2, 0), vec!["one:0: pmix.log.gsys".to_owned()])
    );

    let _gateway = server(
        syslog("global-syslog", &far),
        &other,
        ServerKind::Gateway,
        &network,
        "two",
    )
    .await;
    for (channel, near_and_far) in [
        (key::PMIX_LOG_GLOBAL_SYSLOG, (0, 2)),
        (key::PMIX_LOG_SYSLOG, (0, 2)),
        (key::PMIX_LOG_LOCAL_SYSLOG, (2, 0)),
    ] {
        assert_eq!(log(&node, channel).await, (FINE, FINE), "{channel:?}");
        assert_eq!(
            (written(), asked()),
            (near_and_far, Vec::new()),
            "{channel:?}"
        );
    }
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn unknown_channel_goes_up_once_per_side_and_never_back() {
    let network = InProcessNetwork::new();
    let own = Arc::new(Above::default());
    let other = Arc::new(Above::default());
    let third = Arc::new(Above::default());
    let node = server(
        HostedChannels::default(),
        &own,
        ServerKind::Node,
        &network,
        "one",
    )
    .await;
    let gateway = server(
        HostedChannels::default(),
        &other,
        ServerKind::Gateway,
        &network,
        "two",
    )
    .await;
    // A second gateway gets no requests: neither from servers, which use the first, nor from the
    // first.
    let second = server(
        HostedChannels::default(),
        &third,
        ServerKind::Gateway,
        &network,
        "three",
    )
    .await;
    for (at, mine, name) in [(&gateway, &other, "two"), (&second, &third, "three")] {
        assert_eq!(log(at, FUTURE).await, (NOBODY, NOBODY));
        assert_eq!(
            mine.asked(),
            [format!("{name}:0: pmix.log.future")],
            "for the client, and not for the host itself"
        );
    }
    assert_eq!(log(&node, FUTURE).await, (NOBODY, NOBODY));
    assert_eq!(own.asked(), ["one:0: pmix.log.future"]);
    assert_eq!(other.asked(), ["one:0: pmix.log.future"]);
    assert_eq!(third.asked(), Vec::<String>::new());
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn host_environment_writes_known_channels_here_or_at_gateway() {
    let network = InProcessNetwork::new();
    let knowing = Arc::new(Above {
        knows: Some(FUTURE),
        ..Above::default()
    });
    let ignorant = Arc::new(Above::default());
    let node = server(
        HostedChannels::default(),
        &ignorant,
        ServerKind::Node,
        &network,
        "one",
    )
    .await;
    let _gateway = server(
        HostedChannels::default(),
        &knowing,
        ServerKind::Gateway,
        &network,
        "two",
    )
    .await;
    // A request of one server's host environment goes to no other host environment.
    assert_eq!(log(&node, FUTURE).await, (FINE, NOBODY));
    assert_eq!((knowing.asked().len(), ignorant.asked().len()), (1, 0));
    let alone = server(
        HostedChannels::default(),
        &knowing,
        ServerKind::Node,
        &InProcessNetwork::new(),
        "alone",
    )
    .await;
    assert_eq!(log(&alone, FUTURE).await, (FINE, NOBODY));
}
