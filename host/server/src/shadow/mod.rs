//! Shadow modules, which are called on live traffic beside active modules. The outcome of each is
//! compared with what happened, and is ignored otherwise. They run afterwards, on a thread of their
//! own with the lowest priority. Calls for which that thread has no time are skipped and counted.

mod reports;

use crate::{
    admin::ShadowReport,
    chains::{HostedHandler, handler_order},
    decisions::HostedPolicy,
    metrics::Metrics,
};
use peal_core::{
    chain::{ChainEnd, PendingHandler},
    owner::Owner,
    policy::{DeniedVerdict, NextPolicy, PendingPolicy, PolicyAnswer, PolicyFailure, Verdict},
};
use peal_model::{Event, PolicyOutcome, PolicyRequest, UserIdentity, code, counted};
use peal_sandbox::{EventCall, GuestPool, HandlerResult, Module, PolicyCall, PolicyResult};
use peal_tenant::{ChainOrder, LoadedModule, TenantModule};
use reports::{ShadowCall, ShadowReports};
use std::{collections::VecDeque, fmt, sync::Arc};
use tokio::sync::Semaphore;

/// Upper bound of the calls of shadow handlers that run in the processes of users at once.
const MAX_ELSEWHERE: usize = 16;

/// Shadow modules of a server.
#[derive(Clone)]
pub struct Shadows(Arc<Inner>);

struct Inner {
    pool: Arc<GuestPool>,
    /// Seats of calls in other processes.
    elsewhere: Arc<Semaphore>,
    reports: ShadowReports,
    metrics: Arc<Metrics>,
}

impl fmt::Debug for Shadows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shadows").field(&self.0.reports).finish()
    }
}

/// Shadow policy at its position in the chain, with the answers of the policies behind it.
pub(crate) struct PolicyFork {
    /// Number of the request.
    pub(crate) number: u64,
    pub(crate) pending: PendingPolicy<HostedPolicy>,
    pub(crate) later: VecDeque<(Arc<str>, PolicyAnswer)>,
}

impl Shadows {
    /// Returns shadow modules without reports.
    pub(crate) fn new(pool: &Arc<GuestPool>, metrics: &Arc<Metrics>) -> Shadows {
        Shadows(Arc::new(Inner {
            pool: pool.clone(),
            elsewhere: Arc::new(Semaphore::new(MAX_ELSEWHERE)),
            reports: ShadowReports::default(),
            metrics: metrics.clone(),
        }))
    }

    /// Returns the reports about the shadow modules of this name.
    pub fn reports(&self, name: &str) -> Vec<ShadowReport> {
        self.0.reports.reports(name)
    }

    /// Removes the reports of modules that are no longer shadow modules.
    pub fn keep(&self, stays: impl Fn(&Owner, &str) -> bool) {
        self.0.reports.keep(stays);
    }

    /// Calls a shadow policy and compares its outcome with the verdict.
    pub(crate) fn decide(&self, fork: PolicyFork, actual: Verdict) {
        let module = fork.pending.policy().module.clone();
        self.run(&Owner::Site, module, move |module| {
            call_policy(module, fork, &actual)
        });
    }

    /// Calls a shadow handler and compares its outcome with the end of the chain.
    pub(crate) fn handle(
        &self,
        owner: &Owner,
        pending: PendingHandler<HostedHandler>,
        source: Option<UserIdentity>,
        actual: Arc<ChainEnd>,
    ) {
        match pending.member().handler.module.clone() {
            LoadedModule::Here(module) => self.run(owner, module, move |module| {
                let result = module.handle(event_call(&pending, source));
                handler_outcome(&pending, &actual, result)
            }),
            LoadedModule::Tenant(module) => {
                self.run_elsewhere(owner, module, pending, source, actual);
            }
        }
    }

    /// Calls a shadow handler in the process of its user.
    fn run_elsewhere(
        &self,
        owner: &Owner,
        module: Arc<TenantModule>,
        pending: PendingHandler<HostedHandler>,
        source: Option<UserIdentity>,
        actual: Arc<ChainEnd>,
    ) {
        let inner = self.0.clone();
        let owner = owner.clone();
        let shadow = LoadedModule::Tenant(module.clone());
        let Ok(seat) = inner.elsewhere.clone().try_acquire_owned() else {
            inner.metrics.counters().shadow_calls_skipped.count();
            inner.reports.missed(&owner, &shadow);
            return;
        };
        let order = ChainOrder {
            event_number: 0,
            event: pending.event().clone(),
            identity: source,
            steps: pending.steps().clone(),
            handlers: vec![handler_order(pending.member(), &module)],
            time: TenantModule::chain_time([&*module]),
        };
        tokio::spawn(async move {
            let reply = module.runtime().run_chain(order).await.pop();
            let Some(reply) = reply else { return };
            module.follow(&reply);
            inner.metrics.counters().shadow_calls.count();
            let seen = handler_outcome(&pending, &actual, reply.result);
            inner.reports.note(&owner, &shadow, seen);
            drop(seat);
        });
    }

    fn run(
        &self,
        owner: &Owner,
        module: Arc<Module>,
        look: impl FnOnce(&Module) -> ShadowCall + Send + 'static,
    ) {
        let inner = self.0.clone();
        let owner_copy = owner.clone();
        let shadow = module.clone();
        // Do not wait for the pool: a shadow module must never delay live traffic.
        let looked = self.0.pool.try_run(move || {
            let seen = look(&shadow);
            inner.metrics.counters().shadow_calls.count();
            inner.reports.note(&owner_copy, &shadow.into(), seen);
        });
        if looked.is_err() {
            self.0.metrics.counters().shadow_calls_skipped.count();
            self.0.reports.missed(owner, &module.into());
        }
    }
}

/// Calls a shadow policy and concludes the verdict as if it had been active. The policies behind it
/// are assumed to answer as they did.
fn call_policy(module: &Module, fork: PolicyFork, actual: &Verdict) -> ShadowCall {
    let PolicyFork {
        number,
        pending,
        mut later,
    } = fork;
    let call = PolicyCall {
        number,
        request: pending.request().clone(),
        steps: pending.steps().clone(),
    };
    let PolicyResult {
        outcome,
        infos,
        amendment,
        ..
    } = module.decide(call);
    let about = describe_request(pending.request());
    let failure = outcome.as_ref().err().map(|failure| failure.reason.clone());
    let answer = match &outcome {
        Ok(PolicyOutcome::Pass) => "pass".to_owned(),
        Ok(PolicyOutcome::Grant) => "grant".to_owned(),
        Ok(PolicyOutcome::Deny(status)) => format!("deny {status}"),
        Err(failure) => format!("failed with {}", failure.kind.status()),
    };
    let outcome = outcome.map_err(|failure| PolicyFailure {
        status: failure.kind.status(),
        reason: failure.reason,
    });
    let mut run = pending.finish(PolicyAnswer {
        outcome,
        infos,
        amendment,
    });
    let would = loop {
        let pending = match run.advance() {
            NextPolicy::Done(decided) => break decided.verdict,
            NextPolicy::Call(pending) => pending,
        };
        // A policy behind it that was not called has no answer, so it counts as passing.
        run = match later.pop_front_if(|(name, _)| name == pending.name()) {
            Some((_, answer)) => pending.finish(answer),
            None => pending.pass_over(),
        };
    };
    let differs = !is_same_effect(actual, &would);
    ShadowCall {
        about,
        answer,
        difference: differs.then(|| (describe_verdict(actual), describe_verdict(&would))),
        failure,
    }
}

/// Returns true if two verdicts have the same effect, whatever policy decided.
fn is_same_effect(one: &Verdict, other: &Verdict) -> bool {
    match (one, other) {
        (
            Verdict::Granted {
                amended,
                range,
                data,
                answer,
                ..
            },
            Verdict::Granted {
                amended: a,
                range: r,
                data: d,
                answer: s,
                ..
            },
        ) => (amended, range, data, answer) == (a, r, d, s),
        (Verdict::Denied(one), Verdict::Denied(other)) => one.status == other.status,
        _ => false,
    }
}

fn describe_verdict(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Granted {
            by,
            amended,
            range,
            data,
            answer,
        } => {
            let range = range
                .map(|range| format!(" to {range}"))
                .unwrap_or_default();
            format!(
                "granted{range} by {by}, {} infos",
                amended.len() + data.as_ref().map_or(0, Vec::len) + answer.len()
            )
        }
        Verdict::Denied(DeniedVerdict { by, status, .. }) => format!("denied by {by}: {status}"),
    }
}

/// Describes a request in a few words.
fn describe_request(request: &PolicyRequest) -> String {
    let requester = request
        .requester
        .as_ref()
        .map_or("an unnamed requester".to_owned(), ToString::to_string);
    let user = request
        .identity
        .map(|identity| format!(" (uid {})", identity.uid))
        .unwrap_or_default();
    let summary = request.subject.summary(request.targets.len());
    format!("{summary}, by {requester}{user}")
}

/// Returns the call of a shadow handler.
fn event_call(
    pending: &PendingHandler<HostedHandler>,
    identity: Option<UserIdentity>,
) -> EventCall {
    let member = pending.member();
    EventCall {
        number: 0,
        registration: member.id.0,
        tag: member.handler.tag,
        event: pending.event_with_object(),
        identity,
        steps: pending.steps().clone(),
    }
}

/// Describes the effects that a shadow handler would have had.
fn handler_outcome(
    pending: &PendingHandler<HostedHandler>,
    actual: &ChainEnd,
    result: HandlerResult,
) -> ShadowCall {
    let behind = actual.steps.len().saturating_sub(pending.steps().len());
    let about = describe_event(pending.event());
    let HandlerResult {
        status,
        notifications,
        changes,
        controls,
        reports,
        failure,
        ..
    } = result;
    let mut would = Vec::new();
    if status == code::PMIX_EVENT_ACTION_COMPLETE && behind > 0 {
        would.push(format!(
            "ended the chain before {}",
            counted(behind, "handler")
        ));
    }
    if !notifications.is_empty() {
        let codes: Vec<String> = notifications
            .iter()
            .map(|raised| raised.code.to_string())
            .collect();
        would.push(format!("raised {}", codes.join(", ")));
    }
    if !changes.is_empty() {
        would.push(format!(
            "changed {}",
            counted(changes.len(), "registration")
        ));
    }
    for (request, times) in [
        ("requested job control", controls.len()),
        ("logged", reports.len()),
    ] {
        if times > 0 {
            would.push(format!("{request}, times {times}"));
        }
    }
    let difference = (!would.is_empty()).then(|| {
        (
            format!("{} ran behind it", counted(behind, "handler")),
            would.join(", "),
        )
    });
    ShadowCall {
        about,
        answer: status.to_string(),
        difference,
        failure: failure.map(|failure| failure.reason),
    }
}

fn describe_event(event: &Event) -> String {
    let source = event
        .source
        .as_ref()
        .map_or("the resource manager".to_owned(), ToString::to_string);
    format!("event {}, range {}, from {source}", event.code, event.range)
}
