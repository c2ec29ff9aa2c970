//! The way of one request through its channels.
use super::{ChannelModules, ChannelSettings};
use crate::{
    fair_semaphore::FairSemaphore,
    guest_thread::on_guest_thread,
    host_environment::HostEnvironment,
    metrics::{Metrics, Stopwatch},
    transport::{ServerId, ServerTransport},
};
use peal_core::log::{
    self, LogArrival, LogDestination, LogOrigin, LogRun, Logged, Malformed, NextChannel,
    PendingChannel,
};
use peal_model::{ChainResult, Info, Key, LogRequest, Reply, Status, Value, code};
use peal_sandbox::{ChannelCall, GuestPool};
use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::watch;

/// Has channels write, one after the other for each request and one request at a time for each channel.
pub(super) struct ChannelWriter {
    pub(super) writers: watch::Receiver<Arc<ChannelModules>>,
    pub(super) pool: Arc<GuestPool>,
    pub(super) settings: ChannelSettings,
    pub(super) host: Arc<dyn HostEnvironment>,
    /// The other servers, and who this one is among them.
    pub(super) beside: (Arc<dyn ServerTransport>, ServerId),
    pub(super) metrics: Arc<Metrics>,
    /// Turns at channels. A user has one request at most before each, so these are turns of users as well.
    pub(super) turns: FairSemaphore<Key>,
}

/// The time that channels have for one request, whatever they are: later ones of its user wait.
struct RequestTimer(Duration);

impl RequestTimer {
    /// How much longer than the host environment over one channel a whole request may take.
    const TIMES: u32 = 3;

    fn new(host_timeout: Duration) -> RequestTimer {
        RequestTimer(host_timeout.saturating_mul(RequestTimer::TIMES))
    }

    /// Only what is spent in a turn counts, not the wait for it.
    fn spend(&mut self, time: Duration) {
        self.0 = self.0.saturating_sub(time);
    }
}

/// The result of a request.
pub(super) struct LogResult {
    pub(super) status: Status,
    /// Of each channel that was tried, by its key; empty where all is as the status says.
    channels: Vec<Info>,
}

impl LogResult {
    fn of(logged: Logged) -> LogResult {
        let Logged { status, steps } = logged;
        let all_went_well = steps.iter().all(|step| step.status.is_success());
        let channel = |step: ChainResult| {
            Some(Info::new(
                Key::new(&step.name).ok()?,
                Value::Status(step.status),
            ))
        };
        let channels = if all_went_well {
            Vec::new()
        } else {
            steps.into_iter().filter_map(channel).collect()
        };
        LogResult { status, channels }
    }

    /// Says that it was refused, and by which limit.
    pub(super) fn refused(status: Status, limit: Info) -> LogResult {
        LogResult {
            status,
            channels: vec![limit],
        }
    }

    /// As clients are told.
    pub(super) fn reply(self) -> Reply {
        let LogResult { status, channels } = self;
        if channels.is_empty() {
            Reply::Status(status)
        } else {
            Reply::Infos {
                status,
                infos: channels,
            }
        }
    }
}

impl From<Status> for LogResult {
    fn from(status: Status) -> LogResult {
        LogResult {
            status,
            channels: Vec::new(),
        }
    }
}

impl ChannelWriter {
    /// Finds the way of a request to the channels that there are now.
    pub(super) fn route(
        &self,
        request: &Arc<LogRequest>,
        arrival: &LogArrival,
    ) -> Result<LogRun, Malformed> {
        let available = self
            .writers
            .borrow()
            .available(request.source.as_ref(), &*self.host);
        log::route(request.clone(), &available, &self.settings.log, arrival)
    }

    /// How a request came that came at this time.
    pub(super) fn arrival(&self, at: SystemTime, origin: LogOrigin) -> LogArrival {
        let (fabric, id) = &self.beside;
        let at = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        LogArrival {
            at,
            origin,
            gateway: fabric.gateway(*id),
            chosen: None,
        }
    }

    /// Takes a request its way, and says what became of it. Channels that the request has no time left for are not tried.
    pub(super) async fn write(&self, request: &LogRequest, mut run: LogRun) -> LogResult {
        let writers = self.writers.borrow().clone();
        let mut patience = RequestTimer::new(self.settings.host_timeout);
        let logged = loop {
            let pending = match run.advance() {
                NextChannel::Try(pending) => pending,
                NextChannel::Done(logged) => break logged,
            };
            if patience.0.is_zero() {
                run = pending.finish(code::PMIX_ERR_TIMEOUT, Vec::new());
                continue;
            }
            let Ok(_turn) = self.turns.take(pending.channel().clone()).await else {
                return code::PMIX_ERR_OUT_OF_RESOURCE.into();
            };
            let begin = Instant::now();
            run = if pending.writer() == LogDestination::Module
                && writers.module(pending.channel()).is_some()
            {
                let writers = writers.clone();
                match on_guest_thread(&self.pool, move || call(pending, &writers)).await {
                    Some(run) => run,
                    None => return code::PMIX_ERR_OUT_OF_RESOURCE.into(),
                }
            } else {
                let status = self.ask(&pending, &patience).await;
                pending.finish(status, Vec::new())
            };
            patience.spend(begin.elapsed());
        };
        for step in logged.steps.iter().filter(|step| !step.status.is_success()) {
            self.metrics.counters().log_channel_failures.count();
            let source = source_name(request);
            tracing::info!(source, channel = ?step.name, status = %step.status, infos = ?step.infos, "a log channel failed");
        }
        LogResult::of(logged)
    }

    /// Has somebody else write to a channel.
    async fn ask(&self, pending: &PendingChannel, patience: &RequestTimer) -> Status {
        let (channel, request, (fabric, id)) =
            (pending.channel().clone(), pending.request(), &self.beside);
        let asked = match (pending.writer(), request.source.clone()) {
            (LogDestination::Gateway, _) => {
                fabric.log(*id, channel, request, pending.origin().at_gateway())
            }
            (LogDestination::Host, Some(source)) => {
                let LogRequest {
                    timestamp,
                    data,
                    directives,
                    ..
                } = Arc::unwrap_or_clone(request);
                self.host.log(
                    source,
                    channel,
                    timestamp.unwrap_or_default(),
                    data,
                    directives,
                )
            }
            // A module that has gone since it was chosen; what has no source is the host's own.
            (LogDestination::Module, _) | (LogDestination::Host, None) => {
                return code::PMIX_ERR_NOT_AVAILABLE;
            }
        };
        match tokio::time::timeout(self.settings.host_timeout.min(patience.0), asked).await {
            Ok(Ok(())) => code::PMIX_SUCCESS,
            Ok(Err(status)) => status,
            Err(_) => code::PMIX_ERR_TIMEOUT,
        }
    }
}

/// Has a module write, on a guest thread.
fn call(pending: PendingChannel, writers: &ChannelModules) -> LogRun {
    let Some(module) = writers.module(pending.channel()) else {
        return pending.finish(code::PMIX_ERR_NOT_AVAILABLE, Vec::new());
    };
    let mut watch = Stopwatch::start();
    let (channel, request) = (pending.channel().clone(), pending.request());
    let result = module.log(&ChannelCall {
        channel,
        request,
        steps: pending.steps().clone(),
    });
    writers.meters.called(
        module.name(),
        watch.lap(),
        &result.usage,
        result.failure.as_ref(),
    );
    pending.finish(result.status, result.infos)
}

/// The requester as traces have it.
pub(super) fn source_name(request: &LogRequest) -> String {
    request
        .source
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}
