//! The policy gate. A request that names other procs, an event or a connection has no effect until
//! the policies of its hook have decided. A hook without policies is decided by its default at
//! once.
mod held;

pub(super) use self::held::{Gate, GatedOperation};
use self::held::{GateLoad, GatedRequest};
use super::{
    Action, EventBudget, PeerId, Purpose, RequestId, ServerContext, ServerState, StateSettings,
    Upcall,
    control::{self, ControlRequester},
    denial::{Denial, DenialRecipient, DenialReply, deny},
    events::{self, RaiseRequest, RaisingOwner, remove_codes},
    reply,
    request_targets::RequestTargets,
    weight::bytes_of,
};
use crate::{
    MonotonicTime,
    defaults::{self, HookDefault, RuleRequest, RuleSubject},
    policy::{self, DecidedBy, Verdict},
    user_scope::UserScope,
};
use peal_model::{
    ConnectionKind, Event, Hook, Info, LogRequest, Nspace, PeerInfo, PolicyRequest, PolicySubject,
    Proc, Request, Status, UnixGroup, UserIdentity, Value, code, key,
};
use std::{collections::BTreeSet, mem, sync::Arc};

/// Identifier of a pending decision; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DecisionId(u64);

impl DecisionId {
    /// Returns the number, as in audit records.
    pub fn number(self) -> u64 {
        self.0
    }
}

/// The result of an admission check.
#[derive(Clone, PartialEq, Debug)]
pub enum AdmissionCheck {
    /// The connection may be admitted.
    Open,
    /// The connection is denied.
    Shut(Denial),
    /// The policies must be called. The caller passes the decision's identifier to
    /// [`ServerState::entrance_decided`].
    Ask(DecisionId, Arc<PolicyRequest>),
}

impl ServerState {
    /// Sets the user that the server runs as, and the hooks that have policies.
    pub fn guard(&mut self, server: UserIdentity, policed: impl IntoIterator<Item = Hook>) {
        self.clients.set_server(server);
        self.gate.policed = policed.into_iter().collect();
    }

    /// Sets the hooks whose policies are shadow modules only. Their requests are decided at once,
    /// so the bounds on pending decisions do not apply.
    pub fn watch(&mut self, watched: impl IntoIterator<Item = Hook>) {
        self.gate.watched = watched.into_iter().collect();
    }

    /// Checks whether a peer may connect that runs as `identity` in these Unix groups. The targets
    /// of a tool's request are the jobs of its user.
    pub fn check_admission(
        &mut self,
        kind: ConnectionKind,
        proc: &Proc,
        (identity, groups): (UserIdentity, Arc<[UnixGroup]>),
        (peer, infos): (PeerInfo, Vec<Info>),
    ) -> AdmissionCheck {
        let about: Vec<Proc> = match kind {
            ConnectionKind::Client => vec![proc.clone()],
            ConnectionKind::Tool => {
                let own = self.clients.jobs_of(identity.uid);
                own.map(|job| Proc::all(job.spec.nspace.clone())).collect()
            }
        };
        let (hook, matter) = (Hook::Connection, PolicySubject::Connection(kind));
        let question = self.question(matter, Some(proc.clone()), Some(identity), &about);
        let request = PolicyRequest {
            groups,
            peer: Some(peer),
            infos,
            ..question
        };
        if self.gate.policed.contains(&hook) {
            let load = GateLoad {
                uid: Some(identity.uid),
                bytes: bytes_of(&request),
            };
            if self.is_full(hook, load)
                && let Verdict::Denied {
                    by,
                    status,
                    reasons,
                } = Verdict::overload()
            {
                let (requester, identity, targets) = (request.requester, request.identity, about);
                let decision = None;
                return AdmissionCheck::Shut(Denial {
                    hook,
                    requester,
                    identity,
                    targets,
                    decision,
                    by,
                    status,
                    reasons,
                });
            }
            let id = self.gate.number();
            self.gate.add(load);
            self.gate.entering.insert(id, load);
            return AdmissionCheck::Ask(id, Arc::new(request));
        }
        let default = self.settings.defaults.of(hook);
        if kind == ConnectionKind::Client && default == HookDefault::BuiltIn {
            // [`ServerState::admit`] applies the same rule in any case, with more precise errors.
            return AdmissionCheck::Open;
        }
        match policy::by_default(default, &request) {
            Verdict::Granted { .. } => AdmissionCheck::Open,
            Verdict::Denied {
                by,
                status,
                reasons,
            } => {
                let (requester, identity, targets) = (request.requester, request.identity, about);
                AdmissionCheck::Shut(Denial {
                    hook,
                    requester,
                    identity,
                    targets,
                    decision: None,
                    by,
                    status,
                    reasons,
                })
            }
        }
    }

    /// Releases the pending decision of an [`AdmissionCheck::Ask`].
    pub fn entrance_decided(&mut self, id: DecisionId) {
        if let Some(load) = self.gate.entering.remove(&id) {
            self.gate.subtract(load);
        }
    }

    /// Returns true if one more pending decision exceeds the bounds, overall or of its user. Hooks
    /// with shadow policies only are not bounded.
    fn is_full(&self, hook: Hook, GateLoad { uid, bytes }: GateLoad) -> bool {
        let StateSettings {
            max_decisions,
            max_decision_bytes,
            ..
        } = &self.settings;
        // One user may use half of the bound, so that a flood does not block other users.
        let own = self.gate.by_user.get(&uid).copied().unwrap_or_default();
        let full = self.gate.awaited() >= *max_decisions
            || own >= max_decisions.div_ceil(2)
            || self.gate.bytes.saturating_add(bytes) > *max_decision_bytes;
        full && !self.gate.watched.contains(&hook)
    }

    /// Handles a request that names other procs: carries it out, holds it for its policies, or
    /// denies it.
    pub(super) fn submit(
        &mut self,
        to: RequestId,
        source: Proc,
        named: RequestTargets,
        request: Request,
        now: MonotonicTime,
    ) -> Vec<Action> {
        let by = ControlRequester {
            to,
            requester: Some(source.clone()),
            identity: self.clients.identity_of(to.peer),
            at: now,
        };
        self.enter_as(source, by, named, request)
    }

    /// Does the same for a requester that policies see and a `source` that the host environment
    /// sees.
    pub(super) fn enter_as(
        &mut self,
        source: Proc,
        by: ControlRequester,
        named: RequestTargets,
        request: Request,
    ) -> Vec<Action> {
        let to = by.to;
        let RequestTargets { hook, procs, users } = named;
        let refusal = match request {
            Request::JobControl { .. } | Request::Monitor { .. } | Request::Query { .. } => {
                DenialReply::Infos(to)
            }
            _ => DenialReply::Status(to),
        };
        let (requester, identity) = (by.requester.clone(), by.identity);
        let asker = DenialRecipient::new(hook, Some(source.clone()), identity, refusal);
        if matches!(hook, Hook::JobControl | Hook::Monitor) && self.gate.policed.contains(&hook) {
            let matter = if hook == Hook::Monitor {
                PolicySubject::Monitor
            } else {
                PolicySubject::JobControl
            };
            let question = self.question(matter, requester, identity, &procs);
            let (infos, directives, what) = match request {
                Request::JobControl {
                    targets,
                    directives,
                } => {
                    let operation = control::operation(&self.clients, &by, &targets, &directives);
                    (
                        Vec::new(),
                        directives,
                        GatedOperation::Control {
                            by,
                            targets,
                            operation,
                        },
                    )
                }
                Request::Monitor {
                    monitor,
                    error,
                    directives,
                } => (
                    vec![monitor.clone()],
                    directives,
                    GatedOperation::Monitor {
                        to,
                        source,
                        monitor,
                        error,
                    },
                ),
                // An abort of other jobs is a termination to policies.
                request => (
                    Vec::new(),
                    vec![terminate()],
                    GatedOperation::Abort {
                        to,
                        source,
                        request,
                    },
                ),
            };
            let groups = self.clients.groups_of(to.peer);
            return self.hold_for_policies(
                PolicyRequest {
                    groups,
                    infos,
                    directives,
                    ..question
                },
                asker,
                what,
            );
        }
        let targets = if hook == Hook::Group {
            self.names().connectable(&procs)
        } else {
            self.clients.targets(&procs)
        };
        let what = RuleSubject::Others {
            hook,
            users: &users,
        };
        let case = RuleRequest {
            requester: requester.as_ref(),
            identity,
            server: self.clients.server(),
            targets: &targets,
            what,
        };
        match defaults::decide(self.settings.defaults.of(hook), &case) {
            Err(refused) => {
                if let Request::JobControl {
                    targets,
                    directives,
                } = &request
                {
                    self.controls.record_denied(
                        &self.clients,
                        &by,
                        control::operation(&self.clients, &by, targets, directives),
                        targets,
                        &refused.to_string(),
                    );
                }
                deny(asker.about(&targets), refused.into())
            }
            Ok(()) => match request {
                Request::JobControl {
                    targets,
                    directives,
                } => self.control(by, &targets, directives),
                Request::Monitor {
                    monitor,
                    error,
                    directives,
                } => {
                    let ctx = ServerContext::new(&self.clients, &self.settings);
                    self.monitors
                        .monitor(ctx, to, source, monitor, error, directives)
                }
                Request::Connect { procs, infos } => {
                    self.connect(Purpose::Connect, by, source, procs, &infos)
                }
                Request::Disconnect { procs, infos } => {
                    self.connect(Purpose::Disconnect, by, source, procs, &infos)
                }
                request => vec![Action::Upcall(Upcall::Request {
                    to,
                    source,
                    request,
                })],
            },
        }
    }

    /// Handles a log request: carries it out, holds it for its policies, or denies it.
    pub(super) fn permit_log(&mut self, to: RequestId, mut request: LogRequest) -> Vec<Action> {
        let (hook, requester, identity) = (Hook::Log, request.source.clone(), request.identity);
        let question = self.question(PolicySubject::Log, requester.clone(), identity, &[]);
        let (infos, directives) = (
            mem::take(&mut request.data),
            mem::take(&mut request.directives),
        );
        let asked = PolicyRequest {
            groups: self.clients.groups_of(to.peer),
            infos,
            directives,
            ..question
        };
        let asker = DenialRecipient::new(hook, requester, identity, DenialReply::Status(to));
        self.decide_or_hold(asked, asker, GatedOperation::Log { to, request })
    }

    /// Handles an event of a client or of a tenant's handler: distributes it, holds it for its
    /// policies, or denies it.
    pub(super) fn enter_event(
        &mut self,
        raising: RaiseRequest,
        mut event: Event,
        identity: Option<UserIdentity>,
    ) -> Vec<Action> {
        let matter = PolicySubject::Event {
            code: event.code,
            range: event.range,
        };
        let targets = event.custom_targets().unwrap_or_default();
        let question = self.question(matter, event.source.clone(), identity, &targets);
        let (refusal, groups) = match raising {
            RaiseRequest::Client(to, _) => {
                (DenialReply::Status(to), self.clients.groups_of(to.peer))
            }
            RaiseRequest::Handler(_) => (DenialReply::Silent, Arc::default()),
        };
        let request = PolicyRequest {
            groups,
            infos: mem::take(&mut event.infos),
            ..question
        };
        let asker = DenialRecipient::new(Hook::Event, event.source.clone(), identity, refusal);
        self.decide_or_hold(request, asker, GatedOperation::Event { raising, event })
    }

    pub(super) fn client_notifies(
        &mut self,
        to: RequestId,
        mut event: Event,
        now: MonotonicTime,
    ) -> Vec<Action> {
        self.names().name_members(&mut event);
        match events::check(&mut event, &self.settings) {
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
        let ctx = ServerContext::new(&self.clients, &self.settings);
        match raiser {
            RaisingOwner::Site => self.events.notify(ctx, event, allowance),
            RaisingOwner::Tenant(identity) => {
                events::check(&mut event, &self.settings)?;
                self.events.check_host_registered(&event)?;
                let raising = RaiseRequest::Handler(allowance);
                Ok(self.enter_event(raising, event, Some(identity)))
            }
        }
    }

    /// Distributes a permitted event to the procs of a user scope.
    pub(super) fn permitted(
        &mut self,
        raising: RaiseRequest,
        event: Event,
        reach: UserScope,
    ) -> Vec<Action> {
        let event = Arc::new(event);
        let ctx = ServerContext::new(&self.clients, &self.settings);
        match raising {
            RaiseRequest::Client(to, at) => {
                let heard = || {
                    self.events.check_host_registered(&event)?;
                    if self.groups.is_alone() {
                        events::check_targets_exist(&self.clients, &event, reach)
                    } else {
                        Ok(())
                    }
                };
                if !events::is_acted_on(event.code)
                    && let Err(status) = heard()
                {
                    return vec![reply(to, status)];
                }
                // Deliveries precede the reply: recipients wait for the event, and the raiser only
                // for its acknowledgement.
                let mut actions =
                    self.events
                        .distribute(ctx, event.clone(), reach, self.settings.allowance);
                actions.push(reply(to, code::PMIX_SUCCESS));
                if let (code::PMIX_JCTRL_CHECKPOINT_COMPLETE, Some(proc)) =
                    (event.code, &event.source)
                {
                    actions.extend(self.controls.checkpointed(
                        ctx,
                        &mut self.events,
                        proc,
                        &event.infos,
                    ));
                }
                actions.extend(self.group_event(&event, at));
                actions
            }
            RaiseRequest::Handler(allowance) => {
                self.events.distribute(ctx, event, reach, allowance)
            }
        }
    }

    /// Handles a registration for events: registers it or holds it for the policies of events.
    pub(super) fn enter_registration(
        &mut self,
        to: RequestId,
        source: Proc,
        codes: Vec<Status>,
        directives: Vec<Info>,
    ) -> Vec<Action> {
        let hook = Hook::Event;
        if !self.gate.policed.contains(&hook) {
            let ctx = ServerContext::new(&self.clients, &self.settings);
            return self.events.register(ctx, to, codes, &directives);
        }
        let identity = self.clients.identity_of(to.peer);
        let question = self.question(
            PolicySubject::Registration,
            Some(source.clone()),
            identity,
            &[],
        );
        let request = PolicyRequest {
            groups: self.clients.groups_of(to.peer),
            codes: codes.clone(),
            directives,
            ..question
        };
        let asker = DenialRecipient::new(hook, Some(source), identity, DenialReply::Status(to));
        self.hold_for_policies(request, asker, GatedOperation::Registration { to, codes })
    }

    /// Has a request decided by the policies of its hook or, without policies, by the default.
    pub(super) fn decide_or_hold(
        &mut self,
        request: PolicyRequest,
        asker: DenialRecipient,
        what: GatedOperation,
    ) -> Vec<Action> {
        if self.gate.policed.contains(&asker.hook) {
            return self.hold_for_policies(request, asker, what);
        }
        let verdict = policy::by_default(self.settings.defaults.of(asker.hook), &request);
        let asker = asker.about(&request.targets);
        self.conclude(
            GatedRequest {
                asker,
                bytes: 0,
                what,
            },
            verdict,
        )
    }

    pub(super) fn hold_for_policies(
        &mut self,
        request: PolicyRequest,
        asker: DenialRecipient,
        what: GatedOperation,
    ) -> Vec<Action> {
        let (bytes, asker) = (bytes_of(&request), asker.about(&request.targets));
        if self.is_full(
            asker.hook,
            GateLoad {
                uid: asker.uid(),
                bytes,
            },
        ) {
            return self.denied(asker, what, Verdict::overload());
        }
        let id = self.gate.number();
        self.gate.hold(
            id,
            GatedRequest {
                asker: DenialRecipient {
                    decision: Some(id),
                    ..asker
                },
                bytes,
                what,
            },
        );
        vec![Action::Decide {
            id,
            request: Arc::new(request),
        }]
    }

    /// Carries out or denies a held request after an [`Action::Decide`]. The requester may have
    /// left in the meantime, as for any other request.
    pub fn decided(&mut self, id: DecisionId, verdict: Verdict) -> Vec<Action> {
        let Some(held) = self.gate.release(id) else {
            return Vec::new();
        };
        self.conclude(held, verdict)
    }

    /// Denies the held requests of tools that lose their name to a job, because they would
    /// otherwise be carried out in the job's name.
    pub(super) fn deny_held(&mut self, nspace: &Nspace) -> Vec<Action> {
        let of_them = |held: &GatedRequest| {
            held.asker
                .requester
                .as_ref()
                .is_some_and(|proc| proc.nspace == *nspace)
        };
        let theirs: Vec<DecisionId> = self
            .gate
            .held
            .iter()
            .filter(|(_, held)| of_them(held))
            .map(|(id, _)| *id)
            .collect();
        let denied = theirs.into_iter().filter_map(|id| self.gate.release(id));
        denied
            .flat_map(|held| deny(held.asker, Verdict::evicted()))
            .collect()
    }

    /// Removes codes from the registrations of a client, also from those that are undecided.
    pub(super) fn deregister(&mut self, peer: PeerId, codes: Vec<Status>) -> Vec<Action> {
        let codes: BTreeSet<Status> = codes.into_iter().collect();
        // A client that withdraws an undecided registration need not wait for the decision.
        let undecided = self.remove_held_codes(peer, &codes);
        let mut actions: Vec<Action> = undecided
            .into_iter()
            .map(|to| reply(to, code::PMIX_SUCCESS))
            .collect();
        actions.extend(self.events.deregister(peer, &codes));
        actions
    }

    /// Removes codes from the undecided registrations of a connection. Returns the requests that
    /// have no code left.
    pub(super) fn remove_held_codes(
        &mut self,
        peer: PeerId,
        codes: &BTreeSet<Status>,
    ) -> Vec<RequestId> {
        let mut idle = Vec::new();
        for (id, held) in &mut self.gate.held {
            if let GatedOperation::Registration { to, codes: asked } = &mut held.what
                && to.peer == peer
                && remove_codes(asked, codes)
            {
                idle.push((*id, *to));
            }
        }
        idle.iter().for_each(|(id, _)| drop(self.gate.release(*id)));
        idle.into_iter().map(|(_, to)| to).collect()
    }

    /// Drops the undecided registrations of a connection that is no longer active.
    pub(super) fn drop_held_registrations(&mut self, peer: PeerId) {
        let theirs = |held: &GatedRequest| matches!(&held.what, GatedOperation::Registration { to, .. } if to.peer == peer);
        let theirs: Vec<DecisionId> = self
            .gate
            .held
            .iter()
            .filter(|(_, held)| theirs(held))
            .map(|(id, _)| *id)
            .collect();
        theirs
            .into_iter()
            .for_each(|id| drop(self.gate.release(id)));
    }

    fn conclude(&mut self, held: GatedRequest, verdict: Verdict) -> Vec<Action> {
        let GatedRequest { asker, what, .. } = held;
        let (by, amended, range, data, answer) = match verdict {
            Verdict::Granted {
                by,
                amended,
                range,
                data,
                answer,
            } => (by, amended, range, data, answer),
            verdict @ Verdict::Denied { .. } => {
                let mut ended = self.control_is_denied(&what, &verdict);
                ended.extend(self.denied(asker, what, verdict));
                return ended;
            }
        };
        match what {
            GatedOperation::Control { by, targets, .. } => self.control(by, &targets, amended),
            GatedOperation::Provision(id) => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.controls.provided(ctx, &mut self.events, id, answer)
            }
            GatedOperation::Abort {
                to,
                source,
                request,
            } => vec![Action::Upcall(Upcall::Request {
                to,
                source,
                request,
            })],
            GatedOperation::Monitor {
                to,
                source,
                monitor,
                error,
            } => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.monitors
                    .monitor(ctx, to, source, monitor, error, amended)
            }
            GatedOperation::Registration { to, codes } => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.events.register(ctx, to, codes, &amended)
            }
            GatedOperation::Log { to, mut request } => {
                (request.data, request.directives) = (data.unwrap_or_default(), amended);
                vec![Action::Log {
                    to: Some(to),
                    request: Arc::new(request),
                }]
            }
            GatedOperation::Event { raising, mut event } => {
                event.infos = amended;
                event.range = range.unwrap_or(event.range);
                // A policy may have amended the event so that it is invalid.
                if let Err(status) = events::check(&mut event, &self.settings) {
                    let reasons = vec![policy::reason(
                        "the event as amended by a policy is invalid",
                    )];
                    return deny(
                        DenialRecipient {
                            decision: None,
                            ..asker
                        },
                        Verdict::Denied {
                            by,
                            status,
                            reasons,
                        },
                    );
                }
                let reach = match (by, self.settings.defaults.of(Hook::Event)) {
                    (DecidedBy::Default, HookDefault::BuiltIn) => UserScope::of(asker.identity),
                    _ => UserScope::Everybody,
                };
                self.enter_invitation(raising, event, reach, asker.identity)
            }
            GatedOperation::Group(asked) => self.grouped(asked, amended),
            GatedOperation::Spawn(spawning) => vec![spawning.granted(amended)],
            // The event policies have decided about its infos already.
            GatedOperation::Invitation {
                raising,
                event,
                reach,
            } => self.permitted(raising, event, reach),
        }
    }

    /// Records the denial of a job-control or provision request.
    fn control_is_denied(&mut self, what: &GatedOperation, verdict: &Verdict) -> Vec<Action> {
        let Verdict::Denied {
            reasons, status, ..
        } = verdict
        else {
            return Vec::new();
        };
        match what {
            GatedOperation::Control {
                by,
                targets,
                operation,
            } => {
                let words: Vec<&str> = reasons
                    .iter()
                    .filter_map(|info| info.value.as_str())
                    .collect();
                self.controls.record_denied(
                    &self.clients,
                    by,
                    operation.clone(),
                    targets,
                    &words.join("; "),
                );
                Vec::new()
            }
            GatedOperation::Provision(id) => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.controls
                    .not_provided(ctx, &mut self.events, *id, *status, reasons)
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn question(
        &self,
        matter: PolicySubject,
        requester: Option<Proc>,
        identity: Option<UserIdentity>,
        procs: &[Proc],
    ) -> PolicyRequest {
        let (server, targets) = (self.clients.server(), self.clients.targets(procs));
        PolicyRequest {
            matter,
            requester,
            identity,
            groups: Arc::default(),
            server,
            peer: None,
            targets,
            codes: Vec::new(),
            provision: None,
            group_name: None,
            applications: Vec::new(),
            infos: Vec::new(),
            directives: Vec::new(),
        }
    }
}

fn terminate() -> Info {
    Info::new(key::PMIX_JOB_CTRL_TERMINATE, Value::Bool(true))
}
