//! A real server in the process of a test, and clients of Peal's own, over real TCP.
use peal_client::{Client, Environment, Handler, HandlerOutcome};
use peal_core::{
    class::ClassFilter,
    job::{JobSpec, NodeRanks},
};
use peal_helper::PrivilegedHelper;
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{Event, Info, Nspace, Proc, Rank, Status, UserIdentity, code};
use peal_sandbox::{GuestPool, PoolSettings};
use peal_server::{
    GuestPools, HostEnvironment, Hosted, InProcessNetwork, Notices, Server, ServerParts,
    ServerSettings, client_environment,
};
use std::{
    future::poll_fn,
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, LazyLock},
    task::Poll,
    time::Duration,
};
use tokio::{sync::mpsc, task::JoinHandle, time::timeout};

/// Time limit of things that must happen. All of them take less than a tenth of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for something that must happen.
pub async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    timeout(PATIENCE, happens)
        .await
        .unwrap_or_else(|_| panic!("this did not happen within {PATIENCE:?}: {what}"))
}

/// Begins a call of a client, which has sent its request when this returns. Later requests of the
/// client follow it. The handle waits for the end of the call.
pub async fn begin<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let mut call = Box::pin(call);
    let first = poll_fn(|context| Poll::Ready(call.as_mut().poll(context))).await;
    tokio::spawn(async move {
        match first {
            Poll::Ready(end) => end,
            Poll::Pending => call.await,
        }
    })
}

/// Returns the directives of a registration for events of both classes.
pub fn everything() -> &'static [Info] {
    static BOTH: LazyLock<Vec<Info>> = LazyLock::new(|| ClassFilter::Both.directives());
    &BOTH
}

/// Server and its one job. The job's procs are not started: the test acts as all of them.
pub struct Node {
    /// The server.
    pub server: Server,
    nspace: Nspace,
    hostname: String,
}

/// Modules of a server, and the observer of their notices.
#[derive(Default)]
pub struct Modules {
    /// The modules.
    pub hosted: Hosted,
    /// Sender of the notices.
    pub notices: Notices,
}

impl Node {
    /// Starts a server for a job of this name and size, joined to the other servers of its
    /// transport. A job of no procs is not added.
    pub async fn start(
        settings: ServerSettings,
        network: &Arc<InProcessNetwork>,
        job: &str,
        size: u32,
    ) -> Node {
        Node::under(
            Arc::new(EmbeddedHostEnvironment::new(Notices::default())),
            settings,
            network,
            job,
            size,
        )
        .await
    }

    /// Starts a server as [`Node::start`] does, in the host environment of a test.
    pub async fn under(
        host: Arc<dyn HostEnvironment>,
        settings: ServerSettings,
        network: &Arc<InProcessNetwork>,
        job: &str,
        size: u32,
    ) -> Node {
        Node::with(Modules::default(), host, settings, network, job, size).await
    }

    /// Starts a server as [`Node::under`] does, with modules of the site.
    pub async fn with(
        modules: Modules,
        host: Arc<dyn HostEnvironment>,
        settings: ServerSettings,
        network: &Arc<InProcessNetwork>,
        job: &str,
        size: u32,
    ) -> Node {
        let pool = Arc::new(GuestPool::new(PoolSettings::default()));
        let parts = ServerParts {
            continued: None,
            me: Proc::new(Nspace::new("server").unwrap(), Rank(0)),
            host,
            network: network.clone(),
            hosted: modules.hosted,
            pools: GuestPools {
                site: pool.clone(),
                tenants: pool.clone(),
                policies: pool.clone(),
                channels: pool.clone(),
                shadows: pool,
            },
            notices: modules.notices,
            helper: PrivilegedHelper::default(),
            audit: None,
        };
        let server = Server::start(settings, parts).await.unwrap();
        let node = Node {
            server,
            nspace: Nspace::new(job).unwrap(),
            hostname: "node".to_owned(),
        };
        if size > 0 {
            node.add_job(job, size).await;
        }
        node
    }

    /// Starts the servers of these nodes, and a job whose ranks are on them. Each node is its name
    /// and its ranks.
    pub async fn placed(job: &str, placement: &[(&str, &[u32])]) -> Vec<Node> {
        let network = InProcessNetwork::new();
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let ranks = placement.iter().map(|(hostname, ranks)| NodeRanks {
            hostname: (*hostname).to_owned(),
            ranks: ranks.iter().copied().map(Rank).collect(),
        });
        let ranks: Vec<NodeRanks> = ranks.collect();
        let mut nodes = Vec::new();
        for (hostname, _) in placement {
            let mut node = Node::start(ServerSettings::default(), &network, job, 0).await;
            node.hostname = (*hostname).to_owned();
            let spec = JobSpec::on_nodes(
                node.nspace.clone(),
                ranks.clone(),
                *hostname,
                UserIdentity { uid, gid },
            );
            let added = node.server.handle().add_job(spec.unwrap()).await;
            added.unwrap();
            nodes.push(node);
        }
        nodes
    }

    /// Adds a job of the same user.
    pub async fn add_job(&self, job: &str, size: u32) {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let spec = JobSpec::new(
            Nspace::new(job).unwrap(),
            size,
            "node",
            UserIdentity { uid, gid },
        );
        self.server.handle().add_job(spec).await.unwrap();
    }

    /// Starts a server without a transport to others.
    pub async fn alone(settings: ServerSettings, size: u32) -> Node {
        Node::start(settings, &InProcessNetwork::new(), "job", size).await
    }

    /// Returns the name of a proc of the job.
    pub fn proc(&self, rank: u32) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank))
    }

    /// Returns the environment of a proc of the job.
    pub fn environment(&self, rank: u32) -> Environment {
        Environment {
            me: self.proc(rank),
            server: self.server.uri().clone(),
            release: None,
        }
    }

    /// Returns a program that is a proc of the job, not started yet. Its output is piped.
    pub fn program(&self, rank: u32, program: &Path) -> Command {
        let mut command = Command::new(program);
        let variables = client_environment(
            &self.nspace,
            &self.hostname,
            Rank(rank),
            &self.server.uri().to_string(),
        );
        command
            .envs(variables)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns a connected client that is a proc of the job.
    pub async fn client(&self, rank: u32) -> Client {
        self.client_of(self.nspace.as_str(), rank).await
    }

    /// Returns a connected client that is a proc of any of the server's jobs.
    pub async fn client_of(&self, job: &str, rank: u32) -> Client {
        let environment = Environment {
            me: Proc::new(Nspace::new(job).unwrap(), Rank(rank)),
            ..self.environment(0)
        };
        soon("a client connects", Client::connect(&environment))
            .await
            .unwrap()
    }
}

/// Returns a handler that takes no action, and a queue of the events that it receives. The queue
/// ends when its client has gone.
pub fn listener() -> (Handler, mpsc::UnboundedReceiver<Event>) {
    let (tell, heard) = mpsc::unbounded_channel();
    let handler = Handler::native(move |call| {
        // The test may have received enough.
        let _ = tell.send(call.event().clone());
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    (handler, heard)
}

/// Returns a handler that blocks at each event until the sender is dropped, and a queue of the
/// codes that it receives.
pub fn gate() -> (
    Handler,
    std::sync::mpsc::Sender<()>,
    mpsc::UnboundedReceiver<Status>,
) {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (tell, told) = mpsc::unbounded_channel();
    let wait = std::sync::Mutex::new(wait);
    let gate = Handler::native(move |call| {
        // The test may have received enough.
        let _ = tell.send(call.event().code);
        let _ = wait.lock().unwrap().recv();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    (gate, go, told)
}

/// Returns the next event that a listener receives.
pub async fn next(heard: &mut mpsc::UnboundedReceiver<Event>) -> Event {
    soon("an event is received", heard.recv())
        .await
        .expect("the client has gone")
}
