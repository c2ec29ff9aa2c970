//! Connect and disconnect. Procs of several jobs meet as in a fence and are an assemblage in
//! between.
use super::{DataExchange, UNCONNECTABLE};
use crate::{
    fence::{CompletedFence, FenceArrival},
    group::Groups,
    server::{Action, Purpose, RequestId, ServerContext, clients::ClientTable, reply},
};
use peal_model::{JobInfo, NamedProcs, Proc, Reply, Status, code};
use std::{collections::BTreeSet, sync::Arc};

impl DataExchange {
    /// Adds a proc to a connect or a disconnect of procs of this server.
    pub(in crate::server) fn connect(
        &mut self,
        ctx: ServerContext<'_>,
        groups: &Groups,
        purpose: Purpose,
        procs: NamedProcs,
        arrival: FenceArrival,
    ) -> Vec<Action> {
        let to = arrival.request;
        let full = || self.assemblages.count(&arrival.proc) >= ctx.settings.max_fences;
        if procs.is_empty() {
            return vec![reply(to, code::PMIX_ERR_BAD_PARAM)];
        }
        // A disconnect is not bounded, because it ends an assemblage.
        if purpose == Purpose::Connect && full() {
            return vec![reply(to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        self.join_collective(ctx, groups, purpose, procs, arrival)
    }

    /// Completes a connect that all participants called. It fails if one of them has ended.
    pub(super) fn complete_connect(
        &mut self,
        clients: &ClientTable,
        finished: CompletedFence,
        status: Status,
    ) -> Vec<Action> {
        let CompletedFence {
            procs,
            arrived,
            waiting,
            ..
        } = finished;
        // Attendance was partial, so a participant has ended.
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
            .filter_map(|nspace| clients.job(nspace))
            .map(|job| job.info.initial().clone())
            .collect();
        self.assemblages.connect(procs, arrived);
        let answer = |to: RequestId| {
            let own = clients.proc_of(to.peer).map(|proc| &proc.nspace);
            // A client received the data of its own job at its start.
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
        // The assemblage ends in any case, so a participant that has ended is no failure.
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
        let failed = self.fences.unconnectable(proc).into_iter();
        failed
            .flat_map(|fence| fence.waiting)
            .map(|to| reply(to, UNCONNECTABLE))
            .collect()
    }

    /// Removes a proc from the procs that it is connected with, and returns them.
    pub(in crate::server) fn leave_assemblages(&mut self, proc: &Proc) -> BTreeSet<Proc> {
        self.assemblages.leave(proc)
    }
}
