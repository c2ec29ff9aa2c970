//! Commit, fence and get.
use super::{
    Action, Collect, Completeness, FenceContribution, FenceId, LocallyComplete, Purpose, RequestId,
    ServerState, connecting::UNCONNECTABLE, reply,
};
use crate::{
    MonotonicTime, directives,
    fence::{FenceArrival, Participants},
    job::{self, ProcPhase, TrackedJob},
    modex::PutShare,
    put_values::SoughtValue,
};
use peal_model::{
    Commit, Info, Infos, JobInfo, Key, NamedProcs, Nspace, Proc, Rank, Reply, SharedData, Status,
    Text, code, key, rank,
};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

impl ServerState {
    pub(super) fn commit(
        &mut self,
        to: RequestId,
        source: &Proc,
        commits: Vec<Commit>,
    ) -> Vec<Action> {
        let share = self.put_share(source);
        match self.modex.commit(source, share, commits) {
            Err(refusal) => {
                vec![
                    reply(to, code::PMIX_ERR_OUT_OF_RESOURCE),
                    Action::PutRefused {
                        proc: source.clone(),
                        refusal,
                    },
                ]
            }
            Ok(waiting) => std::iter::once(reply(to, code::PMIX_SUCCESS))
                .chain(self.answer_gets(source, waiting))
                .collect(),
        }
    }

    /// Returns the user that is charged for the values of a proc, and the share of that user.
    pub(super) fn put_share(&self, proc: &Proc) -> PutShare {
        let uid = self.clients.uid_of(proc);
        let max_bytes = if self.clients.is_bounded(uid) {
            self.settings.max_put_bytes_per_user
        } else {
            usize::MAX
        };
        PutShare { uid, max_bytes }
    }

    /// Answers pending gets with the data that are now known of a proc.
    pub(super) fn answer_gets(&mut self, of: &Proc, waiting: Vec<RequestId>) -> Vec<Action> {
        if waiting.is_empty() {
            return Vec::new();
        }
        let info = self.info_of(of, &of.nspace);
        let data = info.map(|info| self.modex.answer(of, || job::values_of(&info, of)));
        waiting
            .into_iter()
            .map(|to| Action::Reply {
                to,
                reply: found(data.clone()),
            })
            .collect()
    }

    pub(super) fn fence(
        &mut self,
        to: RequestId,
        source: Proc,
        procs: Vec<Proc>,
        infos: &[Info],
        now: MonotonicTime,
    ) -> Vec<Action> {
        let procs: NamedProcs = if procs.is_empty() {
            vec![Proc::all(source.nspace.clone())].into()
        } else {
            self.named_by(&source, procs)
        };
        let collect = if infos.is_true(key::PMIX_COLLECT_DATA) {
            Collect::Data
        } else {
            Collect::Nothing
        };
        let deadline = timeout(infos).map(|after| now + after);
        self.join_collective(
            Purpose::Fence,
            procs,
            FenceArrival {
                proc: source,
                request: to,
                collect,
                deadline,
            },
        )
    }

    /// Adds a proc to a collective of these procs. Starts the collective if it is the first.
    pub(super) fn join_collective(
        &mut self,
        purpose: Purpose,
        procs: NamedProcs,
        arrival: FenceArrival,
    ) -> Vec<Action> {
        let (source, to) = (&arrival.proc, arrival.request);
        if self.fences.is_busy(source) {
            return vec![reply(to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        // Participants are computed once per collective, not per arrival: jobs are large.
        let id = match self.fences.awaiting(purpose, &procs, source) {
            Some(id) => id,
            None => match self.participants(source, procs, purpose) {
                Ok(Participants {
                    attendance: Completeness::Partial,
                    ..
                }) if purpose == Purpose::Connect => {
                    return vec![reply(to, UNCONNECTABLE)];
                }
                Ok(participants) => self.fences.start(purpose, participants),
                Err(status) => return vec![reply(to, status)],
            },
        };
        let complete = self.fences.arrive(id, arrival);
        complete
            .into_iter()
            .map(|complete| self.gather(complete))
            .collect()
    }

    /// Returns the local procs of a set that can still arrive, and whether some cannot. A finalized
    /// proc can arrive while its process lives, where the purpose allows it.
    ///
    /// # Errors
    ///
    /// Fails for unknown jobs, jobs of other users and unknown ranks, because such a fence could
    /// never end. Jobs of other servers are allowed if the source shares a group with them.
    fn participants(
        &self,
        source: &Proc,
        procs: NamedProcs,
        purpose: Purpose,
    ) -> Result<Participants, Status> {
        let mut expected = BTreeSet::new();
        let mut attendance = Completeness::Full;
        for named in &procs {
            if self.groups.is_elsewhere(&named.nspace) && self.groups.meets(source, named) {
                continue;
            }
            let is_job = self.clients.has_job(&named.nspace);
            if !is_job
                && named.nspace == source.nspace
                && self.clients.tool_identity(&source.nspace).is_some()
            {
                // A tool or singleton is the only proc of its namespace.
                expected.insert(source.clone());
                continue;
            }
            let job = self
                .clients
                .job(&named.nspace)
                .filter(|_| self.clients.may_see(source, &named.nspace));
            let job = job.ok_or(code::PMIX_ERR_INVALID_NAMESPACE)?;
            let ranks = ranks_of(job, named.rank).ok_or(code::PMIX_ERR_BAD_PARAM)?;
            for (rank, life) in ranks {
                let can_arrive = match life {
                    ProcPhase::Expected | ProcPhase::Connected(_) => true,
                    ProcPhase::Finalized => purpose.awaits_finalized(),
                    ProcPhase::Terminated | ProcPhase::Lost => false,
                };
                if can_arrive {
                    expected.insert(Proc::new(named.nspace.clone(), rank));
                } else {
                    attendance = Completeness::Partial;
                }
            }
        }
        if !expected.contains(source) {
            return Err(code::PMIX_ERR_BAD_PARAM);
        }
        Ok(Participants {
            procs,
            expected,
            attendance,
        })
    }

    pub(super) fn gather(&self, complete: LocallyComplete) -> Action {
        let data = match complete.collect {
            Collect::Data => complete
                .arrived
                .iter()
                .filter_map(|proc| self.modex.for_others(proc))
                .collect(),
            Collect::Nothing => Vec::new(),
        };
        let brought = FenceContribution {
            data,
            attendance: complete.attendance,
        };
        Action::Gather {
            id: complete.id,
            purpose: complete.purpose,
            procs: complete.procs,
            brought,
        }
    }

    /// Completes a fence after all servers have arrived or gathering failed. Stores the data of
    /// other servers and answers all waiting procs.
    pub fn gathered(
        &mut self,
        id: FenceId,
        outcome: Result<FenceContribution, Status>,
    ) -> Vec<Action> {
        let Some(finished) = self.fences.finish(id) else {
            return Vec::new();
        };
        let status = match outcome {
            Err(status) => status,
            Ok(FenceContribution { data, attendance }) => {
                data.into_iter().for_each(|data| self.modex.learn(data));
                match attendance.and(finished.attendance) {
                    Completeness::Full => code::PMIX_SUCCESS,
                    Completeness::Partial => code::PMIX_ERR_PARTIAL_SUCCESS,
                }
            }
        };
        match finished.purpose {
            // The last arrival is answered first, so that it reaches the next fence ahead of the
            // others, which waited for it in this one.
            Purpose::Fence => finished
                .waiting
                .into_iter()
                .rev()
                .map(|to| reply(to, status))
                .collect(),
            Purpose::Connect => self.complete_connect(finished, status),
            Purpose::Disconnect => self.complete_disconnect(finished, status),
        }
    }

    pub(super) fn get(
        &mut self,
        to: RequestId,
        source: &Proc,
        (proc, key): (Proc, Option<Text>),
        infos: &[Info],
        now: MonotonicTime,
    ) -> Vec<Action> {
        let key = match key
            .as_ref()
            .map(|text| text.as_str().and_then(|text| Key::new(text).ok()))
        {
            Some(None) => return vec![reply(to, code::PMIX_ERR_BAD_PARAM)],
            Some(Some(key)) => Some(key),
            None => None,
        };
        if let Some(said) = self.group_value(source, &proc, key.as_ref(), infos) {
            return vec![Action::Reply {
                to,
                reply: found([said.into()]),
            }];
        }
        let sought = key.map(|key| SoughtValue::new(key, infos));
        if let Some(info) = self.info_of(source, &proc.nspace)
            && let Some(data) = self.known_data(&info, &proc, sought.as_ref())
        {
            return vec![Action::Reply {
                to,
                reply: found(data),
            }];
        }
        let now_or_never = infos.is_true(key::PMIX_IMMEDIATE) || infos.is_true(key::PMIX_OPTIONAL);
        // Only the host environment sets reserved keys, and it has done so before the procs start.
        let may_come = self.may_put(&proc)
            && !sought
                .as_ref()
                .is_some_and(|sought| sought.key.is_reserved());
        let hidden = sought
            .as_ref()
            .is_some_and(|sought| self.modex.hides(&proc, sought));
        if now_or_never || !may_come || hidden {
            return vec![reply(to, code::PMIX_ERR_NOT_FOUND)];
        }
        if self.modex.held_by(to.peer) >= self.settings.max_pending_gets {
            return vec![reply(to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        let deadline = now + timeout(infos).unwrap_or(self.settings.get_timeout);
        self.modex.hold(&proc, sought, to, deadline);
        Vec::new()
    }

    /// Returns all data of a proc, or of a job for its wildcard rank.
    pub(super) fn refresh(&mut self, to: RequestId, source: &Proc, proc: &Proc) -> Vec<Action> {
        if !self.clients.may_see(source, &proc.nspace) {
            return vec![reply(to, code::PMIX_ERR_NO_PERMISSIONS)];
        }
        let Some(info) = self.info_of(source, &proc.nspace) else {
            return vec![reply(to, code::PMIX_ERR_NOT_FOUND)];
        };
        let kvals = self
            .modex
            .answer(proc, || job::values_of(&info, proc))
            .into_inner()
            .kvals;
        vec![Action::Reply {
            to,
            reply: Reply::Kvals {
                status: code::PMIX_SUCCESS,
                kvals,
            },
        }]
    }

    /// Returns true if a proc may still put values; for an undefined rank, if any proc of the job
    /// may.
    pub(super) fn may_put(&self, proc: &Proc) -> bool {
        let lives = |life: ProcPhase| matches!(life, ProcPhase::Expected | ProcPhase::Connected(_));
        match self.clients.job(&proc.nspace) {
            Some(job) if proc.rank == rank::PMIX_RANK_UNDEF => {
                job.procs.values().copied().any(lives)
            }
            _ => self.clients.life(proc).is_some_and(lives),
        }
    }

    /// Returns the job data of a local job, or of a remote job with a proc in a group with the
    /// source.
    pub(super) fn info_of(&self, source: &Proc, nspace: &Nspace) -> Option<Arc<JobInfo>> {
        let job = self.clients.job(nspace).map(|job| &job.info);
        job.or_else(|| self.groups.shared_job(source, nspace))
            .cloned()
    }

    /// Returns all data of a proc or job if they include the sought value; without a key, if the
    /// proc has put anything. An undefined rank means any proc that has the value.
    fn known_data(
        &mut self,
        info: &JobInfo,
        proc: &Proc,
        sought: Option<&SoughtValue>,
    ) -> Option<Vec<SharedData>> {
        let found = if proc.rank == rank::PMIX_RANK_UNDEF {
            job::procs_of(info).find(|proc| self.modex.has(proc, sought))
        } else {
            let knows = match sought {
                Some(sought) => {
                    self.modex.has(proc, Some(sought)) || job::has_value(info, proc, &sought.key)
                }
                // The requester has the host environment's values of a proc already.
                None => self.modex.has(proc, None) || !proc.rank.is_valid(),
            };
            knows.then(|| proc.clone())
        };
        if let Some(proc) = found {
            return Some(vec![
                self.modex.answer(&proc, || job::values_of(info, &proc)),
            ]);
        }
        // Clients of OpenPMIx 4.2 use the wildcard rank for the host environment's values of procs
        // of other jobs.
        let of_ranks =
            proc.rank == rank::PMIX_RANK_WILDCARD && job::has_rank_value(info, &sought?.key);
        of_ranks.then(|| job::all_values(info).map(SharedData::from).collect())
    }
}

fn ranks_of(job: &TrackedJob, named: Rank) -> Option<Vec<(Rank, ProcPhase)>> {
    let all = || {
        job.procs
            .iter()
            .map(|(rank, life)| (*rank, *life))
            .collect()
    };
    match named {
        rank::PMIX_RANK_WILDCARD | rank::PMIX_RANK_LOCAL_PEERS | rank::PMIX_RANK_LOCAL_NODE => {
            Some(all())
        }
        one => job.procs.get(&one).map(|life| vec![(one, *life)]),
    }
}

fn found(data: impl IntoIterator<Item = SharedData>) -> Reply {
    Reply::Data {
        status: code::PMIX_SUCCESS,
        ranks: data.into_iter().collect(),
    }
}

/// Returns the timeout of a request. [`ServerState::request`] has validated it.
pub(super) fn timeout(infos: &[Info]) -> Option<Duration> {
    directives::timeout(infos).ok().flatten()
}
