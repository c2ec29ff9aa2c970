//! Log channels: components that write what procs log.
//!
//! Each channel writes one request after the other, on guest threads of the log channels, and takes
//! users in turn. Requests of one user on one channel keep their order. A slow channel therefore
//! delays no event and no other channel, and of each user only the requests that name it.

mod backlog;
mod worker;
mod writing;

use crate::{
    fair_semaphore::FairSemaphore,
    gateways::Gateways,
    handle::ServerHandle,
    host_environment::HostEnvironment,
    metrics::{Metrics, RoleMeters},
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
    quota::QuotaReport,
    registration::{ChainPlacement, EventCodes, HandlerRegistration, RegistrationError},
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

/// Limits, times and order of log channels. All of them are settings.
#[derive(Clone, Debug)]
pub struct ChannelSettings {
    /// Which channels come first and which must not fail.
    pub log: LogSettings,
    /// Upper bounds of the requests that wait or are being written, in total and for each user.
    pub queue: QueueLimits,
    /// Time limit of the host environment for one channel. After three times as long, no further
    /// channel of the request is tried.
    pub host_timeout: Duration,
    /// Time in which accepted requests must be written at shutdown.
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

/// Module and the channels that it serves.
#[derive(Clone)]
struct Served {
    keys: Vec<Key>,
    /// Channels that the module can write to.
    available: Vec<Key>,
    module: Arc<Module>,
}

/// Log channels of one server, before it starts.
#[derive(Default)]
pub struct HostedChannels {
    modules: Registrations<Served>,
}

/// Error of the registration of a channel.
#[derive(Debug, Error)]
pub enum ChannelError {
    /// The module names no channel.
    #[error("{name:?} names no channel; write which it is, such as stdout")]
    None {
        /// The module.
        name: String,
    },
    /// Another module serves the channel.
    #[error("{channel} is served by {holder:?} already; only one module may")]
    Taken {
        /// The channel.
        channel: Key,
        /// Name of the other module.
        holder: String,
    },
    /// The requested placement is not possible.
    #[error(transparent)]
    Place(#[from] RegistrationError),
}

impl HostedChannels {
    /// Adds a module that serves these channels. Its placement is its position among the channels
    /// that are tried for a request without a channel. Channels that the module reports as absent
    /// are not available. Blocks while the module is called.
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
        for other in self.modules.iter() {
            if let Some(channel) = keys.iter().find(|key| other.handler.keys.contains(key)) {
                let holder = other.registration.name.to_string();
                return Err(ChannelError::Taken {
                    channel: channel.clone(),
                    holder,
                });
            }
        }
        let registration = HandlerRegistration {
            place,
            ..HandlerRegistration::new(name, EventCodes::Default)
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

/// Recipient of the result of a log request.
#[derive(Debug)]
pub(crate) enum LogRequester {
    /// A client or tool of this server.
    Client(RequestId),
    /// None: the request results from another one.
    Untracked,
    /// The host environment or another server, which waits for the status.
    Waits(oneshot::Sender<Status>),
}

/// Answer to a log request of a client or tool.
pub(crate) struct LogAnswer {
    pub(crate) to: RequestId,
    pub(crate) reply: Reply,
}

impl LogRequester {
    /// Sends the result to a waiting requester. Returns the answer to a client, which the caller
    /// must send.
    fn answer(self, result: LogResult) -> Option<LogAnswer> {
        match self {
            // Returned, because the actor calls this as well and needs no message to itself.
            LogRequester::Client(to) => {
                return Some(LogAnswer {
                    to,
                    reply: result.reply(),
                });
            }
            LogRequester::Untracked => {}
            // Ignore the error: the requester may no longer wait.
            LogRequester::Waits(reply_to) => drop(reply_to.send(result.status)),
        }
        None
    }
}

/// Log request on its way to its channels.
struct Logging {
    request: Arc<LogRequest>,
    run: LogRun,
    /// Recipient of the result; `None` if the worker itself made the request, as a summary of suppressed duplicates.
    to: Option<LogRequester>,
    /// Identifies similar requests if duplicates may be suppressed.
    duplicate_key: Option<DuplicateKey>,
}

impl Logging {
    /// Estimate of the memory that each channel of a waiting request takes, in bytes.
    const CHANNEL: usize = 256;

    fn channels(&self) -> BTreeSet<Key> {
        self.run.channels()
    }

    /// Estimates the memory of the request, in bytes.
    fn bytes(&self) -> usize {
        let infos = self.request.data.iter().chain(&self.request.directives);
        let channels = self.run.channels().len() * Logging::CHANNEL;
        infos.fold(channels, |sum, info| {
            sum.saturating_add(Size::of_info(info).bytes)
        })
    }
}

/// Modules that write, in their order, and their meters.
struct ChannelModules {
    modules: Vec<Served>,
    /// Channels that the modules can write to.
    offered: Arc<[Key]>,
    meters: Arc<RoleMeters>,
}

impl ChannelModules {
    fn new(hosted: &HostedChannels, metrics: &Metrics) -> Arc<ChannelModules> {
        let modules: Vec<Served> = hosted
            .modules
            .iter()
            .map(|member| member.handler.clone())
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

/// Running channels.
pub(crate) struct Channels {
    writers: watch::Sender<Arc<ChannelModules>>,
    backlog: Arc<ChannelBacklog>,
    worker: JoinHandle<()>,
    writer: Arc<ChannelWriter>,
}

impl Channels {
    /// Starts the worker. Its answers go to `handle`.
    pub(crate) fn start(
        hosted: HostedChannels,
        pool: &Arc<GuestPool>,
        settings: ChannelSettings,
        host: &Arc<dyn HostEnvironment>,
        gateways: Gateways,
        handle: &ServerHandle,
        metrics: &Arc<Metrics>,
    ) -> Channels {
        let (writers, receiver) = watch::channel(ChannelModules::new(&hosted, metrics));
        let backlog = ChannelBacklog::new(settings.queue);
        let duplicates = DuplicateFilter::new(settings.log.aggregation);
        let writer = Arc::new(ChannelWriter {
            writers: receiver,
            pool: pool.clone(),
            settings,
            host: host.clone(),
            gateways,
            metrics: metrics.clone(),
            handle: handle.clone(),
            // One request at a time for each channel. The total needs no limit here, because the
            // queue has one.
            channel_permits: FairSemaphore::new(Semaphore::MAX_PERMITS, 1),
        });
        let started = Instant::now();
        let worker = ChannelWorker {
            backlog: backlog.clone(),
            writer: writer.clone(),
            duplicates,
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

    /// Replaces the modules. A request that is being written is finished by the previous ones.
    pub(crate) fn replace(&mut self, hosted: &HostedChannels) {
        self.writers
            .send_replace(ChannelModules::new(hosted, &self.writer.metrics));
    }

    /// Returns the channels that are available to a proc or tool (`PMIX_QUERY_LOG_CHANNELS`): those
    /// of modules in their order, then those of the host environment.
    pub(crate) fn available(&self, source: &Proc) -> AvailableChannels {
        self.writers
            .borrow()
            .available(Some(source), &*self.writer.host)
    }

    /// Returns true if requests wait or are being written.
    pub(crate) fn are_busy(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Adds the requests of each user to a report.
    pub(crate) fn report_quotas(&self, report: &mut QuotaReport) {
        self.backlog.report_quotas(report);
    }

    /// Accepts a request, which is answered after it was written. Returns the answer at once if the
    /// request is invalid or a limit is reached. An invalid request is answered at once so that it
    /// does not have to wait behind other requests.
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
                tracing::debug!(source = writing::source_name(&request), %malformed, "malformed log request refused");
                self.writer.metrics.counters().log_requests.count();
                return to.answer(malformed.status().into());
            }
        };
        let user = request.identity.map(|identity| identity.uid);
        let duplicate_key = run.likeness();
        let Err(refused) = self.backlog.offer(
            user,
            Logging {
                request,
                run,
                to: Some(to),
                duplicate_key,
            },
        ) else {
            return None;
        };
        let RefusedRequest {
            logging: Logging { request, to, .. },
            limit,
        } = *refused;
        self.writer.metrics.counters().log_requests_refused.count();
        if let Some(uid) = user {
            self.writer.metrics.refuse(uid, limit.quota());
        }
        tracing::debug!(source = writing::source_name(&request), user, %limit, "log request refused");
        to?.answer(LogResult::refused(
            code::PMIX_ERR_OUT_OF_RESOURCE,
            limit.info(),
        ))
    }

    /// Waits until the accepted requests are written and the modules have stopped, at most the
    /// drain timeout.
    pub(crate) async fn drain(self) {
        self.backlog.close();
        // A timeout drops the handle of the task, which does not end the task.
        let stop = self.worker.abort_handle();
        let drain_timeout = self.writer.settings.drain_timeout;
        if tokio::time::timeout(drain_timeout, self.worker)
            .await
            .is_err()
        {
            stop.abort();
            tracing::error!(after = ?drain_timeout, "log channels not drained in time; pending log requests lost");
        }
    }
}
