//! One owner's worker: takes events as they come and runs each through the owner's chain on a guest thread.
use super::{
    Asked, ChainView, Entering, HostedHandler, Passing, Shared, change,
    queue::{Queue, Route},
};
use crate::{
    guest_thread::on_guest_thread,
    handle::Raised,
    metrics::{RoleMeters, Stopwatch},
    notice::{ChainResults, Wished},
};
use peal_core::{
    chain::{ChainRun, Finished, Next, Outcome},
    order::Registrations,
    owner::Owner,
    server::{Allowance, Raiser},
};
use peal_model::{Event, Identity, Nspace, Proc, Status, rank};
use peal_sandbox::{Change, EventCall, GuestPool, Module, Notification};
use std::sync::{Arc, atomic::Ordering};
use tokio::sync::mpsc;

pub(super) struct Worker {
    pub(super) owner: Owner,
    pub(super) registrations: Registrations<HostedHandler>,
    pub(super) meters: Arc<RoleMeters>,
    pub(super) pool: Arc<GuestPool>,
    pub(super) raised: mpsc::Sender<Raised>,
    pub(super) after: Route,
    pub(super) shared: Arc<Shared>,
    pub(super) view: ChainView,
}

impl Worker {
    pub(super) async fn run(mut self, mut queue: Queue) {
        // Also one that has taken all its registrations back is told when it stops.
        let modules: Vec<Arc<Module>> =
            self.registrations.iter().map(|(_, _, handler)| handler.module.clone()).collect();
        while let Some(mut passing) = queue.next().await {
            let Entering { event, reach, jobs, .. } = &passing.entered;
            let jobs = jobs.iter().map(|(nspace, identity)| (nspace, identity.uid));
            let answer = if self.owner.sees(event, *reach, jobs) { self.handle(&mut passing).await } else { None };
            self.after.pass(passing, &self.shared);
            // Where this was the last chain, whoever watches hears of it before what follows from it.
            if let Some((asked, wished)) = answer {
                // Who asked may not have wanted to wait so long.
                let _ = asked.send(wished);
            }
        }
        if on_guest_thread(&self.pool, move || modules.iter().for_each(|module| module.stop())).await.is_none() {
            tracing::warn!(owner = %self.owner, "no guest thread was free to tell the modules that they stop");
        }
    }

    /// Runs an event through the chain. Returns whom to tell what its handlers wish, if there is anything to tell.
    async fn handle(&mut self, passing: &mut Passing) -> Option<(Asked, Wished)> {
        let run = self.registrations.run(passing.entered.event.clone());
        if run.is_empty() {
            return None;
        }
        let (source, meters, shared) = (passing.entered.source, self.meters.clone(), self.shared.clone());
        let walked = on_guest_thread(&self.pool, move || walk(run, source, &meters, &shared)).await;
        let Some(walked) = walked else {
            self.shared.metrics.counters().chain_events_dropped.count();
            tracing::error!(owner = %self.owner, code = %passing.entered.event.code, "no guest thread could run the chain");
            return None;
        };
        for id in &walked.finished.spent {
            self.registrations.deregister(*id);
        }
        let changes_nothing = walked.finished.spent.is_empty() && walked.changes.is_empty();
        for (module, change) in walked.changes {
            change::apply(&mut self.registrations, &self.owner, &module, change);
        }
        if !changes_nothing {
            self.view.publish(&self.owner, &self.registrations);
        }
        self.shared.metrics.counters().chains_run.count();
        let results = ChainResults { owner: self.owner.clone(), steps: walked.finished.steps };
        // They wait with the event for the owners that come after.
        passing.bytes = passing.bytes.saturating_add(results.bytes());
        passing.results.push(results);
        if !walked.raised.is_empty() {
            match self.runs_as(&passing.entered.jobs) {
                Some(raiser) => self.raise(walked.raised, raiser, &mut passing.entered.allowance).await,
                // Their job is gone.
                None => self.shared.metrics.counters().raised_events_refused.add(walked.raised.len()),
            }
        }
        passing.answer()
    }

    /// Raises events on behalf of handlers, as far as the event before them allows.
    async fn raise(&self, raised: Vec<Notification>, raiser: Raiser, allowance: &mut Allowance) {
        let share = allowance.share(raised.len());
        if share.number < raised.len() {
            self.shared.metrics.counters().raised_events_refused.add(raised.len() - share.number);
            tracing::warn!(owner = %self.owner, refused = raised.len() - share.number, "handlers raise too many events");
        }
        for notification in raised.into_iter().take(share.number) {
            let Notification { request, code, range, infos } = notification;
            let event = Event { code, source: self.speaks_as(), range, infos };
            let raised = Raised { event, raiser, allowance: share.each, request };
            if self.raised.send(raised).await.is_err() {
                // The server is stopping, and hears nothing any more.
                return;
            }
        }
    }

    /// As whom an owner's handlers raise events: a job's as the job, a user's as a namespace that no job can have, the
    /// site's as the resource manager.
    fn speaks_as(&self) -> Option<Proc> {
        let nspace = match &self.owner {
            Owner::Site => return None,
            Owner::User(uid) => Nspace::new(&format!("user-{uid}@peal")).ok()?,
            Owner::Namespace(nspace) => nspace.clone(),
        };
        Some(Proc::new(nspace, rank::PMIX_RANK_UNDEF))
    }

    /// As whom an owner's handlers act: what those of tenants raise must be permitted. Nothing for a tenant without a job.
    fn runs_as(&self, jobs: &[(Nspace, Identity)]) -> Option<Raiser> {
        let first = |of_owner: &dyn Fn(&Nspace, Identity) -> bool| {
            let found = jobs.iter().find(|(nspace, identity)| of_owner(nspace, *identity));
            found.map(|(_, identity)| Raiser::Tenant(*identity))
        };
        match &self.owner {
            Owner::Site => Some(Raiser::Site),
            Owner::User(uid) => first(&|_, identity| identity.uid == *uid),
            Owner::Namespace(own) => first(&|nspace, _| nspace == own),
        }
    }
}

struct Walked {
    finished: Finished,
    raised: Vec<Notification>,
    /// How modules want their registrations changed.
    changes: Vec<(Arc<Module>, Change)>,
}

/// Runs on a guest thread: the whole chain, one handler after the other.
fn walk(mut run: ChainRun<HostedHandler>, identity: Option<Identity>, meters: &RoleMeters, shared: &Shared) -> Walked {
    let (mut raised, mut changes) = (Vec::new(), Vec::new());
    let mut watch = Stopwatch::start();
    loop {
        let call = match run.advance() {
            Next::Call(call) => call,
            Next::Done(finished) => return Walked { finished, raised, changes },
        };
        if shared.stopped.load(Ordering::Relaxed) {
            run = call.finish(Outcome::status(Status::PEAL_ERR_HANDLER_UNAVAILABLE));
            continue;
        }
        let member = call.member();
        let result = member.handler.module.handle(&EventCall {
            registration: member.id.0,
            tag: member.handler.tag,
            event: call.event().clone(),
            identity,
            steps: call.steps().clone(),
        });
        meters.called(member.handler.module.name(), watch.lap(), &result.usage, result.failure.as_ref());
        raised.extend(result.notifications);
        changes.extend(result.changes.into_iter().map(|change| (member.handler.module.clone(), change)));
        run = call.finish(Outcome { status: result.status, infos: result.infos });
    }
}
