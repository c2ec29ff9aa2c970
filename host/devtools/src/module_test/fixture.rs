//! Environment of a module test: a fixed clock, state in memory, resource usage of procs, and
//! recorded output of sinks and trace.
use peal_model::{Info, LogRequest, Proc, Status, code};
use peal_sandbox::{CallRecord, CallUsage, ProcUsage, Recorder, Sink, StateStore, TestHooks};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Limit of a module's state in bytes, the default of `module.max_state_bytes`.
const QUOTA: usize = 1024 * 1024;

/// Bytes that a server charges for an entry beside its key and value (`ENTRY_BYTES` of peal-store,
/// on which this crate does not depend).
const ENTRY_BYTES: usize = 64;

/// Contents of the environment.
#[derive(Clone, Default)]
pub(super) struct FixtureState {
    /// Time in milliseconds since the epoch.
    pub(super) now: u64,
    pub(super) state: BTreeMap<String, Vec<u8>>,
    /// Resource usage of procs by name.
    pub(super) usage: BTreeMap<String, Vec<Info>>,
    /// Trace lines of the module, as `level: text`.
    pub(super) trace_lines: Vec<String>,
    /// Output of the module, by the names of the sinks.
    pub(super) written: BTreeMap<String, Vec<u8>>,
    /// Records of its calls, if they are wanted.
    pub(super) records: Vec<CallRecord>,
    /// Consumption of its last call.
    pub(super) usage_of_last_call: Consumption,
}

/// Consumption of a call.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Consumption {
    /// Fuel, roughly the number of instructions; `None` if the engine does not count it.
    pub(crate) fuel: Option<u64>,
    /// Size of the instance's memories and tables, in bytes.
    pub(crate) memory: usize,
}

/// Shared environment of a module's instances and the test runner.
#[derive(Clone, Default)]
pub(super) struct TestFixture(Arc<Mutex<FixtureState>>);

impl TestFixture {
    pub(super) fn props(&self) -> MutexGuard<'_, FixtureState> {
        // The data are plain values, valid even after a panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a sink of this name that records its output.
    pub(super) fn sink(&self, name: &str) -> Arc<dyn Sink> {
        Arc::new(Tray {
            scene: self.clone(),
            name: name.to_owned(),
        })
    }
}

impl TestHooks for TestFixture {
    fn now(&self) -> u64 {
        self.props().now
    }

    fn trace(&self, level: tracing::Level, message: &str) {
        let line = format!("{}: {message}", level.as_str().to_lowercase());
        self.props().trace_lines.push(line);
    }

    fn used(&self, usage: &CallUsage, memory: usize) {
        self.props().usage_of_last_call = Consumption {
            fuel: usage.fuel,
            memory,
        };
    }
}

impl Recorder for TestFixture {
    fn samples(&self, _instance: u64) -> bool {
        true
    }

    fn record(&self, record: CallRecord) {
        self.props().records.push(record);
    }
}

/// Returns the bytes that an entry is charged with.
fn entry(key: &str, value: &[u8]) -> usize {
    key.len() + value.len() + ENTRY_BYTES
}

impl StateStore for TestFixture {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status> {
        Ok(self.props().state.get(key).cloned())
    }

    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status> {
        let mut props = self.props();
        // The old value of the key is replaced, so it does not count.
        let others = props.state.iter().filter(|(other, _)| *other != key);
        let kept: usize = others.map(|(key, value)| entry(key, value)).sum();
        if kept + entry(key, value) > QUOTA {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        props.state.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn delete(&self, key: &str) -> Result<(), Status> {
        self.props().state.remove(key);
        Ok(())
    }

    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status> {
        Ok(self
            .props()
            .state
            .keys()
            .filter(|key| key.starts_with(prefix))
            .cloned()
            .collect())
    }
}

impl ProcUsage for TestFixture {
    fn of(&self, procs: &[Proc]) -> Result<Vec<Info>, Status> {
        let props = self.props();
        let of = |proc: &Proc| {
            props
                .usage
                .get(&proc.to_string())
                .ok_or(code::PMIX_ERR_NOT_FOUND)
        };
        procs
            .iter()
            .map(of)
            .try_fold(Vec::new(), |all, used| Ok([all, used?.clone()].concat()))
    }
}

/// Sink that records its output.
struct Tray {
    scene: TestFixture,
    name: String,
}

impl Sink for Tray {
    fn write(&self, _: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        self.scene
            .props()
            .written
            .entry(self.name.clone())
            .or_default()
            .extend_from_slice(bytes);
        Ok(())
    }
}
