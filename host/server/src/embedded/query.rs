//! What the host tells of its jobs (`PMIx_Query_info`): which there are, what they run, and where their procs are.
use super::{
    JobCommand,
    launch::{self, AppRequest, JobRequest},
    stray::Family,
    used,
};
use crate::usage::{self, Fields};
use peal_core::{job::JobSpec, owner::Owner};
use peal_model::{
    DataArray, Identity, Info, Infos, KeyName, Nspace, Proc, ProcInfo, ProcState, Query, Rank, Status, Text, Value,
    code, key, rank,
};
use rustix::process::{getegid, geteuid};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// How many keys one request may ask for; what is told of one job can be long.
const MOST_KEYS: usize = 64;

/// The jobs that run, as those who ask may see them.
#[derive(Debug, Default)]
pub(super) struct JobTable(Mutex<BTreeMap<Nspace, Arc<Listed>>>);

#[derive(Debug)]
struct Listed {
    owner: Identity,
    nspace: Nspace,
    size: u32,
    hostname: String,
    origin: Origin,
}

/// Who started a job.
#[derive(Debug)]
enum Origin {
    /// We did: what it runs, and what is closed when it has ended.
    Launched { apps: Vec<AppRequest>, commands: mpsc::Sender<JobCommand> },
    /// Somebody else, who will say when it has ended.
    Adopted,
}

impl JobTable {
    /// Lists a job until it has ended.
    pub(super) fn insert(&self, request: &JobRequest, commands: mpsc::Sender<JobCommand>) {
        let owner = Identity { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        let (nspace, size, hostname) = (request.nspace.clone(), request.size(), request.hostname.clone());
        let origin = Origin::Launched { apps: request.apps.clone(), commands };
        let mut jobs = self.jobs();
        jobs.retain(|_, job| job.is_there());
        jobs.insert(nspace.clone(), Arc::new(Listed { owner, nspace, size, hostname, origin }));
    }

    /// Lists a job that somebody else starts, until it is released.
    pub(super) fn adopt(&self, job: &JobSpec) {
        let (owner, nspace, size) = (job.identity, job.nspace.clone(), job.size());
        let hostname = job.hostname.clone();
        let listed = Listed { owner, nspace: nspace.clone(), size, hostname, origin: Origin::Adopted };
        self.jobs().insert(nspace, Arc::new(listed));
    }

    /// Forgets a job that was adopted.
    pub(super) fn release(&self, nspace: &Nspace) {
        self.jobs().remove(nspace);
    }

    /// One info for each key that is known, about jobs that are the requester's own, or any if that is root. The channels are those
    /// that the host is for the requester.
    pub(super) fn answer(
        &self,
        identity: Identity,
        queries: &[Query],
        (family, channels): (&Family, &str),
    ) -> Result<Vec<Info>, Status> {
        if queries.iter().map(|query| query.keys.len()).sum::<usize>() > MOST_KEYS {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        let mine = |job: &Listed| job.is_there() && (identity.uid == 0 || identity.uid == job.owner.uid);
        let jobs: Vec<Arc<Listed>> = self.jobs().values().filter(|job| mine(job)).cloned().collect();
        let mut found = Vec::new();
        for query in queries {
            let named = match Wanted::of(&query.qualifiers)? {
                Wanted::All => None,
                Wanted::Job(nspace) => match jobs.iter().find(|job| job.nspace == nspace) {
                    Some(job) => Some(job),
                    None => continue,
                },
            };
            for asked in query.keys.iter().flatten().filter_map(Text::as_str) {
                if asked == key::PMIX_QUERY_LOG_CHANNELS.0 {
                    found.push(Info::new(key::PMIX_QUERY_LOG_CHANNELS, Value::string(channels)));
                } else if used::is_asked(asked) {
                    let running = named.map(|job| job.running(family)).unwrap_or_default();
                    found.extend(used::about(asked, &query.qualifiers, &running)?);
                } else {
                    found.extend(about(asked, &jobs, named, family)?);
                }
            }
        }
        Ok(found)
    }

    /// What these procs use now, one info for each that runs here: for the modules of an owner, about jobs of its own. Reads `/proc`.
    pub(super) fn used(&self, owner: &Owner, procs: &[Proc], family: &Family) -> Result<Vec<Info>, Status> {
        let mut running = Vec::new();
        for proc in procs {
            let job = self.jobs().get(&proc.nspace).cloned().ok_or(code::PMIX_ERR_NOT_FOUND)?;
            let is_theirs = match owner {
                Owner::Site => true,
                Owner::User(uid) => job.owner.uid == *uid,
                Owner::Namespace(nspace) => job.nspace == *nspace,
            };
            if !is_theirs {
                return Err(code::PMIX_ERR_NO_PERMISSIONS);
            }
            let all = proc.rank == rank::PMIX_RANK_WILDCARD;
            running.extend(job.running(family).into_iter().filter(|(one, _)| all || one.rank == proc.rank));
        }
        Ok(running.iter().filter_map(|(proc, pid)| usage::of_proc(proc, *pid, Fields::ALL)).collect())
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<Nspace, Arc<Listed>>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which jobs a query is about.
enum Wanted {
    All,
    Job(Nspace),
}

impl Wanted {
    fn of(qualifiers: &[Info]) -> Result<Wanted, Status> {
        let named = [key::PMIX_NSPACE, key::PMIX_PROCID].iter().find_map(|key| qualifiers.value_of(*key));
        match named {
            None => Ok(Wanted::All),
            Some(Value::Proc(proc)) => Ok(Wanted::Job(proc.nspace.clone())),
            Some(value) => {
                let nspace = value.as_str().and_then(|text| Nspace::new(text).ok());
                nspace.map(Wanted::Job).ok_or(code::PMIX_ERR_BAD_PARAM)
            }
        }
    }
}

/// What is known under a key, if anything is.
fn about(
    asked: &str,
    jobs: &[Arc<Listed>],
    named: Option<&Arc<Listed>>,
    family: &Family,
) -> Result<Option<Info>, Status> {
    let is = |key: KeyName| asked == key.0;
    let known = if is(key::PMIX_QUERY_NAMESPACES) {
        let names: Vec<&str> = jobs.iter().map(|job| job.nspace.as_str()).collect();
        (key::PMIX_QUERY_NAMESPACES, Value::string(&names.join(",")))
    } else if is(key::PMIX_QUERY_NAMESPACE_INFO) {
        let infos: Vec<Info> = named.map_or(jobs, std::slice::from_ref).iter().map(|job| job.info()).collect();
        (key::PMIX_QUERY_NAMESPACE_INFO, Value::DataArray(DataArray::infos(infos)))
    } else if let Some(key) =
        [key::PMIX_QUERY_PROC_TABLE, key::PMIX_QUERY_LOCAL_PROC_TABLE].into_iter().find(|k| is(*k))
    {
        // The job must be named. All its procs are on this node.
        let job = named.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        (key, Value::DataArray(job.procs(family)))
    } else {
        return Ok(None);
    };
    Ok(Some(Info::new(known.0, known.1)))
}

impl Listed {
    fn is_there(&self) -> bool {
        match &self.origin {
            Origin::Launched { commands, .. } => !commands.is_closed(),
            Origin::Adopted => true,
        }
    }

    /// Its name and, if that is known, what it runs.
    fn info(&self) -> Info {
        let mut infos = vec![Info::new(key::PMIX_NSPACE, Value::string(self.nspace.as_str()))];
        if let Origin::Launched { apps, .. } = &self.origin {
            let line = Value::string(&launch::command(apps));
            infos.push(Info::new(key::PMIX_CMD_LINE, line));
        }
        infos.push(Info::new(key::PMIX_JOB_SIZE, Value::Uint32(self.size)));
        Info::new(key::PMIX_JOB_INFO_ARRAY, Value::DataArray(DataArray::infos(infos)))
    }

    /// Its procs that run, each with its process.
    fn running(&self, family: &Family) -> Vec<(Proc, u32)> {
        let procs = (0..self.size).map(|rank| Proc::new(self.nspace.clone(), Rank(rank)));
        procs.filter_map(|proc| family.process_of(&proc).map(|pid| (proc, pid))).collect()
    }

    /// Its procs, by rank.
    fn procs(&self, family: &Family) -> DataArray {
        let apps = match &self.origin {
            Origin::Launched { apps, .. } => apps.as_slice(),
            Origin::Adopted => &[],
        };
        DataArray::proc_infos((0..self.size).map(|rank| {
            let proc = Proc::new(self.nspace.clone(), Rank(rank));
            let pid = family.process_of(&proc);
            let program = launch::app_of(apps, proc.rank).map(|app| &app.program);
            let state = match (pid, &self.origin) {
                (Some(_), _) => ProcState::RUNNING,
                (None, Origin::Launched { .. }) => ProcState::TERMINATED,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn request(nspace: &str) -> JobRequest {
        JobRequest::new(Nspace::new(nspace).unwrap(), AppRequest::new("app", vec!["--fast".into()], 2), "node")
    }

    fn query(keys: &[KeyName], qualifiers: Vec<Info>) -> Query {
        Query { keys: keys.iter().map(|key| Some(key.0.into())).collect(), qualifiers }
    }

    fn of_job(nspace: &str) -> Vec<Info> {
        vec![Info::new(key::PMIX_NSPACE, Value::string(nspace))]
    }

    #[test]
    fn what_is_known_is_told_to_the_jobs_user_and_root_and_what_has_ended_is_forgotten() {
        let (table, family) = (JobTable::default(), Family::adopting());
        let (first, _inbox) = mpsc::channel(1);
        let (second, ended) = mpsc::channel(1);
        table.insert(&request("first"), first);
        table.insert(&request("second"), second);
        let me = Identity { uid: geteuid().as_raw(), gid: 0 };
        let root = Identity { uid: 0, gid: 0 };
        let other = Identity { uid: me.uid + 1, gid: 0 };
        let names = |identity| {
            let found =
                table.answer(identity, &[query(&[key::PMIX_QUERY_NAMESPACES], Vec::new())], (&family, "")).unwrap();
            found.value_of(key::PMIX_QUERY_NAMESPACES).and_then(Value::as_str).unwrap().to_owned()
        };
        assert_eq!([names(me), names(root), names(other)], ["first,second", "first,second", ""]);
        drop(ended);
        assert_eq!(names(me), "first");

        let both = [key::PMIX_QUERY_PROC_TABLE, key::PMIX_QUERY_NAMESPACE_INFO, key::PMIX_QUERY_SPAWN_SUPPORT];
        let answer = |identity, job: &str| table.answer(identity, &[query(&both, of_job(job))], (&family, ""));
        let found = answer(me, "first").unwrap();
        assert_eq!(found.len(), 2, "nothing is said about what is not known");
        let Value::DataArray(procs) = &found[0].value else { panic!("{found:?}") };
        assert!(matches!(procs.items(), [Value::ProcInfo(first), Value::ProcInfo(_)]
            if first.state == ProcState::TERMINATED && first.executable == Some("app".into())));
        assert_eq!([answer(other, "first").unwrap(), answer(me, "second").unwrap()], [[], []]);
    }

    #[test]
    fn a_question_that_makes_no_sense_or_is_too_long_is_refused() {
        let (table, family) = (JobTable::default(), Family::adopting());
        let me = Identity { uid: 0, gid: 0 };
        let ask = |query: Query| table.answer(me, &[query], (&family, "")).unwrap_err();
        assert_eq!(ask(query(&[key::PMIX_QUERY_PROC_TABLE], Vec::new())), code::PMIX_ERR_BAD_PARAM);
        let qualifier = vec![Info::new(key::PMIX_NSPACE, Value::Bool(true))];
        assert_eq!(ask(query(&[key::PMIX_QUERY_NAMESPACES], qualifier)), code::PMIX_ERR_BAD_PARAM);
        let many = [key::PMIX_QUERY_NAMESPACES; MOST_KEYS + 1];
        assert_eq!(ask(query(&many, Vec::new())), code::PMIX_ERR_OUT_OF_RESOURCE);
    }
}
