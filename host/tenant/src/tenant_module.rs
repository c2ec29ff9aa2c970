//! Module in the process of its user, as the server sees it.
use crate::{
    error::TenantRuntimeError,
    message::{HandlerReply, ModuleAnswer, ModuleNumber, ModuleOrder, ModuleRequest},
    runtime::TenantRuntime,
};
use peal_model::ModuleRegistration;
use peal_sandbox::{Inspection, ModuleHealth, ModuleLimits, Services};
use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, SystemTime},
};

/// Time beyond the limits of a call: the process and the machine may be busy.
const SLACK: Duration = Duration::from_secs(10);

/// Module in the process of its user.
pub struct TenantModule {
    number: ModuleNumber,
    order: ModuleOrder,
    inspection: Inspection,
    services: Services,
    runtime: Arc<TenantRuntime>,
    health: Mutex<ModuleHealth>,
    memory: AtomicUsize,
    stopped: AtomicBool,
}

impl fmt::Debug for TenantModule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantModule")
            .field("name", &self.order.name)
            .field("uid", &self.runtime.uid())
            .finish_non_exhaustive()
    }
}

impl TenantModule {
    /// Loads a module. Returns it with the registrations that it requests. Blocks.
    pub(crate) fn load(
        number: ModuleNumber,
        order: ModuleOrder,
        inspection: Inspection,
        services: Services,
        runtime: Arc<TenantRuntime>,
    ) -> Result<(Arc<TenantModule>, Vec<ModuleRegistration>), TenantRuntimeError> {
        let module = Arc::new(TenantModule {
            number,
            order,
            inspection,
            services,
            runtime: runtime.clone(),
            health: Mutex::default(),
            memory: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
        });
        match runtime.load(&module)? {
            ModuleAnswer::Loaded {
                registrations,
                memory,
            } => {
                module.set_memory(memory);
                Ok((module, registrations))
            }
            ModuleAnswer::Done => Err(TenantRuntimeError::Answer),
        }
    }

    /// Returns the admin's name of the module.
    pub fn name(&self) -> &str {
        &self.order.name
    }

    /// Returns the inspection of the component.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// Returns the number of the module, by which messages name it.
    pub fn number(&self) -> ModuleNumber {
        self.number
    }

    /// Returns the process in which the module runs.
    pub fn runtime(&self) -> &Arc<TenantRuntime> {
        &self.runtime
    }

    /// Returns the services of the module, which this process has.
    pub(crate) fn services(&self) -> &Services {
        &self.services
    }

    /// Returns the time within which a call of the module ends: its own time for the start, the init and
    /// the call, and that of host calls.
    pub fn time_limit(&self) -> Duration {
        let ModuleLimits {
            call_time,
            host_call_time,
            ..
        } = self.order.limits;
        call_time.saturating_add(host_call_time).saturating_mul(3)
    }

    /// Returns the time within which a chain of these modules ends.
    pub fn chain_time<'a>(modules: impl IntoIterator<Item = &'a TenantModule>) -> Duration {
        modules.into_iter().fold(SLACK, |time, module| {
            time.saturating_add(module.time_limit())
        })
    }

    /// Returns the bytes of memory that the instances took after the last call.
    pub(crate) fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    fn set_memory(&self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.memory.store(bytes, Ordering::Relaxed);
    }

    /// Takes over what a reply says about the module.
    pub fn follow(&self, reply: &HandlerReply) {
        self.set_memory(reply.memory);
        if let Some(health) = &reply.health {
            *self.lock() = health.clone();
        }
    }

    pub(crate) fn health(&self) -> ModuleHealth {
        let mut health = self.lock().clone();
        let window = self.order.limits.failure_window;
        let is_old = health.last.as_ref().is_some_and(|(at, _)| {
            SystemTime::now()
                .duration_since(*at)
                .is_ok_and(|past| past >= window)
        });
        // The process counts failures within a window. What it counted last may lie outside by now.
        if health.quarantined.is_none() && is_old {
            health.failures = 0;
        }
        health
    }

    pub(crate) fn stay_quarantined(&self, before: &ModuleHealth) {
        if before.quarantined.is_none() || self.order.limits.failures == 0 {
            return;
        }
        *self.lock() = before.clone();
        self.change(&ModuleRequest::StayQuarantined {
            module: self.number,
            health: before.clone(),
        });
    }

    pub(crate) fn reset(&self) {
        let mut health = self.lock();
        health.quarantined = None;
        health.failures = 0;
        drop(health);
        self.change(&ModuleRequest::Reset {
            module: self.number,
        });
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.change(&ModuleRequest::Stop {
            module: self.number,
        });
    }

    /// Changes the module in its process. A process that cannot is ended, and the next one gets the
    /// module as this value has it.
    fn change(&self, request: &ModuleRequest) {
        if let Err(error) = self.runtime.change(request) {
            tracing::warn!(uid = self.runtime.uid(), module = self.name(), %error, "module of a user not changed");
        }
    }

    /// Returns the request that loads the module, as it is now.
    pub(crate) fn load_request(&self) -> ModuleRequest {
        ModuleRequest::Load {
            module: self.number,
            order: Box::new(self.order.clone()),
            health: self.lock().clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, ModuleHealth> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TenantModule {
    /// Removes the module from its process, on another thread: the last owner may be on a thread of the
    /// runtime of tokio, which must not block.
    fn drop(&mut self) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        let (runtime, module) = (self.runtime.clone(), self.number);
        let stop = move || {
            // A process that does not answer is ended, and its modules with it.
            let _ = runtime.change(&ModuleRequest::Stop { module });
        };
        if let Err(error) = thread::Builder::new().name("tenant".to_owned()).spawn(stop) {
            tracing::warn!(%error, "module of a user not removed from its process");
        }
    }
}
