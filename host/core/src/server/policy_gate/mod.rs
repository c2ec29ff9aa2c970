//! The policy gate. A request that names other procs, an event or a connection has no effect until
//! the policies of its hook have decided. A hook without policies is decided by its default at
//! once.
mod denial;
mod events;
mod groups;
mod held;
mod job_control;
mod request_targets;
mod weight;

pub use self::denial::Denial;
use self::{
    denial::{DenialRecipient, DenialReply, deny},
    held::{GateLoad, GatedOperation, GatedRequest, GatedSpawn},
    weight::bytes_of,
};
pub(super) use self::{
    groups::{is_formed, named_in},
    held::{Gate, GatedRequester},
    request_targets::{RequestTargets, targets_of},
};
use super::{
    Action, Purpose, RequestId, ServerContext, ServerState, Upcall,
    control::{self, ControlRequester},
    events::check,
};
use crate::{
    MonotonicTime,
    defaults::{self, HookDefault, RuleRequest},
    job_control::ExtendedDirectives,
    policy::{self, DecidedBy, DeniedVerdict, Verdict},
    user_scope::UserScope,
};
use peal_model::{
    App, Application, BuiltInRule, ConnectionKind, ConnectionSubject, ControlExtent, Hook, Info,
    JobControlSubject, LogRequest, LogSubject, MonitorSubject, Nspace, PeerInfo, PolicyRequest,
    PolicySubject, Proc, Request, SpawnSubject, UnixGroup, UserIdentity, Value, key,
};
use serde::{Deserialize, Serialize};
use std::{mem, sync::Arc};

/// Identifier of a pending decision; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
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
    Granted,
    /// The connection is denied.
    Denied(Denial),
    /// The policies must be called. The caller passes the decision's identifier to
    /// [`ServerState::entrance_decided`].
    Undecided(DecisionId, Arc<PolicyRequest>),
}

// The gate resumes any request after its decision: events, groups, job control, monitors,
// registrations, logs and spawns. Its functions therefore need all parts and are on
// `ServerState`; `Gate` stores and counts what is held.
impl ServerState {
    /// Sets the user that the server runs as, and the hooks that have policies.
    pub fn guard(&mut self, server: UserIdentity, policed: impl IntoIterator<Item = Hook>) {
        self.clients.set_server(server);
        self.events.set_server(server.uid);
        self.publications.set_server(server.uid);
        self.gate.set_policed(policed.into_iter().collect());
    }

    /// Sets the hooks whose policies are shadow modules only. Their requests are decided at once,
    /// so the bounds on pending decisions do not apply.
    pub fn watch(&mut self, watched: impl IntoIterator<Item = Hook>) {
        self.gate.set_watched(watched.into_iter().collect());
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
        let hook = Hook::Connection;
        let subject = PolicySubject::Connection(ConnectionSubject { kind, peer, infos });
        let requester = GatedRequester {
            proc: Some(proc.clone()),
            identity: Some(identity),
            groups,
        };
        let request = self.policy_request(subject, requester, &about);
        let denial = |verdict| {
            // The caller refuses the handshake, so no reply is made here.
            let recipient = DenialRecipient::of(&request, DenialReply::Silent);
            AdmissionCheck::Denied(recipient.about(&request.targets).denial(verdict))
        };
        if self.gate.is_policed(hook) {
            let load = GateLoad {
                uid: Some(identity.uid),
                bytes: bytes_of(&request),
            };
            let limits = &self.settings.decisions;
            if let Err(limit) = self.gate.check(limits, hook, load, &self.clients) {
                return denial(DeniedVerdict::overload(limit));
            }
            return AdmissionCheck::Undecided(self.gate.hold_admission(load), Arc::new(request));
        }
        let default = self.settings.defaults.of(hook);
        if kind == ConnectionKind::Client && default == HookDefault::BuiltIn {
            // [`ServerState::admit`] applies the same rule in any case, with more precise errors.
            return AdmissionCheck::Granted;
        }
        match policy::by_default(default, &request) {
            Verdict::Granted { .. } => AdmissionCheck::Granted,
            Verdict::Denied(verdict) => denial(verdict),
        }
    }

    /// Releases the pending decision of an [`AdmissionCheck::Undecided`].
    pub fn entrance_decided(&mut self, id: DecisionId) {
        self.gate.release_admission(id);
    }

    /// Handles a request that names other procs: carries it out, holds it for its policies, or
    /// denies it.
    pub(in crate::server) fn submit(
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
    pub(in crate::server) fn enter_as(
        &mut self,
        source: Proc,
        by: ControlRequester,
        named: RequestTargets,
        request: Request,
    ) -> Vec<Action> {
        let to = by.to;
        let RequestTargets { hook, procs, users } = named;
        // The replies to these requests have infos, which carry the reasons of a denial.
        let reply = match request {
            Request::JobControl { .. } | Request::Monitor { .. } | Request::Query { .. } => {
                DenialReply::Infos(to)
            }
            _ => DenialReply::Status(to),
        };
        let requester = by.requester.clone();
        let identity = by.identity;
        let recipient = DenialRecipient::new(hook, Some(source.clone()), identity, reply);
        // The other requests here are decided by the defaults alone.
        if matches!(hook, Hook::JobControl | Hook::Monitor) && self.gate.is_policed(hook) {
            let (subject, operation) = match request {
                Request::JobControl {
                    targets,
                    directives,
                } => {
                    // Policies amend the directives that are checked; the extent stays.
                    let ExtendedDirectives { extent, directives } = directives.into();
                    let operation = control::operation(&self.clients, &by, &targets, &directives);
                    (
                        PolicySubject::JobControl(JobControlSubject { directives, extent }),
                        GatedOperation::Control {
                            by,
                            targets,
                            extent,
                            operation,
                        },
                    )
                }
                Request::Monitor {
                    monitor,
                    error,
                    directives,
                } => (
                    PolicySubject::Monitor(MonitorSubject {
                        monitor: monitor.clone(),
                        directives,
                    }),
                    GatedOperation::Monitor {
                        to,
                        source,
                        monitor,
                        error,
                    },
                ),
                // An abort of other jobs is a termination to policies.
                request => (
                    PolicySubject::JobControl(JobControlSubject {
                        directives: vec![terminate()],
                        ..JobControlSubject::default()
                    }),
                    GatedOperation::Abort {
                        to,
                        source,
                        request,
                    },
                ),
            };
            let requester = GatedRequester {
                proc: requester,
                identity,
                groups: self.clients.groups_of(to.peer),
            };
            let request = self.policy_request(subject, requester, &procs);
            return self.hold_for_policies(request, recipient, operation);
        }
        let targets = if hook == Hook::Group {
            self.names().connectable(&procs)
        } else {
            self.clients.targets(&procs)
        };
        let rule = if hook == Hook::Query {
            BuiltInRule::OwnTargetsOrRoot
        } else {
            BuiltInRule::OwnTargets { users: &users }
        };
        let case = RuleRequest {
            requester: requester.as_ref(),
            identity,
            server: self.clients.server(),
            targets: &targets,
            hook,
            rule,
        };
        match defaults::decide(self.settings.defaults.of(hook), &case) {
            // The ledger shows denied requests to their requesters, too.
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
                deny(recipient.about(&targets), refused.into())
            }
            Ok(()) => match request {
                Request::JobControl {
                    targets,
                    directives,
                } => self.control(by, &targets, directives.into()),
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
                // The host environment carries out all others.
                request => vec![Action::Upcall(Upcall::Request {
                    to,
                    source,
                    request,
                })],
            },
        }
    }

    /// Submits a client's log request to the log policies. A timestamp of zero is none.
    pub(in crate::server) fn log(
        &mut self,
        to: RequestId,
        source: Proc,
        timestamp: u64,
        mut data: Vec<Info>,
        mut directives: Vec<Info>,
    ) -> Vec<Action> {
        // Clients must not claim another source.
        for infos in [&mut data, &mut directives] {
            infos.retain(|info| info.key != key::PMIX_LOG_SOURCE);
        }
        let timestamp = Some(timestamp).filter(|seconds| *seconds > 0);
        let identity = self.clients.identity_of(to.peer);
        self.permit_log(
            to,
            LogRequest {
                source: Some(source),
                identity,
                timestamp,
                data,
                directives,
            },
        )
    }

    /// Handles a log request: carries it out, holds it for its policies, or denies it.
    pub(in crate::server) fn permit_log(
        &mut self,
        to: RequestId,
        mut request: LogRequest,
    ) -> Vec<Action> {
        // The subject holds the only copy. A grant returns it, with the amendments.
        let subject = PolicySubject::Log(LogSubject {
            data: mem::take(&mut request.data),
            directives: mem::take(&mut request.directives),
        });
        let gated = GatedRequester {
            proc: request.source.clone(),
            identity: request.identity,
            groups: self.clients.groups_of(to.peer),
        };
        let gated = self.policy_request(subject, gated, &[]);
        let recipient = DenialRecipient::of(&gated, DenialReply::Status(to));
        self.decide_or_hold(gated, recipient, GatedOperation::Log { to, request })
    }

    /// Handles a spawn request: carries it out, holds it for its policies, or denies it.
    pub(in crate::server) fn enter_spawn(
        &mut self,
        to: RequestId,
        source: Proc,
        directives: Vec<Info>,
        apps: Vec<App>,
    ) -> Vec<Action> {
        let infos: Vec<Info> = apps.iter().flat_map(|app| &app.infos).cloned().collect();
        let procs = started_for(&directives, &infos);
        let subject = PolicySubject::Spawn(SpawnSubject {
            applications: apps.iter().map(Application::from).collect(),
            infos,
            directives,
        });
        let gated = GatedRequester {
            proc: Some(source.clone()),
            identity: self.clients.identity_of(to.peer),
            groups: self.clients.groups_of(to.peer),
        };
        let request = self.policy_request(subject, gated, &procs);
        let recipient = DenialRecipient::of(&request, DenialReply::Spawned(to));
        self.decide_or_hold(
            request,
            recipient,
            GatedOperation::Spawn(GatedSpawn { to, source, apps }),
        )
    }

    /// Returns a request as its policies see it. It concerns `procs`.
    pub(super) fn policy_request(
        &self,
        subject: PolicySubject,
        requester: GatedRequester,
        procs: &[Proc],
    ) -> PolicyRequest {
        let GatedRequester {
            proc,
            identity,
            groups,
        } = requester;
        PolicyRequest {
            subject,
            requester: proc,
            identity,
            groups,
            server: self.clients.server(),
            targets: self.clients.targets(procs),
        }
    }

    /// Has a request decided by the policies of its hook or, without policies, by the default.
    fn decide_or_hold(
        &mut self,
        request: PolicyRequest,
        recipient: DenialRecipient,
        operation: GatedOperation,
    ) -> Vec<Action> {
        if self.gate.is_policed(recipient.hook) {
            return self.hold_for_policies(request, recipient, operation);
        }
        let verdict = policy::by_default(self.settings.defaults.of(recipient.hook), &request);
        let recipient = recipient.about(&request.targets);
        self.conclude(
            GatedRequest {
                recipient,
                // It was never held, so it uses no memory of the gate.
                bytes: 0,
                operation,
            },
            verdict,
        )
    }

    fn hold_for_policies(
        &mut self,
        request: PolicyRequest,
        recipient: DenialRecipient,
        operation: GatedOperation,
    ) -> Vec<Action> {
        let bytes = bytes_of(&request);
        let recipient = recipient.about(&request.targets);
        // A held request uses memory, so requests beyond the limits are denied at once.
        let load = GateLoad {
            uid: recipient.uid(),
            bytes,
        };
        let limits = &self.settings.decisions;
        if let Err(limit) = self.gate.check(limits, recipient.hook, load, &self.clients) {
            return self.denied(recipient, operation, DeniedVerdict::overload(limit));
        }
        let id = self.gate.hold(recipient, bytes, operation);
        vec![Action::Decide {
            id,
            request: Arc::new(request),
        }]
    }

    /// Carries out or denies a held request after an [`Action::Decide`]. The requester may have
    /// left in the meantime, as for any other request.
    pub fn decided(&mut self, id: DecisionId, verdict: Verdict) -> Vec<Action> {
        let Some(held) = self.gate.release(id) else {
            // The request was withdrawn, or its connection removed, while the policies decided.
            return Vec::new();
        };
        self.conclude(held, verdict)
    }

    /// Denies the held requests of tools that lose their name to a job, because they would
    /// otherwise be carried out in the job's name.
    pub(in crate::server) fn deny_held(&mut self, nspace: &Nspace) -> Vec<Action> {
        let denied = self.gate.release_of(nspace).into_iter();
        denied
            .flat_map(|held| deny(held.recipient, DeniedVerdict::evicted()))
            .collect()
    }

    fn conclude(&mut self, held: GatedRequest, verdict: Verdict) -> Vec<Action> {
        let GatedRequest {
            recipient,
            operation,
            ..
        } = held;
        let (by, amended, range, data, answer) = match verdict {
            Verdict::Granted {
                by,
                amended,
                range,
                data,
                answer,
            } => (by, amended, range, data, answer),
            Verdict::Denied(verdict) => {
                let mut ended = self.control_is_denied(&operation, &verdict);
                ended.extend(self.denied(recipient, operation, verdict));
                return ended;
            }
        };
        match operation {
            GatedOperation::Control {
                by,
                targets,
                extent,
                ..
            } => {
                let directives = ExtendedDirectives {
                    extent,
                    directives: amended,
                };
                self.control(by, &targets, directives)
            }
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
                if let Err(status) = check(&mut event, &self.settings) {
                    let reasons = vec![policy::reason(
                        "the event as amended by a policy is invalid",
                    )];
                    return deny(
                        DenialRecipient {
                            // The policies granted the event, so no decision of theirs is the
                            // denial.
                            decision: None,
                            ..recipient
                        },
                        DeniedVerdict {
                            by,
                            status,
                            reasons,
                        },
                    );
                }
                // An event that only the built-in rule granted stays with the user of its source.
                let reach = match (by, self.settings.defaults.of(Hook::Event)) {
                    (DecidedBy::Default, HookDefault::BuiltIn) => UserScope::of(recipient.identity),
                    _ => UserScope::Everybody,
                };
                self.enter_invitation(raising, event, reach, recipient.identity)
            }
            GatedOperation::Group(call) => self.grouped(call, amended),
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
    fn control_is_denied(
        &mut self,
        operation: &GatedOperation,
        verdict: &DeniedVerdict,
    ) -> Vec<Action> {
        let DeniedVerdict {
            reasons, status, ..
        } = verdict;
        match operation {
            // The ledger keeps no requests that are only checked.
            GatedOperation::Control {
                extent: ControlExtent::Check,
                ..
            } => Vec::new(),
            GatedOperation::Control {
                by,
                targets,
                operation,
                extent: ControlExtent::Full,
            } => {
                let reasons: Vec<&str> = reasons
                    .iter()
                    .filter_map(|info| info.value.as_str())
                    .collect();
                self.controls.record_denied(
                    &self.clients,
                    by,
                    operation.clone(),
                    targets,
                    &reasons.join("; "),
                );
                Vec::new()
            }
            GatedOperation::Provision(id) => {
                let ctx = ServerContext::new(&self.clients, &self.settings);
                self.controls
                    .not_provided(ctx, &mut self.events, *id, *status, reasons)
            }
            // The ledger has requests of job control only.
            _ => Vec::new(),
        }
    }
}

fn terminate() -> Info {
    Info::new(key::PMIX_JOB_CTRL_TERMINATE, Value::Bool(true))
}

/// Returns the procs on whose behalf the job is started, where infos name any.
fn started_for(directives: &[Info], infos: &[Info]) -> Vec<Proc> {
    let naming = [key::PMIX_PARENT_ID, key::PMIX_REQUESTOR];
    let named = directives
        .iter()
        .chain(infos)
        .filter(|info| naming.iter().any(|key| info.key == *key));
    named
        .filter_map(|info| info.value.as_procs())
        .flatten()
        .collect()
}
