//! Published data of the embedded host environment: the state machine of peal-core, and the
//! lookups that wait.
use peal_core::{
    published::{
        DataRequester, FinishedLookup, LookupResult, PublishLimits, PublishRefusal, Published,
        WaitId,
    },
    quota::QuotaReport,
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

/// Published data and waiting lookups.
#[derive(Debug)]
pub(super) struct Publishing(Mutex<Inner>);

#[derive(Debug)]
struct Inner {
    published: Published,
    /// Reply channels of waiting lookups.
    waiting: BTreeMap<WaitId, Sender<Vec<Pdata>>>,
    /// User of each job. The session of a user ends with the last job of the user.
    jobs: BTreeMap<Nspace, u32>,
}

impl Publishing {
    pub(super) fn new(limits: PublishLimits) -> Publishing {
        let server = rustix::process::geteuid().as_raw();
        Publishing(Mutex::new(Inner {
            published: Published::new(limits, server),
            waiting: BTreeMap::new(),
            jobs: BTreeMap::new(),
        }))
    }

    /// Adds what each user has published to a report.
    pub(super) fn report_quotas(&self, report: &mut QuotaReport) {
        self.lock().published.report_quotas(report);
    }

    pub(super) fn publish(&self, by: &DataRequester, infos: Vec<Info>) -> Result<(), Status> {
        let mut inner = self.lock();
        let published = inner.published.publish(by, infos);
        for FinishedLookup { wait, found } in published.map_err(|refusal| refused(by, refusal))? {
            if let Some(sender) = inner.waiting.remove(&wait) {
                // An error means that the requester has given up.
                let _ = sender.send(found);
            }
        }
        Ok(())
    }

    /// Looks up published data. The returned future waits if the request waits for more data.
    pub(super) fn lookup(
        &self,
        by: &DataRequester,
        keys: &[Text],
        infos: &[Info],
    ) -> UpcallFuture<'_, Vec<Pdata>> {
        let mut inner = self.lock();
        let (wait, limit) = match inner.published.lookup(by, keys, infos) {
            Err(refusal) => return Box::pin(std::future::ready(Err(refused(by, refusal)))),
            Ok(LookupResult::Found(found)) => return Box::pin(std::future::ready(Ok(found))),
            Ok(LookupResult::Waits(wait, limit)) => (wait, limit),
        };
        let (sender, reply) = oneshot::channel();
        // Inserted under the same lock as the lookup, so that no publication in between is missed.
        inner.waiting.insert(wait, sender);
        drop(inner);
        Box::pin(self.wait(wait, reply, limit))
    }

    /// Waits for the reply of a lookup, up to its time limit.
    async fn wait(
        &self,
        wait: WaitId,
        mut reply: Receiver<Vec<Pdata>>,
        limit: Option<Duration>,
    ) -> Result<Vec<Pdata>, Status> {
        let answer = match limit {
            None => (&mut reply).await,
            Some(limit) => match timeout(limit, &mut reply).await {
                Ok(answer) => answer,
                Err(_) => {
                    let mut inner = self.lock();
                    inner.published.give_up(wait);
                    inner.settle();
                    // The reply may have arrived between the time-out and the lock.
                    return reply.try_recv().map_err(|_| code::PMIX_ERR_TIMEOUT);
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
        // No code panics halfway through a change under this lock, so poisoned data are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the status of a refusal. The protocol has no room for the name of the setting.
fn refused(by: &DataRequester, refusal: PublishRefusal) -> Status {
    if let PublishRefusal::Limit { .. } = refusal {
        tracing::debug!(proc = %by.proc, uid = by.uid, %refusal, "published data refused");
    }
    refusal.status()
}

impl Inner {
    /// Drops the reply channels of lookups that no longer wait, which ends them with an error.
    fn settle(&mut self) {
        let Inner {
            published, waiting, ..
        } = self;
        waiting.retain(|wait, _| published.awaits(*wait));
    }
}
