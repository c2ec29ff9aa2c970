//! Decisions of policies: components that grant or deny requests, one chain for each hook.
//!
//! Every hook with policies has a worker with a bounded queue. It submits one request after the
//! other and takes users in turn. Requests of one user keep their order, and so do the events of one
//! source. A whole chain runs in one hand-over to a guest thread of the policies.

mod queue;
mod worker;

use crate::{
    handle::ServerHandle,
    metrics::{Metrics, RoleMeters},
    notice::Notices,
    shadow::Shadows,
};
use peal_audit::AuditTrail;
use peal_core::{
    decision_limits::DecisionLimits,
    defaults::HookDefault,
    owner::Owner,
    policy::{DecidedBy, DeniedVerdict, OnFailure, PolicyChain, Verdict},
    registration::{ChainPlacement, Mode, RegistrationError},
    server::{DecisionId, Denial},
};
use peal_model::{Hook, PolicyRequest};
use peal_sandbox::{GuestPool, Module, Role};
use peal_store::TraceRateLimit;
use queue::{DecisionQueue, DecisionSender};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};
use thiserror::Error;
use tokio::{sync::watch, task::JoinSet};
use tracing::Span;
use worker::PolicyWorker;

/// Minimum interval between two log lines about denials.
const BETWEEN_DENIALS: Duration = Duration::from_millis(100);

/// Policy module, active or shadow.
#[derive(Clone, Debug)]
pub struct HostedPolicy {
    /// The module.
    pub module: Arc<Module>,
    /// Active or shadow.
    pub mode: Mode,
}

impl From<Arc<Module>> for HostedPolicy {
    /// Returns an active policy.
    fn from(module: Arc<Module>) -> HostedPolicy {
        HostedPolicy {
            module,
            mode: Mode::Active,
        }
    }
}

/// Policies of one server, before it starts.
#[derive(Default)]
pub struct HostedPolicies {
    hooks: BTreeMap<Hook, PolicyChain<HostedPolicy>>,
}

/// Error of the registration of a policy.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// The server does not call policies for this hook yet.
    #[error("hook {0} calls no policies; these hooks do: {hooks}", hooks = policed_hooks())]
    NoPolicies(Hook),
    /// The requested placement is not possible.
    #[error(transparent)]
    Place(#[from] RegistrationError),
}

/// Returns the names of the hooks that call policies.
fn policed_hooks() -> String {
    let hooks = Hook::ALL.into_iter().filter(|hook| hook.role().is_some());
    hooks.map(Hook::name).collect::<Vec<_>>().join(", ")
}

impl HostedPolicies {
    /// Adds a module to the policies of a hook. Requesters receive the name if the policy denies.
    pub fn register(
        &mut self,
        hook: Hook,
        name: &str,
        place: ChainPlacement,
        on_failure: OnFailure,
        policy: impl Into<HostedPolicy>,
    ) -> Result<(), PolicyError> {
        if Role::policy(hook).is_none() {
            return Err(PolicyError::NoPolicies(hook));
        }
        let policy = policy.into();
        Ok(self.hooks.entry(hook).or_default().register(
            name,
            (place, policy.mode),
            on_failure,
            policy,
        )?)
    }
}

/// Request that is to be decided.
struct DecisionRequest {
    id: DecisionId,
    request: Arc<PolicyRequest>,
    /// Built-in rule that decides if all policies pass.
    default: HookDefault,
    /// Time of the request, if its decision is measured.
    measured_since: Option<SystemTime>,
    /// Span of the decision, inside the span of the request.
    span: Span,
}

/// Parts of the server that are told about decisions.
#[derive(Clone)]
pub(crate) struct DecisionObservers {
    /// Metrics.
    pub(crate) metrics: Arc<Metrics>,
    /// Shadow modules.
    pub(crate) shadows: Shadows,
    /// Audit trail, if there is one.
    pub(crate) audit: Option<AuditTrail>,
    /// Notices for listeners.
    pub(crate) notices: Notices,
}

/// Policies of a hook and their meters.
struct HookPolicies {
    chain: PolicyChain<HostedPolicy>,
    /// True if at least one policy is active.
    decides: bool,
    meters: Arc<RoleMeters>,
}

impl HookPolicies {
    fn new(hook: Hook, chain: PolicyChain<HostedPolicy>, metrics: &Metrics) -> HookPolicies {
        let role = Role::policy(hook).map_or("policy", Role::name);
        let meters = metrics.modules(
            &Owner::Site,
            role,
            chain.iter().map(|policy| policy.module.name()),
        );
        let decides = chain.iter().any(|policy| policy.mode == Mode::Active);
        HookPolicies {
            chain,
            decides,
            meters,
        }
    }
}

/// Handle of the worker of a hook.
struct HookWorkerHandle {
    requests: DecisionSender,
    panel: watch::Sender<Arc<HookPolicies>>,
    /// True if a policy is or was active. Requests may still wait for the worker then, and later
    /// ones must not overtake them.
    decides: bool,
}

/// Running policies.
pub(crate) struct Decisions {
    hook_workers: BTreeMap<Hook, HookWorkerHandle>,
    workers: JoinSet<()>,
    pool: Arc<GuestPool>,
    limits: DecisionLimits,
    handle: ServerHandle,
    observers: DecisionObservers,
    denials: TraceRateLimit,
}

impl Decisions {
    /// Starts a worker for each hook, with a queue within these limits. The verdicts go to `handle`.
    pub(crate) fn start(
        hosted: HostedPolicies,
        pool: &Arc<GuestPool>,
        limits: DecisionLimits,
        handle: &ServerHandle,
        observers: DecisionObservers,
    ) -> Decisions {
        let mut decisions = Decisions {
            hook_workers: BTreeMap::new(),
            workers: JoinSet::new(),
            pool: pool.clone(),
            limits,
            handle: handle.clone(),
            observers,
            denials: TraceRateLimit::new(BETWEEN_DENIALS),
        };
        decisions.replace(hosted);
        decisions
    }

    /// Replaces the policies. A request that is being decided is finished by the previous ones.
    pub(crate) fn replace(&mut self, mut hosted: HostedPolicies) {
        // A hook keeps its worker without policies, since requests may still wait for it.
        for (hook, entry) in &mut self.hook_workers {
            let chain = hosted.hooks.remove(hook).unwrap_or_default();
            let panel = HookPolicies::new(*hook, chain, &self.observers.metrics);
            // Once true, this stays true: later requests must not overtake waiting ones.
            entry.decides |= panel.decides;
            entry.panel.send_replace(Arc::new(panel));
        }
        for (hook, chain) in hosted.hooks {
            let panel = HookPolicies::new(hook, chain, &self.observers.metrics);
            let decides = panel.decides;
            let (panel, seated) = watch::channel(Arc::new(panel));
            let (requests, queue) = DecisionQueue::new(self.limits);
            let pool = self.pool.clone();
            let handle = self.handle.clone();
            let observers = self.observers.clone();
            self.workers.spawn(
                PolicyWorker {
                    panel: seated,
                    pool,
                    handle,
                    observers,
                }
                .run(queue),
            );
            self.hook_workers.insert(
                hook,
                HookWorkerHandle {
                    requests,
                    panel,
                    decides,
                },
            );
        }
    }

    /// Returns the hooks that have or had policies.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = Hook> {
        self.hook_workers.keys().copied()
    }

    /// Returns the hooks whose policies are all shadow modules.
    pub(crate) fn watched(&self) -> impl Iterator<Item = Hook> {
        self.hook_workers
            .iter()
            .filter(|(_, entry)| !entry.decides)
            .map(|(hook, _)| *hook)
    }

    /// Submits a request to the policies of a hook. Returns the verdict if it is known at once: if
    /// no policy is active, the built-in rule decides; if too many requests wait, the request is
    /// denied.
    pub(crate) fn request(
        &self,
        id: DecisionId,
        request: Arc<PolicyRequest>,
        default: HookDefault,
    ) -> Option<Verdict> {
        let hook = request.subject.hook();
        let span = tracing::info_span!("decision", number = id.number(), %hook).or_current();
        let Some(entry) = self.hook_workers.get(&hook) else {
            return Some(Verdict::Denied(DeniedVerdict::unavailable()));
        };
        if !entry.decides {
            let _entered = span.enter();
            let panel = entry.panel.borrow().clone();
            return Some(worker::by_default(
                &panel,
                request,
                default,
                &self.observers,
            ));
        }
        let queued = entry.requests.send(DecisionRequest {
            id,
            request,
            default,
            measured_since: self.observers.notices.takes_sample().then(SystemTime::now),
            span,
        });
        queued
            .err()
            .map(|limit| Verdict::Denied(DeniedVerdict::overload(limit)))
    }

    /// Counts and records a denial. A denied requester can repeat its request without limit, so not
    /// every denial is logged as a warning.
    pub(crate) fn denied(&self, denial: Denial) {
        let DecisionObservers { metrics, audit, .. } = &self.observers;
        metrics.counters().requests_denied.count();
        if let (DecidedBy::Overload(limit), Some(identity)) = (&denial.by, denial.identity) {
            metrics.refuse(identity.uid, limit.quota());
        }
        if let (Some(audit), false) = (audit, self.is_recorded(&denial)) {
            audit.refuse(denial_entry(&denial));
        }
        match self.denials.allow(Instant::now()) {
            Some(left_out) => tracing::warn!(%denial, left_out, "request denied"),
            None => tracing::debug!(%denial, "request denied"),
        }
        metrics.activity().record_denial(denial);
    }

    /// Returns true if the audit trail contains the decision that led to the denial.
    fn is_recorded(&self, denial: &Denial) -> bool {
        let is_concluded = match denial.by {
            DecidedBy::Policy(_) | DecidedBy::Default => true,
            // The worker recorded the withdrawal, unless the trail still cannot be written.
            DecidedBy::Unrecorded => self
                .observers
                .audit
                .as_ref()
                .is_some_and(|audit| audit.failure().is_none()),
            DecidedBy::Overload(_) | DecidedBy::Unavailable | DecidedBy::Eviction => false,
        };
        denial.decision.is_some()
            && is_concluded
            && self
                .hook_workers
                .get(&denial.hook)
                .is_some_and(|entry| entry.decides)
    }

    /// Waits until the submitted requests are decided and the modules have stopped, at most the
    /// timeout.
    pub(crate) async fn drain(mut self, timeout: Duration) {
        // Dropping the senders ends the workers after their queues.
        self.hook_workers.clear();
        let all = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(timeout, all).await.is_err() {
            tracing::error!(after = ?timeout, "policies not drained in time");
        }
    }
}

/// Converts a denial to an entry of the audit trail.
fn denial_entry(denial: &Denial) -> peal_audit::AdmissionDenial {
    let Denial {
        hook,
        requester,
        identity,
        targets,
        by,
        status,
        reasons,
        ..
    } = denial;
    peal_audit::AdmissionDenial {
        uid: identity.map(|identity| identity.uid),
        job: requester
            .as_ref()
            .map(|proc| proc.nspace.as_str().to_owned()),
        reason: peal_audit::reasons(reasons),
        hook: Some(hook.name().to_owned()),
        by: Some(by.to_string()),
        status: Some(*status),
        targets: targets.clone(),
        from: None,
        cause: None,
    }
}
