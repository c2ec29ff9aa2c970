//! Chain of one job without a server, for a program in a job of another server (`peal attach`).
use super::{ChainEvent, ChainSettings, Chains, GuestPools, HostedChains, WholeChains};
use crate::{
    handler_requests::HandlerRequest,
    metrics::Metrics,
    notice::{ChainResults, Notices},
    shadow::Shadows,
};
use peal_core::{
    registration::EventCodes,
    server::{EventBudget, EventOrigin},
    user_scope::UserScope,
};
use peal_model::{Event, Nspace, UserIdentity};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Upper bound of the requests of handlers that wait to be fetched.
const MAX_HANDLER_REQUESTS: usize = 1024;

/// Future results of an event; none if the event is lost.
#[derive(Debug)]
pub struct ChainCompletion(oneshot::Receiver<Arc<Vec<ChainResults>>>);

impl ChainCompletion {
    /// Waits for the results.
    pub async fn results(self) -> Option<Arc<Vec<ChainResults>>> {
        self.0.await.ok()
    }
}

/// Handlers of one job.
pub struct StandaloneChain {
    chains: Chains,
    jobs: Arc<Vec<(Nspace, UserIdentity)>>,
    codes: Vec<EventCodes>,
}

impl StandaloneChain {
    /// Starts the handlers of this job. The receiver returns the requests that handlers make in
    /// addition to their results.
    pub fn start(
        job: (Nspace, UserIdentity),
        hosted: HostedChains,
        pools: &GuestPools,
        settings: ChainSettings,
        notices: Notices,
    ) -> (StandaloneChain, mpsc::Receiver<HandlerRequest>) {
        let codes = hosted.codes();
        let metrics: Arc<Metrics> = Arc::default();
        let shadows = Shadows::new(&pools.shadows, &metrics);
        let (send, requests) = mpsc::channel(MAX_HANDLER_REQUESTS);
        let chains = Chains::start(hosted, pools, settings, &send, notices, metrics, shadows);
        (
            StandaloneChain {
                chains,
                jobs: Arc::new(vec![job]),
                codes,
            },
            requests,
        )
    }

    /// Lets an event pass. The handlers may raise as many events as the budget allows.
    pub fn pass(&self, event: Arc<Event>, allowance: EventBudget) -> ChainCompletion {
        let (sender, receiver) = oneshot::channel();
        let number = self.chains.number();
        self.chains.submit(ChainEvent {
            number,
            span: ChainEvent::span(number, &event),
            event,
            origin: EventOrigin::ThisServer,
            whole_chains: WholeChains::All,
            // The server has already decided which users may receive the event.
            reach: UserScope::Everybody,
            allowance,
            source: None,
            jobs: self.jobs.clone(),
            termination_reply: None,
            awaited: Some(sender),
        });
        ChainCompletion(receiver)
    }

    /// Returns the codes of the current registrations, and of those at the start.
    pub fn codes(&self) -> Vec<EventCodes> {
        let now = self.chains.view().chains();
        let now = now
            .into_iter()
            .flat_map(|(_, handlers)| handlers)
            .map(|handler| handler.registration.codes.clone());
        self.codes.iter().cloned().chain(now).collect()
    }

    /// Waits until every event has passed and the handlers have stopped.
    pub async fn drain(mut self) {
        self.chains.drain().await;
    }
}
