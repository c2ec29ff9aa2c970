//! State machine of a PMIx server for its clients: admission, requests, events, ends.
//!
//! [`ServerState`] is stepped by its caller. Calls take the time where it matters and return the
//! [`Action`]s to carry out, in order. Requests for the host environment become [`Upcall`]s.
//!
//! The state consists of parts with private fields. A part gets what it needs of the others as
//! arguments, mostly a `ServerContext`: the clients and the settings. Functions are on
//! [`ServerState`] itself where several parts change together: ends of procs and jobs
//! (`lifecycle.rs`), requests that the policy gate resumes (`policy_gate/`), and decisions about
//! groups (`groups/`).
//!
//! | part | contents |
//! |---|---|
//! | `ClientTable` (`clients.rs`) | jobs, tools, connections and their users |
//! | `DataExchange` (`data/`) | values that procs put, fences, connects |
//! | `EventDelivery` (`events/`) | registrations, retained events, losses of connections |
//! | `JobControlRequests` (`control/`) | job-control ledger, declarations of procs |
//! | `Monitors` (`monitors.rs`) | monitors |
//! | `Publications` (`publications/`) | published data of all servers |
//! | `Gate` (`policy_gate/held.rs`) | requests that wait for decisions |
//! | `ServerRequests` (`server_requests/`) | requests to the servers of other nodes |
//! | `Groups`, `Psets` (`core/group/`, `core/psets.rs`) | groups of all servers, process sets |

mod action;
mod clients;
mod control;
mod data;
mod early_events;
mod events;
mod from_servers;
mod groups;
mod lifecycle;
mod module_requests;
mod monitors;
mod policy_gate;
mod publications;
mod refusal;
mod server_requests;
mod settings;
#[cfg(test)]
mod tests;

use crate::{
    MonotonicTime,
    defaults::{Defaults, HookDefault},
    directives,
    fence::LocallyComplete,
    group::{Groups, ServerId},
    job::JobProgress,
    job_control::{ControlId, ControlResult, ControlUpcallId, NotDone},
    monitor::{FileStat, MonitorId},
    psets::{Pset, PsetError, Psets},
    quota::QuotaReport,
    user_scope::UserScope,
};
pub use crate::{
    decision_limits::{DecisionLimit, DecisionLimits},
    event_budget::{EventBudget, EventSpread},
    fence::{Collect, Completeness, FenceContribution, FenceId, Purpose},
    job::{NodeRoute, ProcPhase},
    message_refusal::MessageRefusal,
    missed_events::MissedEvents,
    modex::{PutRefusal, PutSnapshot, PutVersion},
    put_values::SoughtValue,
    request_id::{PeerId, RequestId},
    retained::{RetentionLimits, Seq},
    server_message::{InterServerMessage, LogMessage},
};
pub use action::{Action, EventOrigin, FileLook, RecordForServer, Upcall};
use clients::ClientTable;
use control::JobControlRequests;
use data::{DataExchange, GetRequest};
pub use data::{ModexId, ModexMessage};
use early_events::EarlyEvents;
use events::EventDelivery;
pub use events::{EVENTS_MISSED, HostRegistrationId, RaisingOwner};
pub use groups::GroupStatus;
use monitors::Monitors;
pub use monitors::{FileSeen, Monitoring, UsageFound};
use peal_model::{
    Event, Hook, Info, NamedProcs, Nspace, Proc, Query, Rank, Reply, Request, Status, Text,
    UserIdentity, Value, code, key,
};
use policy_gate::Gate;
pub use policy_gate::{AdmissionCheck, DecisionId, Denial};
use publications::Publications;
pub use refusal::ConnectionRefusal;
use serde::{Deserialize, Serialize};
use server_requests::ServerRequests;
pub use server_requests::{
    ProcDeclaration, ServerAnswer, ServerQueryId, ServerReply, ServerRequest, ServerRequestId,
    ServerRequestMessage,
};
pub use settings::StateSettings;
use std::sync::Arc;

/// Codes of events that report the end of procs.
const ENDS: [Status; 8] = [
    code::PMIX_PROC_TERMINATED,
    code::PMIX_EVENT_PROC_TERMINATED,
    code::PMIX_ERR_PROC_TERM_WO_SYNC,
    code::PMIX_ERR_PROC_ABORTED,
    code::PMIX_ERR_PROC_ABORTED_BY_SIG,
    code::PMIX_ERR_PROC_KILLED_BY_CMD,
    code::PMIX_ERR_EXIT_NONZERO_TERM,
    code::PMIX_ERR_LOST_CONNECTION,
];

/// Counters of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServerCounts {
    /// Connections.
    pub peers: usize,
    /// Jobs.
    pub jobs: usize,
    /// Events that the event ring ejected.
    pub events_ejected: u64,
    /// Events outside of the event ring that are retained for procs or lagging connections.
    pub events_kept: usize,
    /// Those of them that are spilled.
    pub events_spilled: usize,
    /// Lost deliveries: the contents could not be recalled, or the index had no memory left for all
    /// recipients.
    pub events_lost: u64,
    /// Memory of the index of retained events, without the events themselves, in bytes.
    pub events_owed_bytes: usize,
    /// Requests and events that wait for decisions.
    pub decisions_awaited: usize,
    /// Monitors.
    pub monitors: usize,
    /// Tools.
    pub tools: usize,
    /// Memory of the values that procs have put, in bytes.
    pub put_bytes: usize,
}

/// The state that every part may read beside its own.
#[derive(Clone, Copy, Debug)]
struct ServerContext<'a> {
    clients: &'a ClientTable,
    settings: &'a StateSettings,
}

impl<'a> ServerContext<'a> {
    fn new(clients: &'a ClientTable, settings: &'a StateSettings) -> ServerContext<'a> {
        ServerContext { clients, settings }
    }
}

/// The state of a server.
///
/// Each field is one part. A part has private fields and gets what it needs of the others as
/// arguments. `ServerState` passes requests and reports to the parts. It has functions of its own
/// where several parts change together: ends of procs and jobs (`lifecycle`), requests that the
/// policy gate resumes (`policy_gate`), and decisions about groups (`groups`).
#[derive(Debug, Serialize, Deserialize)]
pub struct ServerState {
    #[serde(skip)]
    settings: StateSettings,
    clients: ClientTable,
    data: DataExchange,
    groups: Groups,
    psets: Psets,
    events: EventDelivery,
    gate: Gate,
    controls: JobControlRequests,
    monitors: Monitors,
    publications: Publications,
    early: EarlyEvents,
    requests: ServerRequests,
}

impl ServerState {
    /// Creates a server without jobs.
    pub fn new(settings: StateSettings) -> ServerState {
        ServerState {
            data: DataExchange::new(&settings),
            groups: Groups::new(ServerId::default(), settings.groups),
            psets: Psets::default(),
            events: EventDelivery::new(&settings),
            controls: JobControlRequests::new(settings.max_controls),
            clients: ClientTable::default(),
            gate: Gate::default(),
            monitors: Monitors::new(&settings),
            publications: Publications::new(settings.publish),
            early: EarlyEvents::default(),
            requests: ServerRequests::default(),
            settings,
        }
    }

    /// Continues a state that another process of the server had, with the settings of this process. Limits
    /// that are lower than before end nothing: what exceeds them only cannot grow.
    #[must_use]
    pub fn continued(mut self, settings: StateSettings) -> ServerState {
        self.data.set_limits(&settings);
        self.groups.set_settings(settings.groups);
        self.events.set_limits(&settings);
        self.controls.set_limit(settings.max_controls);
        self.monitors.set_limits(settings.monitors);
        self.publications.set_limits(settings.publish);
        ServerState { settings, ..self }
    }

    /// Returns the actions that another process of the server had begun and whose results this one does not
    /// get: the caller carries them out before it serves the state.
    pub fn work_to_continue(&mut self) -> Vec<Action> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.monitors.work_to_continue(ctx, &mut self.events)
    }

    /// Counts the silence of procs whose heartbeats are monitored from now on. For a server that has read nothing
    /// for a while: that procs were silent proves nothing.
    pub fn excuse_silence(&mut self, now: MonotonicTime) {
        self.monitors.excuse_silence(now);
    }

    /// Returns the settings.
    pub fn settings(&self) -> &StateSettings {
        &self.settings
    }

    /// Sets the defaults of the hooks, which hold where no policy decides.
    pub fn set_defaults(&mut self, defaults: Defaults) {
        self.settings.defaults = defaults;
    }

    /// Returns the default of a hook, which holds where all of its policies pass.
    pub fn default_of(&self, hook: Hook) -> HookDefault {
        self.settings.defaults.of(hook)
    }

    /// Returns true if the job is registered.
    pub fn has_job(&self, nspace: &Nspace) -> bool {
        self.clients.has_job(nspace)
    }

    /// Returns the progress of all jobs, in the order of their names.
    pub fn jobs(&self) -> impl Iterator<Item = JobProgress> {
        self.clients.progress()
    }

    /// Returns the phases of a job's procs of this node, in the order of their ranks.
    pub fn phases_of(&self, nspace: &Nspace) -> impl Iterator<Item = (Rank, ProcPhase)> {
        self.clients.phases_of(nspace)
    }

    /// Returns the counters.
    pub fn counts(&self) -> ServerCounts {
        let retained = self.events.retained();
        ServerCounts {
            peers: self.clients.peer_count(),
            jobs: self.clients.job_count(),
            events_ejected: retained.ejected(),
            events_kept: retained.retained_count(),
            events_spilled: retained.spilled(),
            events_lost: retained.lost(),
            events_owed_bytes: retained.index_bytes(),
            decisions_awaited: self.gate.awaited(),
            monitors: self.monitors.count(),
            tools: self.clients.tool_count(),
            put_bytes: self.data.charged_bytes(),
        }
    }

    /// Adds what each user holds to a report.
    pub fn report_quotas(&self, report: &mut QuotaReport) {
        let settings = &self.settings;
        self.clients.report_quotas(report, settings);
        self.data.report_quotas(report, settings);
        self.events.retained().report_quotas(report);
        self.gate.report_quotas(report, settings);
        self.controls.report_quotas(report);
        self.monitors.report_quotas(report);
        self.groups.report_quotas(report);
        self.publications.report_quotas(report);
    }

    /// Returns the user that a proc or tool runs as, if it is known.
    pub fn identity(&self, proc: &Proc) -> Option<UserIdentity> {
        self.clients.identity(proc)
    }

    /// Executes a request of a client.
    fn execute(&mut self, to: RequestId, request: Request, now: MonotonicTime) -> Vec<Action> {
        let Some(peer) = self.clients.peer(to.peer) else {
            return Vec::new();
        };
        // A repeated finalize is no error.
        if !peer.is_active() && request != Request::Finalize {
            return vec![reply(to, code::PMIX_ERR_INIT)];
        }
        let source = peer.proc.clone();
        // Validated here, so that the parts may take a timeout as valid.
        if let Request::Fence { infos, .. }
        | Request::Get { infos, .. }
        | Request::Connect { infos, .. }
        | Request::Disconnect { infos, .. } = &request
            && let Err(status) = directives::timeout(infos)
        {
            return vec![reply(to, status)];
        }
        match request {
            Request::JobData => self.clients.job_data(to, &source, &self.settings.hostname),
            Request::Commit(commits) => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.data.commit(ctx, &self.groups, to, &source, commits)
            }
            Request::Fence { procs, infos } => {
                // As in `PMIx_Fence`, no procs stand for all procs of the caller's job.
                let procs: NamedProcs = if procs.is_empty() {
                    vec![Proc::all(source.nspace.clone())].into()
                } else {
                    self.names().named_by(&source, procs)
                };
                let arrival = data::fence_arrival(to, source, &infos, now);
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.data
                    .join_collective(ctx, &self.groups, Purpose::Fence, procs, arrival)
            }
            Request::Get { proc, .. } if !self.names().may_see(&source, &proc.nspace) => {
                vec![reply(to, code::PMIX_ERR_NO_PERMISSIONS)]
            }
            Request::GroupLeave { .. } => self.group(to, source, request, now),
            Request::GroupConstruct { .. } | Request::GroupDestruct { .. } => {
                self.enter_group(to, source, request, now)
            }
            Request::Get { proc, infos, key } => {
                let get = GetRequest {
                    to,
                    source: &source,
                    proc,
                    key,
                    infos: &infos,
                };
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.data.get(ctx, &self.groups, get, now)
            }
            // Before the policy gate, because this form of job control controls no proc.
            request if ServerState::is_context_id_request(&request) => self.allot_context_id(to),
            Request::Finalize => self.finalize(to, source, now),
            Request::Notify { code, range, infos } => self.client_notifies(
                to,
                Event {
                    code,
                    source: Some(source),
                    range,
                    infos,
                },
                now,
            ),
            Request::RegisterEvents { codes, infos } => {
                self.enter_registration(to, source, codes, infos)
            }
            Request::DeregisterEvents { codes } => self.deregister(to.peer, codes),
            Request::RefreshCache { proc } => {
                self.data
                    .refresh(&self.clients, &self.groups, to, &source, &proc)
            }
            Request::ResolvePeers { node, nspace } => {
                self.clients
                    .resolve_peers(to, &source, node.as_ref(), nspace.as_ref())
            }
            Request::ResolveNode { nspace } => {
                self.clients.resolve_nodes(to, &source, nspace.as_ref())
            }
            Request::Spawn { infos, apps } => self.enter_spawn(to, source, infos, apps),
            Request::Log {
                timestamp,
                data,
                directives,
            } => self.log(to, source, timestamp, data, directives),
            request => {
                let request = self.names().naming_members(&source, request);
                match policy_gate::targets_of(&request, &source) {
                    Some(named) => self.submit(to, source, named, request, now),
                    // A request that concerns no other proc needs no decision.
                    None => vec![Action::Upcall(Upcall::Request {
                        to,
                        source,
                        request,
                    })],
                }
            }
        }
    }

    /// Passes on the host environment's reply to an [`Upcall::Request`], errors unchanged. A
    /// requester that has disconnected gets nothing.
    pub fn answer(&mut self, to: RequestId, reply: Reply) -> Vec<Action> {
        self.clients.answer(to, reply)
    }

    /// Advances the time: expires gets, fences and checkpoints, reports losses, checks monitors and
    /// groups.
    pub fn tick(&mut self, now: MonotonicTime) -> Vec<Action> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        let mut actions = self.data.expire(ctx, &self.groups, now);
        actions.extend(self.events.report_due_losses(ctx, now));
        actions.extend(self.controls.expire(ctx, &mut self.events, now));
        actions.extend(self.monitors.tick(ctx, &mut self.events, now));
        actions.extend(self.with_groups(|groups| groups.tick(now)));
        actions.extend(self.publications.expire(now));
        actions.extend(self.deliver_early_events(now));
        actions.extend(self.expire_requests(now));
        self.events.with_pending_actions(actions)
    }

    /// Returns the time at which [`ServerState::tick`] has something to do next.
    pub fn deadline(&self) -> Option<MonotonicTime> {
        [
            self.data.deadline(),
            self.events.deadline(),
            self.controls.deadline(),
            self.monitors.deadline(),
            self.groups.deadline(),
            self.publications.deadline(),
            self.early.deadline(),
            self.requests.deadline(),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

/// Job control.
impl ServerState {
    /// Handles the host environment's answer to an [`Upcall::JobControl`] for these procs: those
    /// that were not controlled, or the status if none was.
    pub fn controlled(
        &mut self,
        id: ControlUpcallId,
        procs: &[Proc],
        answer: Result<Vec<NotDone>, Status>,
    ) -> Vec<Action> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.controls
            .controlled(ctx, &mut self.events, id, procs, answer)
    }

    /// Handles the host environment's answer to an [`Upcall::ControlOverNodes`].
    pub fn controlled_over_nodes(
        &mut self,
        id: ControlId,
        answer: Result<ControlResult, Status>,
        now: MonotonicTime,
    ) -> Vec<Action> {
        if let Ok(ControlResult::OfServers) = answer {
            return self.control_by_servers(id, now);
        }
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.controls
            .answered_by_launcher(ctx, &mut self.events, id, answer)
    }

    /// Answers queries about job-control requests (`PMIX_JOB_CTRL_ID`): all that the requester may
    /// see, or the one named.
    pub fn query_controls(&self, identity: UserIdentity, queries: &[Query]) -> Option<Info> {
        self.controls.query(identity, queries)
    }
}

/// Monitors.
impl ServerState {
    /// Records a heartbeat of a client at a given time. It may be reported late, but before a
    /// [`ServerState::tick`] that checks the proc ([`ServerState::beats_due`]), and at once if the
    /// proc counts as silent ([`ServerState::is_silent`]).
    pub fn beat(&mut self, peer: PeerId, at: MonotonicTime) {
        self.monitors.beat(&self.clients, peer, at);
    }

    /// Returns the procs that [`ServerState::tick`] would check at this time. A proc may occur
    /// twice.
    pub fn beats_due(&self, now: MonotonicTime) -> impl Iterator<Item = &Proc> {
        self.monitors.beats_due(now)
    }

    /// Returns true if an alert has reported the proc as silent and no heartbeat came since.
    pub fn is_silent(&self, proc: &Proc) -> bool {
        self.monitors.is_silent(proc)
    }

    /// Handles the result of [`FileLook::Open`] and answers the requester.
    pub fn file_opened(&mut self, watch: MonitorId, seen: FileSeen) -> Vec<Action> {
        self.monitors.file_opened(&self.clients, watch, seen)
    }

    /// Handles the result of [`FileLook::Again`]; none if the file cannot be read any more.
    pub fn file_looked_at(&mut self, watch: MonitorId, seen: Option<FileStat>) -> Vec<Action> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.monitors
            .file_looked_at(ctx, &mut self.events, watch, seen)
    }

    /// Handles the result of [`Action::Measure`] and answers the requester or raises the update.
    pub fn measured(&mut self, watch: MonitorId, found: UsageFound) -> Vec<Action> {
        let ctx = ServerContext::new(&self.clients, &self.settings);
        self.monitors.measured(ctx, &mut self.events, watch, found)
    }
}

/// Collectives and groups.
impl ServerState {
    /// Completes a fence after all servers have arrived or gathering failed. Stores the data of
    /// other servers and answers all waiting procs.
    pub fn gathered(
        &mut self,
        id: FenceId,
        outcome: Result<FenceContribution, Status>,
    ) -> Vec<Action> {
        self.data.gathered(&self.clients, id, outcome)
    }

    /// Returns the groups of a user with their members; all groups for root.
    pub fn groups_of_user(&self, uid: u32) -> Vec<GroupStatus> {
        groups::groups_of_user(&self.groups, uid)
    }

    /// Answers queries about groups: their number, names, members, or the whole state of each.
    pub fn query_groups(&self, identity: UserIdentity, queries: &[Query]) -> Vec<Info> {
        groups::query_groups(&self.groups, identity, queries)
    }
}

/// Process sets.
impl ServerState {
    /// Defines a process set. Raises an event for the procs of its user.
    ///
    /// # Errors
    ///
    /// Fails if a proc is unknown, the procs belong to several users, the set is empty or the name
    /// is taken.
    pub fn define_process_set(
        &mut self,
        name: Text,
        members: Vec<Proc>,
    ) -> Result<Vec<Action>, PsetError> {
        let uid = self.clients.owner_of_set(&name, &members)?;
        let pset = Pset { name, members };
        self.psets.define(uid, pset.clone())?;
        for proc in &pset.members {
            if let Some(job) = self.clients.job_mut(&proc.nspace) {
                job.joins_set(proc.rank, &pset.name);
                // The cached answer to gets lacks the new set.
                self.data.host_data_changed(proc);
            }
        }
        let members = Info::new(
            key::PMIX_PSET_MEMBERS,
            Value::procs(pset.members.iter().cloned()),
        );
        let event = pset.to_event(code::PMIX_PROCESS_SET_DEFINE, vec![members]);
        Ok(self.raise_for_user(uid, event))
    }

    /// Deletes the sets of this name that have a proc of one of these jobs. Raises an event for the
    /// procs of their users.
    pub fn delete_process_set(&mut self, name: &Text, jobs: &[Nspace]) -> Vec<Action> {
        let gone = self.psets.drop_named(name, jobs);
        for proc in gone.iter().flat_map(|(_, pset)| &pset.members) {
            if let Some(job) = self.clients.job_mut(&proc.nspace) {
                job.leaves_set(proc.rank, name);
                // The cached answer to gets has the old set.
                self.data.host_data_changed(proc);
            }
        }
        self.report_deleted_sets(gone)
    }

    /// Deletes the sets of a removed job's procs.
    fn delete_process_sets(&mut self, nspace: &Nspace) -> Vec<Action> {
        let gone = self.psets.drop_job(nspace);
        self.report_deleted_sets(gone)
    }

    fn report_deleted_sets(&mut self, gone: Vec<(u32, Pset)>) -> Vec<Action> {
        gone.into_iter()
            .flat_map(|(uid, pset)| {
                let event = pset.to_event(code::PMIX_PROCESS_SET_DELETE, Vec::new());
                self.raise_for_user(uid, event)
            })
            .collect()
    }

    fn raise_for_user(&mut self, uid: u32, event: Event) -> Vec<Action> {
        self.events.distribute(
            ServerContext::new(&self.clients, &self.settings),
            Arc::new(event),
            UserScope::User(uid),
            self.settings.allowance,
        )
    }

    /// Answers queries about the process sets of the requester's user.
    pub fn query_process_sets(&self, identity: UserIdentity, queries: &[Query]) -> Vec<Info> {
        self.psets.query(identity, queries)
    }
}

/// Events.
impl ServerState {
    /// Handles the host environment's answer to an [`Upcall::RegisterEvents`]: waiting clients are
    /// registered or refused. A host environment without events of its own
    /// (`PMIX_ERR_NOT_SUPPORTED`) does not prevent events of others.
    pub fn host_registered(
        &mut self,
        id: HostRegistrationId,
        answer: Result<(), Status>,
    ) -> Vec<Action> {
        self.events.host_registered(
            ServerContext::new(&self.clients, &self.settings),
            id,
            answer,
        )
    }

    /// Registers the host environment for codes (none: every code) of events with range
    /// `PMIX_RANGE_RM`, and of protocol violations by clients.
    pub fn host_registers(&mut self, codes: &[Status]) {
        self.events.host_registers(codes);
    }

    /// Deregisters codes of the host environment. `Status::DEFAULT_HANDLER` drops its registration
    /// for every code.
    pub fn host_deregisters(&mut self, codes: &[Status]) {
        self.events.host_deregisters(codes);
    }

    /// Reports a client's invalid message to the host environment only, by an event with this
    /// status (RFC 0002, "RM-Host Registrations").
    pub fn violated(&mut self, peer: PeerId, status: Status) -> Vec<Action> {
        self.events.violated(
            ServerContext::new(&self.clients, &self.settings),
            peer,
            status,
        )
    }

    /// Delivers an event that a launcher has passed on. It reaches local procs and chains only.
    pub fn distributed(
        &mut self,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.raised_elsewhere((event, EventOrigin::ThisServer), reach, allowance, now)
    }

    fn raised_elsewhere(
        &mut self,
        (event, origin): (Arc<Event>, EventOrigin),
        reach: UserScope,
        allowance: EventBudget,
        now: MonotonicTime,
    ) -> Vec<Action> {
        if self.is_own_report(&event) {
            return Vec::new();
        }
        let mut actions = self.end_in_groups(&event, now);
        let spread = self.events.spread_here(
            ServerContext::new(&self.clients, &self.settings),
            (event, origin),
            reach,
            allowance,
        );
        actions.extend(spread);
        actions
    }

    /// Ends the part of procs of other nodes in groups, if an event reports that they have ended.
    /// Servers of Peal report the ends of their procs themselves. A program can report this of procs of its own user alone.
    fn end_in_groups(&mut self, event: &Event, now: MonotonicTime) -> Vec<Action> {
        if !ENDS.contains(&event.code) {
            return Vec::new();
        }
        let source = event.source.as_ref();
        let reporter = source.map(|source| self.clients.identity(source));
        let is_meant = |proc: &Proc| {
            let owner = self.clients.identity(proc).map(|owner| owner.uid);
            proc.rank.is_valid()
                && self.clients.route_to(proc) == Some(NodeRoute::HostEnvironment)
                && !self.groups.is_of_other(self.groups.me(), proc)
                && reporter.is_none_or(|reporter| {
                    let uid = reporter.map(|reporter| reporter.uid);
                    uid == Some(0) || (uid.is_some() && uid == owner)
                })
        };
        let ended: Vec<Proc> = event.affected().into_iter().filter(is_meant).collect();
        let ends = ended
            .iter()
            .flat_map(|proc| self.with_groups(|groups| groups.ended(proc, now)));
        ends.collect()
    }

    /// Returns true for a launcher's report of an end that this server reports itself: that of a proc of
    /// this node which has not finalized. Leaders of invitations on 4.2 do not survive a second one.
    fn is_own_report(&self, event: &Event) -> bool {
        let has_not_finalized = |proc: &Proc| {
            let life = self.clients.life(proc);
            matches!(life, Some(ProcPhase::Connected(_) | ProcPhase::Lost))
        };
        event.code == code::PMIX_PROC_TERMINATED && event.affected().iter().any(has_not_finalized)
    }

    /// Marks a connection as lagging because its outbox is full, or nearly. From now on its events
    /// are retained instead of delivered, until calls of [`ServerState::resume`] have delivered all
    /// of them: slow readers lose no events.
    ///
    /// Returns an [`Action::Pause`], unless the connection is lagging already or no longer active.
    pub fn mark_lagging(&mut self, peer: PeerId) -> Vec<Action> {
        self.events
            .mark_lagging(ServerContext::new(&self.clients, &self.settings), peer)
    }

    /// Delivers the next batch after everything before an [`Action::Pause`] has been written, or
    /// nearly. One call answers one `Pause`. A connection that is not paused gets nothing.
    pub fn resume(&mut self, peer: PeerId) -> Vec<Action> {
        self.events
            .resume(ServerContext::new(&self.clients, &self.settings), peer)
    }

    /// Continues a delivery with the contents that an [`Action::Recall`] requested. Each event
    /// stays stored until an [`Action::Forget`]. Contents that are none or missing are lost: they
    /// are counted and skipped.
    ///
    /// One call answers one `Recall`. A connection that has closed in the meantime is no error.
    pub fn recalled(&mut self, peer: PeerId, contents: Vec<(Seq, Option<Event>)>) -> Vec<Action> {
        self.events.recalled(
            ServerContext::new(&self.clients, &self.settings),
            peer,
            contents,
        )
    }

    /// Raises the events for all pending losses, as before a server stops.
    pub fn report_losses(&mut self) -> Vec<Action> {
        self.events
            .report_losses(ServerContext::new(&self.clients, &self.settings))
    }

    /// Raises the events for the pending losses of one job. Must precede the job's removal, because
    /// the owner is unknown afterwards.
    pub fn report_losses_of(&mut self, nspace: &Nspace) -> Vec<Action> {
        self.events
            .report_losses_of(ServerContext::new(&self.clients, &self.settings), nspace)
    }
}

/// Returns a reply that is only a status.
fn reply(to: RequestId, status: Status) -> Action {
    Action::Reply {
        to,
        reply: Reply::Status(status),
    }
}
