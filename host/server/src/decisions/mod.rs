//! Decisions: the components that say who may do what, one chain of policies per hook.
//!
//! Every hook that has policies has a worker with a bounded queue, which asks about one request after the other, so that
//! the events of one source keep their order. A whole chain runs in one hand-over to the site's guest threads.

mod worker;

use crate::{handle::ServerHandle, metrics::Metrics, quiet::Quiet};
use peal_core::{
    defaults::HookDefault,
    owner::Owner,
    policy::{OnFailure, PolicyChain, Verdict},
    registration::{Place, RegistrationError},
    server::{DecisionId, Denial},
};
use peal_model::{Hook, PolicyRequest};
use peal_sandbox::{GuestPool, Module, Role};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};
use thiserror::Error;
use tokio::{sync::mpsc, task::JoinSet};
use worker::Worker;

/// The least time between two lines on denials.
const BETWEEN_DENIALS: Duration = Duration::from_millis(100);

/// The policies of one server, before it starts.
#[derive(Default)]
pub struct HostedPolicies {
    hooks: BTreeMap<Hook, PolicyChain<Arc<Module>>>,
}

/// Why a policy cannot be registered.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// Nobody asks policies there yet.
    #[error("policies for {0} are not asked yet; those for connection, event and job-control are")]
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
        place: Place,
        on_failure: OnFailure,
        module: Arc<Module>,
    ) -> Result<(), PolicyError> {
        if !matches!(hook, Hook::Connection | Hook::Event | Hook::JobControl) {
            return Err(PolicyError::NotAsked(hook));
        }
        Ok(self.hooks.entry(hook).or_default().register(name, place, on_failure, module)?)
    }
}

/// What is to be decided.
struct Question {
    id: DecisionId,
    request: Arc<PolicyRequest>,
    /// What holds if all policies pass.
    default: HookDefault,
}

/// The running policies.
pub(crate) struct Decisions {
    queues: BTreeMap<Hook, mpsc::Sender<Question>>,
    workers: JoinSet<()>,
    handle: ServerHandle,
    metrics: Arc<Metrics>,
    denials: Quiet,
}

impl Decisions {
    /// Starts a worker per hook; at most so many requests wait for each. What they conclude goes to `handle`.
    pub(crate) fn start(
        hosted: HostedPolicies,
        pool: &Arc<GuestPool>,
        queue: usize,
        handle: &ServerHandle,
        metrics: &Arc<Metrics>,
    ) -> Decisions {
        let mut workers = JoinSet::new();
        let start = |(hook, chain): (Hook, PolicyChain<Arc<Module>>)| {
            let (ask, asked) = mpsc::channel(queue.max(1));
            let role = Role::policy(hook).map_or("policy", Role::name);
            let meters = metrics.modules(&Owner::Site, role, chain.iter().map(|module| module.name()));
            let (pool, handle, metrics) = (pool.clone(), handle.clone(), metrics.clone());
            workers.spawn(Worker { chain, pool, handle, metrics, meters }.run(asked));
            (hook, ask)
        };
        let queues = hosted.hooks.into_iter().map(start).collect();
        let denials = Quiet::new(BETWEEN_DENIALS);
        Decisions { queues, workers, handle: handle.clone(), metrics: metrics.clone(), denials }
    }

    /// The hooks that have policies.
    pub(crate) fn hooks(&self) -> impl Iterator<Item = Hook> {
        self.queues.keys().copied()
    }

    /// Asks the policies of a hook, whose default this is. If too many wait for them, the answer is no.
    pub(crate) fn ask(&self, id: DecisionId, request: Arc<PolicyRequest>, default: HookDefault) {
        let asked =
            self.queues.get(&request.matter.hook()).map(|queue| queue.try_send(Question { id, request, default }));
        if !matches!(asked, Some(Ok(()))) {
            self.handle.decided(id, Verdict::overload());
        }
    }

    /// Counts a denial and writes it down. Whoever is denied can ask again as often as they like, so not every one is worth
    /// a line of its own.
    pub(crate) fn denied(&self, denial: &Denial) {
        self.metrics.counters().requests_denied.count();
        match self.denials.allow(Instant::now()) {
            Some(left_out) => tracing::warn!(%denial, left_out, "a request is denied"),
            None => tracing::debug!(%denial, "a request is denied"),
        }
    }

    /// Waits until what was asked is decided and the modules have stopped, but no longer than may be.
    pub(crate) async fn drain(mut self, timeout: Duration) {
        self.queues.clear();
        let all = async { while self.workers.join_next().await.is_some() {} };
        if tokio::time::timeout(timeout, all).await.is_err() {
            tracing::error!(after = ?timeout, "policies do not come to an end");
        }
    }
}
