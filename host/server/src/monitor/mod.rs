//! Work of the state machine's monitors that may block: reading the metadata of files, and
//! measuring resource usage.
mod files;

pub(crate) use files::MonitoredFiles;

use crate::{
    fair_semaphore::FairSemaphore,
    handle::{ActorMessage, ServerHandle},
    host_environment::HostEnvironment,
};
use peal_core::{
    monitor::{MonitorId, UsageRequest},
    server::FileLook,
};
use peal_helper::PrivilegedHelper;
use peal_model::{Proc, UserIdentity, code};
use std::sync::Arc;

/// Upper bounds of concurrent tasks, in total and for each user. The bound for a user exists
/// because a file may be on a file system that never responds.
const AT_ONCE: (usize, usize) = (16, 4);

/// Worker that runs these tasks on blocking threads and sends the results to the actor.
pub(crate) struct MonitorWorker {
    files: Arc<MonitoredFiles>,
    permits: Arc<FairSemaphore>,
    handle: ServerHandle,
    host: Arc<dyn HostEnvironment>,
}

impl MonitorWorker {
    pub(crate) fn new(
        handle: ServerHandle,
        host: Arc<dyn HostEnvironment>,
        helper: PrivilegedHelper,
    ) -> MonitorWorker {
        let (all, each) = AT_ONCE;
        MonitorWorker {
            files: Arc::new(MonitoredFiles::new(helper)),
            permits: Arc::new(FairSemaphore::new(all, each)),
            handle,
            host,
        }
    }

    /// Executes a file action of the state machine.
    pub(crate) fn look(&self, watch: MonitorId, look: FileLook) {
        let files = self.files.clone();
        let handle = self.handle.clone();
        match look {
            FileLook::Open { path, identity } => {
                // Add the monitor before the task runs, so that a close meanwhile cancels the
                // opening.
                files.expect(watch, &path, identity);
                self.work(identity, move || {
                    let seen = files.open(watch, &path, identity);
                    handle.send(ActorMessage::FileOpened { watch, seen });
                });
            }
            FileLook::Continue { path, identity } => files.expect(watch, &path, identity),
            FileLook::Again => {
                let Some(identity) = files.owner(watch) else {
                    return handle.send(ActorMessage::FileLookedAt { watch, seen: None });
                };
                self.work(identity, move || {
                    let seen = files.look(watch);
                    handle.send(ActorMessage::FileLookedAt { watch, seen });
                });
            }
            FileLook::Close => files.close(watch),
        }
    }

    /// Measures resource usage.
    pub(crate) fn measure(
        &self,
        watch: MonitorId,
        request: Arc<UsageRequest>,
        identity: UserIdentity,
    ) {
        let handle = self.handle.clone();
        let host = self.host.clone();
        self.work(identity, move || {
            let process_of = |proc: &Proc| host.running_process(proc);
            let found = peal_system::usage::measure(&request, identity, &process_of);
            handle.send(ActorMessage::Measured { watch, found });
        });
    }

    fn work(&self, identity: UserIdentity, work: impl FnOnce() + Send + 'static) {
        let permits = self.permits.clone();
        // A task, because the actor must not wait for the permit.
        tokio::spawn(async move {
            // The semaphore is not closed while the server exists.
            let Ok(permit) = permits.take(identity.uid).await else {
                return;
            };
            let done = tokio::task::spawn_blocking(move || {
                // The permit is kept until the work ends, because blocking work cannot be aborted.
                let _permit = permit;
                work();
            });
            if let Err(error) = done.await {
                tracing::error!(%error, "monitor task failed");
            }
        });
    }
}

/// Returns the status for a file or process that does not exist or that the requester may not read.
pub(crate) fn refused(error: &std::io::Error) -> peal_model::Status {
    match error.kind() {
        std::io::ErrorKind::NotFound => code::PMIX_ERR_NOT_FOUND,
        std::io::ErrorKind::PermissionDenied => code::PMIX_ERR_NO_PERMISSIONS,
        _ => code::PMIX_ERR_NOT_AVAILABLE,
    }
}
