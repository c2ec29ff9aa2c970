//! Services behind a module's capabilities, such as the sinks that an admin opened for it and its
//! state, and the host calls that use them.
use crate::bindings::peal::pmix::{sink, state};
use crate::call_data::CallSubject;
use crate::host_calls::{HostCallRequest, RecordedResult};
use crate::instance_state::InstanceState;
use crate::test_hooks::TestHooks;
use crate::{DirectoryService, LimitKind, OnQuarantine, ProcUsage, Random, Recorder, Sink, Tenant};
use peal_model::{LogRequest, Mail, Status, code};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// Bound on a key of the state, in bytes.
pub const MAX_STATE_KEY: usize = 256;
/// Bound on a value of the state, in bytes.
pub const MAX_STATE_VALUE: usize = 64 * 1024;

/// Services behind the capabilities of one module, and its owner.
#[derive(Clone, Default)]
pub struct Services {
    /// Sinks that the module may write to, by the admin's names.
    pub sinks: BTreeMap<String, Arc<dyn Sink>>,
    /// State of the module; without it, `state` refuses with `PMIX_ERR_NOT_AVAILABLE`.
    pub state: Option<Arc<dyn StateStore>>,
    /// Time and trace in tests and replays; `None` for those of the process.
    pub test_hooks: Option<Arc<dyn TestHooks>>,
    /// Directories that the module may use, by the admin's names.
    pub files: BTreeMap<String, Arc<dyn DirectoryService>>,
    /// Source of random numbers; `None` for the system's.
    pub random: Option<Arc<dyn Random>>,
    /// Source of resource usage; without it, `usage` refuses with `PMIX_ERR_NOT_SUPPORTED`.
    pub usage: Option<Arc<dyn ProcUsage>>,
    /// Owner whose modules share limits, if there is one.
    pub tenant: Option<Tenant>,
    /// Recorder of the module's calls, if they are recorded.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Callback for the quarantine of the module.
    pub on_quarantine: Option<OnQuarantine>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("sinks", &self.sinks.keys())
            .finish_non_exhaustive()
    }
}

/// State of a module: a small store of keys and values that survives restarts. An implementation
/// belongs to one module and scope and enforces its quota.
///
/// It is called on a guest thread, with keys of 1 to [`MAX_STATE_KEY`] bytes, prefixes of at most
/// as many bytes and values of at most [`MAX_STATE_VALUE`] bytes.
pub trait StateStore: Send + Sync {
    /// Returns the value of a key, if there is one.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status>;
    /// Sets a key. Returns `PMIX_ERR_OUT_OF_RESOURCE` and changes nothing if the quota would be
    /// exceeded.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status>;
    /// Deletes a key, if it exists.
    fn delete(&self, key: &str) -> Result<(), Status>;
    /// Returns all keys that begin with `prefix`, sorted.
    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status>;
}

/// Result of a host call for the guest: an answer, or the status of the refusal.
pub(crate) type CapabilityResult<R> = wasmtime::Result<Result<R, i32>>;

impl sink::Host for InstanceState {
    fn names(&mut self) -> wasmtime::Result<Vec<String>> {
        self.recorded_call(
            0,
            || HostCallRequest::Sinks,
            |host| Ok(host.services.sinks.keys().cloned().collect()),
        )
    }

    fn write(&mut self, name: String, bytes: Vec<u8>) -> CapabilityResult<()> {
        let request = || HostCallRequest::Write {
            sink: name.clone(),
            bytes: bytes.as_slice().into(),
        };
        self.on_sink(&name, bytes.len(), request, |sink, request| {
            sink.write(request, &bytes)
        })
    }

    fn send_mail(&mut self, name: String, mail: sink::Mail) -> CapabilityResult<()> {
        let sink::Mail {
            sender,
            recipients,
            subject,
            text,
            server,
            port,
        } = mail;
        let mail = Mail {
            sender,
            recipients,
            subject,
            text,
            server,
            port,
        };
        let size = mail.size();
        // Copied for the record, because the sink takes the mail.
        let requested = mail.clone();
        let request = || HostCallRequest::Submit {
            sink: name.clone(),
            mail: requested,
        };
        self.on_sink(&name, size, request, |sink, request| {
            sink.submit(request, mail)
        })
    }
}

impl state::Host for InstanceState {
    fn get(&mut self, key: String) -> CapabilityResult<Option<Vec<u8>>> {
        self.on_state(
            0,
            || HostCallRequest::Fetch { key: key.clone() },
            |state| state.get(checked_state_key(&key)?),
        )
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> CapabilityResult<()> {
        let request = || HostCallRequest::Keep {
            key: key.clone(),
            value: value.as_slice().into(),
        };
        self.on_state(value.len(), request, |state| match value.len() {
            0..=MAX_STATE_VALUE => state.set(checked_state_key(&key)?, &value),
            _ => Err(code::PMIX_ERR_BAD_PARAM),
        })
    }

    fn delete(&mut self, key: String) -> CapabilityResult<()> {
        self.on_state(
            0,
            || HostCallRequest::Drop { key: key.clone() },
            |state| state.delete(checked_state_key(&key)?),
        )
    }

    fn keys(&mut self, prefix: String) -> CapabilityResult<Vec<String>> {
        self.on_state(
            0,
            || HostCallRequest::Keys {
                prefix: prefix.clone(),
            },
            |state| match prefix.len() {
                0..=MAX_STATE_KEY => state.keys(&prefix),
                _ => Err(code::PMIX_ERR_BAD_PARAM),
            },
        )
    }
}

impl InstanceState {
    /// Runs `work` on a sink for the request being logged, at the cost of `output` bytes.
    fn on_sink(
        &mut self,
        name: &str,
        output: usize,
        request: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&dyn Sink, &LogRequest) -> Result<(), Status>,
    ) -> CapabilityResult<()> {
        let done: Result<(), Status> = self.recorded_call(output, request, |host| {
            // A sink writes for a log request, which other calls do not have.
            let CallSubject::Log(call) = &host.current.subject else {
                return Ok(Err(code::PMIX_ERR_NOT_AVAILABLE));
            };
            Ok(match host.services.sinks.get(name) {
                // A request without data only asks whether the channel can be written to.
                Some(_) if call.request.data.is_empty() => Ok(()),
                Some(sink) => work(&**sink, &call.request),
                None => Err(code::PMIX_ERR_NOT_FOUND),
            })
        })?;
        Ok(done.map_err(|status| status.0))
    }

    /// Runs `work` on the module's state, at the cost of `output` bytes.
    fn on_state<R: RecordedResult>(
        &mut self,
        output: usize,
        request: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&dyn StateStore) -> Result<R, Status>,
    ) -> CapabilityResult<R> {
        let answer = self.recorded_call(output, request, |host| {
            Ok(host
                .services
                .state
                .as_deref()
                .map_or(Err(code::PMIX_ERR_NOT_AVAILABLE), work))
        })?;
        if answer.as_ref().err() == Some(&code::PMIX_ERR_OUT_OF_RESOURCE) {
            // The guest may go on after the refusal, so the usage has to show it.
            self.meter.hit(LimitKind::State);
        }
        Ok(answer.map_err(|status: Status| status.0))
    }
}

/// Checks the length of a key of the state.
///
/// # Errors
///
/// Returns `PMIX_ERR_BAD_PARAM` for an empty key and one that is too long.
pub fn checked_state_key(key: &str) -> Result<&str, Status> {
    match key.len() {
        1..=MAX_STATE_KEY => Ok(key),
        _ => Err(code::PMIX_ERR_BAD_PARAM),
    }
}
