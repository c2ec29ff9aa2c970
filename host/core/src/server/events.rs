//! Events: registration by clients, notification by clients and by the host, delivery.
use super::{
    Action, Allowance, DemandId, Peer, PeerId, RequestId, Server, Standing, Upcall,
    demand::{Granted, Wish},
    reply,
};
use crate::{
    Time,
    audience::{self, Aim, BY_SERVER},
    class::{Class, Head, Levels},
    job::{Job, Life},
    reach::Reach,
    retained::Audience,
};
use peal_model::{Event, Identity, Info, Infos, KeyName, Proc, Range, Size, Status, Value, code, key};
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
pub(super) enum Raising {
    /// A client, which awaits an answer.
    Client(RequestId, Time),
    /// A tenant's hosted handler, with what it was allowed by the event before it.
    Handler(Allowance),
}

/// Whose hosted handler raises an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Raiser {
    /// The site's, which needs no permission.
    Site,
    /// A tenant's, who runs as this.
    Tenant(Identity),
}

impl Server {
    pub(super) fn register(&mut self, to: RequestId, codes: Vec<Status>, infos: &[Info]) -> Vec<Action> {
        // A policy may have taken so long that the client has left.
        let Some(peer) = self.peers.get(&to.peer).filter(|peer| peer.standing == Standing::Active) else {
            return vec![reply(to, code::PMIX_ERR_INIT)];
        };
        let filters = [key::PMIX_EVENT_AFFECTED_PROC, key::PMIX_EVENT_AFFECTED_PROCS];
        let affected = filters.iter().filter_map(|key| infos.value_of(*key)).filter_map(|value| value.as_procs());
        let affected: Vec<Proc> = affected.flatten().collect();
        let taken = peer.interests.len() + self.demand.waiting_of(to.peer);
        if taken + codes.len() + affected.len() >= self.settings.max_registrations || affected.len() > MAX_FILTER {
            return vec![reply(to, code::PMIX_ERR_OUT_OF_RESOURCE)];
        }
        // The registrations of `libpmix` say nothing of classes and want both.
        let wish = Wish { to, codes, levels: Levels::of(infos, Levels::Both), affected };
        if !wish.levels.include(Class::Environment) {
            return self.registered(wish);
        }
        match self.demand.want(wish) {
            Granted::Now(wish) => self.registered(wish),
            Granted::Later(None) => Vec::new(),
            Granted::Later(Some((id, codes))) => vec![Action::Host(Upcall::RegisterEvents { id, codes })],
        }
    }

    /// The host environment's answer to an [`Upcall::RegisterEvents`]: whoever waited for it is registered, or told why not. A
    /// host that offers no events of its own (`PMIX_ERR_NOT_SUPPORTED`) is not in the way of those of others.
    pub fn host_registered(&mut self, id: DemandId, answer: Result<(), Status>) -> Vec<Action> {
        let refusal = answer.err().filter(|status| *status != code::PMIX_ERR_NOT_SUPPORTED);
        let (wishes, unwanted) = self.demand.answered(id, refusal.is_none());
        let mut actions: Vec<Action> = given_back(unwanted).collect();
        for wish in wishes {
            match refusal {
                None => actions.extend(self.registered(wish)),
                Some(status) => {
                    let interests = self.peers.get(&wish.to.peer).map(|peer| &peer.interests);
                    let keeps = |code| interests.is_some_and(|interests| interests.asks_for_environment(code));
                    actions.extend(given_back(self.demand.give_up(&wish, keeps)));
                    actions.push(reply(wish.to, status));
                }
            }
        }
        actions
    }

    /// A registration stands: it is acknowledged, then comes what happened before.
    fn registered(&mut self, wish: Wish) -> Vec<Action> {
        let Wish { to, codes, levels, affected } = wish;
        let Some(peer) = self.peers.get_mut(&to.peer).filter(|peer| peer.standing == Standing::Active) else {
            return Vec::new();
        };
        let missed = if levels.include(Class::Environment) {
            self.retained.missed(&codes, |code| peer.interests.hears_environment(code))
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
        let answers = undecided.into_iter().chain(idle).map(|to| reply(to, code::PMIX_SUCCESS));
        answers.chain(given_back(unwanted)).collect()
    }

    /// The host environment wants to hear events of these codes (none: of every code) that are aimed at it, and what clients do
    /// against the protocol.
    pub fn host_registers(&mut self, codes: &[Status]) {
        self.host.add(codes, Levels::Both, Vec::new());
    }

    /// The host environment wants these codes no more; `Status::DEFAULT_HANDLER` drops its registration for every code.
    pub fn host_deregisters(&mut self, codes: &[Status]) {
        self.host.forget(&codes.iter().copied().collect());
    }

    /// A client sent what is no request, so that this status says what is wrong: an event for nobody but the host (RFC 0002,
    /// "RM-Host Registrations").
    pub fn violated(&mut self, peer: PeerId, status: Status) -> Vec<Action> {
        let Some(peer) = self.peers.get(&peer) else { return Vec::new() };
        let infos = vec![Info::new(key::PMIX_PROCID, Value::Proc(peer.proc.clone()))];
        self.tell_host(Arc::new(Event { code: status, source: None, range: Range::Rm, infos }))
    }

    /// Tells the host of an event that is aimed at it, if it registered for that.
    fn tell_host(&self, event: Arc<Event>) -> Vec<Action> {
        let aim = Aim::of(&event);
        let is_heard = self.host.cover(&Head::of(&event, &aim), &aim);
        if is_heard { vec![Action::Host(Upcall::Notify(event))] } else { Vec::new() }
    }

    pub(super) fn client_notifies(&mut self, to: RequestId, mut event: Event, now: Time) -> Vec<Action> {
        self.name_members(&mut event);
        match self.check(&mut event) {
            Err(status) => vec![reply(to, status)],
            Ok(()) => self.enter_event(Raising::Client(to, now), event, self.identity_of(to.peer)),
        }
    }

    /// Raises an event of the host environment or of the site's handlers, which nobody need permit.
    pub fn notify(&mut self, event: Event) -> Result<Vec<Action>, Status> {
        self.raise(event, Raiser::Site, self.settings.allowance)
    }

    /// Raises an event of a hosted handler, with what it was allowed by the event before it.
    pub fn raise(&mut self, mut event: Event, raiser: Raiser, allowance: Allowance) -> Result<Vec<Action>, Status> {
        self.check(&mut event)?;
        Ok(match raiser {
            Raiser::Tenant(identity) => self.enter_event(Raising::Handler(allowance), event, Some(identity)),
            Raiser::Site => {
                let reach = Reach::of(event.source.as_ref().and_then(|source| self.identity(source)));
                self.spread(Arc::new(event), reach, allowance)
            }
        })
    }

    /// An event that may be raised, and reach these.
    pub(super) fn permitted(&mut self, raising: Raising, event: Event, reach: Reach) -> Vec<Action> {
        let event = Arc::new(event);
        match raising {
            Raising::Client(to, at) => {
                // Those who hear it first: the raiser only waits for us, they wait for news.
                let mut actions = self.spread(event.clone(), reach, self.settings.allowance);
                actions.push(reply(to, code::PMIX_SUCCESS));
                if let (code::PMIX_JCTRL_CHECKPOINT_COMPLETE, Some(proc)) = (event.code, &event.source) {
                    actions.extend(self.checkpointed(proc, &event.infos));
                }
                actions.extend(self.group_event(&event, at));
                actions
            }
            Raising::Handler(allowance) => self.spread(event, reach, allowance),
        }
    }

    /// An event that another server distributed: it is for the procs and chains here, and goes no further.
    pub fn distributed(&mut self, event: Arc<Event>, reach: Reach, allowance: Allowance) -> Vec<Action> {
        self.spread_here(event, reach, allowance)
    }

    /// Takes from an event what nobody may say of his own, and checks the rest.
    pub(super) fn check(&self, event: &mut Event) -> Result<(), Status> {
        event.infos.retain(|info| info.key != INTERNAL_NOTIFY && info.key != BY_SERVER);
        if Size::of_event(event).bytes > self.settings.max_event_bytes {
            return Err(code::PMIX_ERR_OUT_OF_RESOURCE);
        }
        contradicts_nothing(event)
    }

    pub(super) fn spread(&mut self, event: Arc<Event>, reach: Reach, allowance: Allowance) -> Vec<Action> {
        if event.range == Range::Rm {
            return self.tell_host(event);
        }
        let mut actions = self.spread_here(event.clone(), reach, allowance);
        if audience::leaves_node(&event) {
            actions.push(Action::Distribute { event, reach, allowance });
        }
        actions
    }

    fn spread_here(&mut self, event: Arc<Event>, reach: Reach, allowance: Allowance) -> Vec<Action> {
        let mut actions = self.deliver_here(&event, reach);
        actions.push(Action::Chain { event, reach, allowance });
        actions
    }

    /// That a proc has ended without having left in order, for those of its user who registered for that by its code: whoever invites others to a group
    /// waits for that. Modules and everybody else hear of ends by other events.
    pub(super) fn tell_of_end(&mut self, proc: &Proc, reach: Reach) -> Vec<Action> {
        let event =
            Event { code: code::PMIX_PROC_TERMINATED, source: None, range: Range::Session, infos: end_of(proc) };
        self.deliver_here(&Arc::new(event), reach)
    }

    /// The same for one who invites procs that have ended or left before.
    pub(super) fn tell_of_absence(&mut self, leader: &Proc, invited: &[Proc]) -> Vec<Action> {
        let reach = Reach::of(self.identity(leader));
        let mut actions = Vec::new();
        for proc in invited
            .iter()
            .filter(|proc| matches!(self.life(proc), Some(Life::Finalized | Life::Lost)))
            .cloned()
            .collect::<Vec<_>>()
        {
            let leader = Info::new(key::PMIX_EVENT_CUSTOM_RANGE, Value::Proc(leader.clone()));
            let infos = [end_of(&proc), vec![leader]].concat();
            let event = Event { code: code::PMIX_PROC_TERMINATED, source: None, range: Range::Custom, infos };
            actions.extend(self.deliver_here(&Arc::new(event), reach));
        }
        actions
    }

    pub(super) fn deliver_here(&mut self, event: &Arc<Event>, reach: Reach) -> Vec<Action> {
        let aim = Aim::of(event);
        let head = Head::of(event, &aim);
        let hears = |(_, peer): &(&PeerId, &Peer)| {
            reach.includes(Some(peer.identity.uid))
                && peer.interests.cover(&head, &aim)
                && aim.is_meant_for(event, &peer.proc)
        };
        let (late, told): (BTreeSet<PeerId>, BTreeSet<PeerId>) =
            self.peers.iter().filter(hears).map(|(id, _)| *id).partition(|id| self.retained.is_behind(*id));
        let owed = match head.class {
            Class::JobSpecific => self.targets_beside(event, &aim, reach, &told),
            Class::Environment => Vec::new(),
        };
        let delivered = marked(event);
        let actions = told.iter().map(|peer| Action::Deliver { peer: *peer, event: delivered.clone() }).collect();
        self.retained.keep(delivered, head, reach, Audience { told, late, owed });
        self.settled(actions)
    }

    /// The procs that an event is meant for and that may yet register, without those of the connections that are told.
    fn targets_beside(&self, event: &Event, aim: &Aim, reach: Reach, told: &BTreeSet<PeerId>) -> Vec<(Proc, u32)> {
        let told_procs: BTreeSet<&Proc> =
            told.iter().filter_map(|id| self.peers.get(id)).map(|peer| &peer.proc).collect();
        let reached =
            |job: &&Job| reach.includes(Some(job.spec.identity.uid)) && aim.may_include(event, &job.spec.nspace);
        let mut targets = self.named_tools(event, aim, told);
        targets.retain(|(_, uid)| reach.includes(Some(*uid)));
        for job in self.jobs.values().filter(reached) {
            let alive = job.procs.iter().filter(|(_, life)| matches!(life, Life::Expected | Life::Connected(_)));
            let procs = alive.map(|(rank, _)| Proc::new(job.spec.nspace.clone(), *rank));
            let beside = procs.filter(|proc| !told_procs.contains(proc) && aim.is_meant_for(event, proc));
            targets.extend(beside.map(|proc| (proc, job.spec.identity.uid)));
        }
        targets
    }
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
pub(super) fn given_back(unwanted: Vec<Vec<Status>>) -> impl Iterator<Item = Action> {
    unwanted.into_iter().map(|codes| Action::Host(Upcall::DeregisterEvents(codes)))
}

/// What clients are told: an event of a proc says that it has been through a server.
fn marked(event: &Arc<Event>) -> Arc<Event> {
    if event.source.is_none() {
        return event.clone();
    }
    let mut marked = (**event).clone();
    marked.infos.push(Info::new(INTERNAL_NOTIFY, Value::Bool(true)));
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
        _ if names_targets => Err(code::PMIX_ERR_BAD_PARAM),
        _ => Ok(()),
    }
}
