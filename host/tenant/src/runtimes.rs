//! Processes of all users of a server.
use crate::{
    cpu_times::GuestCpuTimes,
    error::TenantRuntimeError,
    message::{ModuleNumber, ModuleOrder, RuntimeSettings},
    runtime::TenantRuntime,
    tenant_module::TenantModule,
};
use peal_model::ModuleRegistration;
use peal_sandbox::{Inspection, Services};
use std::{
    collections::BTreeMap,
    fmt, io,
    os::unix::net::UnixStream,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

/// Starts the process of a user. It may block.
pub type StartRuntime = Arc<dyn Fn(u32) -> io::Result<StartedRuntime> + Send + Sync>;

/// Process of a user that was started.
#[derive(Debug)]
pub struct StartedRuntime {
    /// Server's end of the first connection.
    pub connection: UnixStream,
    /// Process id.
    pub pid: u32,
}

/// Processes that run users' modules, one for each user that has some.
pub struct TenantRuntimes {
    start: StartRuntime,
    /// Settings of each process; the directory of code is the one above the users' own.
    settings: RuntimeSettings,
    by_user: Mutex<BTreeMap<u32, Weak<TenantRuntime>>>,
    numbered: AtomicU64,
    started: Arc<AtomicU64>,
    cpu: GuestCpuTimes,
}

impl fmt::Debug for TenantRuntimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TenantRuntimes")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl TenantRuntimes {
    /// Creates the processes' registry. The code of each user is in a directory of `settings.code_dir`
    /// that is named by the user id.
    pub fn new(start: StartRuntime, settings: RuntimeSettings) -> TenantRuntimes {
        TenantRuntimes {
            start,
            settings,
            by_user: Mutex::default(),
            numbered: AtomicU64::new(0),
            started: Arc::default(),
            cpu: GuestCpuTimes::default(),
        }
    }

    /// Returns the CPU times of all processes.
    pub fn cpu_times(&self) -> GuestCpuTimes {
        self.cpu.clone()
    }

    /// Returns the directory of the code that was compiled for a user.
    pub fn code_dir(&self, uid: u32) -> PathBuf {
        self.settings.code_dir.join(uid.to_string())
    }

    /// Loads a module into the process of a user, which is started if it does not run. Returns the module
    /// and the registrations that it requests. Blocks.
    ///
    /// # Errors
    ///
    /// Fails if the process cannot be started or refuses the module.
    pub fn load(
        &self,
        uid: u32,
        order: ModuleOrder,
        inspection: Inspection,
        services: Services,
    ) -> Result<(Arc<TenantModule>, Vec<ModuleRegistration>), TenantRuntimeError> {
        let number = ModuleNumber(self.numbered.fetch_add(1, Ordering::Relaxed));
        TenantModule::load(number, order, inspection, services, self.of(uid))
    }

    fn of(&self, uid: u32) -> Arc<TenantRuntime> {
        let mut by_user = self.by_user.lock().unwrap_or_else(PoisonError::into_inner);
        by_user.retain(|_, runtime| runtime.strong_count() > 0);
        if let Some(runtime) = by_user.get(&uid).and_then(Weak::upgrade) {
            return runtime;
        }
        let settings = RuntimeSettings {
            code_dir: self.code_dir(uid),
            ..self.settings.clone()
        };
        let runtime = Arc::new(TenantRuntime::new(
            uid,
            settings,
            self.start.clone(),
            self.started.clone(),
            self.cpu.clone(),
        ));
        by_user.insert(uid, Arc::downgrade(&runtime));
        runtime
    }
}
