//! Decisions: the components that say who may do what, one chain of policies per hook.
//!
//! Every hook that has policies has a worker with a bounded queue, which asks about one request after the other, so that
//! the events of one source keep their order. A whole chain runs in one hand-over to the site's guest threads.

mod worker;

use crate::{
    handle::ServerHandle,
    metrics::{Metrics, RoleMeters},
    shadow::Shadows,
};
use peal_audit::AuditTrail;
use peal_core::{
    defaults::HookDefault,
    owner::Owner,
    policy::{DecidedBy, OnFailure, PolicyChain, Verdict},
    registration::{ChainPlacement, Mode, RegistrationError},
    server::{DecisionId, Denial},
};
use peal_model::{Hook, PolicyRequest};
use peal_sandbox::{GuestPool, Module, Role};
use peal_store::TraceRateLimit;
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tracing::Span;
use worker::PolicyWorker;

/// The least time between two lines on denials.
const BETWEEN_DENIALS: Duration = Duration::from_millis(100);

/// A module that decides, or would.
#[derive(Clone, Debug)]
pub struct HostedPolicy {
    /// The module.
    pub module: Arc<Module>,
    /// Whether it takes part.
    pub mode: Mode,
}

impl From<Arc<Module>> for HostedPolicy {
    /// A module that takes part.
    fn from(module: Arc<Module>) -> HostedPolicy {
        HostedPolicy {
            module,
            mode: Mode::Active,
        }
    }
}

/// The policies of one server, before it starts.
#[derive(Default)]
pub struct HostedPolicies {
    hooks: BTreeMap<Hook, PolicyChain<HostedPolicy>>,
}

/// Why a policy cannot be registered.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// Nobody asks policies there yet.
    #[error(
        "policies for {0} are not asked yet; those for connection, event, job-control, monitor, provision and log are"
    )]
    NotAsked(Hook),
    /// It cannot stand where it wants to.
    #[error(transparent)]
    Place(#[from] RegistrationError),
}

impl HostedPolicies {
    /// Adds a module to the policies of a hook, under the name that requesters are told when it denies.
    pub fn register(
        &mut self,
        hook: Hook,
        name: &str,
        place: ChainPlacement,
        on_failure: OnFailure,
        policy: impl Into<HostedPolicy>,
    ) -> Result<(), PolicyError> {
        if Role::policy(hook).is_none() {
            return Err(PolicyError::NotAsked(hook));
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

/// What is to be decided.
struct DecisionRequest {
    id: DecisionId,
    request: Arc<PolicyRequest>,
    /// What holds if all policies pass.
    default: HookDefault,
    /// The span of the decision, within that of the request.
    span: Span,
}

/// The policies of a hook, and what measures them.
struct HookPolicies {
    chain: PolicyChain<HostedPolicy>,
    /// Whether any of them takes part.
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

/// How the worker of a hook is reached.
struct HookWorkerHandle {
    ask: mpsc::Sender<DecisionRequest>,
    panel: watch::Sender<Arc<HookPolicies>>,
    /// Whether any policy takes part, or did: requests may wait for its worker, and must not be overtaken.
    decides: bool,
}

/// The running policies.
pub(crate) struct Decisions {
    seats: BTreeMap<Hook, HookWorkerHandle>,
    workers: JoinSet<()>,
    pool: Arc<GuestPool>,
    queue: usize,
    handle: ServerHandle,
    metrics: Arc<Metrics>,
    shadows: Shadows,
    audit: Option<AuditTrail>,
    denials: TraceRateLimit,
}

impl Decisions {
    /// Starts a worker per hook; at most so many requests wait for each. What they conclude goes to `handle`.
    pub(crate) fn start(
        hosted: HostedPolicies,
        pool: &Arc<GuestPool>,
        queue: usize,
        handle: &ServerHandle,
        metrics: &Arc<Metrics>,
        shadows: &Shadows,
        audit: Option<AuditTrail>,
    ) -> Decisions {
        let mut decisions = Decisions {
            seats: BTreeMap::new(),
            workers: JoinSet::new(),
            pool: pool.clone(),
            queue: queue.max(1),
            handle: handle.clone(),
            metrics: metrics.clone(),
            shadows: shadows.clone(),
            audit,
            denials: TraceRateLimit::new(BETWEEN_DENIALS),
        };
        decisions.replace(hosted);
        decisions
    }

    /// Puts these in the place of those there are. A request that is being decided about is decided about by those who began.
    pub(crate) fn replace(&mut self, mut hosted: HostedPolicies) {
        for (hook, seat) in &mut self.seats {
            let chain = hosted.hooks.remove(hook).unwrap_or_default();
            let panel = HookPolicies::new(*hook, chain, &self.metrics);
            seat.decides |= panel.decides;
            seat.panel.send_replace(Arc::new(panel));
        }
        for (hook, chain) in hosted.hooks {
            let panel = HookPolicies::new(hook, chain, &self.metrics);
            let decides = panel.decides;
            let (panel, seated) = watch::channel(Arc::new(panel));
            let (ask, asked) = mpsc::channel(self.queue);
            let (pool, handle) = (self.pool.clone(), self.handle.clone());
            let (metrics, shadows, audit) = (
                self.metrics.clone(),
                self.shadows.clone(),
                self.audit.clone(),
            );
            self.workers.spawn(
                PolicyWorker {
                    panel: seated,
                    pool,
                    handle,
                    metrics,
                    shadows,
                    audit,
                }
                .run(asked),
            );
            self.seats.insert(
                hook,
                HookWorkerHandle {
                    ask,
                    panel,
                    decides,
                },
            );
        }
    }

    /// The hooks that have policies, or had some.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = Hook> {
        self.seats.keys().copied()
    }

    /// Those of them whose policies only look on.
    pub(crate) fn watched(&self) -> impl Iterator<Item = Hook> {
        self.seats
            .iter()
            .filter(|(_, seat)| !seat.decides)
            .map(|(hook, _)| *hook)
    }

    /// Asks the policies of a hook, whose default this is. What is decided already: the default decides at once where all only
    /// look on, and if too many wait for those that take part, the answer is no.
    pub(crate) fn ask(
        &self,
        id: DecisionId,
        request: Arc<PolicyRequest>,
        default: HookDefault,
    ) -> Option<Verdict> {
        let hook = request.matter.hook();
        let span = tracing::info_span!("decision", number = id.number(), %hook);
        let Some(seat) = self.seats.get(&hook) else {
            return Some(Verdict::overload());
        };
        if !seat.decides {
            let _entered = span.enter();
            let panel = seat.panel.borrow().clone();
            return Some(worker::by_default(
                &panel,
                request,
                default,
                &self.metrics,
                &self.shadows,
            ));
        }
        seat.ask
            .try_send(DecisionRequest {
                id,
                request,
                default,
                span,
            })
            .is_err()
            .then(Verdict::overload)
    }

    /// Counts a denial and writes it down. Whoever is denied can ask again as often as they like, so not every one is worth
    /// a line of its own.
    pub(crate) fn denied(&self, denial: &Denial) {
        self.metrics.counters().requests_denied.count();
        if let (Some(audit), false) = (&self.audit, self.is_recorded(denial)) {
            audit.refuse(denied(denial));
        }
        match self.denials.allow(Instant::now()) {
            Some(left_out) => tracing::warn!(%denial, left_out, "a request is denied"),
            None => tracing::debug!(%denial, "a request is denied"),
        }
    }

    /// Whether the decision that led to a denial is on record as that.
    fn is_recorded(&self, denial: &Denial) -> bool {
        let is_concluded = match denial.by {
            DecidedBy::Policy(_) | DecidedBy::Default => true,
            // It was withdrawn and written, unless the trail still cannot be written.
            DecidedBy::Unrecorded => self
                .audit
                .as_ref()
                .is_some_and(|audit| audit.failure().is_none()),
            DecidedBy::Overload | DecidedBy::Eviction => false,
        };
        denial.decision.is_some()
            && is_concluded
            && self
                .seats
                .get(&denial.hook)
                .is_some_and(|seat| seat.decides)
    }

    /// Waits until what was asked is decided and the modules have stopped, but no longer than may be.
    pub(crate) async fn drain(mut self, timeout: Duration) {
        self.seats.clear();
        let all = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(timeout, all).await.is_err() {
            tracing::error!(after = ?timeout, "policies do not come to an end");
        }
    }
}

/// A denial as it is recorded.
fn denied(denial: &Denial) -> peal_audit::AdmissionDenial {
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
