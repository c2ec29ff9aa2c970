//! One hook's worker: takes requests as they come and asks the hook's policies about each on a guest thread.
use super::Question;
use crate::{
    guest_thread::on_guest_thread,
    handle::ServerHandle,
    metrics::{Metrics, RoleMeters, Stopwatch},
};
use peal_core::policy::{Decided, NextPolicy, PolicyChain, PolicyFailure, PolicyRun, Said, Verdict};
use peal_sandbox::{GuestPool, Module, PolicyCall, PolicyResult};
use std::sync::Arc;
use tokio::sync::mpsc;

pub(super) struct Worker {
    pub(super) chain: PolicyChain<Arc<Module>>,
    pub(super) pool: Arc<GuestPool>,
    pub(super) handle: ServerHandle,
    pub(super) metrics: Arc<Metrics>,
    pub(super) meters: Arc<RoleMeters>,
}

impl Worker {
    pub(super) async fn run(self, mut asked: mpsc::Receiver<Question>) {
        while let Some(Question { id, request, default }) = asked.recv().await {
            let run = self.chain.run(request, default);
            let (metrics, meters) = (self.metrics.clone(), self.meters.clone());
            let verdict = match on_guest_thread(&self.pool, move || walk(run, &metrics, &meters)).await {
                Some(Decided { verdict, .. }) => verdict,
                None => Verdict::overload(),
            };
            self.metrics.counters().decisions.count();
            self.handle.decided(id, verdict);
        }
        let modules: Vec<Arc<Module>> = self.chain.iter().cloned().collect();
        if on_guest_thread(&self.pool, move || modules.iter().for_each(|module| module.stop())).await.is_none() {
            tracing::warn!("no guest thread was free to tell the policies that they stop");
        }
    }
}

/// Runs on a guest thread: one policy after the other, until one decides.
fn walk(mut run: PolicyRun<Arc<Module>>, metrics: &Metrics, meters: &RoleMeters) -> Decided {
    let mut watch = Stopwatch::start();
    loop {
        let pending = match run.advance() {
            NextPolicy::Ask(pending) => pending,
            NextPolicy::Done(decided) => return decided,
        };
        let call = PolicyCall { request: pending.request().clone(), steps: pending.steps().clone() };
        let PolicyResult { outcome, infos, amendment, usage } = pending.policy().decide(&call);
        meters.called(pending.policy().name(), watch.lap(), &usage, outcome.as_ref().err());
        // What is not shared any more need not be copied to be added to.
        drop(call);
        let outcome = outcome.map_err(|failure| {
            metrics.counters().policies_failed.count();
            PolicyFailure { status: failure.kind.status(), reason: failure.reason }
        });
        run = pending.finish(Said { outcome, infos, amendment });
    }
}
