//! A real server in the process of a test, and Peal's own clients of it, over real TCP.
use peal_client::{Client, Environment, Handler, HandlerOutcome};
use peal_core::{class::ClassFilter, job::JobSpec};
use peal_launcher::EmbeddedHostEnvironment;
use peal_model::{Event, Info, Nspace, Proc, Rank, Status, UserIdentity, code};
use peal_sandbox::{GuestPool, PoolSettings};
use peal_server::{
    GuestPools, HostEnvironment, Hosted, InProcessTransport, Notices, ProcessObserver, Server,
    ServerParts, ServerSettings, client_environment,
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

/// How long something that must happen may take before it counts as not happening. Nothing takes a tenth of it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for what must happen.
pub async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    timeout(PATIENCE, happens)
        .await
        .unwrap_or_else(|_| panic!("in {PATIENCE:?} this did not happen: {what}"))
}

/// Begins a call of a client, which has sent its request when this returns; what the client asks next is behind that. The handle waits
/// for its end.
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

/// The directives of a registration for events of both classes.
pub fn everything() -> &'static [Info] {
    static BOTH: LazyLock<Vec<Info>> = LazyLock::new(|| ClassFilter::Both.directives());
    &BOTH
}

/// A server and its one job. Nobody starts the job's procs: the test is all of them.
pub struct Node {
    /// The server.
    pub server: Server,
    nspace: Nspace,
}

/// The modules of a server, and who watches them.
#[derive(Default)]
pub struct Modules {
    /// They themselves.
    pub hosted: Hosted,
    /// Who watches.
    pub notices: Notices,
}

impl Node {
    /// Starts a server for a job of that name and size, joined to the others of its fabric.
    pub async fn start(
        settings: ServerSettings,
        fabric: &Arc<InProcessTransport>,
        job: &str,
        size: u32,
    ) -> Node {
        Node::under(
            Arc::new(EmbeddedHostEnvironment::new(Notices::default())),
            settings,
            fabric,
            job,
            size,
        )
        .await
    }

    /// The same in the host environment of a test.
    pub async fn under(
        host: Arc<dyn HostEnvironment>,
        settings: ServerSettings,
        fabric: &Arc<InProcessTransport>,
        job: &str,
        size: u32,
    ) -> Node {
        Node::with(Modules::default(), host, settings, fabric, job, size).await
    }

    /// The same, with modules of the site.
    pub async fn with(
        modules: Modules,
        host: Arc<dyn HostEnvironment>,
        settings: ServerSettings,
        fabric: &Arc<InProcessTransport>,
        job: &str,
        size: u32,
    ) -> Node {
        let pool = Arc::new(GuestPool::new(PoolSettings::default()).unwrap());
        let parts = ServerParts {
            me: Proc::new(Nspace::new("server").unwrap(), Rank(0)),
            host,
            fabric: fabric.clone(),
            hosted: modules.hosted,
            pools: GuestPools {
                site: pool.clone(),
                tenants: pool.clone(),
                policies: pool.clone(),
                channels: pool.clone(),
                shadows: pool,
            },
            notices: modules.notices,
            observer: ProcessObserver::default(),
            audit: None,
        };
        let server = Server::start(settings, parts).await.unwrap();
        let node = Node {
            server,
            nspace: Nspace::new(job).unwrap(),
        };
        node.add_job(job, size).await;
        node
    }

    /// One more job, of the same user.
    pub async fn add_job(&self, job: &str, size: u32) {
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let spec = JobSpec::new(
            Nspace::new(job).unwrap(),
            size,
            "node",
            UserIdentity { uid, gid },
        );
        self.server.handle().add_job(spec).await.unwrap();
    }

    /// A server by itself.
    pub async fn alone(settings: ServerSettings, size: u32) -> Node {
        Node::start(settings, &InProcessTransport::new(), "job", size).await
    }

    /// A proc of the job.
    pub fn proc(&self, rank: u32) -> Proc {
        Proc::new(self.nspace.clone(), Rank(rank))
    }

    /// What a proc of the job would find in its environment.
    pub fn environment(&self, rank: u32) -> Environment {
        Environment {
            me: self.proc(rank),
            server: self.server.uri().clone(),
            release: None,
        }
    }

    /// A program as a proc of the job, not started yet. What it prints can be read.
    pub fn program(&self, rank: u32, program: &Path) -> Command {
        let mut command = Command::new(program);
        let variables = client_environment(
            &self.nspace,
            "node",
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

    /// A proc of the job, connected.
    pub async fn client(&self, rank: u32) -> Client {
        self.client_of(self.nspace.as_str(), rank).await
    }

    /// A proc of any of its jobs, connected.
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

/// A handler that takes no action but tells what it hears. The queue ends when its client has gone.
pub fn listener() -> (Handler, mpsc::UnboundedReceiver<Event>) {
    let (tell, heard) = mpsc::unbounded_channel();
    let handler = Handler::native(move |call| {
        // The test may have heard enough.
        let _ = tell.send(call.event().clone());
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    (handler, heard)
}

/// A handler that takes its time for each event until the sender is dropped, and tells what it hears.
pub fn gate() -> (
    Handler,
    std::sync::mpsc::Sender<()>,
    mpsc::UnboundedReceiver<Status>,
) {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (tell, told) = mpsc::unbounded_channel();
    let wait = std::sync::Mutex::new(wait);
    let gate = Handler::native(move |call| {
        // The test may have seen enough.
        let _ = tell.send(call.event().code);
        let _ = wait.lock().unwrap().recv();
        HandlerOutcome::status(code::PMIX_EVENT_NO_ACTION_TAKEN)
    });
    (gate, go, told)
}

/// The next event that a listener hears.
pub async fn next(heard: &mut mpsc::UnboundedReceiver<Event>) -> Event {
    soon("an event is heard", heard.recv())
        .await
        .expect("the client has gone")
}
