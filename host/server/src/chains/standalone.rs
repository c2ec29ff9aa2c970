//! The chain of one job without a server around it: for a program in a job that another server runs (`peal attach`).
use super::{ChainEvent, ChainSettings, Chains, GuestPools, HostedChains};
use crate::{
    handler_requests::HandlerRequest,
    metrics::Metrics,
    notice::{ChainResults, Notices},
    shadow::Shadows,
};
use peal_core::{registration::EventCodes, server::EventBudget, user_scope::UserScope};
use peal_model::{Event, Nspace, UserIdentity};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// How much of what handlers want may wait to be fetched.
const WANTED: usize = 1024;

/// What became of an event, once the chain is behind it; nothing where it got lost.
#[derive(Debug)]
pub struct ChainCompletion(oneshot::Receiver<Arc<Vec<ChainResults>>>);

impl ChainCompletion {
    /// Waits for it.
    pub async fn results(self) -> Option<Arc<Vec<ChainResults>>> {
        self.0.await.ok()
    }
}

/// The handlers of one job.
pub struct StandaloneChain {
    chains: Chains,
    jobs: Arc<Vec<(Nspace, UserIdentity)>>,
    codes: Vec<EventCodes>,
}

impl StandaloneChain {
    /// Starts the handlers of this job. What they want beyond their answers comes out at the other end.
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
        let (want, wanted) = mpsc::channel(WANTED);
        let chains = Chains::start(hosted, pools, settings, &want, notices, metrics, shadows);
        (
            StandaloneChain {
                chains,
                jobs: Arc::new(vec![job]),
                codes,
            },
            wanted,
        )
    }

    /// Lets an event pass, after which so many may follow.
    pub fn pass(&self, event: Arc<Event>, allowance: EventBudget) -> ChainCompletion {
        let (tell, told) = oneshot::channel();
        let number = self.chains.number();
        self.chains.submit(ChainEvent {
            number,
            span: ChainEvent::span(number, &event),
            event,
            // Who is to hear of it the server has decided.
            reach: UserScope::Everybody,
            allowance,
            source: None,
            jobs: self.jobs.clone(),
            asked: None,
            awaited: Some(tell),
        });
        ChainCompletion(told)
    }

    /// The codes that the handlers are registered for now, and were when they started.
    pub fn codes(&self) -> Vec<EventCodes> {
        let now = self.chains.view().chains();
        let now = now
            .into_iter()
            .flat_map(|(_, standing)| standing)
            .map(|standing| standing.registration.codes.clone());
        self.codes.iter().cloned().chain(now).collect()
    }

    /// Waits until every event has passed and the handlers have stopped.
    pub async fn drain(self) {
        self.chains.drain().await;
    }
}
