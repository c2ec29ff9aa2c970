//! Connect and disconnect. Procs of several jobs meet as in a fence and are an assemblage in
//! between.
use super::{
    Action, Purpose, RequestId, ServerContext, ServerState, control::ControlRequester,
    data::timeout, reply,
};
use crate::{
    fence::{Collect, CompletedFence, FenceArrival},
    group::{ConstructRequest, ConstructRole, GroupCall, GroupKey, GroupName},
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, JobInfo, NamedProcs, Proc, Range, Reply, Status, TargetProc, Value, code, key,
};
use std::{collections::BTreeSet, sync::Arc};

/// The status of a connect with a proc that has ended.
pub(super) const UNCONNECTABLE: Status = code::PMIX_ERR_LOST_CONNECTION;

impl ServerState {
    /// Handles a connect or a disconnect.
    pub(super) fn connect(
        &mut self,
        purpose: Purpose,
        by: ControlRequester,
        source: Proc,
        procs: Vec<Proc>,
        infos: &[Info],
    ) -> Vec<Action> {
        let procs = NamedProcs::from(procs);
        if procs
            .iter()
            .any(|proc| self.groups.is_elsewhere(&proc.nspace))
        {
            return self.connect_across(purpose, by, source, procs, infos);
        }
        let full = || self.assemblages.count(&source) >= self.settings.max_fences;
        if procs.is_empty() {
            return vec![reply(by.to, code::PMIX_ERR_BAD_PARAM)];
        }
        if purpose == Purpose::Connect && full() {
            return vec![reply(by.to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        let deadline = timeout(infos).map(|after| by.at + after);
        self.join_collective(
            purpose,
            procs,
            FenceArrival {
                proc: source,
                request: by.to,
                collect: Collect::Nothing,
                deadline,
            },
        )
    }

    /// Connects or disconnects procs of several servers. The coordinator decides about them as
    /// about a group, and its decision carries the job data that each server needs.
    fn connect_across(
        &mut self,
        purpose: Purpose,
        ControlRequester { to, at, .. }: ControlRequester,
        proc: Proc,
        procs: NamedProcs,
        infos: &[Info],
    ) -> Vec<Action> {
        let uid = self.clients.uid_of(&proc);
        let may_name = |named: &Proc| match self.groups.owner_elsewhere(&named.nspace) {
            Some(owner) => owner.uid == uid,
            None => self.clients.may_see(&proc, &named.nspace),
        };
        if !procs.iter().all(may_name) {
            return vec![reply(to, code::PMIX_ERR_INVALID_NAMESPACE)];
        }
        if !procs.iter().any(|named| named.covers(&proc)) {
            return vec![reply(to, code::PMIX_ERR_BAD_PARAM)];
        }
        let what = match purpose {
            Purpose::Connect => {
                let mut construct = ConstructRequest::of(ConstructRole::Leader(procs.clone()));
                if let Err(error) = self.add_contribution(&proc, &mut construct) {
                    return vec![reply(to, error.status())];
                }
                Some(Arc::new(construct))
            }
            Purpose::Disconnect | Purpose::Fence => None,
        };
        let key = GroupKey {
            uid,
            name: GroupName::Connected(procs),
        };
        let steps = self.groups.call(
            GroupCall {
                to,
                key,
                proc,
                what,
                timeout: timeout(infos),
                refusal: None,
            },
            at,
        );
        self.carry_out(steps)
    }

    /// Adds the owners to the procs that a connect names, on this server or on others.
    pub(super) fn connectable(&self, procs: &[Proc]) -> Vec<TargetProc> {
        let owner = |proc: &Proc| {
            self.clients
                .identity(proc)
                .or_else(|| self.groups.owner_elsewhere(&proc.nspace))
        };
        procs
            .iter()
            .map(|proc| TargetProc {
                proc: proc.clone(),
                owner: owner(proc),
            })
            .collect()
    }

    /// Completes a connect that all participants called. It fails if one of them has ended.
    pub(super) fn complete_connect(
        &mut self,
        finished: CompletedFence,
        status: Status,
    ) -> Vec<Action> {
        let CompletedFence {
            procs,
            arrived,
            waiting,
            ..
        } = finished;
        let status = if status == code::PMIX_ERR_PARTIAL_SUCCESS {
            UNCONNECTABLE
        } else {
            status
        };
        if !status.is_success() {
            return waiting.into_iter().map(|to| reply(to, status)).collect();
        }
        let jobs: BTreeSet<_> = procs.iter().map(|proc| proc.nspace.clone()).collect();
        let known: Vec<Arc<JobInfo>> = jobs
            .iter()
            .filter_map(|nspace| self.clients.job(nspace))
            .map(|job| job.info.clone())
            .collect();
        self.assemblages.connect(procs, arrived);
        let answer = |to: RequestId| {
            let own = self.clients.proc_of(to.peer).map(|proc| &proc.nspace);
            let others = known.iter().filter(|job| Some(&job.nspace) != own);
            Action::Reply {
                to,
                reply: Reply::Connected {
                    status,
                    jobs: others.map(|job| (**job).clone()).collect(),
                },
            }
        };
        waiting.into_iter().map(answer).collect()
    }

    /// Completes a disconnect that all remaining participants called. Ended participants had left
    /// the assemblage already.
    pub(super) fn complete_disconnect(
        &mut self,
        finished: CompletedFence,
        status: Status,
    ) -> Vec<Action> {
        self.assemblages.disconnect(&finished.procs);
        let status = if status == code::PMIX_ERR_PARTIAL_SUCCESS {
            code::PMIX_SUCCESS
        } else {
            status
        };
        finished
            .waiting
            .into_iter()
            .map(|to| reply(to, status))
            .collect()
    }

    /// Fails pending connects with a proc that has ended.
    pub(super) fn fail_connects(&mut self, proc: &Proc) -> Vec<Action> {
        self.fences
            .unconnectable(proc)
            .into_iter()
            .map(|to| reply(to, UNCONNECTABLE))
            .collect()
    }

    /// Notifies connected procs of other jobs that a proc ended without finalizing. Procs of its
    /// own job are notified by the host environment.
    pub(super) fn notify_connected(&mut self, proc: &Proc, reach: UserScope) -> Vec<Action> {
        let others = self.assemblages.leave(proc);
        let others: Vec<Proc> = others
            .into_iter()
            .filter(|other| other.nspace != proc.nspace)
            .collect();
        if others.is_empty() {
            return Vec::new();
        }
        let infos = vec![
            Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone())),
            Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::procs(others)),
        ];
        let code = code::PMIX_ERR_PROC_TERM_WO_SYNC;
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.events.deliver_here(
            ctx,
            &Arc::new(Event {
                code,
                source: None,
                range: Range::Custom,
                infos,
            }),
            reach,
        )
    }
}
