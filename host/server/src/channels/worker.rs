//! The worker that takes log requests as they come and has each written.
use super::{ChannelSettings, Logging, Writers};
use crate::{
    guest_thread::on_guest_thread,
    handle::ServerHandle,
    host::Host,
    metrics::{Metrics, Stopwatch},
};
use peal_core::log::{self, Logged, NextChannel, PendingChannel, Writer};
use peal_model::{LogRequest, Reply, Status, code};
use peal_sandbox::{ChannelCall, GuestPool};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};

/// The time that the worker has for one request, whatever its channels are: others wait.
#[derive(Clone, Copy)]
struct Time {
    started: Instant,
    allowed: Duration,
}

impl Time {
    /// How much longer than the host environment over one channel a whole request may take.
    const TIMES: u32 = 3;

    fn start(host_timeout: Duration) -> Time {
        Time { started: Instant::now(), allowed: host_timeout.saturating_mul(Time::TIMES) }
    }

    fn left(self) -> Duration {
        self.allowed.saturating_sub(self.started.elapsed())
    }
}

pub(super) struct Worker {
    pub(super) writers: watch::Receiver<Arc<Writers>>,
    pub(super) pool: Arc<GuestPool>,
    pub(super) settings: ChannelSettings,
    pub(super) host: Arc<dyn Host>,
    pub(super) handle: ServerHandle,
    pub(super) metrics: Arc<Metrics>,
    pub(super) waiting: Arc<AtomicUsize>,
}

/// How far a request comes on a guest thread.
enum Halt {
    /// A channel is the host environment's.
    Host(Box<PendingChannel>),
    /// To its end.
    End(Logged),
}

impl Worker {
    pub(super) async fn run(self, mut requests: mpsc::Receiver<Logging>) {
        while let Some(Logging { to, request, bytes }) = requests.recv().await {
            let writers = self.writers.borrow().clone();
            let status = self.write(request, &writers).await;
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.metrics.counters().log_requests.count();
            self.handle.answer(to, Reply::Status(status));
        }
        let writers = self.writers.borrow().clone();
        let stop = move || writers.modules.iter().for_each(|served| served.module.stop());
        if on_guest_thread(&self.pool, stop).await.is_none() {
            tracing::warn!("no guest thread was free to tell the log channels that they stop");
        }
    }

    /// Has a request written, and says what became of it.
    async fn write(&self, request: Arc<LogRequest>, writers: &Arc<Writers>) -> Status {
        let source = request.source.as_ref().map(ToString::to_string).unwrap_or_default();
        let mut run = match log::route(request, &writers.offered, &self.settings.log) {
            Ok(run) => run,
            Err(malformed) => {
                tracing::debug!(source, %malformed, "nothing is logged");
                return malformed.status();
            }
        };
        let time = Time::start(self.settings.host_timeout);
        let logged = loop {
            let writers = writers.clone();
            match on_guest_thread(&self.pool, move || walk(run.advance(), &writers, time)).await {
                Some(Halt::Host(pending)) => {
                    let status = self.ask_host(&pending, time).await;
                    run = pending.finish(status, Vec::new());
                }
                Some(Halt::End(logged)) => break logged,
                None => return code::PMIX_ERR_OUT_OF_RESOURCE,
            }
        };
        for step in logged.steps.iter().filter(|step| !step.status.is_success()) {
            // The answer has no room for it.
            self.metrics.counters().log_channels_failed.count();
            tracing::info!(source, channel = ?step.name, status = %step.status, infos = ?step.infos, "a log channel failed");
        }
        logged.status
    }

    /// Has the host environment write to a channel of which no module is known. What came from it would not go back to it.
    async fn ask_host(&self, pending: &PendingChannel, time: Time) -> Status {
        let request = pending.request();
        let Some(source) = request.source.clone() else { return code::PMIX_ERR_NOT_AVAILABLE };
        let LogRequest { timestamp, data, directives, .. } = Arc::unwrap_or_clone(request);
        let asked = self.host.log(source, timestamp.unwrap_or_default(), data, directives);
        match tokio::time::timeout(self.settings.host_timeout.min(time.left()), asked).await {
            Ok(Ok(())) => code::PMIX_SUCCESS,
            Ok(Err(status)) => status,
            Err(_) => code::PMIX_ERR_TIMEOUT,
        }
    }
}

/// Runs on a guest thread: one channel after the other, as far as they are modules.
///
/// Those that the request has no time left for are not tried.
fn walk(mut next: NextChannel, writers: &Writers, time: Time) -> Halt {
    let mut watch = Stopwatch::start();
    loop {
        let pending = match next {
            NextChannel::Try(pending) => pending,
            NextChannel::Done(logged) => return Halt::End(logged),
        };
        if time.left().is_zero() {
            next = pending.finish(code::PMIX_ERR_TIMEOUT, Vec::new()).advance();
            continue;
        }
        next = match (pending.writer(), writers.module(pending.channel())) {
            (Writer::Module, Some(module)) => {
                let (channel, request) = (pending.channel().clone(), pending.request());
                let result = module.log(&ChannelCall { channel, request, steps: pending.steps().clone() });
                writers.meters.called(module.name(), watch.lap(), &result.usage, result.failure.as_ref());
                pending.finish(result.status, result.infos)
            }
            (Writer::Module | Writer::Host, _) => return Halt::Host(Box::new(pending)),
        }
        .advance();
    }
}
