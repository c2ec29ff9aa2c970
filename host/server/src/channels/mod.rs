//! Log channels: the components that write what procs log.
//!
//! One worker takes the requests as they come, so that the lines of one proc keep their order, and tries the channels of
//! each one after the other, on guest threads that nobody else uses: a slow channel delays no event and no other request.

mod worker;

use crate::{
    fabric::{Fabric, ServerId},
    handle::ServerHandle,
    host::Host,
    metrics::{Metrics, RoleMeters},
};
use peal_core::{
    log::{AvailableChannels, LogSettings, Origin, book::Book},
    order::Registrations,
    owner::Owner,
    registration::{Codes, Place, Registration, RegistrationError},
    server::RequestId,
};
use peal_model::{Key, LogRequest, Proc, Size, Status, code};
use peal_sandbox::{GuestPool, Module, Role};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use thiserror::Error;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    task::JoinHandle,
};
use worker::{Became, Worker};

/// Limits, times and order of log channels; all of them settings.
#[derive(Clone, Debug)]
pub struct ChannelSettings {
    /// Which channels come first and which must not fail.
    pub log: LogSettings,
    /// How many requests may wait.
    pub queue: usize,
    /// How much memory these may take, in bytes.
    pub queue_bytes: usize,
    /// How long the host environment may take over what it is to write to one channel. After three times as long no further
    /// channel of the request is tried.
    pub host_timeout: Duration,
    /// How long requests that were accepted have to be written at shutdown.
    pub drain_timeout: Duration,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        ChannelSettings {
            log: LogSettings::default(),
            queue: 4096,
            queue_bytes: 64 << 20,
            host_timeout: Duration::from_secs(10),
            drain_timeout: Duration::from_secs(10),
        }
    }
}

/// A module, and the channels that it is.
#[derive(Clone)]
struct Served {
    keys: Vec<Key>,
    /// Those that it can write to.
    available: Vec<Key>,
    module: Arc<Module>,
}

/// The log channels of one server, before it starts.
#[derive(Default)]
pub struct HostedChannels {
    modules: Registrations<Served>,
}

/// Why a channel cannot be registered.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// It does not say which channel it is.
    #[error("{name:?} names no channel; write which it is, such as stdout")]
    None {
        /// The module.
        name: String,
    },
    /// Another module is that channel.
    #[error("{channel} is served by {holder:?} already; only one module may")]
    Taken {
        /// The channel.
        channel: Key,
        /// Who serves it.
        holder: String,
    },
    /// It cannot stand where it wants to.
    #[error(transparent)]
    Place(#[from] RegistrationError),
}

impl HostedChannels {
    /// Adds a module that is these channels. Its place says when it is tried where a request names no channel. Those that the module says
    /// it has nothing to write to are not available. Blocks while the module is asked.
    pub fn register(
        &mut self,
        name: &str,
        keys: Vec<Key>,
        place: Place,
        module: Arc<Module>,
    ) -> Result<(), ChannelError> {
        if keys.is_empty() {
            return Err(ChannelError::None { name: name.to_owned() });
        }
        for (_, registration, served) in self.modules.iter() {
            if let Some(channel) = keys.iter().find(|key| served.keys.contains(key)) {
                let holder = registration.name.to_string();
                return Err(ChannelError::Taken { channel: channel.clone(), holder });
            }
        }
        let registration = Registration { place, ..Registration::new(name, Codes::Default) };
        let available = keys.iter().filter(|key| module.has_channel(key)).cloned().collect();
        self.modules.register(registration, Served { keys, available, module })?;
        Ok(())
    }
}

/// Who is told what became of a request.
#[derive(Debug)]
pub(crate) enum Asker {
    /// A client or tool of this server.
    Client(RequestId),
    /// Nobody: it is logged because of something else that was asked.
    Nobody,
    /// The host environment or another server, which waits.
    Waits(oneshot::Sender<Status>),
}

impl Asker {
    fn tell(self, handle: &ServerHandle, became: Became) {
        match self {
            Asker::Client(to) => handle.answer(to, became.reply()),
            Asker::Nobody => {}
            // Who no longer waits need not be told.
            Asker::Waits(tell) => drop(tell.send(became.status)),
        }
    }
}

/// A request on its way to the worker.
struct Logging {
    to: Asker,
    request: Arc<LogRequest>,
    origin: Origin,
    /// The channel that another server has chosen.
    chosen: Option<Key>,
    /// When it came.
    arrived: SystemTime,
    bytes: usize,
}

/// The modules that write, in their order, and what measures them.
struct Writers {
    modules: Vec<Served>,
    /// The channels that they can write to.
    offered: Arc<[Key]>,
    meters: Arc<RoleMeters>,
}

impl Writers {
    fn new(hosted: &HostedChannels, metrics: &Metrics) -> Arc<Writers> {
        let modules: Vec<Served> = hosted.modules.iter().map(|(_, _, served)| served.clone()).collect();
        let offered = modules.iter().flat_map(|served| served.available.iter().cloned()).collect();
        let names = modules.iter().map(|served| served.module.name());
        let meters = metrics.modules(&Owner::Site, Role::LogChannel.name(), names);
        Arc::new(Writers { modules, offered, meters })
    }

    fn available(&self, source: Option<&Proc>, host: &dyn Host) -> AvailableChannels {
        let of_host = source.map(|source| host.log_channels(source)).unwrap_or_default();
        AvailableChannels { of_modules: self.offered.clone(), of_host }
    }

    fn module(&self, channel: &Key) -> Option<&Module> {
        self.modules.iter().find(|served| served.available.contains(channel)).map(|served| &*served.module)
    }
}

/// The running channels.
pub(crate) struct Channels {
    writers: watch::Sender<Arc<Writers>>,
    queue: mpsc::Sender<Logging>,
    waiting: Arc<AtomicUsize>,
    worker: JoinHandle<()>,
    settings: ChannelSettings,
    host: Arc<dyn Host>,
    handle: ServerHandle,
    metrics: Arc<Metrics>,
}

impl Channels {
    /// Starts the worker; its answers go to `handle`.
    pub(crate) fn start(
        hosted: HostedChannels,
        pool: &Arc<GuestPool>,
        settings: ChannelSettings,
        host: &Arc<dyn Host>,
        beside: (Arc<dyn Fabric>, ServerId),
        handle: &ServerHandle,
        metrics: &Arc<Metrics>,
    ) -> Channels {
        let (queue, requests) = mpsc::channel(settings.queue.max(1));
        let waiting = Arc::new(AtomicUsize::new(0));
        let (writers, seated) = watch::channel(Writers::new(&hosted, metrics));
        let worker = Worker {
            writers: seated,
            pool: pool.clone(),
            settings: settings.clone(),
            host: host.clone(),
            beside,
            handle: handle.clone(),
            metrics: metrics.clone(),
            waiting: waiting.clone(),
            book: Book::new(settings.log.aggregation),
            started: Instant::now(),
        };
        let worker = tokio::spawn(worker.run(requests));
        let (host, handle, metrics) = (host.clone(), handle.clone(), metrics.clone());
        Channels { writers, queue, waiting, worker, settings, host, handle, metrics }
    }

    /// Puts these in the place of those there are. A request that is being written is written by those who began.
    pub(crate) fn replace(&mut self, hosted: &HostedChannels) {
        self.writers.send_replace(Writers::new(hosted, &self.metrics));
    }

    /// The channels that are available to a proc or tool (`PMIX_QUERY_LOG_CHANNELS`): those of modules, in their order, then those that
    /// the host environment is.
    pub(crate) fn available(&self, source: &Proc) -> AvailableChannels {
        self.writers.borrow().available(Some(source), &*self.host)
    }

    /// Takes a request; it is answered when it has been written, or at once if too many wait.
    pub(crate) fn submit(&self, to: Asker, request: Arc<LogRequest>, origin: Origin, chosen: Option<Key>) {
        let infos = request.data.iter().chain(&request.directives);
        let bytes = infos.map(|info| Size::of_info(info).bytes).sum();
        let waiting = self.waiting.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let full = waiting > self.settings.queue_bytes && waiting > bytes;
        let logging = Logging { to, request, origin, chosen, arrived: SystemTime::now(), bytes };
        let refused =
            if full { Some(logging) } else { self.queue.try_send(logging).err().map(TrySendError::into_inner) };
        if let Some(Logging { to, .. }) = refused {
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.metrics.counters().log_requests_refused.count();
            to.tell(&self.handle, code::PMIX_ERR_OUT_OF_RESOURCE.into());
        }
    }

    /// Waits until what was accepted is written and the modules have stopped, but no longer than may be.
    pub(crate) async fn drain(self) {
        drop(self.queue);
        let stop = self.worker.abort_handle();
        if tokio::time::timeout(self.settings.drain_timeout, self.worker).await.is_err() {
            stop.abort();
            tracing::error!(after = ?self.settings.drain_timeout, "what is still before the log channels is lost");
        }
    }
}
