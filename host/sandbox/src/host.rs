//! The host side of what a guest imports: `call`, `logging`, `clock` and `notify`.
use crate::bindings::peal::pmix::logging::Level;
use crate::bindings::peal::pmix::{call, clock, logging, notify, types};
use crate::convert::{Raise, lower_array, lower_infos, lower_proc, lower_step, lower_value};
use crate::data::{Data, Numbers, Place, Subject};
use crate::limits::Tally;
use crate::meter::{Meter, Stop};
use crate::text::plain;
use crate::{Limits, Notification};
use peal_model::{Info, Range, Status, Value, code};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest log message, in bytes; the rest is cut.
const MAX_MESSAGE: usize = 4096;

/// What one instance's store holds.
pub(crate) struct Host {
    pub(crate) name: Arc<str>,
    requests: Arc<AtomicU64>,
    pub(crate) tally: Tally,
    pub(crate) meter: Meter,
    pub(crate) current: Current,
}

/// The call being made: what it is about, and what came out of it so far.
#[derive(Default)]
pub(crate) struct Current {
    data: Data,
    numbers: Numbers,
    now: Option<u64>,
    /// What the guest pushed.
    pub(crate) infos: Vec<Info>,
    /// The events that it raised.
    pub(crate) notifications: Vec<Notification>,
}

impl Host {
    pub(crate) fn new(name: Arc<str>, limits: Limits, requests: Arc<AtomicU64>) -> Host {
        Host {
            name,
            requests,
            tally: Tally::new(limits.memory),
            meter: Meter::new(limits),
            current: Current::default(),
        }
    }

    /// Begins a call about this.
    pub(crate) fn begin(&mut self, subject: Subject) {
        self.meter.rearm();
        self.tally.take_refused();
        self.current = Current { data: Data { subject, pushed: Vec::new() }, ..Current::default() };
    }

    /// Ends the call: what came out of it. Nothing of it stays behind.
    pub(crate) fn end(&mut self) -> Current {
        std::mem::take(&mut self.current)
    }

    /// Does the work of one host call: counted, and its time set apart from the guest's.
    fn host_call<R>(&mut self, work: impl FnOnce(&mut Host) -> Result<R, Stop>) -> wasmtime::Result<R> {
        let entered = self.meter.enter()?;
        let answer = work(self);
        self.meter.leave(entered);
        Ok(answer?)
    }

    /// The infos of the call as a guest sees them.
    pub(crate) fn lower_infos(&mut self) -> Vec<types::Info> {
        let Current { data, numbers, .. } = &mut self.current;
        lower_infos(numbers, data.infos(), Place::Info)
    }

    /// For what the guest pushes.
    pub(crate) fn raise(&mut self) -> Raise<'_> {
        Raise { data: &self.current.data, numbers: &self.current.numbers, meter: &mut self.meter }
    }
}

impl types::Host for Host {}

impl call::Host for Host {
    fn source(&mut self) -> wasmtime::Result<Option<types::Proc>> {
        self.host_call(|host| Ok(host.current.data.source().map(lower_proc)))
    }

    fn credentials(&mut self) -> wasmtime::Result<Option<(u32, u32)>> {
        self.host_call(|host| Ok(host.current.data.event().and_then(|call| call.credentials)))
    }

    fn targets(&mut self) -> wasmtime::Result<Vec<types::Proc>> {
        self.host_call(|host| {
            let targets = host.current.data.event().and_then(|call| call.event.custom_targets());
            Ok(targets.unwrap_or_default().iter().map(lower_proc).collect())
        })
    }

    fn get(&mut self, key: String) -> wasmtime::Result<Option<types::Value>> {
        self.host_call(|host| {
            let Current { data, numbers, .. } = &mut host.current;
            let found = data.infos().iter().enumerate().rfind(|(_, info)| info.key.as_str() == key);
            Ok(found.map(|(at, info)| lower_value(numbers, &info.value, Place::Info(at))))
        })
    }

    fn infos(&mut self) -> wasmtime::Result<Vec<types::Info>> {
        self.host_call(|host| Ok(host.lower_infos()))
    }

    fn array_at(&mut self, at: u32) -> wasmtime::Result<Option<types::Array>> {
        self.host_call(|host| {
            let Current { data, numbers, .. } = &mut host.current;
            Ok(data.array(numbers, at).map(|array| lower_array(numbers, array, at)))
        })
    }

    fn steps(&mut self) -> wasmtime::Result<Vec<types::Step>> {
        self.host_call(|host| {
            let Current { data, numbers, .. } = &mut host.current;
            Ok(data.steps().iter().enumerate().map(|(at, step)| lower_step(numbers, step, at)).collect())
        })
    }

    fn push(&mut self, info: types::Info) -> wasmtime::Result<()> {
        self.host_call(|host| {
            let info = host.raise().info(info)?;
            host.current.infos.push(info);
            Ok(())
        })
    }

    fn push_array(&mut self, array: types::Array) -> wasmtime::Result<u32> {
        self.host_call(|host| {
            let array = host.raise().array(array)?;
            let Current { data, numbers, .. } = &mut host.current;
            data.pushed.push(Value::DataArray(array));
            Ok(numbers.number(Place::Pushed(data.pushed.len() - 1)))
        })
    }
}

impl logging::Host for Host {
    fn log(&mut self, level: Level, message: String) -> wasmtime::Result<()> {
        self.host_call(|host| {
            let (module, message) = (&*host.name, plain(&message, MAX_MESSAGE));
            match level {
                Level::Error => tracing::error!(target: "peal::guest", module, "{message}"),
                Level::Warn => tracing::warn!(target: "peal::guest", module, "{message}"),
                Level::Info => tracing::info!(target: "peal::guest", module, "{message}"),
                Level::Debug => tracing::debug!(target: "peal::guest", module, "{message}"),
                Level::Trace => tracing::trace!(target: "peal::guest", module, "{message}"),
            }
            Ok(())
        })
    }
}

impl clock::Host for Host {
    fn now(&mut self) -> wasmtime::Result<u64> {
        self.host_call(|host| Ok(*host.current.now.get_or_insert_with(milliseconds_now)))
    }
}

impl notify::Host for Host {
    fn notify(
        &mut self,
        code: i32,
        range: types::Range,
        infos: Vec<types::Info>,
    ) -> wasmtime::Result<Result<u64, i32>> {
        self.host_call(|host| {
            let range = Range::from(range);
            if host.current.data.event().is_none() {
                return Ok(Err(code::PMIX_ERR_NOT_AVAILABLE.0));
            }
            if range == Range::ProcLocal {
                return Ok(Err(code::PMIX_ERR_BAD_PARAM.0));
            }
            host.meter.charge(size_of::<Notification>())?;
            let infos = host.raise().infos(infos)?;
            let request = host.requests.fetch_add(1, Ordering::Relaxed);
            host.current.notifications.push(Notification { request, code: Status(code), range, infos });
            Ok(Ok(request))
        })
    }
}

fn milliseconds_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
