//! Variables that `PMIx_server_setup_fork` adds for procs of Open MPI, as the C library's component for
//! that programming model does. They are made when a job is registered: the function runs in forked
//! children, where nothing may be locked. The model must be named in the first registration that has
//! the data, or before.
use super::{fork::Assignment, launch_variables};
use peal_model::{Info, Infos, Nspace, Rank, Value, key};
use std::{
    collections::BTreeMap,
    ffi::CStr,
    ptr,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicPtr, Ordering},
    },
};

/// Variables of all registered jobs of Open MPI; null before the first one.
static JOBS: AtomicPtr<Vec<ModelJob>> = AtomicPtr::new(ptr::null_mut());

/// Registered jobs of Open MPI. Whoever changes [`JOBS`], or reads them beside other threads, holds the
/// lock.
static FACTS: Mutex<BTreeMap<Nspace, JobFacts>> = Mutex::new(BTreeMap::new());

/// Data of an application for variables.
#[derive(Debug, Default)]
struct AppFacts {
    size: Option<u32>,
    first_rank: Option<u32>,
    directory: Option<String>,
    command: Option<String>,
}

/// Data of a proc for variables.
#[derive(Debug, Default)]
struct ProcFacts {
    local_rank: Option<u32>,
    node_rank: Option<u32>,
    directory: Option<String>,
    restarts: Option<u32>,
}

/// Data of a job for variables.
#[derive(Debug, Default)]
struct JobFacts {
    universe: Option<u32>,
    size: Option<u32>,
    local_size: Option<u32>,
    app_count: Option<u32>,
    apps: BTreeMap<u32, AppFacts>,
    procs: BTreeMap<Rank, ProcFacts>,
}

/// Variables of a job.
#[derive(Debug)]
struct ModelJob {
    nspace: Nspace,
    common: Vec<Assignment>,
    procs: BTreeMap<Rank, Vec<Assignment>>,
}

/// Adds the data of a job, if it is one of Open MPI.
pub(super) fn describe(nspace: &Nspace, infos: &[Info]) {
    let mut facts = FACTS.lock().unwrap_or_else(PoisonError::into_inner);
    if !facts.contains_key(nspace) && !names_model(infos) {
        return;
    }
    facts.entry(nspace.clone()).or_default().add(infos);
    publish(&facts);
}

/// Removes the data of a job.
pub(super) fn forget(nspace: &Nspace) {
    let mut facts = FACTS.lock().unwrap_or_else(PoisonError::into_inner);
    if facts.remove(nspace).is_some() {
        publish(&facts);
    }
}

/// Removes the data of all jobs.
pub(super) fn forget_all() {
    let mut facts = FACTS.lock().unwrap_or_else(PoisonError::into_inner);
    facts.clear();
    publish(&facts);
}

/// Thread that reads variables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reader {
    /// A thread of the process that has initialized the library.
    Thread,
    /// The only thread of a forked child, which must not wait for a lock.
    Child,
}

/// Calls a function with the variables of a proc.
pub(super) fn with_variables<T>(
    nspace: &[u8],
    rank: Rank,
    reader: Reader,
    read: impl FnOnce(&[Assignment], &[Assignment]) -> T,
) -> T {
    let _lock = match reader {
        Reader::Thread => Some(FACTS.lock().unwrap_or_else(PoisonError::into_inner)),
        Reader::Child => None,
    };
    // SAFETY: the list is freed only after the pointer has changed, and only under the lock. A child
    // has a copy of the memory in which the pointer is valid, and no thread that could free it.
    let jobs = unsafe { JOBS.load(Ordering::Acquire).as_ref() };
    let job = jobs.and_then(|jobs| {
        jobs.iter()
            .find(|job| job.nspace.as_str().as_bytes() == nspace)
    });
    match job {
        Some(job) => {
            let own = job.procs.get(&rank).map(Vec::as_slice);
            read(&job.common, own.unwrap_or_default())
        }
        None => read(&[], &[]),
    }
}

/// Replaces the variables by those of these jobs. The caller holds the lock.
fn publish(facts: &BTreeMap<Nspace, JobFacts>) {
    let jobs: Vec<ModelJob> = facts
        .iter()
        .map(|(nspace, facts)| facts.variables(nspace))
        .collect();
    let before = JOBS.swap(Box::into_raw(Box::new(jobs)), Ordering::AcqRel);
    if !before.is_null() {
        // SAFETY: the pointer is from `Box::into_raw`, and the lock keeps readers away.
        drop(unsafe { Box::from_raw(before) });
    }
}

/// Returns true if the data of a job, or of one of its applications, name Open MPI.
fn names_model(infos: &[Info]) -> bool {
    launch_variables::names_open_mpi(infos)
        || infos
            .iter()
            .filter(|info| {
                info.key == key::PMIX_JOB_INFO_ARRAY || info.key == key::PMIX_APP_INFO_ARRAY
            })
            .any(|info| launch_variables::names_open_mpi(&nested(info)))
}

/// Returns the infos in an array of infos.
fn nested(info: &Info) -> Vec<Info> {
    let infos = match &info.value {
        Value::DataArray(array) => array.as_infos(),
        _ => None,
    };
    infos.unwrap_or_default().into_iter().cloned().collect()
}

fn number(infos: &[Info], key: peal_model::KeyName) -> Option<u32> {
    let value = infos.value_of(key)?;
    value
        .as_rank()
        .map(|rank| rank.0)
        .or_else(|| value.as_u32())
}

fn text(infos: &[Info], key: peal_model::KeyName) -> Option<String> {
    Some(infos.value_of(key)?.as_str()?.to_owned())
}

impl JobFacts {
    fn add(&mut self, infos: &[Info]) {
        for info in infos {
            if info.key == key::PMIX_JOB_INFO_ARRAY {
                self.add(&nested(info));
            } else if info.key == key::PMIX_APP_INFO_ARRAY {
                self.add_app(&nested(info));
            } else if info.key == key::PMIX_PROC_DATA {
                self.add_proc(&nested(info));
            }
        }
        self.universe = number(infos, key::PMIX_UNIV_SIZE).or(self.universe);
        self.size = number(infos, key::PMIX_JOB_SIZE).or(self.size);
        self.local_size = number(infos, key::PMIX_LOCAL_SIZE).or(self.local_size);
        self.app_count = number(infos, key::PMIX_JOB_NUM_APPS).or(self.app_count);
    }

    fn add_app(&mut self, infos: &[Info]) {
        let app = number(infos, key::PMIX_APPNUM).unwrap_or(0);
        let app = self.apps.entry(app).or_default();
        app.size = number(infos, key::PMIX_APP_SIZE).or(app.size);
        app.first_rank = number(infos, key::PMIX_APPLDR).or(app.first_rank);
        app.directory = text(infos, key::PMIX_WDIR).or(app.directory.take());
        app.command = text(infos, key::PMIX_APP_ARGV).or(app.command.take());
    }

    fn add_proc(&mut self, infos: &[Info]) {
        let Some(rank) = number(infos, key::PMIX_RANK) else {
            return;
        };
        let proc = self.procs.entry(Rank(rank)).or_default();
        proc.local_rank = number(infos, key::PMIX_LOCAL_RANK).or(proc.local_rank);
        proc.node_rank = number(infos, key::PMIX_NODE_RANK).or(proc.node_rank);
        proc.directory = text(infos, key::PMIX_PROCDIR).or(proc.directory.take());
        proc.restarts = number(infos, key::PMIX_REINCARNATION).or(proc.restarts);
    }

    fn app_count(&self) -> u32 {
        let described = u32::try_from(self.apps.len()).unwrap_or(u32::MAX);
        self.app_count.unwrap_or(described.max(1))
    }

    fn variables(&self, nspace: &Nspace) -> ModelJob {
        let mut common = Variables::default();
        common.add("OMPI_UNIVERSE_SIZE", self.universe);
        for name in [
            "OMPI_COMM_WORLD_SIZE",
            "OMPI_WORLD_SIZE",
            "OMPI_MCA_num_procs",
        ] {
            common.add(name, self.size);
        }
        for name in ["OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_WORLD_LOCAL_SIZE"] {
            common.add(name, self.local_size);
        }
        common.add("OMPI_NUM_APP_CTX", Some(self.app_count()));
        common.add("OMPI_MCA_cpu_type", machine());
        // The C library takes the first application for all procs.
        if let Some(first) = self.apps.get(&0) {
            common.add("OMPI_MCA_initial_wdir", first.directory.as_ref());
            if let Some(command) = &first.command {
                let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
                common.add("OMPI_COMMAND", Some(program));
                common.add("OMPI_ARGV", Some(arguments));
            }
        }
        if self.app_count() > 1 {
            let sizes = self.of_apps(|app| app.size);
            common.add("OMPI_APP_CTX_NUM_PROCS", sizes);
            common.add("OMPI_FIRST_RANKS", self.of_apps(|app| app.first_rank));
        }
        let procs = self.procs.iter().map(|(rank, proc)| {
            let mut own = Variables::default();
            own.add("OMPI_COMM_WORLD_RANK", Some(rank.0));
            own.add("OMPI_COMM_WORLD_LOCAL_RANK", proc.local_rank);
            own.add("OMPI_COMM_WORLD_NODE_RANK", proc.node_rank);
            own.add("OMPI_FILE_LOCATION", proc.directory.as_ref());
            if self.app_count() > 1 {
                own.add("OMPI_MCA_num_restarts", proc.restarts);
            }
            (*rank, own.0)
        });
        ModelJob {
            nspace: nspace.clone(),
            procs: procs.collect(),
            common: common.0,
        }
    }

    /// Returns a number of each application, in their order; none if one has none.
    fn of_apps(&self, number: impl Fn(&AppFacts) -> Option<u32>) -> Option<String> {
        let numbers = (0..self.app_count()).map(|app| number(self.apps.get(&app)?));
        let numbers: Option<Vec<String>> = numbers
            .map(|number| number.map(|number| number.to_string()))
            .collect();
        Some(numbers?.join(" "))
    }
}

/// Variables that are being collected.
#[derive(Debug, Default)]
struct Variables(Vec<Assignment>);

impl Variables {
    /// Adds a variable, if its value is known.
    fn add(&mut self, name: &str, value: Option<impl ToString>) {
        let variable = value.map(|value| peal_stub::EnvironmentVariable {
            name: name.to_owned(),
            value: value.to_string(),
        });
        self.0.extend(variable.as_ref().and_then(Assignment::new));
    }
}

/// Returns the kind of this machine's processor.
fn machine() -> Option<String> {
    // SAFETY: zeros are a valid value of the structure, which the call fills with strings.
    let name = unsafe {
        let mut name: libc::utsname = std::mem::zeroed();
        if libc::uname(&mut name) < 0 {
            return None;
        }
        CStr::from_ptr(name.machine.as_ptr()).to_owned()
    };
    let name = name.into_string().ok()?;
    Some(name).filter(|name| !name.is_empty())
}
