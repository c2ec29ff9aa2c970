//! The gate: before a request that names others, an event or a connection has any effect, the policies of its hook are asked;
//! where there are none, the hook's default decides at once.
use super::{Action, PeerId, RequestId, Server, Upcall, demand::strike, events::Raising, named::Named, reply};
use crate::{
    defaults::{self, Case, HookDefault, What},
    job_control,
    policy::{self, DecidedBy, Verdict},
    reach::Reach,
};
use peal_model::{
    ConnectionKind, Event, Hook, Identity, Info, LogRequest, Matter, Nspace, Peer, PolicyRequest, Proc, Reply, Request,
    Size, Status, Target, Value, key,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, mem,
    sync::Arc,
};

/// The number of a decision that is awaited; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DecisionId(u64);

/// Something was denied: to be counted and traced.
#[derive(Clone, PartialEq, Debug)]
pub struct Denial {
    /// Which hook.
    pub hook: Hook,
    /// To whom; none for a tool that has no name yet.
    pub requester: Option<Proc>,
    /// As whom that runs.
    pub identity: Option<Identity>,
    /// Who said no.
    pub by: DecidedBy,
    /// What the requester is told.
    pub status: Status,
    /// And why.
    pub reasons: Vec<Info>,
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Denial { hook, requester, identity, by, status, reasons } = self;
        write!(f, "{by} denies {hook} to ")?;
        match requester {
            // Tools choose their names.
            Some(proc) => write!(f, "{:?}", proc.to_string())?,
            None => f.write_str("a tool without a name")?,
        }
        match identity {
            Some(identity) => write!(f, " of {identity}")?,
            None => f.write_str(" of nobody known")?,
        }
        write!(f, ": {status}")?;
        reasons.iter().try_for_each(|info| match info.value.as_str() {
            Some(words) => write!(f, ", {words:?}"),
            None => write!(f, ", {info:?}"),
        })
    }
}

/// Whether somebody may connect.
#[derive(Clone, PartialEq, Debug)]
pub enum Entrance {
    /// They may.
    Open,
    /// They may not.
    Shut(Denial),
    /// The policies are to be asked. Whoever asked keeps the decision's number; [`Server::decided`] knows nothing of it.
    Ask(DecisionId, Arc<PolicyRequest>),
}

/// Who asks for something, and how they are refused.
#[derive(Debug)]
struct Asker {
    hook: Hook,
    requester: Option<Proc>,
    identity: Option<Identity>,
    refusal: Refusal,
}

impl Asker {
    fn uid(&self) -> Option<u32> {
        self.identity.map(|identity| identity.uid)
    }
}

#[derive(Debug)]
enum Refusal {
    /// By an answer that holds the reasons.
    Infos(RequestId),
    /// By an answer that has room for the status only.
    Status(RequestId),
    /// Nobody waits for an answer.
    Silent,
}

/// What waits for a decision, without what policies may amend.
#[derive(Debug)]
enum Waiting {
    Control { to: RequestId, source: Proc, targets: Vec<Proc> },
    Abort { to: RequestId, source: Proc, request: Request },
    Event { raising: Raising, event: Event },
    Registration { to: RequestId, codes: Vec<Status> },
}

#[derive(Debug)]
struct Held {
    asker: Asker,
    bytes: usize,
    what: Waiting,
}

/// What waits for decisions, and who is to be asked.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// As whom the server runs; nobody until it says so.
    server: Option<Identity>,
    policed: Vec<Hook>,
    held: BTreeMap<DecisionId, Held>,
    /// How many each user has waiting.
    by_user: BTreeMap<Option<u32>, usize>,
    bytes: usize,
    next: u64,
}

impl Gate {
    /// How many decisions are awaited.
    pub(super) fn awaited(&self) -> usize {
        self.held.len()
    }

    fn hold(&mut self, id: DecisionId, held: Held) {
        self.bytes += held.bytes;
        *self.by_user.entry(held.asker.uid()).or_default() += 1;
        self.held.insert(id, held);
    }

    fn release(&mut self, id: DecisionId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.bytes -= held.bytes;
        let uid = held.asker.uid();
        if let Some(count) = self.by_user.get_mut(&uid) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&uid);
            }
        }
        Some(held)
    }

    fn number(&mut self) -> DecisionId {
        self.next += 1;
        DecisionId(self.next)
    }
}

impl Server {
    /// Says as whom the server runs, and which hooks have policies.
    pub fn guard(&mut self, server: Identity, policed: impl IntoIterator<Item = Hook>) {
        self.gate.server = Some(server);
        self.gate.policed = policed.into_iter().collect();
    }

    /// Whether somebody of this name may connect who runs as `identity`, and says this of itself. A tool asks about the jobs of its user, if any.
    pub fn entrance(
        &mut self,
        kind: ConnectionKind,
        proc: &Proc,
        identity: Identity,
        (peer, infos): (Peer, Vec<Info>),
    ) -> Entrance {
        let about: Vec<Proc> = match kind {
            ConnectionKind::Client => vec![proc.clone()],
            ConnectionKind::Tool => {
                let own = self.jobs.values().filter(|job| job.spec.uid == identity.uid);
                own.map(|job| Proc::all(job.spec.nspace.clone())).collect()
            }
        };
        let (hook, matter) = (Hook::Connection, Matter::Connection(kind));
        let question = self.question(matter, Some(proc.clone()), Some(identity), &about);
        let request = PolicyRequest { peer: Some(peer), infos, ..question };
        if self.gate.policed.contains(&hook) {
            return Entrance::Ask(self.gate.number(), Arc::new(request));
        }
        let default = self.settings.defaults.of(hook);
        if kind == ConnectionKind::Client && default == HookDefault::BuiltIn {
            // Admission holds to the same rule whatever is granted, and has better words for it.
            return Entrance::Open;
        }
        match policy::by_default(default, &request) {
            Verdict::Granted { .. } => Entrance::Open,
            Verdict::Denied { by, status, reasons } => {
                let (requester, identity) = (request.requester, request.identity);
                Entrance::Shut(Denial { hook, requester, identity, by, status, reasons })
            }
        }
    }

    /// A request that names others: goes on, is held until its policies have decided, or is refused.
    pub(super) fn enter(&mut self, to: RequestId, source: Proc, named: Named, request: Request) -> Vec<Action> {
        let Named { hook, procs, users } = named;
        let identity = self.identity_of(to.peer);
        let refusal = match request {
            Request::JobControl { .. } | Request::Monitor { .. } | Request::Query { .. } => Refusal::Infos(to),
            _ => Refusal::Status(to),
        };
        let asker = Asker { hook, requester: Some(source.clone()), identity, refusal };
        if hook == Hook::JobControl && self.gate.policed.contains(&hook) {
            let question = self.question(Matter::JobControl, Some(source.clone()), identity, &procs);
            let (directives, what) = match request {
                Request::JobControl { targets, directives } => (directives, Waiting::Control { to, source, targets }),
                // What an abort of others comes to.
                request => (vec![terminate()], Waiting::Abort { to, source, request }),
            };
            return self.ask(PolicyRequest { directives, ..question }, asker, what);
        }
        let targets = self.targets(&procs);
        let what = What::Others { hook, users: &users };
        let case = Case { requester: Some(&source), identity, server: self.server(), targets: &targets, what };
        match defaults::decide(self.settings.defaults.of(hook), &case) {
            Err(refused) => deny(asker, refused.into()),
            Ok(()) => match request {
                Request::JobControl { targets, directives } => self.control(to, source, &targets, directives),
                request => vec![Action::Host(Upcall::Request { to, source, request })],
            },
        }
    }

    /// A log request: goes on, or is refused.
    pub(super) fn permit_log(&mut self, to: RequestId, request: LogRequest) -> Vec<Action> {
        let (hook, identity, server) = (Hook::Log, request.identity, self.server());
        let case = Case { requester: request.source.as_ref(), identity, server, targets: &[], what: What::Log };
        match defaults::decide(self.settings.defaults.of(hook), &case) {
            Ok(()) => vec![Action::Log { to, request: Arc::new(request) }],
            Err(refused) => {
                let asker = Asker { hook, requester: request.source, identity, refusal: Refusal::Status(to) };
                deny(asker, refused.into())
            }
        }
    }

    /// An event of a client or of a tenant's handler: is spread, held until its policies have decided, or refused.
    pub(super) fn enter_event(
        &mut self,
        raising: Raising,
        mut event: Event,
        identity: Option<Identity>,
    ) -> Vec<Action> {
        let matter = Matter::Event { code: event.code, range: event.range };
        let targets = event.custom_targets().unwrap_or_default();
        let question = self.question(matter, event.source.clone(), identity, &targets);
        let request = PolicyRequest { infos: mem::take(&mut event.infos), ..question };
        let refusal = match raising {
            Raising::Client(to) => Refusal::Status(to),
            Raising::Handler(_) => Refusal::Silent,
        };
        let asker = Asker { hook: Hook::Event, requester: event.source.clone(), identity, refusal };
        let what = Waiting::Event { raising, event };
        if self.gate.policed.contains(&Hook::Event) {
            return self.ask(request, asker, what);
        }
        let verdict = policy::by_default(self.settings.defaults.of(Hook::Event), &request);
        self.conclude(Held { asker, bytes: 0, what }, verdict)
    }

    /// A registration for events: goes on, or is held until the policies for events have decided.
    pub(super) fn enter_registration(
        &mut self,
        to: RequestId,
        source: Proc,
        codes: Vec<Status>,
        directives: Vec<Info>,
    ) -> Vec<Action> {
        let hook = Hook::Event;
        if !self.gate.policed.contains(&hook) {
            return self.register(to, codes, &directives);
        }
        let identity = self.identity_of(to.peer);
        let question = self.question(Matter::Registration, Some(source.clone()), identity, &[]);
        let request = PolicyRequest { codes: codes.clone(), directives, ..question };
        let asker = Asker { hook, requester: Some(source), identity, refusal: Refusal::Status(to) };
        self.ask(request, asker, Waiting::Registration { to, codes })
    }

    fn ask(&mut self, request: PolicyRequest, asker: Asker, what: Waiting) -> Vec<Action> {
        let bytes = bytes_of(&request);
        // One user's flood leaves room for the others.
        let own = self.gate.by_user.get(&asker.uid()).copied().unwrap_or_default();
        let full = self.gate.awaited() >= self.settings.max_decisions
            || own >= self.settings.max_decisions.div_ceil(2)
            || self.gate.bytes.saturating_add(bytes) > self.settings.max_decision_bytes;
        if full {
            return deny(asker, Verdict::overload());
        }
        let id = self.gate.number();
        self.gate.hold(id, Held { asker, bytes, what });
        vec![Action::Decide { id, request: Arc::new(request) }]
    }

    /// The policies have decided on an [`Action::Decide`]: what was held goes on, or its requester is told why not. It makes
    /// no difference whether the requester is still there, as for anything else that was asked before it left.
    pub fn decided(&mut self, id: DecisionId, verdict: Verdict) -> Vec<Action> {
        let Some(held) = self.gate.release(id) else { return Vec::new() };
        self.conclude(held, verdict)
    }

    /// A job takes this name from whoever had it: what they wait for is denied, lest it be done in the job's name.
    pub(super) fn deny_held(&mut self, nspace: &Nspace) -> Vec<Action> {
        let of_them = |held: &Held| held.asker.requester.as_ref().is_some_and(|proc| proc.nspace == *nspace);
        let theirs: Vec<DecisionId> =
            self.gate.held.iter().filter(|(_, held)| of_them(held)).map(|(id, _)| *id).collect();
        let denied = theirs.into_iter().filter_map(|id| self.gate.release(id));
        denied.flat_map(|held| deny(held.asker, Verdict::evicted())).collect()
    }

    /// A connection takes back codes whose registration is not decided yet. Which of these have nothing left to be decided.
    pub(super) fn strike_held(&mut self, peer: PeerId, codes: &BTreeSet<Status>) -> Vec<RequestId> {
        let mut idle = Vec::new();
        for (id, held) in &mut self.gate.held {
            if let Waiting::Registration { to, codes: asked } = &mut held.what
                && to.peer == peer
                && strike(asked, codes)
            {
                idle.push((*id, *to));
            }
        }
        idle.iter().for_each(|(id, _)| drop(self.gate.release(*id)));
        idle.into_iter().map(|(_, to)| to).collect()
    }

    /// A connection is heard no more: it is registered for nothing, whatever is decided.
    pub(super) fn drop_held_registrations(&mut self, peer: PeerId) {
        let theirs = |held: &Held| matches!(&held.what, Waiting::Registration { to, .. } if to.peer == peer);
        let theirs: Vec<DecisionId> =
            self.gate.held.iter().filter(|(_, held)| theirs(held)).map(|(id, _)| *id).collect();
        theirs.into_iter().for_each(|id| drop(self.gate.release(id)));
    }

    fn conclude(&mut self, held: Held, verdict: Verdict) -> Vec<Action> {
        let Held { asker, what, .. } = held;
        let (by, amended, range) = match verdict {
            Verdict::Granted { by, amended, range } => (by, amended, range),
            verdict @ Verdict::Denied { .. } => return deny(asker, verdict),
        };
        match what {
            Waiting::Control { to, source, targets } => self.control(to, source, &targets, amended),
            Waiting::Abort { to, source, request } => vec![Action::Host(Upcall::Request { to, source, request })],
            Waiting::Registration { to, codes } => self.register(to, codes, &amended),
            Waiting::Event { raising, mut event } => {
                event.infos = amended;
                event.range = range.unwrap_or(event.range);
                // What a policy made of it must be an event still.
                if let Err(status) = self.check(&mut event) {
                    let reasons = vec![policy::reason("as amended, it is no event that could be raised")];
                    return deny(asker, Verdict::Denied { by, status, reasons });
                }
                let reach = match (by, self.settings.defaults.of(Hook::Event)) {
                    (DecidedBy::Default, HookDefault::BuiltIn) => Reach::of(asker.identity),
                    _ => Reach::Everybody,
                };
                self.permitted(raising, event, reach)
            }
        }
    }

    /// A job-control request that may be made: goes to the host environment if it makes sense.
    fn control(&self, to: RequestId, source: Proc, targets: &[Proc], directives: Vec<Info>) -> Vec<Action> {
        let ranks = |nspace: &_| self.jobs.get(nspace).map(|job| job.procs.keys().copied().collect());
        match job_control::read(&source, targets, directives, ranks) {
            Ok(control) => vec![Action::Host(Upcall::JobControl { to, source, control })],
            Err(error) => {
                let answer = Reply::Infos { status: error.status(), infos: vec![policy::reason(error)] };
                vec![Action::Reply { to, reply: answer }]
            }
        }
    }

    fn question(
        &self,
        matter: Matter,
        requester: Option<Proc>,
        identity: Option<Identity>,
        procs: &[Proc],
    ) -> PolicyRequest {
        let (server, targets) = (self.server(), self.targets(procs));
        let (codes, infos, directives) = (Vec::new(), Vec::new(), Vec::new());
        PolicyRequest { matter, requester, identity, server, peer: None, targets, codes, infos, directives }
    }

    fn targets(&self, procs: &[Proc]) -> Vec<Target> {
        procs.iter().map(|proc| Target { proc: proc.clone(), owner: self.identity(proc) }).collect()
    }

    fn server(&self) -> Identity {
        self.gate.server.unwrap_or(NOBODY)
    }

    /// As whom a client runs.
    pub(super) fn identity_of(&self, peer: PeerId) -> Option<Identity> {
        self.peers.get(&peer).map(|peer| peer.identity)
    }
}

/// A user that the kernel gives to nobody.
const NOBODY: Identity = Identity { uid: u32::MAX, gid: u32::MAX };

fn terminate() -> Info {
    Info::new(key::PMIX_JOB_CTRL_TERMINATE, Value::Bool(true))
}

/// The memory that a request takes while it waits; its targets are there twice.
fn bytes_of(request: &PolicyRequest) -> usize {
    let infos = request.infos.iter().chain(&request.directives).map(|info| Size::of_info(info).bytes).sum::<usize>();
    let codes = size_of_val(request.codes.as_slice()).saturating_mul(2);
    infos.saturating_add(codes).saturating_add(request.targets.len().saturating_mul(2 * size_of::<Target>()))
}

/// Tells whoever asked, as far as there is somebody to be told.
fn deny(asker: Asker, verdict: Verdict) -> Vec<Action> {
    let Verdict::Denied { by, status, reasons } = verdict else { return Vec::new() };
    let Asker { hook, requester, identity, refusal } = asker;
    let answer = match refusal {
        Refusal::Infos(to) => Some(Action::Reply { to, reply: Reply::Infos { status, infos: reasons.clone() } }),
        Refusal::Status(to) => Some(reply(to, status)),
        Refusal::Silent => None,
    };
    let denial = Denial { hook, requester, identity, by, status, reasons };
    // It is on record before the requester is told.
    std::iter::once(Action::Denied(denial)).chain(answer).collect()
}
