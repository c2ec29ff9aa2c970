//! Events: registrations, delivery, retention for later recipients, and losses of connections.
mod catch_up;
mod host_registrations;
mod losses;

pub(super) use self::host_registrations::remove_codes;
pub use self::{catch_up::EVENTS_MISSED, host_registrations::HostRegistrationId};
use self::{
    catch_up::with_missed,
    host_registrations::{ClientRegistration, DemandChange, Granted, HostRegistrations},
    losses::Losses,
};
use super::{
    Action, EventBudget, EventOrigin, EventSpread, MissedEvents, PeerId, RequestId, ServerContext,
    StateSettings, Upcall, clients::ClientTable, reply,
};
use crate::{
    MonotonicTime,
    audience::{self, PeerRegistrations},
    class::{Class, ClassFilter, EventSummary},
    event_targets::{BY_SERVER, EventTargets, jobs_of},
    job::{ProcPhase, TrackedJob},
    retained::{EventRecipients, Retained, SpillAction},
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Infos, KeyName, Nspace, Proc, Range, Size, Status, UserIdentity, Value, code, key,
    rank,
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Key by which libpmix recognizes an event that has passed a server, and does not send it there
/// again. Clients must not set it.
const INTERNAL_NOTIFY: KeyName = KeyName("pmix.srvr.internal.notify");

/// Maximum number of procs in the filter of one registration.
const MAX_FILTER: usize = 1024;

/// The origin of an event that needs a decision before it is raised.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) enum RaiseRequest {
    /// A client, which waits for the reply.
    Client(RequestId, MonotonicTime),
    /// A tenant's hosted handler, with the remaining event budget.
    Handler(EventBudget),
}

/// The owner of the hosted handler that raises an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RaisingOwner {
    /// The site, which needs no permission.
    Site,
    /// A tenant that runs as this user.
    Tenant(UserIdentity),
}

/// The registrations for events, the events that are retained for later, and what follows from a
/// raised event.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EventDelivery {
    /// The registrations of active connections.
    interests: BTreeMap<PeerId, PeerRegistrations>,
    retained: Retained,
    demand: HostRegistrations,
    losses: Losses,
    /// The host environment's own registrations.
    host: PeerRegistrations,
    /// Actions of other parts, which follow the next event or end the step.
    pending: Vec<Action>,
}

/// Creation, ends, and the end of a step.
impl EventDelivery {
    /// Creates the state without registrations and events.
    pub(super) fn new(settings: &StateSettings) -> EventDelivery {
        EventDelivery {
            interests: BTreeMap::new(),
            retained: Retained::new(settings.retention),
            demand: HostRegistrations::default(),
            losses: Losses::default(),
            host: PeerRegistrations::default(),
            pending: Vec::new(),
        }
    }

    pub(super) fn set_limits(&mut self, settings: &StateSettings) {
        self.retained.set_limits(settings.retention);
    }

    /// Sets the user that the server runs as.
    pub(super) fn set_server(&mut self, uid: u32) {
        self.retained.set_server(uid);
    }

    /// Returns the retained events, for counters.
    pub(super) fn retained(&self) -> &Retained {
        &self.retained
    }

    /// Returns the registrations of all active connections.
    #[cfg(test)]
    pub(super) fn interests(&self) -> impl Iterator<Item = &PeerRegistrations> {
        self.interests.values()
    }

    /// Returns true if clients need nothing from the host environment.
    #[cfg(test)]
    pub(super) fn has_no_demand(&self) -> bool {
        self.demand.is_empty()
    }

    /// Returns the time of the next event about lost connections.
    pub(super) fn deadline(&self) -> Option<MonotonicTime> {
        self.losses.deadline()
    }

    /// Frees the events that are retained for a proc or tool.
    pub(super) fn free_proc(&mut self, proc: &Proc) {
        self.retained.free_proc(proc);
    }

    /// Frees the events that are retained for the procs of a job.
    pub(super) fn free_job(&mut self, nspace: &Nspace) {
        self.retained.free_job(nspace);
    }

    /// Removes the registrations of a connection that is no longer active, and those with the host
    /// environment that only it needed.
    pub(super) fn remove_peer(&mut self, id: PeerId) -> Vec<Action> {
        self.interests.remove(&id);
        self.retained.remove_peer(id);
        registration_upcalls(self.demand.remove_peer(id)).collect()
    }

    /// Adds actions that follow the next event or, without one, end the step
    /// ([`EventDelivery::with_pending_actions`]).
    pub(super) fn add_pending_actions(&mut self, actions: Vec<Action>) {
        self.pending.extend(actions);
    }

    /// Appends the pending actions: those for spilled events, and those of other parts.
    pub(super) fn with_pending_actions(&mut self, mut actions: Vec<Action>) -> Vec<Action> {
        actions.extend(
            self.retained
                .take_spill_actions()
                .into_iter()
                .map(|chore| match chore {
                    SpillAction::Spill(at, event, uid) => Action::Spill { at, event, uid },
                    SpillAction::Forget(first, last) => Action::Forget { first, last },
                }),
        );
        actions.append(&mut self.pending);
        actions
    }
}

/// Registrations of clients and of the host environment.
impl EventDelivery {
    /// Registers a client for events. Environment events may need a registration with the host
    /// environment first.
    pub(super) fn register(
        &mut self,
        ctx: ServerContext<'_>,
        to: RequestId,
        codes: Vec<Status>,
        infos: &[Info],
    ) -> Vec<Action> {
        // A policy may have taken so long that the client has left.
        if ctx.clients.active_peer(to.peer).is_none() {
            return vec![reply(to, code::PMIX_ERR_INIT)];
        }
        let affected = infos.affected_procs();
        let registered = self.interests.get(&to.peer);
        let taken = registered.map_or(0, PeerRegistrations::len) + self.demand.waiting_of(to.peer);
        // Equality is too many already, because the registration adds one for its filter.
        if taken + codes.len() + affected.len() >= ctx.settings.max_registrations
            || affected.len() > MAX_FILTER
        {
            return vec![reply(to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        // Registrations of libpmix carry no class filter and are for both classes.
        let registration = ClientRegistration {
            to,
            codes,
            levels: ClassFilter::of(infos, ClassFilter::Both),
            affected,
        };
        // RFC 0002, "RM Notifications": job-specific events come from the host environment without
        // a registration.
        if !registration.levels.include(Class::Environment) {
            return self.registered(ctx, registration);
        }
        match self.demand.add_registration(registration) {
            Granted::Now(registration) => self.registered(ctx, registration),
            Granted::Later(None) => Vec::new(),
            Granted::Later(Some((id, codes))) => {
                vec![Action::Upcall(Upcall::RegisterEvents { id, codes })]
            }
        }
    }

    /// Handles the host environment's answer to an [`Upcall::RegisterEvents`]: waiting clients are
    /// registered or refused. A host environment without events of its own
    /// (`PMIX_ERR_NOT_SUPPORTED`) does not prevent events of others.
    pub(super) fn host_registered(
        &mut self,
        ctx: ServerContext<'_>,
        id: HostRegistrationId,
        answer: Result<(), Status>,
    ) -> Vec<Action> {
        let refusal = answer
            .err()
            .filter(|status| *status != code::PMIX_ERR_NOT_SUPPORTED);
        let (registrations, unwanted) = self.demand.answered(id, refusal.is_none());
        let mut actions: Vec<Action> = registration_upcalls(unwanted).collect();
        for registration in registrations {
            match refusal {
                None => actions.extend(self.registered(ctx, registration)),
                Some(status) => {
                    let interests = self.interests.get(&registration.to.peer);
                    // A refusal takes no code away that was granted before.
                    let keeps = |code| {
                        interests.is_some_and(|interests| interests.has_environment_code(code))
                    };
                    actions.extend(registration_upcalls(
                        self.demand.give_up(&registration, keeps),
                    ));
                    actions.push(reply(registration.to, status));
                }
            }
        }
        actions
    }

    /// Completes a registration. The acknowledgement precedes retained events.
    fn registered(
        &mut self,
        ctx: ServerContext<'_>,
        registration: ClientRegistration,
    ) -> Vec<Action> {
        let ClientRegistration {
            to,
            codes,
            levels,
            affected,
        } = registration;
        let Some(peer) = ctx.clients.active_peer(to.peer) else {
            // The client has left while the host environment registered.
            return Vec::new();
        };
        let interests = self.interests.entry(to.peer).or_default();
        // Counted before the new codes are added. Otherwise all of them would count as registered
        // before.
        let missed = if levels.include(Class::Environment) {
            self.retained.missed(&codes, |code| {
                interests.covers_code(Class::Environment, code)
            })
        } else {
            0
        };
        interests.add(&codes, levels, affected);
        let mut actions = vec![reply(to, code::PMIX_SUCCESS)];
        // A connection that lags already has a batch pending, which brings the retained events.
        if self.retained.begin(to.peer, peer.identity.uid, missed) {
            actions.extend(self.feed(ctx, to.peer, BTreeMap::new()));
        }
        actions
    }

    /// Removes codes from the registrations of a client (`Status::DEFAULT_HANDLER`: its default
    /// registration). Returns the replies to requests that wait for the host environment and have
    /// no code left.
    pub(super) fn deregister(&mut self, peer: PeerId, codes: &BTreeSet<Status>) -> Vec<Action> {
        if let Some(interests) = self.interests.get_mut(&peer) {
            interests.forget(codes);
        }
        let (idle, unwanted) = self.demand.forget(peer, codes);
        let answers = idle.into_iter().map(|to| reply(to, code::PMIX_SUCCESS));
        answers.chain(registration_upcalls(unwanted)).collect()
    }

    /// Registers the host environment for codes (none: every code) of events with range
    /// `PMIX_RANGE_RM`, and of protocol violations by clients.
    pub(super) fn host_registers(&mut self, codes: &[Status]) {
        self.host.add(codes, ClassFilter::Both, Vec::new());
    }

    /// Deregisters codes of the host environment. `Status::DEFAULT_HANDLER` drops its registration
    /// for every code.
    pub(super) fn host_deregisters(&mut self, codes: &[Status]) {
        self.host.forget(&codes.iter().copied().collect());
    }

    /// Returns true if the host environment registered for exactly this code.
    pub(super) fn host_names(&self, code: Status) -> bool {
        self.host.names_code(code)
    }
}

/// Distribution and delivery.
impl EventDelivery {
    /// Raises an event of the host environment or of the site's handlers, which needs no
    /// permission.
    ///
    /// # Errors
    ///
    /// Fails if the event is invalid or for the host environment, which did not register for it.
    pub(super) fn notify(
        &mut self,
        ctx: ServerContext<'_>,
        mut event: Event,
        allowance: EventBudget,
    ) -> Result<Vec<Action>, Status> {
        let reach = self.check_raised(ctx, &mut event)?;
        Ok(self.distribute(ctx, Arc::new(event), reach, allowance))
    }

    /// Distributes an event that is meant for procs of this server alone.
    pub(super) fn notify_here(
        &mut self,
        ctx: ServerContext<'_>,
        mut event: Event,
        allowance: EventBudget,
    ) -> Result<Vec<Action>, Status> {
        let reach = self.check_raised(ctx, &mut event)?;
        let raised = (Arc::new(event), EventOrigin::ThisServer);
        Ok(self.spread_here(ctx, raised, reach, allowance))
    }

    /// Checks an event that is raised here, and returns the users whose procs it reaches.
    fn check_raised(&self, ctx: ServerContext<'_>, event: &mut Event) -> Result<UserScope, Status> {
        check(event, ctx.settings)?;
        self.check_host_registered(event)?;
        let source = event.source.as_ref();
        let identity = source.and_then(|source| ctx.clients.identity(source));
        Ok(UserScope::of(identity))
    }

    /// Reports a client's invalid message to the host environment only, by an event with this
    /// status (RFC 0002, "RM-Host Registrations").
    pub(super) fn violated(
        &self,
        ctx: ServerContext<'_>,
        peer: PeerId,
        status: Status,
    ) -> Vec<Action> {
        let Some(peer) = ctx.clients.peer(peer) else {
            return Vec::new();
        };
        let infos = vec![Info::new(key::PMIX_PROCID, Value::Proc(peer.proc.clone()))];
        let event = Arc::new(Event {
            code: status,
            source: None,
            range: Range::Rm,
            infos,
        });
        self.notify_host(event, ctx.settings.allowance)
    }

    /// Passes an event to the host environment if it registered for the event.
    fn notify_host(&self, event: Arc<Event>, allowance: EventBudget) -> Vec<Action> {
        let is_heard = self.host.covers_event(&event);
        if is_heard {
            vec![Action::Upcall(Upcall::Notify { event, allowance })]
        } else {
            Vec::new()
        }
    }

    /// Checks that the host environment registered for an event of range `PMIX_RANGE_RM`. OpenPMIx
    /// refuses such events without a host environment.
    pub(super) fn check_host_registered(&self, event: &Event) -> Result<(), Status> {
        let is_lost = event.range == Range::Rm && !self.host.covers_event(event);
        if is_lost {
            Err(code::PMIX_ERR_NOT_SUPPORTED)
        } else {
            Ok(())
        }
    }

    /// Distributes an event to the procs of a user scope, on all servers that it concerns, and to
    /// the chains.
    pub(super) fn distribute(
        &mut self,
        ctx: ServerContext<'_>,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    ) -> Vec<Action> {
        if event.range == Range::Rm {
            return self.notify_host(event, allowance);
        }
        let raised = (event.clone(), EventOrigin::ThisServer);
        let mut actions = self.spread_here(ctx, raised, reach, allowance);
        // What follows from an event of another server stays here: its handlers run at each server
        // that the event reaches.
        if audience::leaves_node(&event) && allowance.spread() == EventSpread::AllServers {
            actions.push(Action::Distribute { event, reach });
        }
        actions
    }

    /// Delivers an event to local procs and chains.
    pub(super) fn spread_here(
        &mut self,
        ctx: ServerContext<'_>,
        (event, origin): (Arc<Event>, EventOrigin),
        reach: UserScope,
        allowance: EventBudget,
    ) -> Vec<Action> {
        // Before the chains: hosted handlers neither stop nor delay the delivery to procs.
        let mut actions = self.deliver_here(ctx, &event, reach);
        actions.push(Action::Chain {
            event,
            origin,
            reach,
            allowance,
        });
        actions
    }

    /// Notifies procs of the same user that a proc has ended without finalizing. Only registrations
    /// for this code receive it: leaders of invitations wait for it. Modules and other procs learn
    /// of ends by other events.
    pub(super) fn notify_of_end(
        &mut self,
        ctx: ServerContext<'_>,
        proc: &Proc,
        reach: UserScope,
    ) -> Vec<Action> {
        let event = Event {
            code: code::PMIX_PROC_TERMINATED,
            source: None,
            range: Range::Session,
            infos: end_infos(proc),
        };
        self.deliver_here(ctx, &Arc::new(event), reach)
    }

    /// Notifies connected procs of other jobs that a proc ended without finalizing. Procs of its
    /// own job are notified by the host environment.
    pub(super) fn notify_connected(
        &mut self,
        ctx: ServerContext<'_>,
        proc: &Proc,
        others: BTreeSet<Proc>,
        reach: UserScope,
    ) -> Vec<Action> {
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
        // Not through the chains: modules learn of the end by another event.
        self.deliver_here(
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

    /// Notifies the leader of an invitation of invited procs that have ended or finalized before.
    pub(super) fn notify_of_absence(
        &mut self,
        ctx: ServerContext<'_>,
        leader: &Proc,
        invited: &[Proc],
    ) -> Vec<Action> {
        let reach = UserScope::of(ctx.clients.identity(leader));
        let mut actions = Vec::new();
        // The end of a proc that still runs is reported when it comes.
        for proc in invited
            .iter()
            .filter(|proc| {
                matches!(
                    ctx.clients.life(proc),
                    Some(ProcPhase::Finalized | ProcPhase::Terminated | ProcPhase::Lost)
                )
            })
            .cloned()
            .collect::<Vec<_>>()
        {
            let leader = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Proc(leader.clone()));
            let infos = [end_infos(&proc), vec![leader]].concat();
            let event = Event {
                code: code::PMIX_PROC_TERMINATED,
                source: None,
                range: Range::Custom,
                infos,
            };
            actions.extend(self.deliver_here(ctx, &Arc::new(event), reach));
        }
        actions
    }

    /// Delivers an event to local procs, and retains it for those that may get it later.
    pub(super) fn deliver_here(
        &mut self,
        ctx: ServerContext<'_>,
        event: &Arc<Event>,
        reach: UserScope,
    ) -> Vec<Action> {
        let aim = EventTargets::of(event);
        let head = EventSummary::of(event, &aim);
        let receives = |(id, interests): &(&PeerId, &PeerRegistrations)| {
            ctx.clients.peer(**id).is_some_and(|peer| {
                reach.includes(Some(peer.identity.uid))
                    && interests.cover(&head, &aim)
                    && aim.is_meant_for(event, &peer.proc)
            })
        };
        let (late, direct_recipients): (BTreeSet<PeerId>, BTreeSet<PeerId>) = self
            .interests
            .iter()
            .filter(receives)
            .map(|(id, _)| *id)
            // Delivered now, the event would overtake the retained ones of a lagging connection.
            .partition(|id| self.retained.is_lagging(*id));
        // RFC 0002, "RM Notifications": job-specific events wait for procs of the job that have not
        // connected. Environment events are in the ring alone.
        let owed = match head.class {
            Class::JobSpecific => {
                targets_beside(ctx.clients, event, &aim, reach, &direct_recipients)
            }
            Class::Environment => Vec::new(),
        };
        // Marked once, so that all recipients share one copy.
        let delivered = mark_forwarded(event);
        let mut actions = Vec::with_capacity(direct_recipients.len());
        for id in &direct_recipients {
            let event = self.with_lost(ctx, *id, head.class, delivered.clone());
            actions.push(Action::Deliver { peer: *id, event });
        }
        let late = late
            .into_iter()
            .filter_map(|id| Some((id, ctx.clients.peer(id)?.proc.clone())))
            .collect();
        // An event for one user's procs is that user's; one for others is that of its source.
        let source = || Some(ctx.clients.identity(event.source.as_ref()?)?.uid);
        let charged = reach.user().or_else(source);
        self.retained.keep(
            delivered,
            head,
            (reach, charged),
            EventRecipients {
                direct_recipients,
                late,
                owed,
            },
        );
        self.with_pending_actions(actions)
    }

    /// Counts events that did not get here from another server, for each proc that may have been
    /// meant.
    pub(super) fn missed(&mut self, ctx: ServerContext<'_>, missed: &MissedEvents) {
        for (reach, code, number) in missed.about_jobs() {
            let users = |job: &&TrackedJob| reach.includes(Some(job.spec.identity.uid));
            for job in ctx.clients.jobs().filter(users) {
                let procs = job.procs.iter();
                for (rank, _) in procs.filter(|(_, life)| may_receive(*life)) {
                    let proc = Proc::new(job.spec.nspace.clone(), rank);
                    self.retained.count_lost(&proc, code, number);
                }
            }
        }
        self.retained.lose_unseen(missed.total());
    }

    /// Adds to an event the number of events about the proc's job that were lost before, if any.
    fn with_lost(
        &mut self,
        ctx: ServerContext<'_>,
        id: PeerId,
        class: Class,
        event: Arc<Event>,
    ) -> Arc<Event> {
        // Spares a lookup for each recipient while nothing is lost.
        let is_due = class == Class::JobSpecific && self.retained.has_lost();
        let peer = ctx.clients.proc_of(id).zip(self.interests.get(&id));
        let Some((proc, interests)) = peer.filter(|_| is_due) else {
            return event;
        };
        let lost = self
            .retained
            .take_lost(proc, |code| interests.covers_code(class, Some(code)));
        with_missed(event, lost)
    }
}

/// Removes infos that only servers may set from an event, and checks the event.
pub(super) fn check(event: &mut Event, settings: &StateSettings) -> Result<(), Status> {
    event
        .infos
        .retain(|info| info.key != INTERNAL_NOTIFY && info.key != BY_SERVER);
    if Size::of_event(event).bytes > settings.max_event_bytes {
        return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
    }
    check_consistency(event)
}

/// Checks that some target of a client's event exists and may receive it. A proc that has ended
/// counts, because the client may not know of the end.
pub(super) fn check_targets_exist(
    clients: &ClientTable,
    event: &Event,
    reach: UserScope,
) -> Result<(), Status> {
    let Some(targets) = event.custom_targets() else {
        // Only a list of targets can name procs that do not exist.
        return Ok(());
    };
    let is_there = |target: &Proc| {
        let job = clients.job(&target.nspace).filter(|job| {
            // A proc of another node counts: the host environment passes the event on.
            let has_rank = target.rank == rank::PMIX_RANK_WILDCARD
                || job.procs.get(target.rank).is_some()
                || job.spec.node_of(target.rank).is_some();
            has_rank && reach.includes(Some(job.spec.identity.uid))
        });
        job.is_some()
            || clients
                .tool_identity(&target.nspace)
                .is_some_and(|tool| reach.includes(Some(tool.uid)))
    };
    if targets.iter().any(is_there) {
        Ok(())
    } else {
        Err(code::PMIX_ERR_NOT_FOUND)
    }
}

/// Returns the procs that an event is meant for and that may register later, without those that
/// are notified now.
fn targets_beside(
    clients: &ClientTable,
    event: &Event,
    aim: &EventTargets,
    reach: UserScope,
    direct_recipients: &BTreeSet<PeerId>,
) -> Vec<(Proc, u32)> {
    // A proc has received the event if one of its connections has.
    let notified_procs: BTreeSet<&Proc> = direct_recipients
        .iter()
        .filter_map(|id| clients.peer(*id))
        .map(|peer| &peer.proc)
        .collect();
    let reached = |job: &&TrackedJob| {
        reach.includes(Some(job.spec.identity.uid)) && aim.may_include(event, &job.spec.nspace)
    };
    let mut targets = clients.named_tools(event, aim, direct_recipients);
    targets.retain(|(_, uid)| reach.includes(Some(*uid)));
    for job in clients.jobs().filter(reached) {
        // The event is usually for one proc or for all.
        let possible: Box<dyn Iterator<Item = _>> = match aim.named_ranks(&job.spec.nspace) {
            Some(named) => Box::new(named.filter_map(|rank| Some((rank, job.procs.get(rank)?)))),
            None => Box::new(job.procs.iter()),
        };
        let alive = possible.filter(|(_, life)| may_receive(*life));
        let procs = alive.map(|(rank, _)| Proc::new(job.spec.nspace.clone(), rank));
        let beside =
            procs.filter(|proc| !notified_procs.contains(proc) && aim.is_meant_for(event, proc));
        targets.extend(beside.map(|proc| (proc, job.spec.identity.uid)));
    }
    targets
}

/// Returns true if a proc in this phase may receive events.
fn may_receive(life: ProcPhase) -> bool {
    matches!(life, ProcPhase::Expected | ProcPhase::Connected(_))
}

/// Returns true if the server itself acts on events of this code. Such an event is useful without
/// any recipient.
pub(super) fn is_acted_on(code: Status) -> bool {
    matches!(
        code,
        code::PMIX_JCTRL_CHECKPOINT_COMPLETE
            | code::PMIX_GROUP_CONSTRUCT_COMPLETE
            | code::PMIX_GROUP_CONSTRUCT_ABORT
            | code::PMIX_GROUP_MEMBERSHIP_UPDATE
            | code::PMIX_GROUP_LEADER_SELECTED
            | code::PMIX_GROUP_LEFT
    )
}

/// Returns the infos of an event about a proc's end.
fn end_infos(proc: &Proc) -> Vec<Info> {
    vec![
        Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone())),
        Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        // A leader that invites later is notified of ended procs by `notify_of_absence`.
        Info::new(key::PMIX_EVENT_DO_NOT_CACHE, Value::Bool(true)),
    ]
}

/// Returns the upcalls for codes that no client needs any more.
fn registration_upcalls(changes: Vec<DemandChange>) -> impl Iterator<Item = Action> {
    changes.into_iter().map(|change| {
        Action::Upcall(match change {
            DemandChange::Register(id, codes) => Upcall::RegisterEvents { id, codes },
            DemandChange::Deregister(codes) => Upcall::DeregisterEvents(codes),
        })
    })
}

/// Marks an event of a proc as one that has passed a server.
fn mark_forwarded(event: &Arc<Event>) -> Arc<Event> {
    if event.source.is_none() {
        return event.clone();
    }
    let mut marked = (**event).clone();
    marked
        .infos
        .push(Info::new(INTERNAL_NOTIFY, Value::Bool(true)));
    Arc::new(marked)
}

/// Checks that an event does not contradict itself: range local to its process although sent, or
/// inconsistent targets.
fn check_consistency(event: &Event) -> Result<(), Status> {
    let names_targets = event.infos.value_of(key::PMIX_EVENT_CUSTOM_RANGE).is_some();
    match event.range {
        Range::Undef | Range::ProcLocal => Err(code::PMIX_ERR_BAD_PARAM),
        Range::Custom if event.custom_targets().is_none() => Err(code::PMIX_ERR_BAD_PARAM),
        Range::Custom => Ok(()),
        // The host environment is not among local procs.
        Range::Rm if event.stays_local() => Err(code::PMIX_ERR_BAD_PARAM),
        // Without a namespace, the event would reach no proc.
        Range::Namespace if jobs_of(event).is_empty() => Err(code::PMIX_ERR_BAD_PARAM),
        _ if names_targets => Err(code::PMIX_ERR_BAD_PARAM),
        _ => Ok(()),
    }
}
