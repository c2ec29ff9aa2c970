//! What the host tells of its jobs (`PMIx_Query_info`): which there are, what they run, and where their procs are.
use super::{JobCommand, launch::JobRequest, stray::Family};
use peal_model::{
    DataArray, Identity, Info, Infos, KeyName, Nspace, Proc, ProcInfo, ProcState, Query, Rank, Status, Text, Value,
    code, key,
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
    request: JobRequest,
    /// Closed when the job has ended.
    commands: mpsc::Sender<JobCommand>,
}

impl JobTable {
    /// Lists a job until it has ended.
    pub(super) fn insert(&self, request: &JobRequest, commands: mpsc::Sender<JobCommand>) {
        let owner = Identity { uid: geteuid().as_raw(), gid: getegid().as_raw() };
        let listed = Arc::new(Listed { owner, request: request.clone(), commands });
        let mut jobs = self.jobs();
        jobs.retain(|_, job| !job.commands.is_closed());
        jobs.insert(request.nspace.clone(), listed);
    }

    /// One info for each key that is known, about jobs that are the requester's own, or any if that is root.
    pub(super) fn answer(&self, identity: Identity, queries: &[Query], family: &Family) -> Result<Vec<Info>, Status> {
        if queries.iter().map(|query| query.keys.len()).sum::<usize>() > MOST_KEYS {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        let mine = |job: &Listed| !job.commands.is_closed() && (identity.uid == 0 || identity.uid == job.owner.uid);
        let jobs: Vec<Arc<Listed>> = self.jobs().values().filter(|job| mine(job)).cloned().collect();
        let mut found = Vec::new();
        for query in queries {
            let named = match Wanted::of(&query.qualifiers)? {
                Wanted::All => None,
                Wanted::Job(nspace) => match jobs.iter().find(|job| job.request.nspace == nspace) {
                    Some(job) => Some(job),
                    None => continue,
                },
            };
            for asked in query.keys.iter().flatten().filter_map(Text::as_str) {
                found.extend(about(asked, &jobs, named, family)?);
            }
        }
        Ok(found)
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
        let names: Vec<&str> = jobs.iter().map(|job| job.request.nspace.as_str()).collect();
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
    /// Its name and what it runs.
    fn info(&self) -> Info {
        let JobRequest { nspace, program, args, .. } = &self.request;
        let words = std::iter::once(program).chain(args).map(|word| word.to_string_lossy());
        let infos = [
            Info::new(key::PMIX_NSPACE, Value::string(nspace.as_str())),
            Info::new(key::PMIX_CMD_LINE, Value::string(&words.collect::<Vec<_>>().join(" "))),
            Info::new(key::PMIX_JOB_SIZE, Value::Uint32(self.request.size)),
        ];
        Info::new(key::PMIX_JOB_INFO_ARRAY, Value::DataArray(DataArray::infos(infos)))
    }

    /// Its procs, by rank.
    fn procs(&self, family: &Family) -> DataArray {
        let JobRequest { nspace, size, program, hostname, .. } = &self.request;
        DataArray::proc_infos((0..*size).map(|rank| {
            let proc = Proc::new(nspace.clone(), Rank(rank));
            let pid = family.process_of(&proc);
            ProcInfo {
                proc,
                hostname: Some(hostname.as_str().into()),
                executable: Some(Text::from_bytes(program.as_encoded_bytes())),
                pid: pid.unwrap_or_default(),
                state: if pid.is_some() { ProcState::RUNNING } else { ProcState::TERMINATED },
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::{OnAbort, Tagging};
    use std::time::Duration;

    fn request(nspace: &str) -> JobRequest {
        JobRequest {
            nspace: Nspace::new(nspace).unwrap(),
            size: 2,
            program: "app".into(),
            args: vec!["--fast".into()],
            hostname: "node".to_owned(),
            on_abort: OnAbort::Terminate,
            grace: Duration::ZERO,
            tagging: Tagging::Plain,
        }
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
            let found = table.answer(identity, &[query(&[key::PMIX_QUERY_NAMESPACES], Vec::new())], &family).unwrap();
            found.value_of(key::PMIX_QUERY_NAMESPACES).and_then(Value::as_str).unwrap().to_owned()
        };
        assert_eq!([names(me), names(root), names(other)], ["first,second", "first,second", ""]);
        drop(ended);
        assert_eq!(names(me), "first");

        let both = [key::PMIX_QUERY_PROC_TABLE, key::PMIX_QUERY_NAMESPACE_INFO, key::PMIX_QUERY_SPAWN_SUPPORT];
        let answer = |identity, job: &str| table.answer(identity, &[query(&both, of_job(job))], &family);
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
        let ask = |query: Query| table.answer(me, &[query], &family).unwrap_err();
        assert_eq!(ask(query(&[key::PMIX_QUERY_PROC_TABLE], Vec::new())), code::PMIX_ERR_BAD_PARAM);
        let qualifier = vec![Info::new(key::PMIX_NSPACE, Value::Bool(true))];
        assert_eq!(ask(query(&[key::PMIX_QUERY_NAMESPACES], qualifier)), code::PMIX_ERR_BAD_PARAM);
        let many = [key::PMIX_QUERY_NAMESPACES; MOST_KEYS + 1];
        assert_eq!(ask(query(&many, Vec::new())), code::PMIX_ERR_OUT_OF_RESOURCE);
    }
}
