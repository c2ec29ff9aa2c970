//! Events: registration by clients, notification by clients and by the host environment, delivery.
use super::{
    Action, EventBudget, HostRegistrationId, PeerId, RequestId, ServerState, Upcall,
    catch_up::with_missed,
    clients::ConnectedPeer,
    host_registrations::{ClientRegistration, DemandChange, Granted},
    reply,
};
use crate::{
    MonotonicTime,
    audience::{self, BY_SERVER, EventTargets},
    class::{Class, ClassFilter, EventSummary},
    job::{ProcPhase, TrackedJob},
    retained::EventRecipients,
    user_scope::UserScope,
};
use peal_model::{
    Event, Info, Infos, KeyName, Proc, Range, Size, Status, UserIdentity, Value, code, key, rank,
};
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
#[derive(Clone, Copy, Debug)]
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

impl ServerState {
    pub(super) fn register(
        &mut self,
        to: RequestId,
        codes: Vec<Status>,
        infos: &[Info],
    ) -> Vec<Action> {
        // A policy may have taken so long that the client has left.
        let Some(peer) = self.clients.active_peer(to.peer) else {
            return vec![reply(to, code::PMIX_ERR_INIT)];
        };
        let filters = [
            key::PMIX_EVENT_AFFECTED_PROC,
            key::PMIX_EVENT_AFFECTED_PROCS,
        ];
        let affected = filters
            .iter()
            .filter_map(|key| infos.value_of(*key))
            .filter_map(|value| value.as_procs());
        let affected: Vec<Proc> = affected.flatten().collect();
        let taken = peer.interests.len() + self.demand.waiting_of(to.peer);
        if taken + codes.len() + affected.len() >= self.settings.max_registrations
            || affected.len() > MAX_FILTER
        {
            return vec![reply(to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        // Registrations of libpmix carry no class filter and are for both classes.
        let wish = ClientRegistration {
            to,
            codes,
            levels: ClassFilter::of(infos, ClassFilter::Both),
            affected,
        };
        if !wish.levels.include(Class::Environment) {
            return self.registered(wish);
        }
        match self.demand.want(wish) {
            Granted::Now(wish) => self.registered(wish),
            Granted::Later(None) => Vec::new(),
            Granted::Later(Some((id, codes))) => {
                vec![Action::Upcall(Upcall::RegisterEvents { id, codes })]
            }
        }
    }

    /// Handles the host environment's answer to an [`Upcall::RegisterEvents`]: waiting clients are
    /// registered or refused. A host environment without events of its own
    /// (`PMIX_ERR_NOT_SUPPORTED`) does not stand in the way of events of others.
    pub fn host_registered(
        &mut self,
        id: HostRegistrationId,
        answer: Result<(), Status>,
    ) -> Vec<Action> {
        let refusal = answer
            .err()
            .filter(|status| *status != code::PMIX_ERR_NOT_SUPPORTED);
        let (wishes, unwanted) = self.demand.answered(id, refusal.is_none());
        let mut actions: Vec<Action> = registration_upcalls(unwanted).collect();
        for wish in wishes {
            match refusal {
                None => actions.extend(self.registered(wish)),
                Some(status) => {
                    let interests = self.clients.peer(wish.to.peer).map(|peer| &peer.interests);
                    let keeps = |code| {
                        interests.is_some_and(|interests| interests.asks_for_environment(code))
                    };
                    actions.extend(registration_upcalls(self.demand.give_up(&wish, keeps)));
                    actions.push(reply(wish.to, status));
                }
            }
        }
        actions
    }

    /// Completes a registration. The acknowledgement precedes retained events.
    fn registered(&mut self, wish: ClientRegistration) -> Vec<Action> {
        let ClientRegistration {
            to,
            codes,
            levels,
            affected,
        } = wish;
        let Some(peer) = self
            .clients
            .peer_mut(to.peer)
            .filter(|peer| peer.is_active())
        else {
            return Vec::new();
        };
        let missed = if levels.include(Class::Environment) {
            self.retained.missed(&codes, |code| {
                peer.interests.covers_code(Class::Environment, code)
            })
        } else {
            0
        };
        peer.interests.add(&codes, levels, affected);
        let mut actions = vec![reply(to, code::PMIX_SUCCESS)];
        if self.retained.begin(to.peer, peer.identity.uid, missed) {
            actions.extend(self.feed(to.peer, BTreeMap::new()));
        }
        actions
    }

    pub(super) fn deregister(&mut self, peer: PeerId, codes: Vec<Status>) -> Vec<Action> {
        let codes: BTreeSet<Status> = codes.into_iter().collect();
        if let Some(peer) = self.clients.peer_mut(peer) {
            peer.interests.forget(&codes);
        }
        // A client that withdraws an undecided registration need not wait for the decision.
        let undecided = self.remove_held_codes(peer, &codes);
        let (idle, unwanted) = self.demand.forget(peer, &codes);
        let answers = undecided
            .into_iter()
            .chain(idle)
            .map(|to| reply(to, code::PMIX_SUCCESS));
        answers.chain(registration_upcalls(unwanted)).collect()
    }

    /// Registers the host environment for codes (none: every code) of events with range
    /// `PMIX_RANGE_RM`, and of protocol violations by clients.
    pub fn host_registers(&mut self, codes: &[Status]) {
        self.host.add(codes, ClassFilter::Both, Vec::new());
    }

    /// Deregisters codes of the host environment. `Status::DEFAULT_HANDLER` drops its registration
    /// for every code.
    pub fn host_deregisters(&mut self, codes: &[Status]) {
        self.host.forget(&codes.iter().copied().collect());
    }

    /// Reports a client's invalid message to the host environment only, by an event with this
    /// status (RFC 0002, "RM-Host Registrations").
    pub fn violated(&mut self, peer: PeerId, status: Status) -> Vec<Action> {
        let Some(peer) = self.clients.peer(peer) else {
            return Vec::new();
        };
        let infos = vec![Info::new(key::PMIX_PROCID, Value::Proc(peer.proc.clone()))];
        let event = Arc::new(Event {
            code: status,
            source: None,
            range: Range::Rm,
            infos,
        });
        self.notify_host(event, self.settings.allowance)
    }

    /// Passes an event to the host environment if it registered for the event.
    fn notify_host(&self, event: Arc<Event>, allowance: EventBudget) -> Vec<Action> {
        let is_heard = self.host.want(&event);
        if is_heard {
            vec![Action::Upcall(Upcall::Notify { event, allowance })]
        } else {
            Vec::new()
        }
    }

    /// Checks that the host environment registered for an event of range `PMIX_RANGE_RM`. OpenPMIx
    /// refuses such events without a host environment.
    fn check_host_registered(&self, event: &Event) -> Result<(), Status> {
        let is_lost = event.range == Range::Rm && !self.host.want(event);
        if is_lost {
            Err(code::PMIX_ERR_NOT_SUPPORTED)
        } else {
            Ok(())
        }
    }

    /// Checks that some target of a client's event exists and may receive it. A proc that has ended
    /// counts, because the client may not know of the end.
    fn check_targets_exist(&self, event: &Event, reach: UserScope) -> Result<(), Status> {
        let Some(targets) = event.custom_targets().filter(|_| self.groups.is_alone()) else {
            return Ok(());
        };
        let is_there = |target: &Proc| {
            let job = self.clients.job(&target.nspace).filter(|job| {
                let has_rank =
                    target.rank == rank::PMIX_RANK_WILDCARD || job.procs.contains_key(&target.rank);
                has_rank && reach.includes(Some(job.spec.identity.uid))
            });
            job.is_some()
                || self
                    .clients
                    .tool_identity(&target.nspace)
                    .is_some_and(|tool| reach.includes(Some(tool.uid)))
        };
        if targets.iter().any(is_there) {
            Ok(())
        } else {
            Err(code::PMIX_ERR_NOT_FOUND)
        }
    }

    pub(super) fn client_notifies(
        &mut self,
        to: RequestId,
        mut event: Event,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.name_members(&mut event);
        match self.check(&mut event) {
            Err(status) => vec![reply(to, status)],
            Ok(()) => self.enter_event(
                RaiseRequest::Client(to, now),
                event,
                self.clients.identity_of(to.peer),
            ),
        }
    }

    /// Raises an event of the host environment or of the site's handlers, which needs no
    /// permission.
    pub fn notify(&mut self, event: Event) -> Result<Vec<Action>, Status> {
        self.raise(event, RaisingOwner::Site, self.settings.allowance)
    }

    /// Raises an event of a hosted handler, with the remaining event budget.
    pub fn raise(
        &mut self,
        mut event: Event,
        raiser: RaisingOwner,
        allowance: EventBudget,
    ) -> Result<Vec<Action>, Status> {
        self.check(&mut event)?;
        self.check_host_registered(&event)?;
        Ok(match raiser {
            RaisingOwner::Tenant(identity) => {
                self.enter_event(RaiseRequest::Handler(allowance), event, Some(identity))
            }
            RaisingOwner::Site => {
                let reach = UserScope::of(
                    event
                        .source
                        .as_ref()
                        .and_then(|source| self.clients.identity(source)),
                );
                self.distribute(Arc::new(event), reach, allowance)
            }
        })
    }

    /// Distributes a permitted event to the procs of a user scope.
    pub(super) fn permitted(
        &mut self,
        raising: RaiseRequest,
        event: Event,
        reach: UserScope,
    ) -> Vec<Action> {
        let event = Arc::new(event);
        match raising {
            RaiseRequest::Client(to, at) => {
                let heard = || {
                    self.check_host_registered(&event)
                        .and_then(|()| self.check_targets_exist(&event, reach))
                };
                if !is_acted_on(event.code)
                    && let Err(status) = heard()
                {
                    return vec![reply(to, status)];
                }
                // Deliveries precede the reply: recipients wait for the event, and the raiser only
                // for its acknowledgement.
                let mut actions = self.distribute(event.clone(), reach, self.settings.allowance);
                actions.push(reply(to, code::PMIX_SUCCESS));
                if let (code::PMIX_JCTRL_CHECKPOINT_COMPLETE, Some(proc)) =
                    (event.code, &event.source)
                {
                    actions.extend(self.checkpointed(proc, &event.infos));
                }
                actions.extend(self.group_event(&event, at));
                actions
            }
            RaiseRequest::Handler(allowance) => self.distribute(event, reach, allowance),
        }
    }

    /// Delivers an event that another server distributed. It reaches local procs and chains only.
    pub fn distributed(
        &mut self,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    ) -> Vec<Action> {
        self.spread_here(event, reach, allowance)
    }

    /// Removes infos that only servers may set from an event, and checks the event.
    pub(super) fn check(&self, event: &mut Event) -> Result<(), Status> {
        event
            .infos
            .retain(|info| info.key != INTERNAL_NOTIFY && info.key != BY_SERVER);
        if Size::of_event(event).bytes > self.settings.max_event_bytes {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        check_consistency(event)
    }

    pub(super) fn distribute(
        &mut self,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    ) -> Vec<Action> {
        if event.range == Range::Rm {
            return self.notify_host(event, allowance);
        }
        let mut actions = self.spread_here(event.clone(), reach, allowance);
        if audience::leaves_node(&event) {
            actions.push(Action::Distribute {
                event,
                reach,
                allowance,
            });
        }
        actions
    }

    fn spread_here(
        &mut self,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    ) -> Vec<Action> {
        let mut actions = self.deliver_here(&event, reach);
        actions.push(Action::Chain {
            event,
            reach,
            allowance,
        });
        actions
    }

    /// Notifies procs of the same user that a proc has ended without finalizing. Only registrations
    /// for this code receive it: leaders of invitations wait for it. Modules and other procs learn
    /// of ends by other events.
    pub(super) fn notify_of_end(&mut self, proc: &Proc, reach: UserScope) -> Vec<Action> {
        let event = Event {
            code: code::PMIX_PROC_TERMINATED,
            source: None,
            range: Range::Session,
            infos: end_infos(proc),
        };
        self.deliver_here(&Arc::new(event), reach)
    }

    /// Notifies the leader of an invitation of invited procs that have ended or finalized before.
    pub(super) fn notify_of_absence(&mut self, leader: &Proc, invited: &[Proc]) -> Vec<Action> {
        let reach = UserScope::of(self.clients.identity(leader));
        let mut actions = Vec::new();
        for proc in invited
            .iter()
            .filter(|proc| {
                matches!(
                    self.clients.life(proc),
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
            actions.extend(self.deliver_here(&Arc::new(event), reach));
        }
        actions
    }

    pub(super) fn deliver_here(&mut self, event: &Arc<Event>, reach: UserScope) -> Vec<Action> {
        let aim = EventTargets::of(event);
        let head = EventSummary::of(event, &aim);
        let hears = |(_, peer): &(PeerId, &ConnectedPeer)| {
            reach.includes(Some(peer.identity.uid))
                && peer.interests.cover(&head, &aim)
                && aim.is_meant_for(event, &peer.proc)
        };
        let (late, told): (BTreeSet<PeerId>, BTreeSet<PeerId>) = self
            .clients
            .peers()
            .filter(hears)
            .map(|(id, _)| id)
            .partition(|id| self.retained.is_lagging(*id));
        let owed = match head.class {
            Class::JobSpecific => self.targets_beside(event, &aim, reach, &told),
            Class::Environment => Vec::new(),
        };
        let delivered = mark_forwarded(event);
        let mut actions = Vec::with_capacity(told.len());
        for id in &told {
            let event = self.with_lost(*id, head.class, delivered.clone());
            actions.push(Action::Deliver { peer: *id, event });
        }
        let late = late
            .into_iter()
            .filter_map(|id| Some((id, self.clients.peer(id)?.proc.clone())))
            .collect();
        self.retained
            .keep(delivered, head, reach, EventRecipients { told, late, owed });
        self.with_pending_actions(actions)
    }

    /// Adds to an event the number of events about the proc's job that were lost before, if any.
    fn with_lost(&mut self, id: PeerId, class: Class, event: Arc<Event>) -> Arc<Event> {
        let Some(peer) = self
            .clients
            .peer(id)
            .filter(|_| class == Class::JobSpecific && self.retained.has_lost())
        else {
            return event;
        };
        let lost = self.retained.take_lost(&peer.proc, |code| {
            peer.interests.covers_code(class, Some(code))
        });
        with_missed(event, lost)
    }

    /// Returns the procs that an event is meant for and that may register later, without those that
    /// are notified now.
    fn targets_beside(
        &self,
        event: &Event,
        aim: &EventTargets,
        reach: UserScope,
        told: &BTreeSet<PeerId>,
    ) -> Vec<(Proc, u32)> {
        let told_procs: BTreeSet<&Proc> = told
            .iter()
            .filter_map(|id| self.clients.peer(*id))
            .map(|peer| &peer.proc)
            .collect();
        let reached = |job: &&TrackedJob| {
            reach.includes(Some(job.spec.identity.uid)) && aim.may_include(event, &job.spec.nspace)
        };
        let mut targets = self.clients.named_tools(event, aim, told);
        targets.retain(|(_, uid)| reach.includes(Some(*uid)));
        for job in self.clients.jobs().filter(reached) {
            let alive = job
                .procs
                .iter()
                .filter(|(_, life)| matches!(life, ProcPhase::Expected | ProcPhase::Connected(_)));
            let procs = alive.map(|(rank, _)| Proc::new(job.spec.nspace.clone(), *rank));
            let beside =
                procs.filter(|proc| !told_procs.contains(proc) && aim.is_meant_for(event, proc));
            targets.extend(beside.map(|proc| (proc, job.spec.identity.uid)));
        }
        targets
    }
}

/// Returns true if the server itself acts on events of this code. Such an event is useful without
/// any recipient.
fn is_acted_on(code: Status) -> bool {
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
        Info::new(key::PMIX_EVENT_DO_NOT_CACHE, Value::Bool(true)),
    ]
}

/// Returns the upcalls for codes that no client needs any more.
pub(super) fn registration_upcalls(changes: Vec<DemandChange>) -> impl Iterator<Item = Action> {
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
        Range::Rm if event.stays_local() => Err(code::PMIX_ERR_BAD_PARAM),
        // Without a namespace, the event would reach no proc.
        Range::Namespace if audience::jobs_of(event).is_empty() => Err(code::PMIX_ERR_BAD_PARAM),
        _ if names_targets => Err(code::PMIX_ERR_BAD_PARAM),
        _ => Ok(()),
    }
}
