//! Jobs, and admission, start, end and restart of clients.
use super::{
    Action, ConnectionRefusal, ModexId, PeerId, RequestId, ServerContext, ServerState, Upcall,
    clients::AdmittedConnection, reply,
};
use crate::{
    MonotonicTime,
    group::{Groups, JobSummary},
    job::{JobSpec, NodeRoute, ProcPhase},
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Nspace, Proc, Range, Rank, RankData, Status, UnixGroup, UserIdentity, Value, code,
    key,
};
use std::{collections::BTreeMap, sync::Arc};

// The end of a proc or job concerns every part: its connections, values, events, monitors,
// requests and groups. Its functions are therefore on `ServerState`.
impl ServerState {
    /// Registers a job, whose procs may then connect. Tools that use its name become inactive.
    pub fn add_job(&mut self, spec: JobSpec) -> Vec<Action> {
        let mut actions = self.evict(&spec.nspace);
        // Events retained for former procs of this name are not for the new ones.
        self.events.free_job(&spec.nspace);
        let nspace = spec.nspace.clone();
        let (facts, ranks) = (JobSummary::of(&spec), spec.local_ranges());
        // Without procs elsewhere there is nothing for the host environment to reach.
        let others = if spec.has_procs_elsewhere() {
            spec.route()
        } else {
            NodeRoute::Servers
        };
        self.clients.add_job(spec);
        actions.extend(self.with_groups(|groups| groups.job_added(&nspace, facts, ranks, others)));
        actions.extend(self.servers_changed(&nspace, None));
        self.events.with_pending_actions(actions)
    }

    /// Takes a changed description of a job: further procs of this node, or more job data. Does nothing
    /// for a job that is not registered.
    pub fn respecify_job(&mut self, spec: JobSpec) -> Vec<Action> {
        let nspace = spec.nspace.clone();
        let Some(job) = self.clients.job_mut(&nspace) else {
            return Vec::new();
        };
        job.respecify(spec);
        let ranks = job.spec.local_ranks();
        let facts = JobSummary::of(&job.spec);
        let here = job.spec.local_ranges();
        let mut actions = self.with_groups(|groups| groups.place_job(&nspace, facts, here));
        actions.extend(self.servers_changed(&nspace, None));
        self.data.host_data_changed(&Proc::all(nspace.clone()));
        for rank in ranks {
            self.data
                .host_data_changed(&Proc::new(nspace.clone(), rank));
        }
        actions
    }

    /// Stores the values of a proc of another node that the host environment returned for an
    /// [`Upcall::DirectModex`].
    pub fn modex_received(
        &mut self,
        proc: &Proc,
        values: Result<Vec<RankData>, Status>,
    ) -> Vec<Action> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.data.modex_received(ctx, &self.groups, proc, values)
    }

    /// Requests the values that a local proc has put for procs of other nodes. The answer is an
    /// [`Action::ModexReply`], which may come later.
    pub fn modex_request(&mut self, to: ModexId, proc: Proc) -> Vec<Action> {
        self.data.modex_request(&self.clients, to, proc)
    }

    /// Removes a job and the values of its procs, with losses that no event has reported
    /// ([`ServerState::report_losses_of`]). Connections of its procs become inactive, and nothing
    /// waits for them any more.
    pub fn remove_job(&mut self, nspace: &Nspace) -> Vec<Action> {
        self.events.drop_losses_of(nspace);
        self.controls.drop_job(nspace);
        // Listed first: the job is gone when the ledger is told of their ends.
        let procs: Vec<Proc> = self
            .clients
            .job(nspace)
            .into_iter()
            .flat_map(|job| job.spec.local_ranks())
            .map(|rank| Proc::new(nspace.clone(), rank))
            .collect();
        let undefined = self.delete_process_sets(nspace);
        let given_up: Vec<Action> = procs
            .iter()
            .flat_map(|proc| {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.controls.checkpoint_lost(ctx, &mut self.events, proc)
            })
            .collect();
        let ended = self.monitors.end_job(&self.clients, nspace);
        self.events.add_pending_actions(ended);
        let owner = self.clients.job(nspace).map(|job| job.spec.identity.uid);
        // After the parts that still look up the procs.
        self.clients.remove_job(nspace);
        let mut published = self.publications.job_ended(nspace);
        // The session of a user ends with the last job.
        if let Some(uid) = owner
            && self.clients.jobs_of(uid).next().is_none()
        {
            published.extend(self.publications.session_ended(uid));
        }
        let answers = self.data.drop_job(&self.clients, &self.groups, nspace);
        let theirs = self.clients.connections_of_job(nspace);
        let given_back: Vec<Action> = theirs
            .into_iter()
            .flat_map(|peer| self.deactivate(peer))
            .collect();
        self.events.free_job(nspace);
        let mut actions: Vec<Action> = given_up
            .into_iter()
            .chain(answers)
            .chain(given_back)
            .chain(undefined)
            .chain(published)
            .collect();
        actions.extend(self.with_groups(|groups| groups.job_removed(nspace)));
        self.events.with_pending_actions(actions)
    }

    /// Makes a connection inactive. Its registrations go, and those with the host environment that
    /// only it needed.
    fn deactivate(&mut self, id: PeerId) -> Vec<Action> {
        self.clients.deactivate(id);
        self.unregister(id)
    }

    /// Removes the registrations of a connection.
    fn unregister(&mut self, id: PeerId) -> Vec<Action> {
        self.gate.drop_registrations(id);
        self.events.remove_peer(id)
    }

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
        let AdmittedConnection { peer, before } = self.clients.admit(proc, claimed, max)?;
        let actions = match before {
            ProcPhase::Expected => vec![Action::Upcall(Upcall::ClientConnected(proc.clone()))],
            ProcPhase::Finalized | ProcPhase::Terminated => {
                // The coordinator has heard that the proc ended. From now on it may take part in
                // groups again.
                self.with_groups(|groups| groups.back(proc))
            }
            ProcPhase::Connected(_) | ProcPhase::Lost => Vec::new(),
        };
        Ok((peer, actions))
    }

    /// Admits a tool that may connect ([`ServerState::check_admission`]). The tool has the name as
    /// long as it is connected.
    ///
    /// # Errors
    ///
    /// Fails if the name is taken or the limits on tools are reached.
    pub fn admit_tool(
        &mut self,
        proc: &Proc,
        identity: UserIdentity,
    ) -> Result<PeerId, ConnectionRefusal> {
        self.clients.admit_tool(proc, identity, &self.settings)
    }

    /// Takes a name from its tools, for a job. Their connections become inactive, and their held
    /// requests are denied.
    fn evict(&mut self, nspace: &Nspace) -> Vec<Action> {
        let evicted = self.clients.evict_tools(nspace);
        let mut actions: Vec<Action> = evicted
            .into_iter()
            .flat_map(|peer| self.deactivate(peer))
            .collect();
        // The job starts without values of the tools.
        self.data.drop_values_of_job(nspace);
        let ended = self.monitors.end_job(&self.clients, nspace);
        self.events.add_pending_actions(ended);
        actions.extend(self.deny_held(nspace));
        actions
    }

    /// Handles the departure of a tool. Its values are dropped.
    fn tool_left(&mut self, peer: PeerId) -> Vec<Action> {
        let Some((proc, is_last)) = self.clients.tool_left(peer) else {
            return Vec::new();
        };
        let mut actions = self.publications.tool_left(&proc);
        self.events.free_proc(&proc);
        let ended = self.monitors.end_proc(&self.clients, &proc);
        self.events.add_pending_actions(ended);
        if is_last {
            self.data.drop_values_of_job(&proc.nspace);
        }
        actions.push(Action::Upcall(Upcall::ToolLeft(proc)));
        actions
    }

    /// Sets the Unix groups of a connection's process, as the kernel reports them.
    pub fn set_unix_groups(&mut self, id: PeerId, groups: Arc<[UnixGroup]>) {
        self.clients.set_unix_groups(id, groups);
    }

    /// Returns the proc of a connection until it is closed.
    pub fn proc_of(&self, id: PeerId) -> Option<&Proc> {
        self.clients.proc_of(id)
    }

    /// Returns the user of a connection until it is closed.
    pub fn user_of(&self, id: PeerId) -> Option<u32> {
        self.clients.identity_of(id).map(|identity| identity.uid)
    }

    /// Returns the phase of a proc, if it is known.
    pub fn life(&self, proc: &Proc) -> Option<ProcPhase> {
        self.clients.life(proc)
    }

    /// Returns the active connections of a proc or tool.
    pub fn connections_of(&self, proc: &Proc) -> Vec<PeerId> {
        self.clients.connections_of(proc)
    }

    /// Handles a finalize of a client. The first one makes the connection inactive.
    pub(super) fn finalize(
        &mut self,
        to: RequestId,
        source: Proc,
        now: MonotonicTime,
    ) -> Vec<Action> {
        if self.clients.active_peer(to.peer).is_none() {
            return vec![reply(to, code::PMIX_SUCCESS)];
        }
        // Before the departure is handled, so that none of its events goes to this connection.
        let mut actions = self.deactivate(to.peer);
        let tool_left = self.tool_left(to.peer);
        // Otherwise another connection of the proc remains, and the proc goes on.
        if self.clients.leave(&source, ProcPhase::Finalized) {
            // The result is ignored: connected procs are not notified of an orderly end.
            self.data.leave_assemblages(&source);
            actions.extend(self.with_groups(|groups| groups.disconnect(&source, now)));
            actions.extend(self.handle_departure(&source, now));
            let proc = source;
            actions.push(Action::Upcall(Upcall::ClientFinalized { to, proc }));
        } else {
            actions.push(reply(to, code::PMIX_SUCCESS));
        }
        actions.extend(tool_left);
        self.events.with_pending_actions(actions)
    }

    /// Handles a closed connection. Its registrations, pending gets and fences go with it. A proc
    /// that had not finalized is lost, which raises an event.
    pub fn disconnected(&mut self, peer: PeerId, now: MonotonicTime) -> Vec<Action> {
        let Some(gone) = self.clients.remove_connection(peer) else {
            return Vec::new();
        };
        let mut actions = self.unregister(peer);
        self.data.forget(peer);
        actions.extend(self.publications.forget(peer));
        actions.extend(self.tool_left(peer));
        // An inactive connection does not represent its proc any more: the name may belong to a
        // later job or process.
        if gone.is_active() && self.clients.leave(&gone.proc, ProcPhase::Lost) {
            actions.extend(self.handle_loss(&gone.proc, now));
            self.drop_values_of_ended(&gone.proc.nspace);
        }
        self.events.with_pending_actions(actions)
    }

    /// Records the processes of ranks that the host environment has started (`PMIX_PROC_PID`).
    pub fn procs_started(&mut self, nspace: &Nspace, pids: &BTreeMap<Rank, u32>) {
        let Some(job) = self.clients.job_mut(nspace) else {
            return;
        };
        for (rank, pid) in pids {
            job.started(*rank, *pid);
            self.data
                .host_data_changed(&Proc::new(nspace.clone(), *rank));
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
        let mut actions = match self.clients.life(proc) {
            // The proc never connected, so no connection is lost: no upcall and no loss event
            // follow.
            Some(ProcPhase::Expected) => {
                self.clients.set_life(proc, ProcPhase::Lost);
                let departed = self.handle_departure(proc, now);
                [departed, self.notify_of_loss(proc)].concat()
            }
            Some(ProcPhase::Connected(_)) => {
                self.clients.set_life(proc, ProcPhase::Lost);
                self.handle_loss(proc, now)
            }
            Some(ProcPhase::Finalized) => {
                self.clients.set_life(proc, ProcPhase::Terminated);
                // The departure was handled when the proc finalized. Only fences have waited for it
                // since.
                let gathered = self.data.proc_terminated(&self.clients, &self.groups, proc);
                self.events.with_pending_actions(gathered)
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
            let spread = self.events.distribute(
                ServerContext::new(&self.clients, &self.settings),
                Arc::new(event),
                // An event of the resource manager may reach all users.
                UserScope::Everybody,
                self.settings.allowance,
            );
            actions.extend(
                spread
                    .into_iter()
                    .map(|action| with_consultation(proc, action)),
            );
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
        let Some(job) = self.clients.job_mut(&proc.nspace) else {
            return Vec::new();
        };
        if !job.procs.set(proc.rank, ProcPhase::Expected) {
            return Vec::new();
        }
        job.restarts(proc.rank, checkpoint);
        let theirs = self.clients.all_connections_of(proc);
        let mut actions: Vec<Action> = theirs
            .into_iter()
            .flat_map(|peer| self.deactivate(peer))
            .collect();
        self.events.free_proc(proc);
        self.data.drop_values(proc);
        actions.extend(self.publications.proc_ended(proc));
        let ended = self.monitors.end_proc(&self.clients, proc);
        self.events.add_pending_actions(ended);
        // The new process declares its checkpoint methods itself.
        self.controls.drop_proc(proc);
        actions.extend(self.controls.checkpoint_lost(
            ServerContext::new(&self.clients, &self.settings),
            &mut self.events,
            proc,
        ));
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
        actions.extend(self.data.proc_restarts(&self.clients, &self.groups, proc));
        self.events.with_pending_actions(actions)
    }

    /// Notifies local and remote procs that a proc ended without finalizing.
    fn notify_of_loss(&mut self, proc: &Proc) -> Vec<Action> {
        let reach = UserScope::of(self.clients.identity(proc));
        let ctx = ServerContext::new(&self.clients, &self.settings);
        let mut actions = self.events.notify_of_end(ctx, proc, reach);
        let others = self.data.leave_assemblages(proc);
        actions.extend(self.events.notify_connected(ctx, proc, others, reach));
        actions.extend(self.with_groups(|groups| groups.lost(proc)));
        actions
    }

    /// Handles the loss of a connected proc that had not finalized.
    fn handle_loss(&mut self, proc: &Proc, now: MonotonicTime) -> Vec<Action> {
        let mut actions = self.handle_departure(proc, now);
        actions.extend(self.notify_of_loss(proc));
        actions.push(Action::Upcall(Upcall::ClientLost(proc.clone())));
        actions.extend(self.events.lose(
            ServerContext::new(&self.clients, &self.settings),
            proc,
            now,
        ));
        actions
    }

    /// Drops the values of a job when all of its procs have ended. Until then any proc may get
    /// them, also one that has finalized and initializes again.
    fn drop_values_of_ended(&mut self, nspace: &Nspace) {
        if self.clients.has_job_ended(nspace) {
            self.data.drop_values_of_job(nspace);
        }
    }

    /// Handles the departure of a proc. Frees what was retained for it and continues what waits for
    /// it, except fences if the proc may initialize again.
    fn handle_departure(&mut self, proc: &Proc, now: MonotonicTime) -> Vec<Action> {
        self.events.free_proc(proc);
        let ended = self.monitors.end_proc(&self.clients, proc);
        self.events.add_pending_actions(ended);
        let mut actions = self.data.proc_departed(&self.clients, &self.groups, proc);
        actions.extend(self.publications.proc_ended(proc));
        actions.extend(self.controls.checkpoint_lost(
            ServerContext::new(&self.clients, &self.settings),
            &mut self.events,
            proc,
        ));
        actions.extend(self.with_groups(|groups| groups.ended(proc, now)));
        self.events.with_pending_actions(actions)
    }
}

/// Turns the chain action of an event into one whose chains are consulted about a proc.
fn with_consultation(about: &Proc, action: Action) -> Action {
    match action {
        Action::Chain {
            event,
            reach,
            allowance,
            ..
        } => Action::Consult {
            about: about.clone(),
            event,
            reach,
            allowance,
        },
        other => other,
    }
}
