//! Writing of one log request to its channels.
use super::{ChannelModules, ChannelSettings, LogAnswer, LogRequester};
use crate::{
    fair_semaphore::FairSemaphore,
    gateways::Gateways,
    guest_thread::on_guest_thread,
    handle::ServerHandle,
    host_environment::{HostEnvironment, UpcallFuture},
    metrics::{Metrics, Stopwatch},
};
use peal_core::log::{
    self, LogArrival, LogDestination, LogOrigin, LogRun, Logged, Malformed, NextChannel,
    PendingChannel,
};
use peal_model::{ChainResult, Info, Key, LogRequest, Reply, Status, Value, code};
use peal_sandbox::{ChannelCall, GuestPool};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::watch;

/// Writer of log requests: one channel after the other for each request, one request at a time for
/// each channel.
pub(super) struct ChannelWriter {
    pub(super) writers: watch::Receiver<Arc<ChannelModules>>,
    pub(super) pool: Arc<GuestPool>,
    pub(super) settings: ChannelSettings,
    pub(super) host: Arc<dyn HostEnvironment>,
    pub(super) gateways: Gateways,
    pub(super) metrics: Arc<Metrics>,
    /// Server that answers the requesters.
    pub(super) handle: ServerHandle,
    /// Semaphore of each channel. A user has at most one request in a channel, so the order of the
    /// permits is also the order of the users.
    pub(super) channel_permits: FairSemaphore<Key>,
}

/// Time that is left for the channels of one request. It bounds the wait of later requests of the
/// user.
struct RequestTimer(Duration);

impl RequestTimer {
    /// Multiple of the host environment's limit for one channel that a whole request may take.
    const TIMES: u32 = 3;

    fn new(host_timeout: Duration) -> RequestTimer {
        RequestTimer(host_timeout.saturating_mul(RequestTimer::TIMES))
    }

    /// Subtracts the time spent with a permit. The wait for the permit does not count.
    fn spend(&mut self, time: Duration) {
        self.0 = self.0.saturating_sub(time);
    }
}

/// Part of the host environment in a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum WrittenByHost {
    /// It has got nothing yet.
    NotYet,
    /// It has got the whole request, which had this status.
    Whole(Status),
    /// It gets one channel after the other.
    ByChannel,
}

/// Request with all its channels.
struct WholeRequest<'a> {
    request: &'a LogRequest,
    modules: &'a ChannelModules,
    written: &'a mut WrittenByHost,
}

/// Requester of a request, until it is answered. `None` if nobody waits for the result.
struct PendingRequester(Mutex<Option<LogRequester>>);

impl PendingRequester {
    fn take(&self) -> Option<LogRequester> {
        // No code panics while it holds the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// State of a request after one of its channels.
enum LogProgress {
    /// This channel is next.
    Try(Box<PendingChannel>),
    /// All are done, and the requester has the result, which has this status.
    Answered(Status),
}

/// Result of a log request.
pub(super) struct LogResult {
    pub(super) status: Status,
    /// Status of each channel that was tried, by its key; empty if all channels succeeded.
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

    /// Returns the result of a request that a limit refused.
    pub(super) fn refused(status: Status, limit: Info) -> LogResult {
        LogResult {
            status,
            channels: vec![limit],
        }
    }

    /// Converts the result to a reply for clients.
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
    /// Routes a request to the channels that are currently available.
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

    /// Returns the circumstances of a request that arrived at this time.
    pub(super) fn arrival(&self, at: SystemTime, origin: LogOrigin) -> LogArrival {
        let at = at
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        LogArrival {
            at,
            origin,
            gateway: self.gateways.availability(),
            chosen: None,
        }
    }

    /// Writes a request to its channels, answers its requester, and returns the status. Channels are not tried after
    /// the time of the request is used up.
    pub(super) async fn write(
        self: &Arc<Self>,
        request: &Arc<LogRequest>,
        run: LogRun,
        to: Option<LogRequester>,
    ) -> Status {
        // Shared with a guest thread, which may take no jobs.
        let requester = Arc::new(PendingRequester(Mutex::new(to)));
        // One module set serves the whole request, even if the modules are replaced meanwhile.
        let writers = self.writers.borrow().clone();
        let mut timer = RequestTimer::new(self.settings.host_timeout);
        let mut by_host = WrittenByHost::NotYet;
        let mut progress = self.proceed(request, &requester, run);
        loop {
            let pending = match progress {
                LogProgress::Try(pending) => *pending,
                LogProgress::Answered(status) => return status,
            };
            if timer.0.is_zero() {
                // Channels that are not tried get a status, so that the requester learns of them.
                let run = pending.finish(code::PMIX_ERR_TIMEOUT, Vec::new());
                progress = self.proceed(request, &requester, run);
                continue;
            }
            let Ok(_turn) = self.channel_permits.take(pending.channel().clone()).await else {
                return self.answer(&requester, code::PMIX_ERR_OUT_OF_RESOURCE.into());
            };
            let begin = Instant::now();
            // The module may have been removed since the request was routed.
            progress = if pending.writer() == LogDestination::Module
                && writers.module(pending.channel()).is_some()
            {
                let (writer, writers) = (self.clone(), writers.clone());
                let (of_thread, to) = (request.clone(), requester.clone());
                // The guest thread answers after the last channel. To wake the thread of the runtime for that takes
                // longer than to write most lines.
                let job = move || writer.proceed(&of_thread, &to, call(pending, &writers));
                match on_guest_thread(&self.pool, job).await {
                    Some(progress) => progress,
                    None => return self.answer(&requester, code::PMIX_ERR_OUT_OF_RESOURCE.into()),
                }
            } else {
                let whole = WholeRequest {
                    request,
                    modules: &writers,
                    written: &mut by_host,
                };
                let status = self.write_elsewhere(&pending, &timer, whole).await;
                self.proceed(request, &requester, pending.finish(status, Vec::new()))
            };
            timer.spend(begin.elapsed());
        }
    }

    /// Returns the next channel of a request. Answers the requester if there is none.
    fn proceed(
        &self,
        request: &LogRequest,
        requester: &PendingRequester,
        run: LogRun,
    ) -> LogProgress {
        let logged = match run.advance() {
            NextChannel::Try(pending) => return LogProgress::Try(Box::new(pending)),
            NextChannel::Done(logged) => logged,
        };
        for step in logged.steps.iter().filter(|step| !step.status.is_success()) {
            self.metrics.counters().log_channel_failures.count();
            let source = source_name(request);
            tracing::info!(source, channel = ?step.name, status = %step.status, infos = ?step.infos, "log channel failed");
        }
        LogProgress::Answered(self.answer(requester, LogResult::of(logged)))
    }

    /// Answers a requester and returns the status of the result.
    fn answer(&self, requester: &PendingRequester, result: LogResult) -> Status {
        let status = result.status;
        if let Some(to) = requester.take() {
            self.report(to, result);
        }
        status
    }

    /// Counts a request and reports its result.
    pub(super) fn report(&self, to: LogRequester, result: LogResult) {
        self.metrics.counters().log_requests.count();
        if let Some(LogAnswer { to, reply }) = to.answer(result) {
            self.handle.answer(to, reply);
        }
    }

    /// Writes to a channel through a gateway or the host environment.
    async fn write_elsewhere(
        &self,
        pending: &PendingChannel,
        timer: &RequestTimer,
        whole: WholeRequest<'_>,
    ) -> Status {
        let limit = self.settings.host_timeout.min(timer.0);
        if pending.writer() == LogDestination::Host
            && let Some(status) = self.write_whole(whole, limit).await
        {
            return status;
        }
        let (channel, request) = (pending.channel().clone(), pending.request());
        let written: UpcallFuture<'_, ()> = match (pending.writer(), request.source.clone()) {
            (LogDestination::Gateway, _) => {
                let origin = pending.origin().at_gateway();
                Box::pin(self.gateways.write(channel, request, origin))
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
            // The module was removed after it was chosen, or the request is the host environment's
            // own.
            (LogDestination::Module, _) | (LogDestination::Host, None) => {
                return code::PMIX_ERR_NOT_AVAILABLE;
            }
        };
        status_of(written, limit).await
    }

    /// Passes a request to a host environment that takes requests whole, at the first of its channels.
    /// Returns `None` if channels are written one by one.
    async fn write_whole(&self, whole: WholeRequest<'_>, limit: Duration) -> Option<Status> {
        let WholeRequest {
            request,
            modules,
            written,
        } = whole;
        if *written == WrittenByHost::NotYet {
            let source = request.source.as_ref()?;
            // What modules write would be written twice.
            let is_for_host = |info: &&Info| modules.module(&info.key).is_none();
            let request = LogRequest {
                data: request.data.iter().filter(is_for_host).cloned().collect(),
                ..request.clone()
            };
            let call = self.host.log_request(source, &request);
            *written = match call {
                None => WrittenByHost::ByChannel,
                Some(call) => match status_of(call, limit).await {
                    code::PMIX_ERR_NOT_SUPPORTED => WrittenByHost::ByChannel,
                    status => WrittenByHost::Whole(status),
                },
            };
        }
        match *written {
            WrittenByHost::Whole(status) => Some(status),
            WrittenByHost::NotYet | WrittenByHost::ByChannel => None,
        }
    }
}

/// Waits for a log upcall up to a limit.
async fn status_of(written: UpcallFuture<'_, ()>, limit: Duration) -> Status {
    match tokio::time::timeout(limit, written).await {
        Ok(Ok(())) => code::PMIX_SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => code::PMIX_ERR_TIMEOUT,
    }
}

/// Calls a module to write. Runs on a guest thread.
fn call(pending: PendingChannel, writers: &ChannelModules) -> LogRun {
    let Some(module) = writers.module(pending.channel()) else {
        return pending.finish(code::PMIX_ERR_NOT_AVAILABLE, Vec::new());
    };
    let mut watch = Stopwatch::start();
    let channel = pending.channel().clone();
    let request = pending.request();
    let result = module.log(ChannelCall {
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

/// Returns the name of the requester for traces.
pub(super) fn source_name(request: &LogRequest) -> String {
    request
        .source
        .as_ref()
        .map(ToString::to_string)
        .unwrap_or_default()
}
