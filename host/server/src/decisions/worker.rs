//! One hook's worker: takes requests as they come and asks the hook's policies about each on a guest thread.
use super::{HostedPolicy, Panel, Question};
use crate::{
    guest_thread::on_guest_thread,
    handle::ServerHandle,
    metrics::{Metrics, RoleMeters, Stopwatch},
    shadow::{Mode, PolicyFork, Shadows},
};
use peal_core::policy::{Decided, NextPolicy, PolicyFailure, PolicyRun, Said, Verdict};
use peal_sandbox::{GuestPool, Module, PolicyCall, PolicyResult};
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::{mpsc, watch};

pub(super) struct Worker {
    pub(super) panel: watch::Receiver<Arc<Panel>>,
    pub(super) pool: Arc<GuestPool>,
    pub(super) handle: ServerHandle,
    pub(super) metrics: Arc<Metrics>,
    pub(super) shadows: Shadows,
}

impl Worker {
    pub(super) async fn run(self, mut asked: mpsc::Receiver<Question>) {
        while let Some(Question { id, request, default }) = asked.recv().await {
            // Held until the end, so that nobody who decides is stopped before.
            let panel = self.panel.borrow().clone();
            let run = panel.chain.run(request, default);
            let (metrics, meters) = (self.metrics.clone(), panel.meters.clone());
            let verdict = match on_guest_thread(&self.pool, move || walk(run, &metrics, &meters)).await {
                Some(Walked { verdict, shadows }) => {
                    shadows.into_iter().for_each(|fork| self.shadows.decide(fork, verdict.clone()));
                    verdict
                }
                None => Verdict::overload(),
            };
            self.metrics.counters().decisions.count();
            self.handle.decided(id, verdict);
        }
        let modules: Vec<Arc<Module>> = self.panel.borrow().chain.iter().map(|policy| policy.module.clone()).collect();
        if on_guest_thread(&self.pool, move || modules.iter().for_each(|module| module.stop())).await.is_none() {
            tracing::warn!("no guest thread was free to tell the policies that they stop");
        }
    }
}

/// What came of a request.
struct Walked {
    verdict: Verdict,
    /// Those that looked on, where they stand.
    shadows: Vec<PolicyFork>,
}

/// Runs on a guest thread: one policy after the other, until one decides.
fn walk(mut run: PolicyRun<HostedPolicy>, metrics: &Metrics, meters: &RoleMeters) -> Walked {
    let mut shadows: Vec<PolicyFork> = Vec::new();
    let mut watch = Stopwatch::start();
    loop {
        let pending = match run.advance() {
            NextPolicy::Ask(pending) => pending,
            NextPolicy::Done(Decided { verdict, .. }) => return Walked { verdict, shadows },
        };
        if pending.policy().mode == Mode::Shadow {
            shadows.push(PolicyFork { pending: pending.clone(), later: VecDeque::new() });
            run = pending.pass_over();
            continue;
        }
        let call = PolicyCall { request: pending.request().clone(), steps: pending.steps().clone() };
        let PolicyResult { outcome, infos, amendment, usage } = pending.policy().module.decide(&call);
        meters.called(pending.policy().module.name(), watch.lap(), &usage, outcome.as_ref().err());
        // What is not shared any more need not be copied to be added to.
        drop(call);
        let outcome = outcome.map_err(|failure| {
            metrics.counters().policies_failed.count();
            PolicyFailure { status: failure.kind.status(), reason: failure.reason }
        });
        let said = Said { outcome, infos, amendment };
        for shadow in &mut shadows {
            shadow.later.push_back((pending.name().into(), said.clone()));
        }
        run = pending.finish(said);
    }
}
