//! The worker that takes log requests as they come and has each written.
use super::{ChannelSettings, Logging, Writers};
use crate::{
    deadline::until,
    fabric::{Fabric, ServerId},
    guest_thread::on_guest_thread,
    handle::ServerHandle,
    host::Host,
    metrics::{Metrics, Stopwatch},
};
use peal_core::{
    Time,
    log::{
        self, Arrival, LogRun, Logged, NextChannel, Origin, PendingChannel, Writer,
        book::{Book, Tally},
    },
};
use peal_model::{Info, Key, LogRequest, Reply, Status, Step, Value, code};
use peal_sandbox::{ChannelCall, GuestPool};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};
use tokio::sync::{mpsc, watch};

/// The time that the worker has for one request, whatever its channels are: others wait.
#[derive(Clone, Copy)]
struct Patience {
    started: Instant,
    allowed: Duration,
}

impl Patience {
    /// How much longer than the host environment over one channel a whole request may take.
    const TIMES: u32 = 3;

    fn start(host_timeout: Duration) -> Patience {
        Patience { started: Instant::now(), allowed: host_timeout.saturating_mul(Patience::TIMES) }
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
    /// The other servers, and who this one is among them.
    pub(super) beside: (Arc<dyn Fabric>, ServerId),
    pub(super) handle: ServerHandle,
    pub(super) metrics: Arc<Metrics>,
    pub(super) waiting: Arc<AtomicUsize>,
    /// What was logged lately.
    pub(super) book: Book,
    pub(super) started: Instant,
}

/// What became of a request.
pub(super) struct Became {
    pub(super) status: Status,
    /// Of each channel that was tried, by its key; empty where all is as the status says.
    channels: Vec<Info>,
}

impl Became {
    fn of(logged: Logged) -> Became {
        let Logged { status, steps } = logged;
        let all_went_well = steps.iter().all(|step| step.status.is_success());
        let channel = |step: Step| Some(Info::new(Key::new(&step.name).ok()?, Value::Status(step.status)));
        let channels = if all_went_well { Vec::new() } else { steps.into_iter().filter_map(channel).collect() };
        Became { status, channels }
    }

    /// As clients are told.
    pub(super) fn reply(self) -> Reply {
        let Became { status, channels } = self;
        if channels.is_empty() { Reply::Status(status) } else { Reply::Infos { status, infos: channels } }
    }
}

impl From<Status> for Became {
    fn from(status: Status) -> Became {
        Became { status, channels: Vec::new() }
    }
}

/// How far a request comes on a guest thread.
enum Halt {
    /// A channel is not this server's.
    Beyond(Box<PendingChannel>),
    /// To its end.
    End(Logged),
}

impl Worker {
    pub(super) async fn run(mut self, mut requests: mpsc::Receiver<Logging>) {
        loop {
            let next = tokio::select! {
                next = requests.recv() => match next {
                    None => break,
                    next => next,
                },
                () = until(self.started, self.book.deadline()) => None,
            };
            // One at a time, so that requests have their turn.
            if let Some(told) = self.book.close(self.now()) {
                self.tell(told).await;
            }
            if let Some(Logging { to, request, origin, chosen, arrived, bytes }) = next {
                let arrival = Arrival { chosen, ..self.arrival(arrived, origin) };
                let became = self.log(request, &arrival).await;
                self.waiting.fetch_sub(bytes, Ordering::Relaxed);
                self.metrics.counters().log_requests.count();
                to.tell(&self.handle, became);
            }
        }
        for told in self.book.close_all() {
            self.tell(told).await;
        }
        let writers = self.writers.borrow().clone();
        let stop = move || writers.modules.iter().for_each(|served| served.module.stop());
        if on_guest_thread(&self.pool, stop).await.is_none() {
            tracing::warn!("no guest thread was free to tell the log channels that they stop");
        }
    }

    fn now(&self) -> Time {
        Time::default() + self.started.elapsed()
    }

    fn arrival(&self, arrived: SystemTime, origin: Origin) -> Arrival {
        let (fabric, id) = &self.beside;
        let at = arrived.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        Arrival { at, origin, gateway: fabric.gateway(*id), chosen: None }
    }

    /// Has a request written, unless the like of it was lately, and says what became of it.
    async fn log(&mut self, request: Arc<LogRequest>, arrival: &Arrival) -> Became {
        let writers = self.writers.borrow().clone();
        let available = writers.available(request.source.as_ref(), &*self.host);
        let run = match log::route(request.clone(), &available, &self.settings.log, arrival) {
            Ok(run) => run,
            Err(malformed) => {
                tracing::debug!(source = named(&request), %malformed, "nothing is logged");
                return malformed.status().into();
            }
        };
        let Some(likeness) = run.likeness() else { return self.write(&request, run, &writers).await };
        if let Some(status) = self.book.repeats(&likeness) {
            self.metrics.counters().log_requests_aggregated.count();
            return status.into();
        }
        let became = self.write(&request, run, &writers).await;
        if let Some(told) = self.book.logged(likeness, &request, became.status, self.now()) {
            self.tell(told).await;
        }
        became
    }

    /// Logs how many requests were not. Nobody waits for what becomes of that.
    async fn tell(&self, Tally { request, origin }: Tally) {
        let (request, writers) = (Arc::new(request), self.writers.borrow().clone());
        let arrival = self.arrival(SystemTime::now(), origin);
        let available = writers.available(request.source.as_ref(), &*self.host);
        if let Ok(run) = log::route(request.clone(), &available, &self.settings.log, &arrival) {
            self.write(&request, run, &writers).await;
        }
    }

    /// Takes a request its way, and says what became of it.
    async fn write(&self, request: &LogRequest, mut run: LogRun, writers: &Arc<Writers>) -> Became {
        let time = Patience::start(self.settings.host_timeout);
        let logged = loop {
            let writers = writers.clone();
            match on_guest_thread(&self.pool, move || walk(run.advance(), &writers, time)).await {
                Some(Halt::Beyond(pending)) => {
                    let status = self.ask(&pending, time).await;
                    run = pending.finish(status, Vec::new());
                }
                Some(Halt::End(logged)) => break logged,
                None => return code::PMIX_ERR_OUT_OF_RESOURCE.into(),
            }
        };
        for step in logged.steps.iter().filter(|step| !step.status.is_success()) {
            self.metrics.counters().log_channels_failed.count();
            let source = named(request);
            tracing::info!(source, channel = ?step.name, status = %step.status, infos = ?step.infos, "a log channel failed");
        }
        Became::of(logged)
    }

    /// Has somebody else write to a channel.
    async fn ask(&self, pending: &PendingChannel, time: Patience) -> Status {
        let (channel, request, (fabric, id)) = (pending.channel().clone(), pending.request(), &self.beside);
        let asked = match (pending.writer(), request.source.clone()) {
            (Writer::Gateway, _) => fabric.log(*id, channel, request, pending.origin().at_gateway()),
            (Writer::Host, Some(source)) => {
                let LogRequest { timestamp, data, directives, .. } = Arc::unwrap_or_clone(request);
                self.host.log(source, channel, timestamp.unwrap_or_default(), data, directives)
            }
            // A module that has gone since it was chosen; what has no source is the host's own.
            (Writer::Module, _) | (Writer::Host, None) => return code::PMIX_ERR_NOT_AVAILABLE,
        };
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
fn walk(mut next: NextChannel, writers: &Writers, time: Patience) -> Halt {
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
            _ => return Halt::Beyond(Box::new(pending)),
        }
        .advance();
    }
}

fn named(request: &LogRequest) -> String {
    request.source.as_ref().map(ToString::to_string).unwrap_or_default()
}
