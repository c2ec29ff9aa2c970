//! A job as queries tell of it.
use super::{
    JobCommand,
    launch::{self, AppRequest},
    stray::Family,
};
use peal_model::{DataArray, Identity, Info, Nspace, Proc, ProcInfo, ProcState, Rank, Status, Text, Value, code, key};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
};
use tokio::sync::mpsc;

/// A job that runs, until it has ended.
#[derive(Debug)]
pub(super) struct Listed {
    pub(super) owner: Identity,
    pub(super) nspace: Nspace,
    size: u32,
    hostname: String,
    origin: Origin,
    /// Why it is being ended, once it is.
    because: OnceLock<Status>,
    /// How those of its procs ended that have.
    ends: Mutex<BTreeMap<Rank, ProcState>>,
}

/// Who started a job.
#[derive(Debug)]
pub(super) enum Origin {
    /// We did: what it runs, and what is closed when it has ended.
    Launched { apps: Vec<AppRequest>, commands: mpsc::Sender<JobCommand> },
    /// Somebody else, who will say when it has ended.
    Adopted,
}

impl Listed {
    pub(super) fn new(owner: Identity, (nspace, size): (Nspace, u32), hostname: String, origin: Origin) -> Listed {
        Listed { owner, nspace, size, hostname, origin, because: OnceLock::new(), ends: Mutex::default() }
    }

    /// Whether somebody else starts its procs.
    pub(super) fn is_adopted(&self) -> bool {
        !matches!(self.origin, Origin::Launched { .. })
    }

    /// It is being ended: only the first reason counts.
    pub(super) fn ending(&self, because: Status) {
        let _ = self.because.set(because);
    }

    /// A proc has ended like this.
    pub(super) fn proc_ended(&self, rank: Rank, state: ProcState) {
        self.ends().insert(rank, state);
    }

    /// Why it is being ended, or that it runs.
    pub(super) fn status(&self) -> Status {
        self.because.get().copied().unwrap_or(code::PMIX_SUCCESS)
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<Rank, ProcState>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_there(&self) -> bool {
        match &self.origin {
            Origin::Launched { commands, .. } => !commands.is_closed(),
            Origin::Adopted => true,
        }
    }

    /// Its name and, if that is known, what it runs.
    pub(super) fn info(&self) -> Info {
        let mut infos = vec![Info::new(key::PMIX_NSPACE, Value::string(self.nspace.as_str()))];
        if let Origin::Launched { apps, .. } = &self.origin {
            let line = Value::string(&launch::command(apps));
            infos.push(Info::new(key::PMIX_CMD_LINE, line));
        }
        infos.push(Info::new(key::PMIX_JOB_SIZE, Value::Uint32(self.size)));
        Info::new(key::PMIX_JOB_INFO_ARRAY, Value::DataArray(DataArray::infos(infos)))
    }

    /// Its procs that run, each with its process.
    pub(super) fn running(&self, family: &Family) -> Vec<(Proc, u32)> {
        let procs = (0..self.size).map(|rank| Proc::new(self.nspace.clone(), Rank(rank)));
        procs.filter_map(|proc| family.process_of(&proc).map(|pid| (proc, pid))).collect()
    }

    /// Its procs, by rank.
    pub(super) fn procs(&self, family: &Family) -> DataArray {
        let apps = match &self.origin {
            Origin::Launched { apps, .. } => apps.as_slice(),
            Origin::Adopted => &[],
        };
        let ends = self.ends();
        DataArray::proc_infos((0..self.size).map(|rank| {
            let proc = Proc::new(self.nspace.clone(), Rank(rank));
            let pid = family.process_of(&proc);
            let program = launch::app_of(apps, proc.rank).map(|app| &app.program);
            let state = match (pid, &self.origin) {
                (Some(_), _) => ProcState::RUNNING,
                (None, Origin::Launched { .. }) => ends.get(&proc.rank).copied().unwrap_or(ProcState::TERMINATED),
                // Whoever started it knows.
                (None, Origin::Adopted) => ProcState::UNDEF,
            };
            ProcInfo {
                proc,
                hostname: Some(self.hostname.as_str().into()),
                executable: program.map(|program| Text::from_bytes(program.as_encoded_bytes())),
                pid: pid.unwrap_or_default(),
                state,
            }
        }))
    }
}
