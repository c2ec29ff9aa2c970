//! Queries about jobs (`PMIx_Query_info`): their names, applications, states and procs.
use super::{
    JobCommand,
    job_listing::{JobListing, JobOrigin},
    job_request::JobRequest,
    memory,
    reaper::ChildReaper,
    registered::{ProcProcess, RegisteredProcs},
    usage_query,
};
use peal_core::{job::JobSpec, owner::Owner};
use peal_model::{
    DataArray, Info, Infos, KeyName, Nspace, Proc, ProcState, Query, Status, UserIdentity, Value,
    code, key, rank,
};
use peal_server::{KeyAnswer, QueriedKey};
use peal_system::{
    process::ProcessId,
    usage::{self, Fields},
};
use rustix::process::{getegid, geteuid};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;

/// Maximum number of keys in one request. It bounds the size of the reply, since the information
/// about one job can be long.
const MAX_KEYS: usize = 64;

/// Running jobs, for queries.
#[derive(Debug, Default)]
pub(super) struct JobTable(Mutex<BTreeMap<Nspace, Arc<JobListing>>>);

impl JobTable {
    /// Adds a launched job. It is listed until it has ended.
    pub(super) fn insert(&self, request: &JobRequest, commands: mpsc::Sender<JobCommand>) {
        let owner = UserIdentity {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        };
        let nspace = request.nspace.clone();
        let origin = JobOrigin::Launched {
            apps: request.apps.clone(),
            hostname: request.hostname.clone(),
            commands,
        };
        let listed = JobListing::new(owner, (nspace.clone(), request.size()), origin);
        let mut jobs = self.jobs();
        jobs.retain(|_, job| job.is_there());
        jobs.insert(nspace, Arc::new(listed));
    }

    /// Adds a job of another launcher. It is listed until it is released.
    pub(super) fn adopt(&self, job: &JobSpec) {
        let nspace = job.nspace.clone();
        let origin = JobOrigin::Adopted {
            spec: job.clone(),
            procs: RegisteredProcs::default(),
        };
        let listed = JobListing::new(job.identity, (nspace.clone(), job.size()), origin);
        self.jobs().insert(nspace, Arc::new(listed));
    }

    /// Returns the times since the registration of the jobs of other launchers.
    pub(super) fn elapsed_times(&self) -> BTreeMap<Nspace, Duration> {
        let jobs = self.jobs();
        let adopted = jobs.iter().filter(|(_, job)| job.registered().is_some());
        adopted
            .map(|(nspace, job)| (nspace.clone(), job.elapsed()))
            .collect()
    }

    /// Sets the times since the registration of jobs, which another process of the server knows.
    pub(super) fn set_elapsed_times(&self, times: &BTreeMap<Nspace, Duration>) {
        let jobs = self.jobs();
        let known = times
            .iter()
            .filter_map(|(nspace, time)| Some((jobs.get(nspace)?, time)));
        known.for_each(|(job, time)| job.set_elapsed(*time));
    }

    /// Returns the time since the start or the registration of a job.
    pub(super) fn elapsed(&self, nspace: &Nspace) -> Option<Duration> {
        self.jobs().get(nspace).map(|job| job.elapsed())
    }

    /// Returns true if another launcher starts the procs of a job.
    pub(super) fn is_adopted(&self, nspace: &Nspace) -> bool {
        self.jobs()
            .get(nspace)
            .is_some_and(|job| job.registered().is_some())
    }

    /// Returns the process of a proc that runs.
    pub(super) fn running_process(&self, proc: &Proc, reaper: &ChildReaper) -> Option<u32> {
        let job = self.jobs().get(&proc.nspace).cloned();
        match job?.process_of(proc, reaper) {
            ProcProcess::Running(pid) => Some(pid),
            ProcProcess::Unknown | ProcProcess::Ended => None,
        }
    }

    /// Adds a process to a proc of an adopted job.
    pub(super) fn found(&self, proc: &Proc, pid: u32) {
        if let Some(procs) = self
            .jobs()
            .get(&proc.nspace)
            .and_then(|job| job.registered())
        {
            procs.add(proc.rank, pid);
        }
    }

    /// Returns an adopted job, and the processes of the procs of all adopted jobs.
    pub(super) fn registered(
        &self,
        nspace: &Nspace,
    ) -> Option<(Arc<JobListing>, BTreeSet<ProcessId>)> {
        let jobs = self.jobs();
        let job = jobs
            .get(nspace)
            .filter(|job| job.registered().is_some())?
            .clone();
        let processes = jobs
            .values()
            .filter_map(|job| job.registered())
            .flat_map(RegisteredProcs::ids)
            .collect();
        Some((job, processes))
    }

    /// Sets the reason for which a job is being ended.
    pub(super) fn ending(&self, nspace: &Nspace, because: Status) {
        if let Some(job) = self.jobs().get(nspace) {
            job.ending(because);
        }
    }

    /// Sets the state of a proc that has ended.
    pub(super) fn proc_ended(&self, proc: &Proc, state: ProcState) {
        if let Some(job) = self.jobs().get(&proc.nspace) {
            job.proc_ended(proc.rank, state);
        }
    }

    /// Removes an adopted job.
    pub(super) fn release(&self, nspace: &Nspace) {
        self.jobs().remove(nspace);
    }

    /// Answers each key. The answers cover the jobs of the requester's user, or all jobs if the
    /// requester is root.
    pub(super) fn answer(
        &self,
        identity: UserIdentity,
        queries: &[Query],
        reaper: &ChildReaper,
    ) -> Result<Vec<QueriedKey>, Status> {
        if queries.iter().map(|query| query.keys.len()).sum::<usize>() > MAX_KEYS {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        let mine = |job: &JobListing| {
            job.is_there() && (identity.uid == 0 || identity.uid == job.owner.uid)
        };
        // The entries are cloned, so that no lock is held while `/proc` is read.
        let jobs: Vec<Arc<JobListing>> = self
            .jobs()
            .values()
            .filter(|job| mine(job))
            .cloned()
            .collect();
        let mut answered = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            let keys = query.keys.iter().flatten();
            let mut answers: Vec<QueriedKey> = keys
                .map(|key| QueriedKey {
                    query: number,
                    key: key.clone(),
                    answer: KeyAnswer::Unknown,
                })
                .collect();
            let named = match SelectedJobs::of(&query.qualifiers)? {
                SelectedJobs::All => None,
                SelectedJobs::Job(nspace) => match jobs.iter().find(|job| job.nspace == nspace) {
                    Some(job) => Some(job),
                    // An unknown or foreign job yields no info: the requester cannot tell them
                    // apart.
                    None => {
                        answered.append(&mut answers);
                        continue;
                    }
                },
            };
            for queried in &mut answers {
                let Some(key) = queried.key.as_str() else {
                    continue;
                };
                let reach = QueryReach::of(key, &query.qualifiers, named.map(|job| &**job))?;
                if reach == QueryReach::Elsewhere {
                    queried.answer = KeyAnswer::Elsewhere;
                    continue;
                }
                let found = if usage_query::is_usage_query(key) {
                    let running = named.map(|job| job.running(reaper)).unwrap_or_default();
                    usage_query::about(key, &query.qualifiers, &running)?
                } else if key == key::PMIX_QUERY_MEMORY_USAGE.0 {
                    let all = named.map_or(&jobs[..], std::slice::from_ref);
                    let running: Vec<_> = all.iter().flat_map(|job| job.running(reaper)).collect();
                    Some(memory::used(&query.qualifiers, &running)?)
                } else {
                    about(key, &jobs, named, reaper)?
                };
                queried.answer = match found {
                    None => KeyAnswer::Unknown,
                    Some(info) if reach == QueryReach::Nodes => KeyAnswer::OfNode(info),
                    Some(info) => KeyAnswer::Known(info),
                };
            }
            answered.append(&mut answers);
        }
        Ok(answered)
    }

    /// Returns the current usage of procs, one info for each that runs here. Modules of a user or
    /// namespace can query their own jobs only. Reads `/proc`.
    pub(super) fn used(
        &self,
        owner: &Owner,
        procs: &[Proc],
        reaper: &ChildReaper,
    ) -> Result<Vec<Info>, Status> {
        let mut running = Vec::new();
        for proc in procs {
            let job = self
                .jobs()
                .get(&proc.nspace)
                .cloned()
                .ok_or(code::PMIX_ERR_NOT_FOUND)?;
            let is_theirs = match owner {
                Owner::Site => true,
                Owner::User(uid) => job.owner.uid == *uid,
                Owner::Namespace(nspace) => job.nspace == *nspace,
            };
            if !is_theirs {
                return Err(code::PMIX_ERR_NO_PERMISSIONS);
            }
            // No lock is held from here on, since `/proc` is read.
            let all = proc.rank == rank::PMIX_RANK_WILDCARD;
            running.extend(
                job.running(reaper)
                    .into_iter()
                    .filter(|(one, _)| all || one.rank == proc.rank),
            );
        }
        Ok(running
            .iter()
            .filter_map(|(proc, pid)| usage::of_proc(proc, *pid, Fields::ALL))
            .collect())
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<Nspace, Arc<JobListing>>> {
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Nodes of the procs that a query is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum QueryReach {
    /// This node, or no procs.
    ThisNode,
    /// This node and others.
    Nodes,
    /// One proc of another node.
    Elsewhere,
}

impl QueryReach {
    fn of(
        queried: &str,
        qualifiers: &[Info],
        job: Option<&JobListing>,
    ) -> Result<QueryReach, Status> {
        let Some(job) = job else {
            return Ok(QueryReach::ThisNode);
        };
        let usage = [
            key::PMIX_QUERY_PROC_RESOURCE_USAGE,
            key::PMIX_QUERY_MEMORY_USAGE,
        ];
        let is_usage = usage.iter().any(|key| queried == key.0);
        let one = match usage_query::selected_rank(qualifiers) {
            Ok(rank) => rank.filter(|_| is_usage),
            Err(status) if is_usage => return Err(status),
            Err(_) => None,
        };
        let is_table = queried == key::PMIX_QUERY_PROC_TABLE.0;
        Ok(match one {
            Some(rank) if job.is_elsewhere(rank) => QueryReach::Elsewhere,
            None if (is_usage || is_table)
                && job.has_procs_elsewhere()
                && !qualifiers.is_true(key::PMIX_QUERY_LOCAL_ONLY) =>
            {
                QueryReach::Nodes
            }
            _ => QueryReach::ThisNode,
        })
    }
}

/// Jobs that a query selects.
enum SelectedJobs {
    All,
    Job(Nspace),
}

impl SelectedJobs {
    fn of(qualifiers: &[Info]) -> Result<SelectedJobs, Status> {
        let named = [key::PMIX_NSPACE, key::PMIX_PROCID]
            .iter()
            .find_map(|key| qualifiers.value_of(*key));
        match named {
            None => Ok(SelectedJobs::All),
            Some(Value::Proc(proc)) => Ok(SelectedJobs::Job(proc.nspace.clone())),
            Some(value) => {
                let nspace = value.as_str().and_then(|text| Nspace::new(text).ok());
                nspace
                    .map(SelectedJobs::Job)
                    .ok_or(code::PMIX_ERR_BAD_PARAM)
            }
        }
    }
}

/// Returns the info of a key, if the key is known.
fn about(
    queried: &str,
    jobs: &[Arc<JobListing>],
    named: Option<&Arc<JobListing>>,
    reaper: &ChildReaper,
) -> Result<Option<Info>, Status> {
    let is = |key: KeyName| queried == key.0;
    let known = if is(key::PMIX_QUERY_NAMESPACES) {
        let names: Vec<&str> = jobs.iter().map(|job| job.nspace.as_str()).collect();
        (key::PMIX_QUERY_NAMESPACES, Value::string(&names.join(",")))
    } else if is(key::PMIX_QUERY_NAMESPACE_INFO) {
        let infos: Vec<Info> = named
            .map_or(jobs, std::slice::from_ref)
            .iter()
            .map(|job| job.info())
            .collect();
        (
            key::PMIX_QUERY_NAMESPACE_INFO,
            Value::DataArray(DataArray::infos(infos)),
        )
    } else if is(key::PMIX_QUERY_JOB_STATUS) {
        let job = named.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        (key::PMIX_QUERY_JOB_STATUS, Value::Status(job.status()))
    } else if is(key::PMIX_QUERY_PROC_TABLE) {
        // The job must be named.
        let job = named.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        let procs = job.procs(job.ranks(), reaper);
        (key::PMIX_QUERY_PROC_TABLE, Value::DataArray(procs))
    } else if is(key::PMIX_QUERY_LOCAL_PROC_TABLE) {
        let job = named.ok_or(code::PMIX_ERR_BAD_PARAM)?;
        let procs = job.procs(job.local_ranks(), reaper);
        (key::PMIX_QUERY_LOCAL_PROC_TABLE, Value::DataArray(procs))
    } else {
        return Ok(None);
    };
    Ok(Some(Info::new(known.0, known.1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AppRequest;
    use peal_core::job_registration::LauncherJob;
    use peal_model::Rank;

    fn request(nspace: &str) -> JobRequest {
        JobRequest::new(
            Nspace::new(nspace).unwrap(),
            AppRequest::new("app", vec!["--fast".into()], 2),
            "node",
        )
    }

    /// Returns what is known.
    fn known(answers: Vec<QueriedKey>) -> Vec<Info> {
        let infos = answers.into_iter().map(|key| key.answer.info());
        infos.flatten().collect()
    }

    fn query(keys: &[KeyName], qualifiers: Vec<Info>) -> Query {
        Query {
            keys: keys.iter().map(|key| Some(key.0.into())).collect(),
            qualifiers,
        }
    }

    fn of_job(nspace: &str) -> Vec<Info> {
        vec![Info::new(key::PMIX_NSPACE, Value::string(nspace))]
    }

    #[test]
    fn query_answers_job_user_and_root_and_ended_jobs_are_forgotten() {
        let table = JobTable::default();
        let reaper = ChildReaper::adopting();
        let (first, _inbox) = mpsc::channel(1);
        let (second, ended) = mpsc::channel(1);
        table.insert(&request("first"), first);
        table.insert(&request("second"), second);
        let me = UserIdentity {
            uid: geteuid().as_raw(),
            gid: 0,
        };
        let root = UserIdentity { uid: 0, gid: 0 };
        let other = UserIdentity {
            uid: me.uid + 1,
            gid: 0,
        };
        let names = |identity| {
            let names = query(&[key::PMIX_QUERY_NAMESPACES], Vec::new());
            known(table.answer(identity, &[names], &reaper).unwrap())
                .value_of(key::PMIX_QUERY_NAMESPACES)
                .and_then(Value::as_str)
                .unwrap()
                .to_owned()
        };
        assert_eq!(
            [names(me), names(root), names(other)],
            ["first,second", "first,second", ""]
        );
        drop(ended);
        assert_eq!(names(me), "first");

        let both = [
            key::PMIX_QUERY_PROC_TABLE,
            key::PMIX_QUERY_NAMESPACE_INFO,
            key::PMIX_QUERY_SPAWN_SUPPORT,
        ];
        let answer = |identity, job: &str| {
            known(
                table
                    .answer(identity, &[query(&both, of_job(job))], &reaper)
                    .unwrap(),
            )
        };
        let found = answer(me, "first");
        assert_eq!(found.len(), 2, "unknown keys are left out");
        let Value::DataArray(procs) = &found[0].value else {
            panic!("{found:?}")
        };
        assert!(
            matches!(procs.items(), [Value::ProcInfo(first), Value::ProcInfo(_)]
            if first.state == ProcState::TERMINATED && first.executable == Some("app".into()))
        );
        assert_eq!([answer(other, "first"), answer(me, "second")], [[], []]);
    }

    #[test]
    fn job_runs_until_termination_and_procs_show_their_exits() {
        let table = JobTable::default();
        let reaper = ChildReaper::adopting();
        let (commands, _inbox) = mpsc::channel(1);
        table.insert(&request("job"), commands);
        let me = UserIdentity {
            uid: geteuid().as_raw(),
            gid: 0,
        };
        let value = |queried: KeyName| {
            let queried_key = query(&[queried], of_job("job"));
            let found = known(table.answer(me, &[queried_key], &reaper).unwrap());
            found.value_of(queried).unwrap().clone()
        };
        assert_eq!(
            value(key::PMIX_QUERY_JOB_STATUS),
            Value::Status(code::PMIX_SUCCESS)
        );
        let job = Nspace::new("job").unwrap();
        table.ending(&job, code::PMIX_ERR_PROC_REQUESTED_ABORT);
        table.ending(&job, code::PMIX_ERR_JOB_CANCELED);
        assert_eq!(
            value(key::PMIX_QUERY_JOB_STATUS),
            Value::Status(code::PMIX_ERR_PROC_REQUESTED_ABORT)
        );
        table.proc_ended(&Proc::new(job, Rank(1)), ProcState::CALLED_ABORT);
        let Value::DataArray(procs) = value(key::PMIX_QUERY_PROC_TABLE) else {
            panic!("no table")
        };
        assert!(
            matches!(procs.items(), [Value::ProcInfo(first), Value::ProcInfo(second)]
            if first.state == ProcState::TERMINATED && second.state == ProcState::CALLED_ABORT)
        );
        let unnamed = query(&[key::PMIX_QUERY_JOB_STATUS], Vec::new());
        assert_eq!(
            table.answer(me, &[unnamed], &reaper),
            Err(code::PMIX_ERR_BAD_PARAM)
        );
    }

    #[test]
    fn answers_tell_procs_of_this_node_from_those_of_others() {
        let me = UserIdentity {
            uid: geteuid().as_raw(),
            gid: 0,
        };
        let nspace = Nspace::new("job").unwrap();
        let mut job = LauncherJob::new(nspace, "n0", me);
        let infos = vec![
            Info::new(key::PMIX_NODE_MAP, Value::string("n0,n1")),
            Info::new(key::PMIX_PROC_MAP, Value::string("0,1;2,3")),
        ];
        job.describe(2, infos);
        job.add_client(Rank(0), me);
        job.add_client(Rank(1), me);
        let table = JobTable::default();
        table.adopt(&job.spec().unwrap());
        let reaper = ChildReaper::adopting();
        let ask = |queried: KeyName, more: Option<Info>| {
            let mut qualifiers = of_job("job");
            qualifiers.extend(more);
            let answers = table.answer(me, &[query(&[queried], qualifiers)], &reaper);
            answers.unwrap().remove(0).answer
        };
        let rank = |rank| Some(Info::new(key::PMIX_RANK, Value::Rank(Rank(rank))));
        let usage = key::PMIX_QUERY_PROC_RESOURCE_USAGE;
        assert_eq!(ask(usage, rank(2)), KeyAnswer::Elsewhere);
        assert_eq!(
            ask(usage, rank(1)),
            KeyAnswer::Unknown,
            "it has not connected"
        );
        let count = |answer| match answer {
            KeyAnswer::Known(info) | KeyAnswer::OfNode(info) => match info.value {
                Value::DataArray(array) => array.items().len(),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        };
        let table_of_job = ask(key::PMIX_QUERY_PROC_TABLE, None);
        assert!(matches!(table_of_job, KeyAnswer::OfNode(_)));
        assert_eq!(count(table_of_job), 4);
        let table_of_node = ask(key::PMIX_QUERY_LOCAL_PROC_TABLE, None);
        assert!(matches!(table_of_node, KeyAnswer::Known(_)));
        assert_eq!(count(table_of_node), 2);
        let local = Info::new(key::PMIX_QUERY_LOCAL_ONLY, Value::Bool(true));
        let memory = |more| ask(key::PMIX_QUERY_MEMORY_USAGE, more);
        assert!(matches!(memory(None), KeyAnswer::OfNode(_)));
        assert!(matches!(memory(Some(local)), KeyAnswer::Known(_)));
    }

    #[test]
    fn a_question_that_makes_no_sense_or_is_too_long_is_refused() {
        let table = JobTable::default();
        let reaper = ChildReaper::adopting();
        let me = UserIdentity { uid: 0, gid: 0 };
        let ask = |query: Query| table.answer(me, &[query], &reaper).unwrap_err();
        assert_eq!(
            ask(query(&[key::PMIX_QUERY_PROC_TABLE], Vec::new())),
            code::PMIX_ERR_BAD_PARAM
        );
        let qualifier = vec![Info::new(key::PMIX_NSPACE, Value::Bool(true))];
        assert_eq!(
            ask(query(&[key::PMIX_QUERY_NAMESPACES], qualifier)),
            code::PMIX_ERR_BAD_PARAM
        );
        let many = [key::PMIX_QUERY_NAMESPACES; MAX_KEYS + 1];
        assert_eq!(
            ask(query(&many, Vec::new())),
            code::PMIX_ERR_OUT_OF_RESOURCE
        );
    }
}
