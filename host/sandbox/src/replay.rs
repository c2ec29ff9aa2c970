//! Replay of an instance from its start on, with the recorded answers to its host calls. Nothing
//! outside is reached: stand-ins answer the host calls that were not recorded. Only the host's
//! memory and processor take part, so the same component does the same. Another component shows
//! what it would have done.
use crate::host_calls::{HostCallAnswer, HostCallRequest};
use crate::idle_instances::Tenancy;
use crate::instance::Instance;
use crate::instance_template::InstanceTemplate;
use crate::record::{CallRecord, Recorder};
use crate::services::{Services, StateStore};
use crate::{
    CallSubject, CallUsage, Engine, Grants, LoadError, ModuleLimits, Random, TestHooks, inspect,
};
use peal_model::Status;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Factor by which a replayed call may take longer than the recorded one. The processor may be
/// slower, and fuel ends what a clock ended.
const REPLAY_TIME_FACTOR: u32 = 20;
/// Shortest time of a replayed call.
const SHORTEST: Duration = Duration::from_secs(10);

/// A component that is called as recorded, the same one or another.
pub struct Replay {
    template: InstanceTemplate,
    stand_ins: Arc<ReplayServices>,
}

/// An instance in a replay.
pub struct ReplayInstance<'a> {
    replay: &'a Replay,
    instance: Instance,
}

impl Replay {
    /// Loads a component into an engine that counts fuel for all modules. The limits are those of
    /// the recorded module.
    pub fn load(
        engine: &Engine,
        name: &str,
        bytes: &[u8],
        grants: &Grants,
        limits: ModuleLimits,
    ) -> Result<Replay, LoadError> {
        let inspection = inspect(bytes).map_err(|reason| LoadError::Format {
            module: name.to_owned(),
            reason,
        })?;
        let patient = |time: Duration| time.saturating_mul(REPLAY_TIME_FACTOR).max(SHORTEST);
        let limits = ModuleLimits {
            call_time: patient(limits.call_time),
            host_call_time: patient(limits.host_call_time),
            ..limits
        };
        let stand_ins = Arc::<ReplayServices>::default();
        // Nothing outside is reached: there are no sinks, directories or usage.
        let services = Services {
            state: Some(stand_ins.clone()),
            test_hooks: Some(stand_ins.clone()),
            random: Some(stand_ins.clone()),
            recorder: Some(stand_ins.clone()),
            ..Services::default()
        };
        let blueprint =
            InstanceTemplate::new(engine, name, (bytes, &inspection), grants, limits, services)?;
        Ok(Replay {
            template: blueprint,
            stand_ins,
        })
    }

    /// Starts an instance as recorded, at `at` milliseconds since the epoch. Returns the record of
    /// the start, and the instance if it started.
    pub fn start(
        &self,
        recorded: &CallRecord,
        at: u64,
    ) -> (Option<CallRecord>, Option<ReplayInstance<'_>>) {
        self.stand_ins.prepare(recorded, at);
        let started = Instance::start(&self.template, &Tenancy::Unused, Some(recorded));
        (
            self.stand_ins.take_record(),
            started.ok().map(|instance| ReplayInstance {
                replay: self,
                instance,
            }),
        )
    }
}

impl ReplayInstance<'_> {
    /// Makes a call as recorded. Returns its record, or `None` for a record without a subject.
    pub fn call(&mut self, recorded: &CallRecord, at: u64) -> Option<CallRecord> {
        self.replay.stand_ins.prepare(recorded, at);
        self.instance.follow(recorded);
        // The end of the call is in the record.
        match &recorded.subject {
            CallSubject::Settings(settings) => drop(self.instance.init(settings)),
            CallSubject::Event(call) => drop(self.instance.handle(call.clone())),
            CallSubject::Policy(call) => drop(self.instance.decide(call.clone())),
            CallSubject::Log(call) => drop(self.instance.log(call.clone())),
            CallSubject::None => return None,
        }
        self.replay.stand_ins.take_record()
    }

    /// Calls `lifecycle.stop` as recorded.
    pub fn stop(mut self, recorded: &CallRecord, at: u64) -> Option<CallRecord> {
        self.replay.stand_ins.prepare(recorded, at);
        self.instance.follow(recorded);
        self.instance.stop();
        self.replay.stand_ins.take_record()
    }
}

/// Stand-ins for the time, the state and random numbers.
#[derive(Default)]
struct ReplayServices {
    now: AtomicU64,
    state: Mutex<BTreeMap<String, Vec<u8>>>,
    record: Mutex<Option<CallRecord>>,
}

impl ReplayServices {
    /// Sets time and state as they were at a recorded call, as far as its host calls show them.
    fn prepare(&self, recorded: &CallRecord, at: u64) {
        self.now.store(at, Ordering::Relaxed);
        *self.record.lock().unwrap_or_else(PoisonError::into_inner) = None;
        // The same component is answered from the record. Another one may read in another order, or
        // read again; it gets these values.
        let mut state = self.state();
        for call in &recorded.host_calls {
            match (&call.request, &call.answer) {
                (HostCallRequest::Fetch { key }, Some(HostCallAnswer::Bytes(value))) => {
                    state.insert(key.clone(), value.as_slice().to_vec());
                }
                (HostCallRequest::Fetch { key }, Some(HostCallAnswer::Nothing)) => {
                    state.remove(key);
                }
                _ => {}
            }
        }
    }

    fn take_record(&self) -> Option<CallRecord> {
        self.record
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn state(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recorder for ReplayServices {
    fn samples(&self, _instance: u64) -> bool {
        true
    }

    fn record(&self, record: CallRecord) {
        *self.record.lock().unwrap_or_else(PoisonError::into_inner) = Some(record);
    }
}

impl StateStore for ReplayServices {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        Ok(self.state().get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status> {
        self.state().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<(), Status> {
        self.state().remove(key);
        Ok(())
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status> {
        Ok(self
            .state()
            .keys()
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect())
    }
}

impl Random for ReplayServices {
    /// Fills the buffer with zeros, so that all replays are the same.
    fn fill(&self, bytes: &mut [u8]) -> Result<(), Status> {
        bytes.fill(0);
        Ok(())
    }
}

impl TestHooks for ReplayServices {
    fn now(&self) -> u64 {
        self.now.load(Ordering::Relaxed)
    }

    fn trace(&self, _: tracing::Level, _: &str) {}

    fn used(&self, _: &CallUsage, _: usize) {}
}
