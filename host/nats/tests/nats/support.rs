//! A real NATS server with the files of a cluster in a temporary directory.
use async_nats::{Event, HeaderMap, Message, ServerError, Subscriber};
use futures_util::StreamExt;
use peal_config::NatsAddress;
use peal_model::NodeName;
use peal_nats::{ClusterAccess, ClusterSite, NatsLink, SiteRequest, apply_streams, prepare_site};
use serde_json::Value;
use std::{
    env, fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;
use tokio::time::timeout;

/// Maximum time to wait for an expected result.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the program of the NATS server.
pub fn nats_server() -> PathBuf {
    let servers = env::var_os("PEAL_TEST_SERVERS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/peers"),
        PathBuf::from,
    );
    let program = servers.join("nats/bin/nats-server");
    assert!(
        program.exists(),
        "{} is not there: `cargo xtask test-servers` gets it",
        program.display()
    );
    program
}

/// Returns a port that had no listener a moment ago, and neither had that for other NATS servers. Test
/// processes begin at different ones.
pub fn free_port() -> u16 {
    const FIRST: u32 = 20_000;
    const COUNT: u32 = 2000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        let place = std::process::id().wrapping_mul(97).wrapping_add(tried) % COUNT;
        let port = u16::try_from(FIRST + place).unwrap();
        let is_free = |port| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if is_free(port) && is_free(port + 2000) {
            return port;
        }
    }
}

/// Returns the name of a node.
pub fn node(name: &str) -> NodeName {
    name.parse().unwrap()
}

/// Makes the files of the cluster `site` with the nodes `a` and `b`.
pub fn prepared(directory: &Path, servers: Vec<NatsAddress>) -> ClusterSite {
    prepared_for(&["a", "b"], directory, servers)
}

fn prepared_for(nodes: &[&str], directory: &Path, servers: Vec<NatsAddress>) -> ClusterSite {
    prepare_site(&SiteRequest {
        directory: directory.to_owned(),
        name: Some("site".parse().unwrap()),
        servers,
        nodes: nodes.iter().map(|name| node(name)).collect(),
        deployers: vec![node("a")],
    })
    .unwrap()
}

/// Cluster whose NATS servers run.
pub struct RunningSite {
    pub site: ClusterSite,
    servers: Vec<Child>,
    // Last, so that the servers end before their directory goes.
    _directory: TempDir,
}

impl Drop for RunningSite {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

impl RunningSite {
    /// Starts this number of servers and sets the streams up.
    pub async fn start(servers: usize) -> RunningSite {
        RunningSite::start_bare(servers, |_| {})
            .with_streams()
            .await
    }

    /// Starts one server for these nodes and sets the streams up.
    pub async fn of_nodes(nodes: &[&str]) -> RunningSite {
        let directory = tempfile::tempdir().unwrap();
        let address = NatsAddress::loopback(free_port());
        let site = prepared_for(nodes, directory.path(), vec![address]);
        RunningSite::run(site, directory, |_| {})
            .with_streams()
            .await
    }

    /// Sets the streams up.
    pub async fn with_streams(self) -> RunningSite {
        let running = self;
        let began = Instant::now();
        // Several servers elect a leader first.
        while let Err(error) = apply_streams(&running.site).await {
            assert!(began.elapsed() < PATIENCE, "{error}");
        }
        running
    }

    /// Starts servers without streams, with a change of their configuration.
    pub fn start_bare(servers: usize, change: impl Fn(&mut Value)) -> RunningSite {
        let directory = tempfile::tempdir().unwrap();
        let addresses = (0..servers).map(|_| NatsAddress::loopback(free_port()));
        let site = prepared(directory.path(), addresses.collect());
        RunningSite::run(site, directory, change)
    }

    fn run(site: ClusterSite, directory: TempDir, change: impl Fn(&mut Value)) -> RunningSite {
        let servers = site.servers.iter().map(|server| {
            let file = site.server_config_file(server);
            let text = fs::read_to_string(&file).unwrap();
            let json: String = text.lines().filter(|line| !line.starts_with('#')).collect();
            let mut config: Value = serde_json::from_str(&json).unwrap();
            change(&mut config);
            fs::write(&file, config.to_string()).unwrap();
            start(&site.server_directory(server), server)
        });
        RunningSite {
            servers: servers.collect(),
            site,
            _directory: directory,
        }
    }

    /// Returns the access of a node.
    pub fn access(&self, name: &str) -> ClusterAccess {
        ClusterAccess {
            cluster: self.site.name.clone(),
            node: node(name),
            servers: self.site.servers.clone(),
            credentials: self.site.node_directory(&node(name)).join("node.seed"),
            ca: Some(self.site.authority()),
            timeout: PATIENCE,
        }
    }

    /// Sends a signal to the servers.
    pub fn signal(&self, name: &str) {
        for server in &self.servers {
            let pid = server.id().to_string();
            let done = Command::new("kill").args([name, &pid]).status().unwrap();
            assert!(done.success());
        }
    }

    /// Kills the servers.
    pub fn kill(&mut self) {
        for server in &mut self.servers {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// Starts the killed servers again.
    pub fn start_again(&mut self) {
        let site = &self.site;
        let servers = site.servers.iter();
        self.servers = servers
            .map(|server| start(&site.server_directory(server), server))
            .collect();
    }

    /// Removes what the killed servers have stored.
    pub fn wipe(&self) {
        for server in &self.site.servers {
            fs::remove_dir_all(self.site.server_directory(server).join("jetstream")).unwrap();
        }
    }

    /// Has the servers read their configuration again.
    pub fn reload(&self) {
        self.signal("-HUP");
    }

    /// Connects as a node.
    pub async fn link(&self, name: &str) -> NatsLink {
        NatsLink::connect(&self.access(name)).await.unwrap()
    }
}

fn start(directory: &Path, server: &NatsAddress) -> Child {
    let mut command = Command::new(nats_server());
    command
        .args(["-c", "nats-server.conf"])
        .current_dir(directory)
        .stdin(Stdio::null())
        .stderr(fs::File::create(directory.join("log")).unwrap());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    while TcpStream::connect((server.host(), server.port())).is_err() {
        let log = || fs::read_to_string(directory.join("log")).unwrap();
        assert!(child.try_wait().unwrap().is_none(), "{}", log());
        assert!(began.elapsed() < PATIENCE, "{}", log());
        thread::yield_now();
    }
    child
}

/// Returns the next violation of permissions that a NATS server reports.
pub async fn violation(link: &mut NatsLink) -> String {
    let next = async {
        loop {
            if let Event::ServerError(ServerError::Other(text)) = link.events.recv().await.unwrap()
                && text.contains("Permissions Violation")
            {
                return text;
            }
        }
    };
    timeout(PATIENCE, next).await.expect("no violation came")
}

/// Returns the next message of a subscription.
pub async fn next(subscriber: &mut Subscriber) -> Message {
    timeout(PATIENCE, subscriber.next())
        .await
        .expect("no message came")
        .unwrap()
}

/// Subscribes, and waits until the NATS server knows of it.
pub async fn subscribed(link: &NatsLink, subject: String) -> Subscriber {
    let subscriber = link.client.subscribe(subject).await.unwrap();
    settle(link).await;
    subscriber
}

/// Waits until the NATS server has processed all that this connection sent.
pub async fn settle(link: &NatsLink) {
    let subject = link.subjects.text(&peal_nats::ClusterSubject::Answer {
        to: link.node.clone(),
        from: link.node.clone(),
        request: 0,
    });
    let mut own = link.client.subscribe(subject.clone()).await.unwrap();
    link.client.publish(subject, "settle".into()).await.unwrap();
    next(&mut own).await;
}

/// Returns the headers with which a message is stored only if the last one has this sequence.
pub fn expecting(last: u64) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Expected-Last-Sequence", last.to_string());
    headers
}
