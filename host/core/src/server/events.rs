//! Events: registration by clients, notification by clients and by the host, delivery.
use super::{
    Action, ConnectedPeer, ConnectionState, EventBudget, HostRegistrationId, PeerId, RequestId,
    ServerState, Upcall,
    catch_up::missing,
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

/// By this `libpmix` knows an event that has been through a server, and does not send it there again. Clients may not say
/// so of theirs.
const INTERNAL_NOTIFY: KeyName = KeyName("pmix.srvr.internal.notify");

/// How many procs one registration may filter by.
const MAX_FILTER: usize = 1024;

/// Who raises an event, for whom it has to be decided whether they may.
#[derive(Clone, Copy, Debug)]
pub(super) enum RaiseRequest {
    /// A client, which awaits an answer.
    Client(RequestId, MonotonicTime),
    /// A tenant's hosted handler, with what it was allowed by the event before it.
    Handler(EventBudget),
}

/// Whose hosted handler raises an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RaisingOwner {
    /// The site's, which needs no permission.
    Site,
    /// A tenant's, who runs as this.
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
        let Some(peer) = self
            .peers
            .get(&to.peer)
            .filter(|peer| peer.standing == ConnectionState::Active)
        else {
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
        // The registrations of `libpmix` say nothing of classes and want both.
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

    /// The host environment's answer to an [`Upcall::RegisterEvents`]: whoever waited for it is registered, or told why not. A
    /// host that offers no events of its own (`PMIX_ERR_NOT_SUPPORTED`) is not in the way of those of others.
    pub fn host_registered(
        &mut self,
        id: HostRegistrationId,
        answer: Result<(), Status>,
    ) -> Vec<Action> {
        let refusal = answer
            .err()
            .filter(|status| *status != code::PMIX_ERR_NOT_SUPPORTED);
        let (wishes, unwanted) = self.demand.answered(id, refusal.is_none());
        let mut actions: Vec<Action> = given_back(unwanted).collect();
        for wish in wishes {
            match refusal {
                None => actions.extend(self.registered(wish)),
                Some(status) => {
                    let interests = self.peers.get(&wish.to.peer).map(|peer| &peer.interests);
                    let keeps = |code| {
                        interests.is_some_and(|interests| interests.asks_for_environment(code))
                    };
                    actions.extend(given_back(self.demand.give_up(&wish, keeps)));
                    actions.push(reply(wish.to, status));
                }
            }
        }
        actions
    }

    /// A registration stands: it is acknowledged, then comes what happened before.
    fn registered(&mut self, wish: ClientRegistration) -> Vec<Action> {
        let ClientRegistration {
            to,
            codes,
            levels,
            affected,
        } = wish;
        let Some(peer) = self
            .peers
            .get_mut(&to.peer)
            .filter(|peer| peer.standing == ConnectionState::Active)
        else {
            return Vec::new();
        };
        let missed = if levels.include(Class::Environment) {
            self.retained.missed(&codes, |code| {
                peer.interests.hears(Class::Environment, code)
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
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.interests.forget(&codes);
        }
        // Whoever takes back what it has not been granted yet need not wait for that.
        let undecided = self.strike_held(peer, &codes);
        let (idle, unwanted) = self.demand.forget(peer, &codes);
        let answers = undecided
            .into_iter()
            .chain(idle)
            .map(|to| reply(to, code::PMIX_SUCCESS));
        answers.chain(given_back(unwanted)).collect()
    }

    /// The host environment wants to hear events of these codes (none: of every code) that are aimed at it, and what clients do
    /// against the protocol.
    pub fn host_registers(&mut self, codes: &[Status]) {
        self.host.add(codes, ClassFilter::Both, Vec::new());
    }

    /// The host environment wants these codes no more; `Status::DEFAULT_HANDLER` drops its registration for every code.
    pub fn host_deregisters(&mut self, codes: &[Status]) {
        self.host.forget(&codes.iter().copied().collect());
    }

    /// A client sent what is no request, so that this status says what is wrong: an event for nobody but the host (RFC 0002,
    /// "RM-Host Registrations").
    pub fn violated(&mut self, peer: PeerId, status: Status) -> Vec<Action> {
        let Some(peer) = self.peers.get(&peer) else {
            return Vec::new();
        };
        let infos = vec![Info::new(key::PMIX_PROCID, Value::Proc(peer.proc.clone()))];
        let event = Arc::new(Event {
            code: status,
            source: None,
            range: Range::Rm,
            infos,
        });
        self.tell_host(event, self.settings.allowance)
    }

    /// Tells the host of an event that is aimed at it, if it registered for that.
    fn tell_host(&self, event: Arc<Event>, allowance: EventBudget) -> Vec<Action> {
        let is_heard = self.host.want(&event);
        if is_heard {
            vec![Action::Upcall(Upcall::Notify { event, allowance })]
        } else {
            Vec::new()
        }
    }

    /// Refuses an event for the resource manager where the host has not registered for it, as OpenPMIx does without a host.
    fn check_host_hears(&self, event: &Event) -> Result<(), Status> {
        let is_lost = event.range == Range::Rm && !self.host.want(event);
        if is_lost {
            Err(code::PMIX_ERR_NOT_SUPPORTED)
        } else {
            Ok(())
        }
    }

    /// Refuses a client's event that nobody can ever hear: no target of its list is a proc of a job, or a tool, that it may
    /// reach. One that has ended counts, since its end may not be known to the client.
    fn check_targets_exist(&self, event: &Event, reach: UserScope) -> Result<(), Status> {
        let Some(targets) = event.custom_targets().filter(|_| self.groups.is_alone()) else {
            return Ok(());
        };
        let is_there = |target: &Proc| {
            let job = self.jobs.get(&target.nspace).filter(|job| {
                let has_rank =
                    target.rank == rank::PMIX_RANK_WILDCARD || job.procs.contains_key(&target.rank);
                has_rank && reach.includes(Some(job.spec.identity.uid))
            });
            job.is_some()
                || self
                    .tools
                    .identity(&target.nspace)
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
                self.identity_of(to.peer),
            ),
        }
    }

    /// Raises an event of the host environment or of the site's handlers, which nobody need permit.
    pub fn notify(&mut self, event: Event) -> Result<Vec<Action>, Status> {
        self.raise(event, RaisingOwner::Site, self.settings.allowance)
    }

    /// Raises an event of a hosted handler, with what it was allowed by the event before it.
    pub fn raise(
        &mut self,
        mut event: Event,
        raiser: RaisingOwner,
        allowance: EventBudget,
    ) -> Result<Vec<Action>, Status> {
        self.check(&mut event)?;
        self.check_host_hears(&event)?;
        Ok(match raiser {
            RaisingOwner::Tenant(identity) => {
                self.enter_event(RaiseRequest::Handler(allowance), event, Some(identity))
            }
            RaisingOwner::Site => {
                let reach = UserScope::of(
                    event
                        .source
                        .as_ref()
                        .and_then(|source| self.identity(source)),
                );
                self.distribute(Arc::new(event), reach, allowance)
            }
        })
    }

    /// An event that may be raised, and reach these.
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
                    self.check_host_hears(&event)
                        .and_then(|()| self.check_targets_exist(&event, reach))
                };
                if !is_acted_on(event.code)
                    && let Err(status) = heard()
                {
                    return vec![reply(to, status)];
                }
                // Those who hear it first: the raiser only waits for us, they wait for news.
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

    /// An event that another server distributed: it is for the procs and chains here, and goes no further.
    pub fn distributed(
        &mut self,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    ) -> Vec<Action> {
        self.spread_here(event, reach, allowance)
    }

    /// Takes from an event what nobody may say of his own, and checks the rest.
    pub(super) fn check(&self, event: &mut Event) -> Result<(), Status> {
        event
            .infos
            .retain(|info| info.key != INTERNAL_NOTIFY && info.key != BY_SERVER);
        if Size::of_event(event).bytes > self.settings.max_event_bytes {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        contradicts_nothing(event)
    }

    pub(super) fn distribute(
        &mut self,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    ) -> Vec<Action> {
        if event.range == Range::Rm {
            return self.tell_host(event, allowance);
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

    /// That a proc has ended without having left in order, for those of its user who registered for that by its code: whoever invites others to a group
    /// waits for that. Modules and everybody else hear of ends by other events.
    pub(super) fn tell_of_end(&mut self, proc: &Proc, reach: UserScope) -> Vec<Action> {
        let event = Event {
            code: code::PMIX_PROC_TERMINATED,
            source: None,
            range: Range::Session,
            infos: end_of(proc),
        };
        self.deliver_here(&Arc::new(event), reach)
    }

    /// The same for one who invites procs that have ended or left before.
    pub(super) fn tell_of_absence(&mut self, leader: &Proc, invited: &[Proc]) -> Vec<Action> {
        let reach = UserScope::of(self.identity(leader));
        let mut actions = Vec::new();
        for proc in invited
            .iter()
            .filter(|proc| {
                matches!(
                    self.life(proc),
                    Some(ProcPhase::Finalized | ProcPhase::Terminated | ProcPhase::Lost)
                )
            })
            .cloned()
            .collect::<Vec<_>>()
        {
            let leader = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Proc(leader.clone()));
            let infos = [end_of(&proc), vec![leader]].concat();
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
        let hears = |(_, peer): &(&PeerId, &ConnectedPeer)| {
            reach.includes(Some(peer.identity.uid))
                && peer.interests.cover(&head, &aim)
                && aim.is_meant_for(event, &peer.proc)
        };
        let (late, told): (BTreeSet<PeerId>, BTreeSet<PeerId>) = self
            .peers
            .iter()
            .filter(hears)
            .map(|(id, _)| *id)
            .partition(|id| self.retained.is_behind(*id));
        let owed = match head.class {
            Class::JobSpecific => self.targets_beside(event, &aim, reach, &told),
            Class::Environment => Vec::new(),
        };
        let delivered = marked(event);
        let mut actions = Vec::with_capacity(told.len());
        for id in &told {
            let event = self.with_lost(*id, head.class, delivered.clone());
            actions.push(Action::Deliver { peer: *id, event });
        }
        let late = late
            .into_iter()
            .filter_map(|id| Some((id, self.peers.get(&id)?.proc.clone())))
            .collect();
        self.retained
            .keep(delivered, head, reach, EventRecipients { told, late, owed });
        self.settled(actions)
    }

    /// An event that a connection is told of, with how many about its proc's job were lost to it before, if any were.
    fn with_lost(&mut self, id: PeerId, class: Class, event: Arc<Event>) -> Arc<Event> {
        let Some(peer) = self
            .peers
            .get(&id)
            .filter(|_| class == Class::JobSpecific && self.retained.has_lost())
        else {
            return event;
        };
        let lost = self
            .retained
            .take_lost(&peer.proc, |code| peer.interests.hears(class, Some(code)));
        missing(event, lost)
    }

    /// The procs that an event is meant for and that may yet register, without those of the connections that are told.
    fn targets_beside(
        &self,
        event: &Event,
        aim: &EventTargets,
        reach: UserScope,
        told: &BTreeSet<PeerId>,
    ) -> Vec<(Proc, u32)> {
        let told_procs: BTreeSet<&Proc> = told
            .iter()
            .filter_map(|id| self.peers.get(id))
            .map(|peer| &peer.proc)
            .collect();
        let reached = |job: &&TrackedJob| {
            reach.includes(Some(job.spec.identity.uid)) && aim.may_include(event, &job.spec.nspace)
        };
        let mut targets = self.named_tools(event, aim, told);
        targets.retain(|(_, uid)| reach.includes(Some(*uid)));
        for job in self.jobs.values().filter(reached) {
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

/// Whether the server itself acts on events of this code, so that one is of use though nobody hears it.
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

/// What the event about a proc's end says of it.
fn end_of(proc: &Proc) -> Vec<Info> {
    vec![
        Info::new(key::PMIX_EVENT_AFFECTED_PROC, Value::Proc(proc.clone())),
        Info::new(key::PMIX_EVENT_NON_DEFAULT, Value::Bool(true)),
        Info::new(key::PMIX_EVENT_DO_NOT_CACHE, Value::Bool(true)),
    ]
}

/// What the host is told of codes that nobody wants any more.
pub(super) fn given_back(changes: Vec<DemandChange>) -> impl Iterator<Item = Action> {
    changes.into_iter().map(|change| {
        Action::Upcall(match change {
            DemandChange::Register(id, codes) => Upcall::RegisterEvents { id, codes },
            DemandChange::Deregister(codes) => Upcall::DeregisterEvents(codes),
        })
    })
}

/// What clients are told: an event of a proc says that it has been through a server.
fn marked(event: &Arc<Event>) -> Arc<Event> {
    if event.source.is_none() {
        return event.clone();
    }
    let mut marked = (**event).clone();
    marked
        .infos
        .push(Info::new(INTERNAL_NOTIFY, Value::Bool(true)));
    Arc::new(marked)
}

/// What no event may say: that it stays in its process although it is here, or two different things about its targets.
fn contradicts_nothing(event: &Event) -> Result<(), Status> {
    let names_targets = event.infos.value_of(key::PMIX_EVENT_CUSTOM_RANGE).is_some();
    match event.range {
        Range::Undef | Range::ProcLocal => Err(code::PMIX_ERR_BAD_PARAM),
        Range::Custom if event.custom_targets().is_none() => Err(code::PMIX_ERR_BAD_PARAM),
        Range::Custom => Ok(()),
        Range::Rm if event.stays_local() => Err(code::PMIX_ERR_BAD_PARAM),
        // It names no namespace: it would reach nobody.
        Range::Namespace if audience::jobs_of(event).is_empty() => Err(code::PMIX_ERR_BAD_PARAM),
        _ if names_targets => Err(code::PMIX_ERR_BAD_PARAM),
        _ => Ok(()),
    }
}
