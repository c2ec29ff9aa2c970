//! What the host lends a module so that it can do what it was granted, and how a guest reaches it: the sinks that an admin
//! opened for it, its state.
use crate::bindings::peal::pmix::{sink, state};
use crate::call_data::CallSubject;
use crate::host_calls::{Answered, HostCallRequest};
use crate::instance_state::InstanceState;
use crate::test_hooks::TestHooks;
use crate::{GrantedDirectory, LimitKind, OnQuarantine, ProcUsage, Random, Recorder, Sink, Tenant};
use peal_model::{LogRequest, Mail, Status, code};
use std::{collections::BTreeMap, fmt, sync::Arc};

/// The longest key of a state, in bytes.
pub const MAX_STATE_KEY: usize = 256;
/// The longest value of a state, in bytes.
pub const MAX_STATE_VALUE: usize = 64 * 1024;

/// What stands behind the capabilities of one module, and whom it belongs to.
#[derive(Clone, Default)]
pub struct Services {
    /// The sinks that it may write to, by the names that its admin gave them.
    pub sinks: BTreeMap<String, Arc<dyn Sink>>,
    /// Its state; without it, `state` refuses with `PMIX_ERR_NOT_AVAILABLE`.
    pub state: Option<Arc<dyn StateStore>>,
    /// The time and the trace, where they are not the process's own.
    pub stage: Option<Arc<dyn TestHooks>>,
    /// The directories that it may use, by the names that its admin gave them.
    pub files: BTreeMap<String, Arc<GrantedDirectory>>,
    /// Where its random numbers come from; without it, from the system.
    pub random: Option<Arc<dyn Random>>,
    /// What it may know of the use of the machine; without it, `usage` refuses with `PMIX_ERR_NOT_SUPPORTED`.
    pub usage: Option<Arc<dyn ProcUsage>>,
    /// Whose it is, where its owner's modules have limits together.
    pub tenant: Option<Tenant>,
    /// Who takes down what it does, where somebody does.
    pub recorder: Option<Arc<dyn Recorder>>,
    /// Who is told when it is quarantined.
    pub on_quarantine: Option<OnQuarantine>,
}

impl fmt::Debug for Services {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Services")
            .field("sinks", &self.sinks.keys())
            .finish_non_exhaustive()
    }
}

/// A module's small store of keys and values, which survives restarts: already that of one module and scope, and with
/// its quota. Called on a guest thread, with keys of 1 to [`MAX_STATE_KEY`] bytes, prefixes of at most as many and values
/// of at most [`MAX_STATE_VALUE`].
pub trait StateStore: Send + Sync {
    /// The value of a key, if there is one.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Status>;
    /// Sets a key. `PMIX_ERR_OUT_OF_RESOURCE` where the quota does not allow it; then nothing changes.
    fn set(&self, key: &str, value: &[u8]) -> Result<(), Status>;
    /// Drops a key, if it is there.
    fn delete(&self, key: &str) -> Result<(), Status>;
    /// All keys that begin with this, in their order.
    fn keys(&self, prefix: &str) -> Result<Vec<String>, Status>;
}

/// What a guest is told: an answer, or the status with which it was refused.
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
        let ask = || HostCallRequest::Write {
            sink: name.clone(),
            bytes: bytes.as_slice().into(),
        };
        self.on_sink(&name, bytes.len(), ask, |sink, request| {
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
        let (size, asked) = (mail.size(), mail.clone());
        let ask = || HostCallRequest::Submit {
            sink: name.clone(),
            mail: asked,
        };
        self.on_sink(&name, size, ask, |sink, request| sink.submit(request, mail))
    }
}

impl state::Host for InstanceState {
    fn get(&mut self, key: String) -> CapabilityResult<Option<Vec<u8>>> {
        self.on_state(
            0,
            || HostCallRequest::Fetch { key: key.clone() },
            |state| state.get(checked(&key)?),
        )
    }

    fn set(&mut self, key: String, value: Vec<u8>) -> CapabilityResult<()> {
        let ask = || HostCallRequest::Keep {
            key: key.clone(),
            value: value.as_slice().into(),
        };
        self.on_state(value.len(), ask, |state| match value.len() {
            0..=MAX_STATE_VALUE => state.set(checked(&key)?, &value),
            _ => Err(code::PMIX_ERR_BAD_PARAM),
        })
    }

    fn delete(&mut self, key: String) -> CapabilityResult<()> {
        self.on_state(
            0,
            || HostCallRequest::Drop { key: key.clone() },
            |state| state.delete(checked(&key)?),
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
    /// Does this with a sink for the request being logged, at the cost of so many bytes of output.
    fn on_sink(
        &mut self,
        name: &str,
        output: usize,
        ask: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&dyn Sink, &LogRequest) -> Result<(), Status>,
    ) -> CapabilityResult<()> {
        let done: Result<(), Status> = self.recorded_call(output, ask, |host| {
            let CallSubject::Log(call) = &host.current.subject else {
                return Ok(Err(code::PMIX_ERR_NOT_AVAILABLE));
            };
            Ok(match host.services.sinks.get(name) {
                // The module is only asked whether it could write.
                Some(_) if call.request.data.is_empty() => Ok(()),
                Some(sink) => work(&**sink, &call.request),
                None => Err(code::PMIX_ERR_NOT_FOUND),
            })
        })?;
        Ok(done.map_err(|status| status.0))
    }

    /// Does this with the module's state, at the cost of so many bytes of output.
    fn on_state<R: Answered>(
        &mut self,
        output: usize,
        ask: impl FnOnce() -> HostCallRequest,
        work: impl FnOnce(&dyn StateStore) -> Result<R, Status>,
    ) -> CapabilityResult<R> {
        let answer = self.recorded_call(output, ask, |host| {
            Ok(host
                .services
                .state
                .as_deref()
                .map_or(Err(code::PMIX_ERR_NOT_AVAILABLE), work))
        })?;
        if answer.as_ref().err() == Some(&code::PMIX_ERR_OUT_OF_RESOURCE) {
            self.meter.hit(LimitKind::StateQuota);
        }
        Ok(answer.map_err(|status: Status| status.0))
    }
}

/// A key as it may be.
fn checked(key: &str) -> Result<&str, Status> {
    match key.len() {
        1..=MAX_STATE_KEY => Ok(key),
        _ => Err(code::PMIX_ERR_BAD_PARAM),
    }
}
