//! Log channels: the components that write what procs log.
//!
//! Each channel writes one request after the other, on guest threads that nobody else uses, and takes users in turn. Requests of one
//! user on one channel keep their order. So a slow channel delays no event, no other channel, and of each user only what names it.

mod backlog;
mod worker;
mod writing;

use crate::{
    fair_semaphore::FairSemaphore,
    handle::ServerHandle,
    host_environment::HostEnvironment,
    metrics::{Metrics, RoleMeters},
    transport::{ServerId, ServerTransport},
};
use backlog::{ChannelBacklog, RefusedRequest};
use peal_core::{
    log::{
        AvailableChannels, LogArrival, LogOrigin, LogRun, LogSettings,
        duplicates::{DuplicateFilter, DuplicateKey},
        queue::QueueLimits,
    },
    order::Registrations,
    owner::Owner,
    registration::{ChainPlacement, EventCodes, Registration, RegistrationError},
    server::RequestId,
};
use peal_model::{Key, LogRequest, Proc, Reply, Size, Status, code};
use peal_sandbox::{GuestPool, Module, Role};
use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use thiserror::Error;
use tokio::{
    sync::{Semaphore, oneshot, watch},
    task::JoinHandle,
};
use worker::ChannelWorker;
use writing::{ChannelWriter, LogResult};

/// Limits, times and order of log channels; all of them settings.
#[derive(Clone, Debug)]
pub struct ChannelSettings {
    /// Which channels come first and which must not fail.
    pub log: LogSettings,
    /// How many requests may wait or be being written, in all and of one user.
    pub queue: QueueLimits,
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
            queue: QueueLimits::default(),
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
        place: ChainPlacement,
        module: Arc<Module>,
    ) -> Result<(), ChannelError> {
        if keys.is_empty() {
            return Err(ChannelError::None {
                name: name.to_owned(),
            });
        }
        for (_, registration, served) in self.modules.iter() {
            if let Some(channel) = keys.iter().find(|key| served.keys.contains(key)) {
                let holder = registration.name.to_string();
                return Err(ChannelError::Taken {
                    channel: channel.clone(),
                    holder,
                });
            }
        }
        let registration = Registration {
            place,
            ..Registration::new(name, EventCodes::Default)
        };
        let available = keys
            .iter()
            .filter(|key| module.has_channel(key))
            .cloned()
            .collect();
        self.modules.register(
            registration,
            Served {
                keys,
                available,
                module,
            },
        )?;
        Ok(())
    }
}

/// Who is told what became of a request.
#[derive(Debug)]
pub(crate) enum LogRequester {
    /// A client or tool of this server.
    Client(RequestId),
    /// Nobody: it is logged because of something else that was asked.
    Nobody,
    /// The host environment or another server, which waits.
    Waits(oneshot::Sender<Status>),
}

/// The answer to a request of a client or tool that was written, or not taken.
pub(crate) struct LogAnswer {
    pub(crate) to: RequestId,
    pub(crate) reply: Reply,
}

impl LogRequester {
    /// Tells whoever waits; the answer to a client is the caller's to give.
    fn tell(self, became: LogResult) -> Option<LogAnswer> {
        match self {
            LogRequester::Client(to) => {
                return Some(LogAnswer {
                    to,
                    reply: became.reply(),
                });
            }
            LogRequester::Nobody => {}
            // Who no longer waits need not be told.
            LogRequester::Waits(tell) => drop(tell.send(became.status)),
        }
        None
    }
}

/// A request on its way to its channels.
struct Logging {
    request: Arc<LogRequest>,
    run: LogRun,
    subject: Subject,
}

/// The origin of what is logged.
enum Subject {
    /// A request, by what it is told from others if it may be logged once for many.
    Request {
        to: LogRequester,
        likeness: Option<DuplicateKey>,
    },
    /// The number of requests that were not logged.
    Tally,
}

impl Logging {
    /// The memory that each channel of a request takes while it waits, nearly.
    const CHANNEL: usize = 256;

    fn channels(&self) -> BTreeSet<Key> {
        self.run.channels()
    }

    /// The memory that it takes, nearly.
    fn bytes(&self) -> usize {
        let infos = self.request.data.iter().chain(&self.request.directives);
        let channels = self.run.channels().len() * Logging::CHANNEL;
        infos.fold(channels, |sum, info| {
            sum.saturating_add(Size::of_info(info).bytes)
        })
    }
}

/// The modules that write, in their order, and what measures them.
struct ChannelModules {
    modules: Vec<Served>,
    /// The channels that they can write to.
    offered: Arc<[Key]>,
    meters: Arc<RoleMeters>,
}

impl ChannelModules {
    fn new(hosted: &HostedChannels, metrics: &Metrics) -> Arc<ChannelModules> {
        let modules: Vec<Served> = hosted
            .modules
            .iter()
            .map(|(_, _, served)| served.clone())
            .collect();
        let offered = modules
            .iter()
            .flat_map(|served| served.available.iter().cloned())
            .collect();
        let names = modules.iter().map(|served| served.module.name());
        let meters = metrics.modules(&Owner::Site, Role::LogChannel.name(), names);
        Arc::new(ChannelModules {
            modules,
            offered,
            meters,
        })
    }

    fn available(&self, source: Option<&Proc>, host: &dyn HostEnvironment) -> AvailableChannels {
        let of_host = source
            .map(|source| host.log_channels(source))
            .unwrap_or_default();
        AvailableChannels {
            of_modules: self.offered.clone(),
            of_host,
        }
    }

    fn module(&self, channel: &Key) -> Option<&Module> {
        self.modules
            .iter()
            .find(|served| served.available.contains(channel))
            .map(|served| &*served.module)
    }
}

/// The running channels.
pub(crate) struct Channels {
    writers: watch::Sender<Arc<ChannelModules>>,
    backlog: Arc<ChannelBacklog>,
    worker: JoinHandle<()>,
    writer: Arc<ChannelWriter>,
}

impl Channels {
    /// Starts the worker; its answers go to `handle`.
    pub(crate) fn start(
        hosted: HostedChannels,
        pool: &Arc<GuestPool>,
        settings: ChannelSettings,
        host: &Arc<dyn HostEnvironment>,
        beside: (Arc<dyn ServerTransport>, ServerId),
        handle: &ServerHandle,
        metrics: &Arc<Metrics>,
    ) -> Channels {
        let (writers, seated) = watch::channel(ChannelModules::new(&hosted, metrics));
        let backlog = ChannelBacklog::new(settings.queue);
        let book = DuplicateFilter::new(settings.log.aggregation);
        let writer = Arc::new(ChannelWriter {
            writers: seated,
            pool: pool.clone(),
            settings,
            host: host.clone(),
            beside,
            metrics: metrics.clone(),
            turns: FairSemaphore::new(Semaphore::MAX_PERMITS, 1),
        });
        let started = Instant::now();
        let worker = ChannelWorker {
            backlog: backlog.clone(),
            writer: writer.clone(),
            handle: handle.clone(),
            book,
            started,
        };
        let worker = tokio::spawn(worker.run());
        Channels {
            writers,
            backlog,
            worker,
            writer,
        }
    }

    /// Puts these in the place of those there are. A request that is being written is written by those who began.
    pub(crate) fn replace(&mut self, hosted: &HostedChannels) {
        self.writers
            .send_replace(ChannelModules::new(hosted, &self.writer.metrics));
    }

    /// The channels that are available to a proc or tool (`PMIX_QUERY_LOG_CHANNELS`): those of modules, in their order, then those that
    /// the host environment is.
    pub(crate) fn available(&self, source: &Proc) -> AvailableChannels {
        self.writers
            .borrow()
            .available(Some(source), &*self.writer.host)
    }

    /// Takes a request, which is answered when it has been written. Of one that makes no sense, or if too many wait, the answer comes back:
    /// behind what others have had written it would keep them waiting.
    pub(crate) fn submit(
        &self,
        to: LogRequester,
        request: Arc<LogRequest>,
        origin: LogOrigin,
        chosen: Option<Key>,
    ) -> Option<LogAnswer> {
        let arrival = LogArrival {
            chosen,
            ..self.writer.arrival(SystemTime::now(), origin)
        };
        let run = match self.writer.route(&request, &arrival) {
            Ok(run) => run,
            Err(malformed) => {
                tracing::debug!(source = writing::source_name(&request), %malformed, "nothing is logged");
                self.writer.metrics.counters().log_requests.count();
                return to.tell(malformed.status().into());
            }
        };
        let (user, subject) = (
            request.identity.map(|identity| identity.uid),
            Subject::request(to, run.likeness()),
        );
        let Err(refused) = self.backlog.offer(
            user,
            Logging {
                request,
                run,
                subject,
            },
        ) else {
            return None;
        };
        let RefusedRequest {
            logging: Logging {
                request, subject, ..
            },
            limit,
        } = *refused;
        self.writer.metrics.counters().log_requests_refused.count();
        tracing::debug!(source = writing::source_name(&request), user, %limit, "log request refused");
        let Subject::Request { to, .. } = subject else {
            return None;
        };
        to.tell(LogResult::refused(
            code::PMIX_ERR_OUT_OF_RESOURCE,
            limit.info(),
        ))
    }

    /// Waits until what was accepted is written and the modules have stopped, but no longer than may be.
    pub(crate) async fn drain(self) {
        self.backlog.close();
        let (stop, drain_timeout) = (
            self.worker.abort_handle(),
            self.writer.settings.drain_timeout,
        );
        if tokio::time::timeout(drain_timeout, self.worker)
            .await
            .is_err()
        {
            stop.abort();
            tracing::error!(after = ?drain_timeout, "what is still before the log channels is lost");
        }
    }
}
