//! What procs publish and look up in the embedded host: the state machine, and those who wait for it to answer.
use peal_core::published::{
    DataRequester, FinishedLookup, LookupResult, PublishLimits, Published, WaitId,
};
use peal_model::{Info, Nspace, Pdata, Proc, Status, Text, code};
use peal_server::UpcallFuture;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::oneshot::{self, Receiver, Sender},
    time::timeout,
};

/// What is published here.
#[derive(Debug, Default)]
pub(super) struct Publishing(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    published: Published,
    /// Whom to tell of lookups that wait.
    waiting: BTreeMap<WaitId, Sender<Vec<Pdata>>>,
    /// The jobs that there are, by whose they are: a user's session lasts as long as the last of them.
    jobs: BTreeMap<Nspace, u32>,
}

impl Publishing {
    pub(super) fn new(limits: PublishLimits) -> Publishing {
        Publishing(Mutex::new(Inner {
            published: Published::new(limits),
            ..Inner::default()
        }))
    }

    pub(super) fn publish(&self, by: &DataRequester, infos: Vec<Info>) -> Result<(), Status> {
        let mut inner = self.lock();
        for FinishedLookup { wait, found } in inner.published.publish(by, infos)? {
            if let Some(tell) = inner.waiting.remove(&wait) {
                // Who no longer listens is gone.
                let _ = tell.send(found);
            }
        }
        Ok(())
    }

    /// Looks up what is there now; whoever wants more than that waits in the answer.
    pub(super) fn lookup(
        &self,
        by: &DataRequester,
        keys: &[Text],
        infos: &[Info],
    ) -> UpcallFuture<'_, Vec<Pdata>> {
        let mut inner = self.lock();
        let (wait, limit) = match inner.published.lookup(by, keys, infos) {
            Err(status) => return Box::pin(std::future::ready(Err(status))),
            Ok(LookupResult::Found(found)) => return Box::pin(std::future::ready(Ok(found))),
            Ok(LookupResult::Waits(wait, limit)) => (wait, limit),
        };
        let (tell, told) = oneshot::channel();
        inner.waiting.insert(wait, tell);
        drop(inner);
        Box::pin(self.wait(wait, told, limit))
    }

    async fn wait(
        &self,
        wait: WaitId,
        mut told: Receiver<Vec<Pdata>>,
        limit: Option<Duration>,
    ) -> Result<Vec<Pdata>, Status> {
        let answer = match limit {
            None => (&mut told).await,
            Some(limit) => match timeout(limit, &mut told).await {
                Ok(answer) => answer,
                Err(_) => {
                    let mut inner = self.lock();
                    inner.published.give_up(wait);
                    inner.settle();
                    // It may have come in the last moment.
                    return told.try_recv().map_err(|_| code::PMIX_ERR_TIMEOUT);
                }
            },
        };
        answer.map_err(|_| code::PMIX_ERR_NOT_AVAILABLE)
    }

    pub(super) fn unpublish(&self, by: &DataRequester, keys: &[Text]) -> Result<(), Status> {
        self.lock().published.unpublish(by, keys)
    }

    pub(super) fn proc_ended(&self, proc: &Proc) {
        let mut inner = self.lock();
        inner.published.proc_ended(proc);
        inner.settle();
    }

    pub(super) fn tool_left(&self, tool: &Proc) {
        let mut inner = self.lock();
        inner.published.tool_left(tool);
        inner.settle();
    }

    pub(super) fn job_added(&self, nspace: Nspace, uid: u32) {
        self.lock().jobs.insert(nspace, uid);
    }

    pub(super) fn job_removed(&self, nspace: &Nspace) {
        let mut inner = self.lock();
        inner.published.job_ended(nspace);
        inner.settle();
        if let Some(uid) = inner.jobs.remove(nspace)
            && !inner.jobs.values().any(|other| *other == uid)
        {
            inner.published.session_ended(uid);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Whose lookup waits no more is told nothing any more.
    fn settle(&mut self) {
        let Inner {
            published, waiting, ..
        } = self;
        waiting.retain(|wait, _| published.awaits(*wait));
    }
}
