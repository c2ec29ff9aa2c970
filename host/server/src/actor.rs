//! Owner of the server's state. All requests and messages pass through it, one at a time.
use crate::{
    admission::AdmissionRequest,
    chains::{ChainEvent, Chains, TerminationReply},
    channels::{Channels, LogRequester},
    client_writer::Behind,
    decisions::Decisions,
    gateways::Gateways,
    handle::{Abnormal, ActorMessage, ServerFindings, ServerHandle},
    handler_requests::HandlerRequest,
    heartbeats::{HeartbeatCell, HeartbeatTable},
    host_environment::{HostEnvironment, ProcessLookup},
    hosted::Hosted,
    metrics::Metrics,
    monitor::MonitorWorker,
    networked_server::RefusedMessages,
    notice::{Notice, Notices},
    outbox::{Full, Outbox, Outgoing},
    packing::Packing,
    process_watch::ProcessWatch,
    server_controls::ControlRecorder,
    server_inbox::SenderWait,
    spill::Spiller,
};
use peal_cluster::ServerTransport;
use peal_core::{
    MonotonicTime,
    log::LogOrigin,
    owner::Owner,
    policy::Verdict,
    quota::{Quota, QuotaReport},
    server::{
        Action, AdmissionCheck, ConnectionRefusal, DecisionId, Denial, EventBudget, EventOrigin,
        ModexId, PeerId, PutRefusal, RequestId, ServerQueryId, ServerState,
    },
    user_scope::UserScope,
};
use peal_model::{
    ConnectionKind, Event, Nspace, PolicyRequest, Proc, RankData, Reply, Request, Status,
    UserIdentity,
};
use peal_store::TraceRateLimit;
use std::{
    collections::BTreeMap,
    pin::pin,
    sync::{Arc, atomic::AtomicUsize},
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, oneshot};

/// Peer that requests admission. Messages for it go to `outbox`.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) arrival: AdmissionRequest,
    pub(crate) outbox: Outbox,
    pub(crate) admitted: oneshot::Sender<Result<(PeerId, Proc), ConnectionRefusal>>,
}

/// Server state with all that its actions need.
pub(crate) struct Actor {
    pub(crate) state: ServerState,
    /// User that the server runs as.
    pub(crate) runs_as: UserIdentity,
    pub(crate) started: Instant,
    pub(crate) outboxes: BTreeMap<PeerId, Outbox>,
    /// Number of answers of other parties that have not come.
    pub(crate) open_answers: Arc<AtomicUsize>,
    /// Number of those that another process of the server can await in the place of this one.
    pub(crate) open_answers_over_nodes: Arc<AtomicUsize>,
    /// True while all connections are suspended.
    pub(crate) is_suspended: bool,
    pub(crate) heartbeats: HeartbeatTable,
    /// Jobs and their users, sorted by name, shared with the events that pass the chains.
    pub(crate) jobs: Arc<Vec<(Nspace, UserIdentity)>>,
    pub(crate) host: Arc<dyn HostEnvironment>,
    pub(crate) transport: Arc<dyn ServerTransport>,
    pub(crate) gateways: Gateways,
    pub(crate) chains: Chains,
    pub(crate) decisions: Decisions,
    pub(crate) channels: Channels,
    pub(crate) spiller: Spiller,
    pub(crate) monitor_worker: MonitorWorker,
    pub(crate) processes: ProcessWatch,
    /// Peers whose admission waits for the policies.
    pub(crate) admissions: BTreeMap<DecisionId, Admission>,
    /// Reply channels for the termination that handlers request, by the proc that ended. Each is
    /// kept only until its event enters the chains.
    pub(crate) termination_replies: BTreeMap<Proc, TerminationReply>,
    /// Other nodes' requests for values of local procs, and the number of the next one.
    pub(crate) modex_requests: BTreeMap<ModexId, oneshot::Sender<Result<RankData, Status>>>,
    pub(crate) next_modex: u64,
    /// Queries to other servers, and the number of the next one.
    pub(crate) server_queries: BTreeMap<ServerQueryId, oneshot::Sender<ServerFindings>>,
    pub(crate) next_query: u64,
    /// Time that accepted work may take at shutdown.
    pub(crate) drain_timeout: Duration,
    /// Time that the host environment may take over a client's registration for events.
    pub(crate) host_timeout: Duration,
    pub(crate) notices: Notices,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) packing: Arc<Packing>,
    pub(crate) outbox_bytes: usize,
    /// Input that was read behind the request that is executed.
    pub(crate) behind: Behind,
    pub(crate) handle: ServerHandle,
    /// Limit of the log lines about refused values, since a proc may cause any number of them.
    pub(crate) refused_puts: TraceRateLimit,
    /// Limit of the log lines about published data that could not be restored.
    pub(crate) lost_publications: TraceRateLimit,
    pub(crate) refused_messages: Arc<RefusedMessages>,
    /// Recorder of actions for other servers; none without an audit trail.
    pub(crate) control_recorder: Option<ControlRecorder>,
}

impl Actor {
    pub(crate) fn now(&self) -> MonotonicTime {
        MonotonicTime::default() + self.started.elapsed()
    }

    /// Executes the request of a client, behind which this was read.
    pub(crate) fn request(&mut self, to: RequestId, request: Request, behind: Behind) {
        self.behind = behind;
        if request == Request::Finalize {
            // Before the state knows that the client leaves: heartbeats of leavers are ignored.
            self.heartbeats.end(to.peer, &mut self.state);
        }
        let actions = self.state.request(to, request, self.now());
        self.act_all(actions);
        self.behind = Behind::Nothing;
    }

    /// Answers a message that could not be decoded as a request with this status.
    pub(crate) fn unfit(&mut self, to: RequestId, status: Status) {
        let answer = self.state.answer(to, Reply::Status(status));
        self.act_all(answer);
        self.garbled(to.peer, status);
    }

    /// Reports a malformed message that has no reply.
    pub(crate) fn garbled(&mut self, peer: PeerId, status: Status) {
        let actions = self.state.violated(peer, status);
        self.act_all(actions);
    }

    /// Processes a heartbeat that the actor awaited. Later ones are noted in the cell.
    pub(crate) fn beat(&mut self, peer: PeerId, heartbeat: Arc<HeartbeatCell>) {
        self.heartbeats.begin(peer, heartbeat, &mut self.state);
    }

    /// Continues the batches of a lagging client: all messages before a milestone were written.
    pub(crate) fn resume(&mut self, peer: PeerId) {
        let actions = self.state.resume(peer);
        self.act_all(actions);
    }

    /// Processes the end of a connection.
    pub(crate) fn gone(&mut self, peer: PeerId) {
        self.outboxes.remove(&peer);
        // Before the state forgets the proc of the connection.
        self.heartbeats.end(peer, &mut self.state);
        let actions = self.state.disconnected(peer, self.now());
        self.act_all(actions);
    }

    /// Processes the deadlines that have passed.
    pub(crate) fn tick(&mut self) {
        let now = self.now();
        if self.is_suspended {
            // Heartbeats are not read.
            self.state.excuse_silence(now);
        }
        let actions = self.heartbeats.tick(&mut self.state, now);
        self.act_all(actions);
    }

    /// Processes a message of the host environment, the server transport or a worker.
    pub(crate) fn handle_message(&mut self, message: ActorMessage) {
        let actions = self.internal(message);
        self.act_all(actions);
    }

    /// Executes the request of a hosted handler.
    pub(crate) fn execute_handler_request(&mut self, request: HandlerRequest) {
        let actions = self.process_handler_request(request);
        self.act_all(actions);
    }

    /// Reports the losses of connections whose report was deferred, because the server stops.
    pub(crate) fn report_losses(&mut self) {
        let losses = self.state.report_losses();
        self.act_all(losses);
    }

    /// Waits until the modules have finished their work, and logs what handlers report meanwhile.
    /// Connections end when their queued messages are written.
    pub(crate) async fn end(mut self, mut requests: mpsc::Receiver<HandlerRequest>) {
        // A dropped outbox closes its queue, after which the writer task ends the connection.
        self.outboxes.clear();
        let mut drained = pin!(self.chains.drain());
        loop {
            tokio::select! {
                () = &mut drained => break,
                Some(request) = requests.recv() => self.log_last(request),
            }
        }
        while let Ok(request) = requests.try_recv() {
            self.log_last(request);
        }
        tokio::join!(
            self.decisions.drain(self.drain_timeout),
            self.channels.drain()
        );
    }

    /// Logs the report of a handler about one of the last events, such as the end of the last proc.
    /// Events and job control would reach nobody any more.
    fn log_last(&mut self, request: HandlerRequest) {
        if let HandlerRequest::Report { .. } = request {
            self.execute_handler_request(request);
        }
    }

    /// Adds what each user holds to a report.
    pub(crate) fn report_quotas(&self, report: &mut QuotaReport) {
        self.state.report_quotas(report);
        self.channels.report_quotas(report);
        self.chains.report_quotas(report);
    }

    /// Returns true if a job of that name is registered.
    pub(crate) fn has_job(&self, nspace: &Nspace) -> bool {
        self.state.has_job(nspace)
    }

    /// Decides about a peer, at once or when the policies have decided.
    pub(crate) fn request_admission(&mut self, admission: Admission) {
        let actions = self.decide_admission(admission);
        self.act_all(actions);
    }

    /// Admits or refuses a peer, or starts a run of the policies if there are any.
    fn decide_admission(&mut self, admission: Admission) -> Vec<Action> {
        let AdmissionRequest {
            kind,
            proc,
            peer,
            groups,
            release,
            infos,
        } = &admission.arrival;
        let end = peal_model::PeerInfo {
            pid: peer.pid,
            release: release.clone(),
        };
        match self.state.check_admission(
            *kind,
            proc,
            (peer.identity, groups.clone()),
            (end, infos.clone()),
        ) {
            AdmissionCheck::Granted => self.admit(admission),
            AdmissionCheck::Denied(denial) => {
                self.refuse(admission, denial);
                Vec::new()
            }
            AdmissionCheck::Undecided(id, request) => {
                self.admissions.insert(id, admission);
                self.request_decision(id, request)
            }
        }
    }

    fn admit(&mut self, admission: Admission) -> Vec<Action> {
        let Admission {
            arrival,
            outbox,
            admitted,
        } = admission;
        let AdmissionRequest {
            kind,
            proc,
            peer,
            groups,
            infos,
            ..
        } = arrival;
        let process = peer.pid;
        let welcome = match kind {
            ConnectionKind::Client => self.state.admit(&proc, peer.identity),
            ConnectionKind::Tool => {
                tracing::debug!(%proc, pid = peer.pid, ?infos, "a tool connects");
                self.state
                    .admit_tool(&proc, peer.identity)
                    .map(|peer| (peer, Vec::new()))
            }
        };
        let (answer, actions) = match welcome {
            Ok((peer, actions)) => {
                self.state.set_unix_groups(peer, groups);
                if self.is_suspended {
                    outbox.writer.suspend();
                }
                // Before the actions are executed: they may send to the peer.
                self.outboxes.insert(peer, outbox);
                // The host environment knows the processes that it started itself.
                if let (ConnectionKind::Client, Some(pid)) = (kind, process)
                    && self.host.process_of(&proc) == ProcessLookup::Unknown
                {
                    self.host.process_found(&proc, pid);
                }
                // The state's name shares its text with the job's, which makes comparisons fast.
                let proc = self.state.proc_of(peer).cloned().unwrap_or(proc);
                (Ok((peer, proc)), actions)
            }
            Err(refusal) => (Err(refusal), Vec::new()),
        };
        // Ignore a connection that is closed already: its task reports the end next.
        let _ = admitted.send(answer);
        actions
    }

    fn decided(&mut self, id: DecisionId, verdict: Verdict) -> Vec<Action> {
        self.state.entrance_decided(id);
        match (self.admissions.remove(&id), verdict) {
            (None, verdict) => self.state.decided(id, verdict),
            (Some(admission), Verdict::Granted { .. }) => self.admit(admission),
            (Some(admission), Verdict::Denied(verdict)) => {
                let AdmissionRequest { proc, peer, .. } = &admission.arrival;
                let denial = Denial::of_connection(proc.clone(), peer.identity, id, verdict);
                self.refuse(admission, denial);
                Vec::new()
            }
        }
    }

    /// Refuses a connection after the denial has been recorded.
    fn refuse(&self, admission: Admission, denial: Denial) {
        self.decisions.denied(denial.clone());
        // Ignore a peer that has closed the connection already.
        let _ = admission
            .admitted
            .send(Err(ConnectionRefusal::Denied(Box::new(denial))));
    }

    pub(crate) fn internal(&mut self, message: ActorMessage) -> Vec<Action> {
        match message {
            ActorMessage::Answer { to, reply } => self.state.answer(to, reply),
            ActorMessage::DataRequest {
                to,
                source,
                request,
            } => {
                let now = self.now();
                self.state.data_request(to, source, request, now)
            }
            ActorMessage::Controlled {
                id,
                targets,
                answer,
            } => self.state.controlled(id, &targets, answer),
            ActorMessage::ControlCommitted { id, committed } => {
                self.control_committed(id, committed)
            }
            ActorMessage::ControlledOverNodes { id, answer } => {
                let now = self.now();
                self.state.controlled_over_nodes(id, answer, now)
            }
            ActorMessage::QueryServers {
                job,
                queries,
                reply_to,
            } => {
                let id = ServerQueryId(self.next_query);
                self.next_query = self.next_query.wrapping_add(1);
                self.server_queries.insert(id, reply_to);
                let now = self.now();
                self.state.query_servers(id, &job, &queries, now)
            }
            ActorMessage::ServerQueryAnswered { to, answer } => {
                self.state.answer_server(to, answer)
            }
            ActorMessage::Enrolled(id) => {
                self.state.enroll(id);
                Vec::new()
            }
            ActorMessage::ServerJoined(server, kind) => {
                self.gateways.joined(server, kind);
                self.state.server_joined(server)
            }
            ActorMessage::ServerLeft(server) => {
                self.gateways.left(server);
                self.state.server_left(server, self.now())
            }
            ActorMessage::Server {
                from,
                message,
                charge,
            } => {
                let actions = self.state.server_message(from, message, self.now());
                if charge.release() == SenderWait::RoomAgain {
                    self.transport.room(from);
                }
                actions
            }
            ActorMessage::Gathered { id, outcome } => self.state.gathered(id, outcome),
            ActorMessage::GroupAnswered {
                key,
                operation,
                answer,
            } => {
                let now = self.now();
                self.state.group_answered(&key, operation, answer, now)
            }
            ActorMessage::ModexReceived { proc, values } => {
                self.state.modex_received(&proc, values)
            }
            ActorMessage::ModexRequest { proc, reply_to } => {
                let id = ModexId(self.next_modex);
                self.next_modex = self.next_modex.wrapping_add(1);
                self.modex_requests.insert(id, reply_to);
                self.state.modex_request(id, proc)
            }
            ActorMessage::RespecifyJob { spec, done } => {
                let actions = self.state.respecify_job(spec);
                let _ = done.send(());
                actions
            }
            ActorMessage::HostRegistered { id, answer } => self.state.host_registered(id, answer),
            ActorMessage::HostRegisters(codes) => {
                self.state.host_registers(&codes);
                Vec::new()
            }
            ActorMessage::HostDeregisters(codes) => {
                self.state.host_deregisters(&codes);
                Vec::new()
            }
            ActorMessage::Notify(event) => self.state.notify(event).unwrap_or_else(|status| {
                tracing::warn!(%status, "event of host environment refused");
                Vec::new()
            }),
            ActorMessage::Distributed {
                event,
                reach,
                allowance,
            } => {
                let now = self.now();
                self.state.distributed(event, reach, allowance, now)
            }
            ActorMessage::Decided { id, verdict } => self.decided(id, verdict),
            ActorMessage::Recalled { peer, events } => {
                self.spiller.recalled();
                self.state.recalled(peer, events)
            }
            ActorMessage::AddJob { spec, done } => {
                // Ignore a caller that no longer waits: the job is registered all the same.
                let _ = done.send(self.add_job(spec));
                Vec::new()
            }
            ActorMessage::DefineProcessSet {
                name,
                members,
                done,
            } => self.define_process_set(name, members, done),
            ActorMessage::DeleteProcessSet { name, jobs, done } => {
                let actions = self.state.delete_process_set(&name, &jobs);
                let _ = done.send(());
                actions
            }
            ActorMessage::Forward { to, output, done } => {
                self.forward(&to, &output);
                let _ = done.send(());
                Vec::new()
            }
            ActorMessage::Defaults(defaults) => {
                self.state.set_defaults(defaults);
                Vec::new()
            }
            ActorMessage::Deploy { hosted, done } => {
                self.deploy(*hosted);
                let _ = done.send(());
                Vec::new()
            }
            ActorMessage::Jobs(reply_to) => {
                let _ = reply_to.send(self.state.jobs().collect());
                Vec::new()
            }
            ActorMessage::JobsWithProcs {
                max_procs_of_user,
                reply_to,
            } => {
                let _ = reply_to.send(self.jobs_with_procs(max_procs_of_user));
                Vec::new()
            }
            ActorMessage::RemoveJob(nspace) => self.remove_job(&nspace),
            ActorMessage::RemoveIdleJob { nspace, done } => {
                // Checked and removed in one message, so that no proc connects in between.
                let progress = self.state.jobs().find(|job| job.spec.nspace == nspace);
                let idle = progress.as_ref().is_none_or(|job| job.connected == 0);
                let actions = if idle {
                    self.remove_job(&nspace)
                } else {
                    Vec::new()
                };
                let _ = done.send(progress);
                actions
            }
            ActorMessage::ProcsStarted { nspace, pids } => {
                self.state.procs_started(&nspace, &pids);
                Vec::new()
            }
            ActorMessage::ProcEnded { proc, abnormal } => {
                // Store the reply channel first: the chain of the resulting event takes it.
                let abnormal = abnormal.map(
                    |Abnormal {
                         code,
                         infos,
                         termination_reply,
                     }| {
                        self.termination_replies
                            .extend(termination_reply.map(|reply| (proc.clone(), reply)));
                        (code, infos)
                    },
                );
                self.state.proc_ended(&proc, abnormal, self.now())
            }
            ActorMessage::ProcessNamed {
                proc,
                pid,
                process,
                done,
            } => {
                let _ = done.send(self.process_named(&proc, pid, process));
                Vec::new()
            }
            ActorMessage::ProcessEnded { proc } => self.process_ended(&proc),
            ActorMessage::ProcRestarts {
                proc,
                checkpoint,
                done,
            } => {
                let actions = self
                    .state
                    .proc_restarts(&proc, checkpoint.as_deref(), self.now());
                let _ = done.send(());
                actions
            }
            // The task that processes messages has taken it before.
            ActorMessage::Freeze { .. } => Vec::new(),
            ActorMessage::Ping { reply_to } => {
                let _ = reply_to.send(());
                Vec::new()
            }
            ActorMessage::Life { proc, reply_to } => {
                let _ = reply_to.send(self.state.life(&proc));
                Vec::new()
            }
            ActorMessage::Log {
                request,
                origin,
                chosen,
                reply_to,
            } => {
                self.log(LogRequester::Waits(reply_to), request, origin, chosen);
                Vec::new()
            }
            ActorMessage::FileOpened { watch, seen } => self.state.file_opened(watch, seen),
            ActorMessage::FileLookedAt { watch, seen } => self.state.file_looked_at(watch, seen),
            ActorMessage::Measured { watch, found } => self.state.measured(watch, found),
            ActorMessage::Stop => Vec::new(),
        }
    }

    fn deploy(&mut self, hosted: Hosted) {
        let Hosted {
            chains,
            policies,
            channels,
        } = hosted;
        self.decisions.replace(policies);
        self.chains.replace(chains);
        self.channels.replace(&channels);
        // After the replacement, so that the state learns the hooks of the new policies.
        self.state.guard(self.runs_as, self.decisions.hooks());
        self.state.watch(self.decisions.watched());
    }

    fn request_decision(&mut self, id: DecisionId, request: Arc<PolicyRequest>) -> Vec<Action> {
        let default = self.state.default_of(request.subject.hook());
        let verdict = self.decisions.request(id, request, default);
        verdict
            .map(|verdict| self.decided(id, verdict))
            .unwrap_or_default()
    }

    pub(crate) fn act_all(&mut self, actions: Vec<Action>) {
        let mut actions = actions.into_iter().peekable();
        while let Some(action) = actions.next() {
            let peer = event_peer(&action);
            self.act(action);
            // Mark the peer after the last event of its batch: the next batch has space when all of
            // this one have been written.
            let is_last = peer != actions.peek().and_then(event_peer);
            if let Some(peer) = peer.filter(|peer| is_last && self.is_filling(*peer)) {
                let actions = self.state.mark_lagging(peer);
                self.act_all(actions);
            }
        }
    }

    fn act(&mut self, action: Action) {
        match action {
            // A module has no connection: the result of its request is logged.
            Action::Reply { to, reply } if to.peer == PeerId::MODULES => {
                self.answered(to.tag, &reply)
            }
            Action::Reply { to, reply } => self.reply(to, reply),
            Action::Deliver { peer, event } => self.deliver(peer, event),
            Action::Pause { peer } => self.send(peer, Outgoing::Milestone),
            Action::Spill { at, event, uid } => self.spiller.write(at, event, uid),
            Action::Forget { first, last } => self.spiller.forget(first, last),
            Action::Recall { peer, events } => self.spiller.recall(peer, events),
            Action::Chain {
                event,
                origin,
                reach,
                allowance,
            } => self.chain((event, origin), reach, allowance, None),
            Action::Consult {
                about,
                event,
                reach,
                allowance,
            } => {
                let termination_reply = self.termination_replies.remove(&about);
                let raised = (event, EventOrigin::ThisServer);
                self.chain(raised, reach, allowance, termination_reply);
            }
            Action::Distribute { event, reach } => {
                self.host.distribute(&event);
                self.transport.distribute(event, reach);
            }
            Action::Decide { id, request } => {
                let actions = self.request_decision(id, request);
                self.act_all(actions);
            }
            Action::Log { to, request } => {
                let asker = to.map_or(LogRequester::Untracked, LogRequester::Client);
                self.log(asker, request, LogOrigin::Client, None);
            }
            Action::JobControlEnded {
                requester,
                operation,
                targets,
                status,
            } => {
                self.notices.notify(Notice::Controlled {
                    requester,
                    operation,
                    targets,
                    status,
                });
            }
            Action::MessageRefused { from, refusal } => {
                let from = self.transport.sender(from);
                self.refused_messages.refuse(&from, &refusal.to_string());
            }
            Action::PutRefused { proc, refusal } => {
                self.metrics.counters().puts_refused.count();
                if let PutRefusal::User { uid, .. } | PutRefusal::Total { uid, .. } = refusal {
                    self.metrics.refuse(uid, Quota::PutBytes);
                }
                match self.refused_puts.allow(Instant::now()) {
                    Some(left_out) => {
                        tracing::warn!(%proc, %refusal, left_out, "put values of proc refused")
                    }
                    None => tracing::debug!(%proc, %refusal, "put values of proc refused"),
                }
            }
            Action::Denied(denial) => self.decisions.denied(denial),
            Action::Send { to, message } => self.transport.send(to, message),
            Action::LogMessage { from, message } => self.log_message(from, message),
            Action::ServersQueried { id, answers } => {
                if let Some(requester) = self.server_queries.remove(&id) {
                    // The requester may have gone.
                    let _ = requester.send(answers);
                }
            }
            Action::PublishedDataLost { by, key } => {
                match self.lost_publications.allow(Instant::now()) {
                    Some(left_out) => {
                        tracing::warn!(%by, %key, left_out, "published data lost: the next server that holds them has the key from another proc, or no room")
                    }
                    None => tracing::debug!(%by, %key, "published data lost"),
                }
            }
            Action::Gather {
                id,
                purpose,
                procs,
                contribution,
            } => self.gather_by_host(id, purpose, &procs, contribution),
            Action::ModexReply { to, values } => {
                if let Some(requester) = self.modex_requests.remove(&to) {
                    // A requester that no longer waits needs no answer.
                    let _ = requester.send(values);
                }
            }
            Action::CheckFile { watch, check: look } => self.monitor_worker.look(watch, look),
            Action::Measure {
                watch,
                usage,
                identity,
            } => self.monitor_worker.measure(watch, usage, identity),
            Action::Upcall(upcall) => self.notify_host(upcall),
        }
    }

    pub(crate) fn chain(
        &self,
        (event, origin): (Arc<Event>, EventOrigin),
        reach: UserScope,
        allowance: EventBudget,
        termination_reply: Option<TerminationReply>,
    ) {
        let source = event
            .source
            .as_ref()
            .and_then(|source| self.state.identity(source));
        let number = self.chains.number();
        let part = |owner: &Owner| self.state.part_of_chain(owner, origin);
        self.chains.submit(ChainEvent {
            number,
            span: ChainEvent::span(number, &event),
            event,
            origin,
            whole_chains: self.chains.whole_chains(part),
            reach,
            allowance,
            source,
            jobs: self.jobs.clone(),
            termination_reply,
            awaited: None,
        });
    }

    /// Returns true if a client reads so slowly that events for it should be retained rather than
    /// queued.
    fn is_filling(&self, peer: PeerId) -> bool {
        self.outboxes
            .get(&peer)
            .is_some_and(|outbox| outbox.is_filling(self.outbox_bytes))
    }

    /// Queues a message for a client.
    pub(crate) fn send(&mut self, peer: PeerId, outgoing: Outgoing) {
        let queued = self
            .outboxes
            .get(&peer)
            .map(|outbox| outbox.queue(outgoing, self.outbox_bytes));
        self.disconnect_if_full(peer, queued);
    }

    /// Sends an event to a client. Events of a client that raises many are queued, so that they are
    /// written together.
    fn deliver(&mut self, peer: PeerId, event: Arc<Event>) {
        if self.behind == Behind::More {
            return self.send(peer, Outgoing::Event(event));
        }
        let sent = self
            .outboxes
            .get(&peer)
            .map(|outbox| outbox.event(event, &self.packing, self.outbox_bytes));
        self.disconnect_if_full(peer, sent);
    }

    fn reply(&mut self, to: RequestId, reply: Reply) {
        let answered = self
            .outboxes
            .get(&to.peer)
            .map(|outbox| outbox.answer(to.tag, reply, &self.packing, self.outbox_bytes));
        self.disconnect_if_full(to.peer, answered);
    }

    /// Closes the connection of a client whose outbox is full, so that memory stays bounded and no
    /// other client waits for it.
    fn disconnect_if_full(&mut self, peer: PeerId, queued: Option<Result<(), Full>>) {
        let Some(Err(limit)) = queued else { return };
        self.metrics.counters().clients_disconnected_slow.count();
        if let (Full::UserBytes | Full::TotalBytes, Some(uid)) = (limit, self.state.user_of(peer)) {
            self.metrics.refuse(uid, Quota::OutboxBytes);
        }
        tracing::warn!(?peer, %limit, "outbox of client full; connection closed");
        // The task of the connection then reports its end, as for any other.
        if let Some(outbox) = self.outboxes.remove(&peer) {
            outbox.writer.cut();
        }
    }
}

/// Returns the connection that an action delivers an event to.
fn event_peer(action: &Action) -> Option<PeerId> {
    if let Action::Deliver { peer, .. } = action {
        Some(*peer)
    } else {
        None
    }
}
