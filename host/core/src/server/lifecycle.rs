//! Admission, start, end and restart of clients.
use super::{
    Action, ConnectedPeer, ConnectionRefusal, ConnectionState, PeerId, RequestId, ServerState,
    Upcall, reply,
};
use crate::{
    MonotonicTime,
    audience::PeerRegistrations,
    fence::{Fences, LocallyComplete},
    group::Groups,
    job::ProcPhase,
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Nspace, Proc, Range, Rank, Reply, Status, UnixGroup, UserIdentity, Value, code,
    key, rank,
};
use std::{collections::BTreeMap, sync::Arc};

impl ServerState {
    /// Admits a connection of a proc. The first one of a proc is reported to the host environment.
    ///
    /// # Errors
    ///
    /// Fails if the proc is unknown or has ended, runs as another user, or has too many
    /// connections.
    pub fn admit(
        &mut self,
        proc: &Proc,
        claimed: UserIdentity,
    ) -> Result<(PeerId, Vec<Action>), ConnectionRefusal> {
        let max = self.settings.max_connections_per_proc;
        let job = self
            .jobs
            .get_mut(&proc.nspace)
            .ok_or_else(|| ConnectionRefusal::UnknownNspace(proc.nspace.clone()))?;
        let size = job.spec.size();
        let life = job
            .procs
            .get_mut(&proc.rank)
            .ok_or_else(|| ConnectionRefusal::UnknownRank {
                proc: proc.clone(),
                size,
            })?;
        let wanted = job.spec.identity;
        if claimed != wanted {
            return Err(ConnectionRefusal::WrongUser {
                proc: proc.clone(),
                wanted,
                found: claimed,
            });
        }
        let (mut actions, mut returned) = (Vec::new(), false);
        *life = match *life {
            ProcPhase::Expected => {
                actions.push(Action::Upcall(Upcall::ClientConnected(proc.clone())));
                ProcPhase::Connected(1)
            }
            // A program may finalize and initialize again. Where the host environment does not know
            // the processes of a proc, several may run one after the other.
            ProcPhase::Finalized | ProcPhase::Terminated => {
                returned = true;
                ProcPhase::Connected(1)
            }
            ProcPhase::Connected(n) if n >= max => {
                return Err(ConnectionRefusal::TooManyClones {
                    proc: proc.clone(),
                    max,
                });
            }
            ProcPhase::Connected(n) => ProcPhase::Connected(n + 1),
            ProcPhase::Lost => return Err(ConnectionRefusal::Ended(proc.clone())),
        };
        if returned {
            actions.extend(self.with_groups(|groups| groups.back(proc)));
        }
        Ok((self.seat(proc, claimed), actions))
    }

    /// Adds a connection of an admitted peer.
    pub(super) fn seat(&mut self, proc: &Proc, identity: UserIdentity) -> PeerId {
        self.next_peer += 1;
        let id = PeerId(self.next_peer);
        let (standing, interests) = (ConnectionState::Active, PeerRegistrations::default());
        // All procs of a job share one name, so that comparing them is a comparison of pointers.
        let nspace = self
            .jobs
            .get(&proc.nspace)
            .map_or(&proc.nspace, |job| &job.spec.nspace)
            .clone();
        let proc = Proc::new(nspace, proc.rank);
        self.peers.insert(
            id,
            ConnectedPeer {
                proc,
                identity,
                groups: Arc::default(),
                standing,
                interests,
            },
        );
        id
    }

    /// Sets the Unix groups of a connection's process, as the kernel reports them.
    pub fn belongs(&mut self, id: PeerId, groups: Arc<[UnixGroup]>) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.groups = groups;
        }
    }

    /// Returns the proc of a connection until it is closed.
    pub fn proc_of(&self, id: PeerId) -> Option<&Proc> {
        self.peers.get(&id).map(|peer| &peer.proc)
    }

    /// Returns the phase of a proc, if it is known.
    pub fn life(&self, proc: &Proc) -> Option<ProcPhase> {
        self.jobs.get(&proc.nspace)?.procs.get(&proc.rank).copied()
    }

    /// Returns the active connections of a proc or tool.
    pub fn connections_of(&self, proc: &Proc) -> Vec<PeerId> {
        let theirs = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.proc == *proc && peer.standing == ConnectionState::Active);
        theirs.map(|(id, _)| *id).collect()
    }

    pub(super) fn job_data(&mut self, to: RequestId, source: &Proc) -> Vec<Action> {
        let job = self.jobs.get(&source.nspace).map(|job| job.info.clone());
        match job.or_else(|| self.tool_data(&source.nspace).map(Arc::new)) {
            Some(info) => vec![Action::Reply {
                to,
                reply: Reply::JobData(info),
            }],
            None => vec![reply(to, code::PMIX_ERR_NOT_FOUND)],
        }
    }

    pub(super) fn finalize(
        &mut self,
        to: RequestId,
        source: Proc,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let mut actions = vec![reply(to, code::PMIX_SUCCESS)];
        if self
            .peers
            .get(&to.peer)
            .is_none_or(|peer| peer.standing == ConnectionState::Left)
        {
            return actions;
        }
        actions.extend(self.dismiss(to.peer));
        actions.extend(self.tool_left(to.peer));
        if self.leave(&source, ProcPhase::Finalized) {
            self.assemblages.leave(&source);
            actions.extend(self.with_groups(|groups| groups.disconnect(&source, now)));
            actions.extend(self.departed(&source, now));
            actions.push(Action::Upcall(Upcall::ClientFinalized(source)));
        }
        self.settled(actions)
    }

    /// Handles a closed connection. Its registrations, pending gets and fences go with it. A proc
    /// that had not finalized is lost, which raises an event.
    pub fn disconnected(&mut self, peer: PeerId, now: MonotonicTime) -> Vec<Action> {
        let Some(gone) = self.peers.remove(&peer) else {
            return Vec::new();
        };
        let mut actions = self.unregister(peer);
        self.modex.forget(peer);
        self.fences.forget(peer);
        actions.extend(self.tool_left(peer));
        if gone.standing == ConnectionState::Active && self.leave(&gone.proc, ProcPhase::Lost) {
            actions.extend(self.lost(&gone.proc, now));
            self.drop_values_of_ended(&gone.proc.nspace);
        }
        self.settled(actions)
    }

    /// Records the processes of ranks that the host environment has started (`PMIX_PROC_PID`).
    pub fn procs_started(&mut self, nspace: &Nspace, pids: &BTreeMap<Rank, u32>) {
        let Some(job) = self.jobs.get_mut(nspace) else {
            return;
        };
        for (rank, pid) in pids {
            job.started(*rank, *pid);
            self.modex.host_says_more(&Proc::new(nspace.clone(), *rank));
        }
    }

    /// Handles the host environment's report that the process of a proc has ended. If the end was
    /// abnormal, an event with the given code is raised, and the hosted chains are consulted about
    /// the job ([`Action::Consult`]).
    ///
    /// The proc has ended even if a child process still holds a connection of it.
    pub fn proc_ended(
        &mut self,
        proc: &Proc,
        abnormal: Option<(Status, Vec<Info>)>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let life = self
            .jobs
            .get_mut(&proc.nspace)
            .and_then(|job| job.procs.get_mut(&proc.rank));
        let mut actions = match life {
            Some(life @ ProcPhase::Expected) => {
                *life = ProcPhase::Lost;
                let departed = self.departed(proc, now);
                [departed, self.tell_of_loss(proc)].concat()
            }
            Some(life @ ProcPhase::Connected(_)) => {
                *life = ProcPhase::Lost;
                self.lost(proc, now)
            }
            Some(life @ ProcPhase::Finalized) => {
                *life = ProcPhase::Terminated;
                let gathered = self.gather_complete(|fences| fences.leave(proc));
                self.settled(gathered)
            }
            Some(ProcPhase::Terminated | ProcPhase::Lost) | None => Vec::new(),
        };
        self.drop_values_of_ended(&proc.nspace);
        if let Some((code, more)) = abnormal {
            let mut infos = vec![Info::new(
                key::PMIX_EVENT_AFFECTED_PROC,
                Value::Proc(proc.clone()),
            )];
            infos.extend(more);
            let event = Event {
                code,
                source: None,
                range: Range::Namespace,
                infos,
            };
            let spread = self.distribute(
                Arc::new(event),
                UserScope::Everybody,
                self.settings.allowance,
            );
            actions.extend(spread.into_iter().map(|action| consulting(proc, action)));
        }
        actions
    }

    /// Prepares a proc for its restart by the host environment, from a checkpoint if there is one
    /// (`PMIX_JOB_CTRL_RESTART`). Former connections of the proc become inactive, and no event
    /// reports their end. Its values are dropped. Fences that it takes part in fail with
    /// `PMIX_ERR_PROC_RESTART`, because the new process knows nothing of them.
    pub fn proc_restarts(
        &mut self,
        proc: &Proc,
        checkpoint: Option<&str>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let Some(job) = self.jobs.get_mut(&proc.nspace) else {
            return Vec::new();
        };
        let Some(life) = job.procs.get_mut(&proc.rank) else {
            return Vec::new();
        };
        *life = ProcPhase::Expected;
        job.restarts(proc.rank, checkpoint);
        let theirs: Vec<PeerId> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.proc == *proc)
            .map(|(id, _)| *id)
            .collect();
        let mut actions: Vec<Action> = theirs
            .into_iter()
            .flat_map(|peer| self.dismiss(peer))
            .collect();
        self.retained.free_proc(proc);
        self.modex.drop_proc(proc);
        self.monitors.end_proc(proc);
        // The new process declares its checkpoint methods itself.
        self.declared.drop_proc(proc);
        actions.extend(self.checkpoint_lost(proc));
        // The new process is in no group of the old one.
        let begins_anew = |groups: &mut Groups| {
            [
                groups.disconnect(proc, now),
                groups.ended(proc, now),
                groups.back(proc),
            ]
            .concat()
        };
        actions.extend(self.with_groups(begins_anew));
        self.assemblages.leave(proc);
        let waiting = self.fences.drop_proc(proc);
        actions.extend(
            waiting
                .into_iter()
                .map(|to| reply(to, code::PMIX_ERR_PROC_RESTART)),
        );
        self.settled(actions)
    }

    /// Notifies local and remote procs that a proc ended without finalizing.
    fn tell_of_loss(&mut self, proc: &Proc) -> Vec<Action> {
        let reach = UserScope::of(self.identity(proc));
        let mut actions = self.tell_of_end(proc, reach);
        actions.extend(self.tell_connected(proc, reach));
        actions.extend(self.with_groups(|groups| groups.lost(proc)));
        actions
    }

    /// Handles the loss of a connected proc that had not finalized.
    fn lost(&mut self, proc: &Proc, now: MonotonicTime) -> Vec<Action> {
        let mut actions = self.departed(proc, now);
        actions.extend(self.tell_of_loss(proc));
        actions.push(Action::Upcall(Upcall::ClientLost(proc.clone())));
        actions.extend(self.lose(proc, now));
        actions
    }

    /// Drops the values of a job when all of its procs have ended. Until then any proc may get
    /// them, also one that has finalized and initializes again.
    fn drop_values_of_ended(&mut self, nspace: &Nspace) {
        let has_ended = |life: &ProcPhase| matches!(life, ProcPhase::Terminated | ProcPhase::Lost);
        if self
            .jobs
            .get(nspace)
            .is_some_and(|job| job.procs.values().all(has_ended))
        {
            self.modex.drop_job(nspace);
        }
    }

    /// Removes one connection of a proc. Returns true if it was the last one.
    fn leave(&mut self, proc: &Proc, after: ProcPhase) -> bool {
        let Some(job) = self.jobs.get_mut(&proc.nspace) else {
            return false;
        };
        let Some(life) = job.procs.get_mut(&proc.rank) else {
            return false;
        };
        match *life {
            ProcPhase::Connected(n) if n > 1 => {
                *life = ProcPhase::Connected(n - 1);
                false
            }
            ProcPhase::Connected(_) => {
                *life = after;
                true
            }
            ProcPhase::Expected
            | ProcPhase::Finalized
            | ProcPhase::Terminated
            | ProcPhase::Lost => false,
        }
    }

    /// Handles the departure of a proc. Frees what was retained for it and continues what waits for
    /// it, except fences if the proc may initialize again.
    fn departed(&mut self, proc: &Proc, now: MonotonicTime) -> Vec<Action> {
        self.retained.free_proc(proc);
        self.monitors.end_proc(proc);
        let mut unanswered = self.modex.give_up(proc);
        let anybody = Proc::new(proc.nspace.clone(), rank::PMIX_RANK_UNDEF);
        if !self.may_put(&anybody) {
            unanswered.extend(self.modex.give_up(&anybody));
        }
        let mut actions: Vec<Action> = unanswered
            .into_iter()
            .map(|to| reply(to, code::PMIX_ERR_NOT_FOUND))
            .collect();
        actions.extend(self.unconnectable(proc));
        let may_return = self.life(proc) == Some(ProcPhase::Finalized);
        actions.extend(self.gather_complete(|fences| match may_return {
            true => fences.finalized(proc),
            false => fences.leave(proc),
        }));
        actions.extend(self.checkpoint_lost(proc));
        actions.extend(self.with_groups(|groups| groups.ended(proc, now)));
        self.settled(actions)
    }

    /// Gathers the fences that a change completes.
    fn gather_complete(
        &mut self,
        complete: impl FnOnce(&mut Fences) -> Vec<LocallyComplete>,
    ) -> Vec<Action> {
        complete(&mut self.fences)
            .into_iter()
            .map(|complete| self.gather(complete))
            .collect()
    }
}

/// Turns the chain action of an event into one whose chains are consulted about a proc.
fn consulting(about: &Proc, action: Action) -> Action {
    match action {
        Action::Chain {
            event,
            reach,
            allowance,
        } => Action::Consult {
            about: about.clone(),
            event,
            reach,
            allowance,
        },
        other => other,
    }
}
