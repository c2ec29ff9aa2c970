//! Worker of one owner. It runs each event through the owner's chain on a guest thread.
use super::{
    ChainEvent, ChainView, EventInFlight, HostedHandler, SharedChain, TerminationReply,
    chain_modules::{ChainModule, ChainModules, RegistrationConflict},
    change, handler_order,
    queue::{ChainQueue, ChainWork, Route},
};
use crate::{
    guest_thread::on_guest_thread,
    handle::Raised,
    handler_requests::HandlerRequest,
    metrics::{RoleMeters, Stopwatch},
    notice::{
        CallRecorder, CalledModule, ChainResults, MeasuredCall, MeasuredOutcome,
        RequestedTermination,
    },
};
use peal_core::{
    chain::{ChainEnd, ChainRun, HandlerOutcome, NextHandler, PendingHandler},
    owner::Owner,
    registration::{HandlerLocation, Mode},
    server::{EventBudget, RaisingOwner},
};
use peal_model::{Event, Nspace, RegistrationChange, Status, UserIdentity};
use peal_sandbox::{
    CallFailure, CallUsage, DeferredControl, DeferredLog, EventCall, GuestPool, HandlerResult,
    Notification, Role,
};
use peal_tenant::{ChainOrder, HandlerReply, LoadedModule, TenantModule};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
    vec,
};
use tokio::sync::mpsc;
use tracing::Instrument;

pub(super) struct ChainWorker {
    owner: Owner,
    chain: ChainModules,
    meters: Arc<RoleMeters>,
    pool: Arc<GuestPool>,
    handler_requests: mpsc::Sender<HandlerRequest>,
    route: Route,
    shared: Arc<SharedChain>,
    view: ChainView,
}

impl ChainWorker {
    pub(super) fn new(
        owner: Owner,
        pool: Arc<GuestPool>,
        handler_requests: mpsc::Sender<HandlerRequest>,
        route: Route,
        shared: Arc<SharedChain>,
        view: ChainView,
    ) -> ChainWorker {
        let meters = shared
            .metrics
            .modules(&owner, Role::EventHandler.name(), std::iter::empty());
        ChainWorker {
            owner,
            chain: ChainModules::default(),
            meters,
            pool,
            handler_requests,
            route,
            shared,
            view,
        }
    }

    pub(super) async fn run(mut self, mut queue: ChainQueue) {
        while let Some(work) = queue.next().await {
            match work {
                ChainWork::ReplaceModules(modules) => self.replace_modules(&modules),
                ChainWork::Event(passing) => {
                    let chain = || tracing::info_span!("chain", owner = %self.owner).or_current();
                    let span = passing.entered.span.in_scope(chain);
                    self.event(passing, &queue).instrument(span).await;
                }
            }
        }
        // The queue is closed and empty, so no handler is called after `stop`.
        let ChainModules { modules, .. } = self.chain;
        if on_guest_thread(&self.pool, move || {
            modules.iter().for_each(|module| module.stop())
        })
        .await
        .is_none()
        {
            tracing::warn!(owner = %self.owner, "modules not stopped; no guest thread available");
        }
    }

    /// Replaces the modules of the chain. The chain may have changed since the new set was checked,
    /// so conflicts are still possible.
    fn replace_modules(&mut self, modules: &[ChainModule]) {
        let (chain, conflicts) = self.chain.replaced_by(modules);
        for RegistrationConflict { module, error } in conflicts {
            tracing::warn!(owner = %self.owner, module = module.name(), %error, "registration dropped: not possible in the new chain");
        }
        let names = chain.modules.iter().map(|module| module.name());
        self.meters = self
            .shared
            .metrics
            .modules(&self.owner, Role::EventHandler.name(), names);
        self.chain = chain;
        self.view.publish(&self.owner, &self.chain);
    }

    async fn event(&mut self, mut passing: EventInFlight, queue: &ChainQueue) {
        let answer = self.handle(&mut passing, queue).await;
        self.route.pass(Some(&self.owner), passing, &self.shared);
        // Pass the event on first: if this was the last chain, listeners are notified before the
        // consequences of the termination request.
        if let Some((reply, termination)) = answer {
            // Ignore the error: the request may no longer wait.
            let _ = reply.send(termination);
        }
    }

    /// Runs an event through the chain. Returns the termination request of its handlers and the
    /// sender for it, if both exist.
    async fn handle(
        &mut self,
        passing: &mut EventInFlight,
        queue: &ChainQueue,
    ) -> Option<(TerminationReply, RequestedTermination)> {
        let entered = &passing.entered;
        let part = entered.whole_chains.part_of(&self.owner);
        let registrations = &self.chain.registrations;
        let run = registrations.run_part(entered.event.clone(), part);
        if run.is_empty() {
            return None;
        }
        let source = passing.entered.source;
        let Some(walked) = self.walked(run, passing).await else {
            self.shared.metrics.counters().chain_events_dropped.count();
            tracing::error!(owner = %self.owner, code = %passing.entered.event.code, "event dropped: no guest thread available");
            return None;
        };
        // Remove one-shot registrations first, and apply the changes in the order in which handlers
        // requested them.
        for id in &walked.finished.spent {
            self.chain.registrations.deregister(*id);
        }
        let changes_nothing = walked.finished.spent.is_empty() && walked.changes.is_empty();
        for (module, location, change) in walked.changes {
            let chain = &mut self.chain.registrations;
            change::apply(chain, &self.owner, (&module, location), change);
        }
        // Without an open queue the owner has no chain any more, and its view was withdrawn.
        if !changes_nothing && queue.is_open() {
            self.view.publish(&self.owner, &self.chain);
        }
        self.shared.metrics.counters().chain_runs.count();
        for pending in walked.shadows {
            let finished = walked.finished.clone();
            let shadows = &self.shared.shadows;
            shadows.handle(&self.owner, pending, source, finished);
        }
        let steps = Arc::unwrap_or_clone(walked.finished).steps;
        let results = ChainResults {
            owner: self.owner.clone(),
            steps,
            calls: walked.calls,
        };
        // The results wait with the event in the queues of later owners, so their memory counts.
        passing.bytes = passing.bytes.saturating_add(results.bytes());
        passing.results.push(results);
        if !walked.raised.is_empty() {
            match self.runs_as(&passing.entered.jobs) {
                Some(raiser) => {
                    self.raise(walked.raised, raiser, &mut passing.entered.allowance)
                        .await
                }
                // The owner's job has ended.
                None => self
                    .shared
                    .metrics
                    .counters()
                    .handler_events_refused
                    .add(walked.raised.len()),
            }
        }
        for (module, control) in walked.controls {
            let owner = self.owner.clone();
            let module = module.name().to_owned();
            self.send_request(HandlerRequest::Control {
                owner,
                module,
                control,
            })
            .await;
        }
        for report in walked.reports {
            self.send_request(HandlerRequest::Report {
                owner: self.owner.clone(),
                report,
            })
            .await;
        }
        passing.answer()
    }

    /// Calls the handlers of a chain, on a guest thread or in the process of their user. Returns none if
    /// no guest thread takes the chain.
    async fn walked(
        &self,
        run: ChainRun<HostedHandler>,
        passing: &EventInFlight,
    ) -> Option<ChainRunEnd> {
        let entered = &passing.entered;
        let runtime = run
            .members()
            .find_map(|member| member.handler.module.tenant())
            .map(|module| module.runtime().clone());
        let is_measured = passing.measurement.is_some();
        if let Some(runtime) = runtime {
            let recorder = is_measured.then(CallRecorder::new);
            let replies = runtime.run_chain(chain_order(&run, entered)).await;
            let mut caller = TenantReplies(replies.into_iter());
            return Some(walk(run, &mut caller, &self.meters, &self.shared, recorder));
        }
        let meters = self.meters.clone();
        let shared = self.shared.clone();
        let (number, identity) = (entered.number, entered.source);
        on_guest_thread(&self.pool, move || {
            let mut caller = ModuleCaller {
                number,
                identity,
                watch: Stopwatch::start(),
            };
            let recorder = is_measured.then(CallRecorder::new);
            walk(run, &mut caller, &meters, &shared, recorder)
        })
        .await
    }

    /// Passes on a request of a handler. Ignore the error: a stopping server accepts no requests.
    async fn send_request(&self, request: HandlerRequest) {
        let _ = self.handler_requests.send(request).await;
    }

    /// Raises events of handlers, within the event budget.
    async fn raise(
        &self,
        raised: Vec<Notification>,
        raiser: RaisingOwner,
        allowance: &mut EventBudget,
    ) {
        let share = allowance.share(raised.len());
        if share.number < raised.len() {
            self.shared
                .metrics
                .counters()
                .handler_events_refused
                .add(raised.len() - share.number);
            tracing::warn!(owner = %self.owner, refused = raised.len() - share.number, "events of handlers refused: event budget exceeded");
        }
        for notification in raised.into_iter().take(share.number) {
            let Notification {
                request,
                code,
                range,
                infos,
            } = notification;
            let event = Event {
                code,
                source: self.owner.requester(),
                range,
                infos,
            };
            let raised = Raised {
                event,
                raiser,
                allowance: share.per_event,
                request,
            };
            if self
                .handler_requests
                .send(HandlerRequest::Event(raised))
                .await
                .is_err()
            {
                // The server is stopping and accepts no requests.
                return;
            }
        }
    }

    /// Returns the identity with which an owner's handlers raise events. Events of tenants need
    /// permission. Returns none for a tenant without a job.
    fn runs_as(&self, jobs: &[(Nspace, UserIdentity)]) -> Option<RaisingOwner> {
        let first = |of_owner: &dyn Fn(&Nspace, UserIdentity) -> bool| {
            let found = jobs
                .iter()
                .find(|(nspace, identity)| of_owner(nspace, *identity));
            found.map(|(_, identity)| RaisingOwner::Tenant(*identity))
        };
        match &self.owner {
            Owner::Site => Some(RaisingOwner::Site),
            Owner::User(uid) => first(&|_, identity| identity.uid == *uid),
            Owner::Namespace(own) => first(&|nspace, _| nspace == own),
        }
    }
}

struct ChainRunEnd {
    finished: Arc<ChainEnd>,
    raised: Vec<Notification>,
    /// Registration changes that modules requested, with the location of their handlers.
    changes: Vec<(LoadedModule, HandlerLocation, RegistrationChange)>,
    /// Job control that modules requested.
    controls: Vec<(LoadedModule, DeferredControl)>,
    /// Log requests of modules.
    reports: Vec<DeferredLog>,
    /// Shadow handlers with their positions in the chain.
    shadows: Vec<PendingHandler<HostedHandler>>,
    /// Calls of the handlers, one for each step, if they were recorded.
    calls: Vec<MeasuredCall>,
}

/// Result of a handler.
struct HandlerReturn {
    result: HandlerResult,
    time: Duration,
}

/// Source of the results of handlers.
trait HandlerCaller {
    /// Returns the result of the next handler.
    fn call(&mut self, pending: &PendingHandler<HostedHandler>) -> HandlerReturn;
}

/// Calls modules in this process.
struct ModuleCaller {
    number: u64,
    identity: Option<UserIdentity>,
    watch: Stopwatch,
}

impl HandlerCaller for ModuleCaller {
    fn call(&mut self, pending: &PendingHandler<HostedHandler>) -> HandlerReturn {
        let member = pending.member();
        let result = match member.handler.module.here() {
            Some(module) => module.handle(EventCall {
                number: self.number,
                registration: member.id.0,
                tag: member.handler.tag,
                event: pending.event_with_object(),
                identity: self.identity,
                steps: pending.steps().clone(),
            }),
            None => unavailable("module runs in another process than its chain"),
        };
        HandlerReturn {
            result,
            time: self.watch.lap(),
        }
    }
}

/// Results of handlers that were called in the process of their user.
struct TenantReplies(vec::IntoIter<HandlerReply>);

impl HandlerCaller for TenantReplies {
    fn call(&mut self, pending: &PendingHandler<HostedHandler>) -> HandlerReturn {
        let module = pending.member().handler.module.tenant();
        match (self.0.next(), module) {
            (Some(reply), Some(module)) => {
                module.follow(&reply);
                HandlerReturn {
                    result: reply.result,
                    time: reply.time,
                }
            }
            // A process that keeps to the protocol sends a result for each handler.
            _ => HandlerReturn {
                result: unavailable("process of the user's modules sent no result"),
                time: Duration::ZERO,
            },
        }
    }
}

fn unavailable(reason: &str) -> HandlerResult {
    HandlerResult::from(CallFailure::unavailable(reason))
}

/// Returns the order to call the handlers of a chain in the process of their user.
fn chain_order(run: &ChainRun<HostedHandler>, entered: &ChainEvent) -> ChainOrder {
    // A shadow handler is called after the chain.
    let active = || {
        run.members()
            .filter(|member| member.registration.mode == Mode::Active)
            .filter_map(|member| Some((member, member.handler.module.tenant()?)))
    };
    let handlers = active().map(|(member, module)| handler_order(member, module));
    ChainOrder {
        event_number: entered.number,
        event: entered.event.clone(),
        identity: entered.source,
        steps: Arc::default(),
        handlers: handlers.collect(),
        time: TenantModule::chain_time(active().map(|(_, module)| &**module)),
    }
}

/// Takes the steps of a chain with the results of its handlers.
fn walk(
    mut run: ChainRun<HostedHandler>,
    caller: &mut impl HandlerCaller,
    meters: &RoleMeters,
    shared: &SharedChain,
    mut recorder: Option<CallRecorder>,
) -> ChainRunEnd {
    let mut raised = Vec::new();
    let mut changes = Vec::new();
    let mut shadows = Vec::new();
    let mut controls = Vec::new();
    let mut reports = Vec::new();
    loop {
        let call = match run.advance() {
            NextHandler::Call(call) => call,
            NextHandler::Done(finished) => {
                return ChainRunEnd {
                    finished: Arc::new(finished),
                    raised,
                    changes,
                    controls,
                    reports,
                    shadows,
                    calls: recorder.map(CallRecorder::into_calls).unwrap_or_default(),
                };
            }
        };
        // A shadow handler is called after the chain, so that it cannot delay the event.
        if call.member().registration.mode == Mode::Shadow {
            shadows.push(call.clone());
            run = call.pass_over();
            continue;
        }
        let member = call.member();
        let called = CalledModule {
            name: &member.registration.name,
            module: member.handler.module.name(),
            digest: member.handler.module.digest(),
        };
        // The drain timeout has expired: the remaining handlers are recorded as unavailable.
        if shared.stopped.load(Ordering::Relaxed) {
            if let Some(recorder) = &mut recorder {
                let failure = CallFailure::unavailable("not called: the server stops");
                let outcome = MeasuredOutcome::Failed((&failure).into());
                recorder.record(called, Duration::ZERO, &CallUsage::default(), outcome);
            }
            run = call.finish(HandlerOutcome::status(Status::PEAL_ERR_MODULE_UNAVAILABLE));
            continue;
        }
        let HandlerReturn { result, time } = caller.call(&call);
        meters.called(called.module, time, &result.usage, result.failure.as_ref());
        if let Some(recorder) = &mut recorder {
            let outcome = match &result.failure {
                Some(failure) => MeasuredOutcome::Failed(failure.into()),
                None => MeasuredOutcome::Handler(result.status),
            };
            recorder.record(called, time, &result.usage, outcome);
        }
        raised.extend(result.notifications);
        let location = member.registration.location;
        changes.extend(
            result
                .changes
                .into_iter()
                .map(|change| (member.handler.module.clone(), location, change)),
        );
        controls.extend(
            result
                .controls
                .into_iter()
                .map(|control| (member.handler.module.clone(), control)),
        );
        reports.extend(result.reports);
        run = call.finish(HandlerOutcome {
            status: result.status,
            infos: result.infos,
        });
    }
}
