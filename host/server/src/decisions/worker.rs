//! Worker of one hook. It runs each request through the hook's policies on a guest thread.
use super::{DecisionObservers, DecisionRequest, HookPolicies, HostedPolicy, queue::DecisionQueue};
use crate::{
    guest_thread::on_guest_thread,
    handle::ServerHandle,
    metrics::{Metrics, RoleMeters, Stopwatch},
    notice::{CallRecorder, CalledModule, MeasuredCall, MeasuredDecision, MeasuredOutcome, Notice},
    shadow::{PolicyFork, Shadows},
};
use peal_audit::{AuditTrail, CommitResult, CommitThread, DecisionEntry};
use peal_core::{
    defaults::HookDefault,
    policy::{
        ConcludedRun, DeniedVerdict, NextPolicy, PolicyAnswer, PolicyFailure, PolicyRun, Verdict,
    },
    registration::Mode,
    server::DecisionId,
};
use peal_model::{ChainResult, PolicyRequest};
use peal_sandbox::{GuestPool, Module, PolicyCall, PolicyResult};
use std::{collections::VecDeque, mem, sync::Arc, time::SystemTime};
use tokio::sync::watch;
use tracing::{Instrument, Span};

pub(super) struct PolicyWorker {
    pub(super) panel: watch::Receiver<Arc<HookPolicies>>,
    pub(super) pool: Arc<GuestPool>,
    pub(super) handle: ServerHandle,
    pub(super) observers: DecisionObservers,
}

impl PolicyWorker {
    pub(super) async fn run(self, queue: Arc<DecisionQueue>) {
        while let Some(mut request) = queue.next().await {
            let span = mem::replace(&mut request.span, Span::none());
            // If more requests wait, the writer thread of the trail writes, so that the disk does
            // not delay them.
            let by = if queue.is_empty() {
                CommitThread::Caller
            } else {
                CommitThread::Thread
            };
            self.decide(request, by).instrument(span).await;
        }
        let modules: Vec<Arc<Module>> = self
            .panel
            .borrow()
            .chain
            .iter()
            .map(|policy| policy.module.clone())
            .collect();
        if on_guest_thread(&self.pool, move || {
            modules.iter().for_each(|module| module.stop())
        })
        .await
        .is_none()
        {
            tracing::warn!("policies not stopped; no guest thread available");
        }
    }

    /// Decides one request by the policies of the hook, and reports the verdict to the server.
    async fn decide(&self, request: DecisionRequest, by: CommitThread) {
        let DecisionRequest {
            id,
            request,
            default,
            measured_since,
            ..
        } = request;
        let DecisionObservers {
            metrics,
            shadows,
            audit,
            notices,
        } = &self.observers;
        // Keep the policies until the end, so that no module that decides is stopped before.
        let panel = self.panel.borrow().clone();
        let audit = audit.clone();
        let handle = self.handle.clone();
        // Recorded verdicts are reported later than others. With an audit trail all requests take
        // this path, so that none overtakes another.
        if panel.decides || audit.is_some() {
            let run = panel.chain.run(request.clone(), default);
            let of_thread = metrics.clone();
            let meters = panel.meters.clone();
            // Without an active policy no module is called.
            let measured_since = measured_since.filter(|_| panel.decides);
            let notified = notices.clone();
            let walked = on_guest_thread(&self.pool, move || {
                let metrics = of_thread;
                let recorder = measured_since.map(|_| CallRecorder::new());
                let mut walked = walk(id.number(), run, &metrics, &meters, recorder);
                let measured = measured_since.map(|requested| MeasuredDecision {
                    number: id.number(),
                    request: request.clone(),
                    conclusion: (&walked.verdict).into(),
                    steps: mem::take(&mut walked.steps),
                    calls: mem::take(&mut walked.calls),
                    requested,
                    decided: SystemTime::now(),
                });
                // Count first: a requester that has its verdict must find it counted.
                metrics.counters().decisions.count();
                conclude(
                    id,
                    request,
                    walked.verdict.clone(),
                    audit.as_ref().map(|audit| (audit, by)),
                    move |verdict| {
                        if let Some(measured) = measured {
                            notified.notify(Notice::Decided(Arc::new(MeasuredDecision {
                                // What could not be recorded was not granted.
                                conclusion: (&verdict).into(),
                                ..measured
                            })));
                        }
                        handle.decided(id, verdict);
                    },
                );
                walked
            });
            match walked.await {
                Some(walked) => {
                    walked.run_shadows(shadows);
                }
                None => {
                    metrics.counters().decisions.count();
                    self.handle
                        .decided(id, Verdict::Denied(DeniedVerdict::unavailable()));
                }
            }
        } else {
            let verdict = by_default(&panel, request, default, &self.observers);
            metrics.counters().decisions.count();
            handle.decided(id, verdict);
        }
    }
}

/// Reports a verdict, after it was recorded if there is an audit trail.
fn conclude(
    id: DecisionId,
    request: Arc<PolicyRequest>,
    verdict: Verdict,
    audit: Option<(&AuditTrail, CommitThread)>,
    decided: impl FnOnce(Verdict) + Send + 'static,
) {
    let Some((audit, by)) = audit else {
        return decided(verdict);
    };
    audit.decide(
        DecisionEntry::new(id.number(), request, &verdict),
        by,
        move |safe| {
            let verdict = match (safe, verdict) {
                // A grant that could not be recorded is withdrawn; a denial holds in any case.
                (CommitResult::No, Verdict::Granted { .. }) => {
                    Verdict::Denied(DeniedVerdict::unrecorded())
                }
                (_, verdict) => verdict,
            };
            decided(verdict);
        },
    );
}

/// Result of a run through the policies.
struct PolicyRunEnd {
    verdict: Verdict,
    /// Shadow policies with their positions in the chain.
    shadows: Vec<PolicyFork>,
    /// Results of the policies.
    steps: Vec<ChainResult>,
    /// Calls of the policies, if they were recorded.
    calls: Vec<MeasuredCall>,
}

impl PolicyRunEnd {
    /// Calls the shadow policies and returns the verdict.
    fn run_shadows(self, shadows: &Shadows) -> Verdict {
        let PolicyRunEnd {
            verdict,
            shadows: forks,
            ..
        } = self;
        forks
            .into_iter()
            .for_each(|fork| shadows.decide(fork, verdict.clone()));
        verdict
    }
}

/// Decides a request for which no policy is active. The built-in rule decides without a call of a
/// guest.
pub(super) fn by_default(
    panel: &HookPolicies,
    request: Arc<PolicyRequest>,
    default: HookDefault,
    observers: &DecisionObservers,
) -> Verdict {
    let run = panel.chain.run(request, default);
    walk(0, run, &observers.metrics, &panel.meters, None).run_shadows(&observers.shadows)
}

/// Runs a request through the policies until one decides. Runs on a guest thread, unless all
/// policies are shadow modules.
fn walk(
    number: u64,
    mut run: PolicyRun<HostedPolicy>,
    metrics: &Metrics,
    meters: &RoleMeters,
    mut recorder: Option<CallRecorder>,
) -> PolicyRunEnd {
    let mut shadows: Vec<PolicyFork> = Vec::new();
    let mut watch = Stopwatch::start();
    loop {
        let pending = match run.advance() {
            NextPolicy::Call(pending) => pending,
            NextPolicy::Done(ConcludedRun { verdict, steps }) => {
                return PolicyRunEnd {
                    verdict,
                    shadows,
                    steps,
                    calls: recorder.map(CallRecorder::into_calls).unwrap_or_default(),
                };
            }
        };
        if pending.policy().mode == Mode::Shadow {
            shadows.push(PolicyFork {
                number,
                pending: pending.clone(),
                later: VecDeque::new(),
            });
            run = pending.pass_over();
            continue;
        }
        let call = PolicyCall {
            number,
            request: pending.request().clone(),
            steps: pending.steps().clone(),
        };
        let PolicyResult {
            outcome,
            infos,
            amendment,
            usage,
        } = pending.policy().module.decide(call);
        let time = watch.lap();
        let module = &pending.policy().module;
        meters.called(module.name(), time, &usage, outcome.as_ref().err());
        if let Some(recorder) = &mut recorder {
            let outcome = match &outcome {
                Ok(outcome) => MeasuredOutcome::Policy(*outcome),
                Err(failure) => MeasuredOutcome::Failed(failure.into()),
            };
            let called = CalledModule {
                name: pending.name(),
                module: module.name(),
                digest: module.digest(),
            };
            recorder.record(called, time, &usage, outcome);
        }
        let outcome = outcome.map_err(|failure| {
            metrics.counters().policy_failures.count();
            PolicyFailure {
                status: failure.kind.status(),
                reason: failure.reason,
            }
        });
        let answer = PolicyAnswer {
            outcome,
            infos,
            amendment,
        };
        // A shadow policy is later compared with the answers of the policies behind it.
        for shadow in &mut shadows {
            shadow
                .later
                .push_back((pending.name().clone(), answer.clone()));
        }
        run = pending.finish(answer);
    }
}
