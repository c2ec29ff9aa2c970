//! The host side of what a guest imports: `call`, `amendment`, `logging`, `clock`, `notify` and `registration`.
use crate::bindings::peal::pmix::logging::Level;
use crate::bindings::peal::pmix::{amendment, call, clock, logging, notify, registration, types};
use crate::data::{List, Opaques, Subject};
use crate::lines::Lines;
use crate::lower::{lower_content, lower_found, lower_identity, lower_proc, lower_steps};
use crate::meter::{Meter, Stop};
use crate::raise::Raise;
use crate::tally::Tally;
use crate::text::plain;
use crate::wish::{check_wishes, raise_wish};
use crate::{Change, Limit, Limits, Notification, Services, Stage};
use peal_model::{Amendment, Info, Range, Status, code};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The longest log message, in bytes; the rest is cut.
const MAX_MESSAGE: usize = 4096;

/// How many changes of its registrations one call may ask for.
const MAX_CHANGES: usize = 16;

/// What one instance's store holds.
pub(crate) struct Host {
    pub(crate) lines: Arc<Lines>,
    pub(crate) services: Arc<Services>,
    requests: Arc<AtomicU64>,
    pub(crate) tally: Tally,
    pub(crate) meter: Meter,
    pub(crate) current: Current,
    /// How many handles of WASI the guest has.
    pub(crate) handles: u32,
    /// What the clock of WASI shows that only counts.
    pub(crate) looked: u64,
}

/// The call being made: what it is about, and what came out of it so far.
#[derive(Default)]
pub(crate) struct Current {
    pub(crate) subject: Subject,
    opaques: Opaques,
    now: Option<u64>,
    /// What the guest pushed.
    pub(crate) infos: Vec<Info>,
    /// The events that it raised.
    pub(crate) notifications: Vec<Notification>,
    /// How it wants its registrations changed.
    pub(crate) changes: Vec<Change>,
    /// How it changed what it is asked about.
    pub(crate) amendment: Amendment,
}

impl Host {
    pub(crate) fn new(
        lines: Arc<Lines>,
        services: Arc<Services>,
        limits: Limits,
        tally: Tally,
        requests: Arc<AtomicU64>,
    ) -> Host {
        let (meter, current) = (Meter::new(limits), Current::default());
        Host { lines, services, requests, tally, meter, current, handles: 0, looked: 0 }
    }

    /// Begins a call about this.
    pub(crate) fn begin(&mut self, now: Instant, subject: Subject) {
        self.meter.begin(now);
        self.tally.take_refused();
        self.current = Current { subject, ..Current::default() };
    }

    /// Ends the call: what came out of it. Nothing of it stays behind.
    pub(crate) fn end(&mut self) -> Current {
        std::mem::take(&mut self.current)
    }

    /// Does the work of one host call: counted, and its time set apart from the guest's.
    pub(crate) fn host_call<R>(&mut self, work: impl FnOnce(&mut Host) -> Result<R, Stop>) -> wasmtime::Result<R> {
        let entered = self.meter.enter()?;
        let answer = work(self);
        self.meter.leave(entered);
        Ok(answer?)
    }

    /// Settings as a guest sees them.
    pub(crate) fn lower_settings(&mut self, settings: &[Info]) -> types::Content {
        lower_content(&mut self.current.opaques, List::Infos, settings)
    }

    /// For what the guest pushes.
    pub(crate) fn raise(&mut self) -> Raise<'_> {
        Raise::new(&self.current.subject, &self.current.opaques, &mut self.meter)
    }
}

impl types::Host for Host {}

impl call::Host for Host {
    fn source(&mut self) -> wasmtime::Result<Option<types::Proc>> {
        self.host_call(|host| Ok(host.current.subject.source().map(lower_proc)))
    }

    fn credentials(&mut self) -> wasmtime::Result<Option<types::Identity>> {
        self.host_call(|host| Ok(host.current.subject.identity().map(lower_identity)))
    }

    fn server(&mut self) -> wasmtime::Result<Option<types::Identity>> {
        self.host_call(|host| Ok(host.current.subject.server().map(lower_identity)))
    }

    fn targets(&mut self) -> wasmtime::Result<Vec<types::Proc>> {
        self.host_call(|host| Ok(host.current.subject.targets().iter().map(lower_proc).collect()))
    }

    fn owners(&mut self) -> wasmtime::Result<Vec<Option<types::Identity>>> {
        self.host_call(|host| {
            let targets = host.current.subject.owned_targets().iter();
            Ok(targets.map(|target| target.owner.map(lower_identity)).collect())
        })
    }

    fn connection(&mut self) -> wasmtime::Result<Option<types::Peer>> {
        self.host_call(|host| {
            let peer = host.current.subject.peer();
            Ok(peer.map(|peer| types::Peer { pid: peer.pid, release: peer.release.clone() }))
        })
    }

    fn infos(&mut self) -> wasmtime::Result<types::Content> {
        self.host_call(|host| {
            let Current { subject, opaques, .. } = &mut host.current;
            Ok(lower_content(opaques, List::Infos, subject.infos()))
        })
    }

    fn directives(&mut self) -> wasmtime::Result<types::Content> {
        self.host_call(|host| {
            let Current { subject, opaques, .. } = &mut host.current;
            Ok(lower_content(opaques, List::Directives, subject.directives()))
        })
    }

    fn get(&mut self, key: String) -> wasmtime::Result<Option<types::Found>> {
        self.host_call(|host| {
            let Current { subject, opaques, .. } = &mut host.current;
            Ok(subject.find(&key).map(|(place, value)| lower_found(opaques, value, place)))
        })
    }

    fn steps(&mut self) -> wasmtime::Result<types::Chain> {
        self.host_call(|host| Ok(lower_steps(&mut host.current.opaques, host.current.subject.steps())))
    }

    fn push(&mut self, info: types::Info, arrays: Vec<types::Array>) -> wasmtime::Result<()> {
        self.host_call(|host| {
            let info = host.raise().single(info, arrays)?;
            host.current.infos.push(info);
            Ok(())
        })
    }
}

impl amendment::Host for Host {
    fn amend(&mut self, directives: types::Content) -> wasmtime::Result<()> {
        self.host_call(|host| {
            host.current.amendment.infos = Some(host.raise().content(directives)?);
            Ok(())
        })
    }

    fn narrow(&mut self, range: types::Range) -> wasmtime::Result<Result<(), i32>> {
        self.host_call(|host| {
            let Some(asked) = host.current.subject.range_to_decide_about() else {
                return Ok(Err(code::PMIX_ERR_NOT_AVAILABLE.0));
            };
            let range = Range::from(range);
            if !range.is_within(asked) {
                return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
            }
            host.current.amendment.range = Some(range);
            Ok(Ok(()))
        })
    }
}

impl logging::Host for Host {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        // A line that nobody wants to see takes nothing from those that are wanted.
        macro_rules! write {
            ($host:ident, $level:ident) => {
                if let Some(stage) = &$host.services.stage {
                    stage.say(tracing::Level::$level, &plain(&message, MAX_MESSAGE));
                } else if tracing::enabled!(target: "peal::guest", tracing::Level::$level) {
                    if $host.lines.allow() {
                        let (module, message) = (&**$host.lines.module(), plain(&message, MAX_MESSAGE));
                        tracing::event!(target: "peal::guest", tracing::Level::$level, module, "{message}");
                    } else {
                        $host.meter.hit(Limit::LogLines);
                    }
                }
            };
        }
        self.host_call(|host| {
            match level {
                Level::Error => write!(host, ERROR),
                Level::Warn => write!(host, WARN),
                Level::Info => write!(host, INFO),
                Level::Debug => write!(host, DEBUG),
                Level::Trace => write!(host, TRACE),
            }
            Ok(())
        })
    }
}

impl clock::Host for Host {
    fn now(&mut self) -> wasmtime::Result<u64> {
        self.host_call(|host| Ok(host.milliseconds()))
    }
}

impl notify::Host for Host {
    fn notify(
        &mut self,
        code: i32,
        range: types::Range,
        content: types::Content,
    ) -> wasmtime::Result<Result<u64, i32>> {
        self.host_call(|host| {
            let range = Range::from(range);
            if !matches!(host.current.subject, Subject::Event(_)) {
                return Ok(Err(code::PMIX_ERR_NOT_AVAILABLE.0));
            }
            if range == Range::ProcLocal {
                return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
            }
            if host.current.notifications.len() >= host.meter.limits().notifications {
                host.meter.hit(Limit::Notifications);
                return Ok(Err(code::PMIX_ERR_OUT_OF_RESOURCE.0));
            }
            host.meter.charge(size_of::<Notification>())?;
            let infos = host.raise().content(content)?;
            let request = host.requests.fetch_add(1, Ordering::Relaxed);
            host.current.notifications.push(Notification { request, code: Status(code), range, infos });
            Ok(Ok(request))
        })
    }
}

impl registration::Host for Host {
    fn register(&mut self, wish: types::Registration) -> wasmtime::Result<Result<(), i32>> {
        self.host_call(|host| {
            if let Err(status) = host.may_change_registrations() {
                return Ok(Err(status.0));
            }
            if check_wishes(std::slice::from_ref(&wish)).is_err() {
                return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
            }
            let wish = raise_wish(host, wish)?;
            host.current.changes.push(Change::Register(wish));
            Ok(Ok(()))
        })
    }

    fn deregister(&mut self, registration: u64) -> wasmtime::Result<Result<(), i32>> {
        self.host_call(|host| {
            let may = host.may_change_registrations();
            if may.is_ok() {
                host.current.changes.push(Change::Deregister(registration));
            }
            Ok(may.map_err(|status| status.0))
        })
    }
}

impl Host {
    /// The time since the epoch; the same throughout one call.
    pub(crate) fn milliseconds(&mut self) -> u64 {
        let stage = self.services.stage.as_deref();
        *self.current.now.get_or_insert_with(|| stage.map_or_else(milliseconds_now, Stage::now))
    }

    /// Traces what the guest prints.
    pub(crate) fn print(&mut self, bytes: &[u8]) {
        if tracing::enabled!(target: "peal::guest", tracing::Level::INFO) {
            if self.lines.allow() {
                let (module, text) = (&**self.lines.module(), String::from_utf8_lossy(bytes));
                tracing::info!(target: "peal::guest", module, "{}", plain(text.trim_end(), MAX_MESSAGE));
            } else {
                self.meter.hit(Limit::LogLines);
            }
        }
    }

    fn may_change_registrations(&self) -> Result<(), Status> {
        match &self.current.subject {
            Subject::Event(_) if self.current.changes.len() < MAX_CHANGES => Ok(()),
            Subject::Event(_) => Err(code::PMIX_ERR_OUT_OF_RESOURCE),
            _ => Err(code::PMIX_ERR_NOT_AVAILABLE),
        }
    }
}

fn milliseconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
