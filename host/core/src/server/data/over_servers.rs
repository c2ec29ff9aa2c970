//! Fences of procs that other servers have, too: their local parts, and the steps of
//! [`ServerFences`](crate::server_fences::ServerFences).
use super::{Action, DataExchange, FenceId, can_arrive, ranks_of, reply};
use crate::{
    MonotonicTime,
    fence::{CompletedFence, Completeness, FenceReach, Participants},
    group::{Groups, ServerId},
    job::NodeRoute,
    server::{Purpose, clients::ClientTable},
    server_fences::{FenceMessage, FenceRound, FenceStep},
    server_message::InterServerMessage,
};
use peal_model::{Nspace, Proc, Status, code, rank};
use std::{collections::BTreeSet, sync::Arc};

impl DataExchange {
    /// Returns the way of a collective to its participants elsewhere. One with participants on
    /// other servers gets its generation.
    pub(super) fn reach_of(
        &mut self,
        groups: &Groups,
        participants: &Participants,
    ) -> Result<FenceReach, Status> {
        let route = match participants.route {
            // Slurm 22.05 fails where single ranks are named. The decision depends on nothing that
            // servers learn of a job at different times.
            Some(NodeRoute::HostEnvironment)
                if !groups.is_alone()
                    && participants.procs.iter().all(|named| named.rank.is_valid()) =>
            {
                Some(NodeRoute::Servers)
            }
            route => route,
        };
        match route {
            None => Ok(FenceReach::ThisServer),
            Some(NodeRoute::HostEnvironment) => Ok(FenceReach::HostEnvironment),
            Some(NodeRoute::Servers) => {
                // Ranks such as that of all local procs mean other procs on each server.
                let is_same_everywhere =
                    |named: &Proc| named.rank.is_valid() || named.rank == rank::PMIX_RANK_WILDCARD;
                if !participants.procs.iter().all(is_same_everywhere) {
                    return Err(code::PMIX_ERR_BAD_PARAM);
                }
                let begun = self.server_fences.begin(&participants.procs, groups);
                let round = begun.map_err(|_| code::PMIX_ERR_OUT_OF_RESOURCE)?;
                Ok(FenceReach::Servers(round.generation))
            }
        }
    }

    /// Starts a collective, and notes the local part of one with participants on other servers.
    pub(super) fn start_fence(
        &mut self,
        purpose: Purpose,
        participants: Participants,
        reach: FenceReach,
    ) -> FenceId {
        let round = match reach {
            FenceReach::Servers(generation) => Some(FenceRound {
                procs: participants.procs.clone(),
                generation,
            }),
            FenceReach::ThisServer | FenceReach::HostEnvironment => None,
        };
        let id = self.fences.start(purpose, participants, reach);
        if let Some(round) = round {
            self.server_fences.began(&round, id);
        }
        id
    }

    /// Answers the requests of removed fences, and gives up those that other servers wait for.
    pub(super) fn fail_fences(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        failed: Vec<CompletedFence>,
        status: Status,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        for fence in failed {
            actions.extend(fence.waiting.into_iter().map(|to| reply(to, status)));
            if let FenceReach::Servers(generation) = fence.reach {
                let round = FenceRound {
                    procs: fence.procs,
                    generation,
                };
                let steps = self
                    .server_fences
                    .give_up(&round, status, groups, self.clock);
                actions.extend(self.carry_out(clients, groups, steps));
            }
        }
        actions
    }

    /// Gives this server another number.
    pub(in crate::server) fn enroll(&mut self, id: ServerId) {
        self.server_fences.enroll(id);
    }

    /// Handles a message of another server about a fence.
    pub(in crate::server) fn fence_message(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        from: ServerId,
        message: FenceMessage,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.clock = self.clock.max(now);
        let steps = self.server_fences.received(from, message, groups, now);
        self.carry_out(clients, groups, steps)
    }

    /// Handles a change of the servers that have procs of a job.
    pub(in crate::server) fn servers_changed(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        nspace: &Nspace,
        lost: Option<ServerId>,
    ) -> Vec<Action> {
        let now = self.clock;
        let steps = self
            .server_fences
            .servers_changed(nspace, lost, groups, now);
        let mut actions = self.carry_out(clients, groups, steps);
        actions.extend(self.gets_of_changed(groups, nspace, lost));
        actions
    }

    /// Carries out steps of the fences between servers.
    pub(super) fn carry_out(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        steps: Vec<FenceStep>,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        for step in steps {
            match step {
                FenceStep::Send(to, message) => actions.push(Action::Send {
                    to,
                    message: InterServerMessage::Fence(message),
                }),
                FenceStep::Begin(round) => {
                    actions.extend(self.begin_for_others(clients, groups, &round));
                }
                FenceStep::Complete(id, outcome) => {
                    let outcome = outcome.map(Arc::unwrap_or_clone);
                    actions.extend(self.gathered(clients, id, outcome));
                }
                FenceStep::Refuse(from, refusal) => {
                    actions.push(Action::MessageRefused { from, refusal });
                }
            }
        }
        actions
    }

    /// Begins the local part of a fence that procs of other servers have called. It waits for the
    /// local procs; if all have ended, it is complete.
    fn begin_for_others(
        &mut self,
        clients: &ClientTable,
        groups: &Groups,
        round: &FenceRound,
    ) -> Vec<Action> {
        if !self.server_fences.is_open(round) {
            return Vec::new();
        }
        let participants = local_participants(clients, round);
        let reach = FenceReach::Servers(round.generation);
        let id = self.start_fence(Purpose::Fence, participants, reach);
        match self.fences.complete_at_start(id) {
            Some(complete) => self.gather(clients, groups, complete),
            None => Vec::new(),
        }
    }
}

/// Returns the local procs that can still arrive at a fence. The servers of the callers have
/// checked that the callers may name them.
fn local_participants(clients: &ClientTable, round: &FenceRound) -> Participants {
    let mut expected = BTreeSet::new();
    let mut attendance = Completeness::Full;
    for named in &round.procs {
        let job = clients.job(&named.nspace);
        let ranks = job.and_then(|job| ranks_of(job, named.rank));
        for (rank, life) in ranks.into_iter().flatten() {
            if can_arrive(life, Purpose::Fence) {
                expected.insert(Proc::new(named.nspace.clone(), rank));
            } else {
                attendance = Completeness::Partial;
            }
        }
    }
    Participants {
        procs: round.procs.clone(),
        expected,
        attendance,
        route: Some(NodeRoute::Servers),
    }
}
