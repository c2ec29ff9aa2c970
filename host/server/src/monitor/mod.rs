//! What the state machine of monitoring has done for it: files are looked at, and what is used is looked up.
mod files;

pub(crate) use files::MonitoredFiles;

use crate::{
    fair_semaphore::FairSemaphore,
    handle::{ActorMessage, ServerHandle},
    host_environment::{HostEnvironment, ProcessLookup},
};
use peal_core::{
    monitor::{MonitorId, UsageRequest},
    server::FileLook,
};
use peal_model::{UserIdentity, code};
use std::sync::Arc;

/// How many of these things are done at once, and how many of them for one user: a file may lie where every look takes for ever.
const AT_ONCE: (usize, usize) = (16, 4);

/// Does them, on threads on which one may wait, and tells the actor.
pub(crate) struct MonitorWorker {
    files: Arc<MonitoredFiles>,
    turns: Arc<FairSemaphore>,
    handle: ServerHandle,
    host: Arc<dyn HostEnvironment>,
}

impl MonitorWorker {
    pub(crate) fn new(handle: ServerHandle, host: Arc<dyn HostEnvironment>) -> MonitorWorker {
        let (all, each) = AT_ONCE;
        MonitorWorker {
            files: Arc::default(),
            turns: Arc::new(FairSemaphore::new(all, each)),
            handle,
            host,
        }
    }

    /// Looks at a file as the state machine wants it.
    pub(crate) fn look(&self, watch: MonitorId, look: FileLook) {
        let (files, handle) = (self.files.clone(), self.handle.clone());
        match look {
            FileLook::Open { path, identity } => {
                files.expect(watch, identity);
                self.work(identity, move || {
                    let seen = files.open(watch, &path, identity);
                    handle.send(ActorMessage::FileOpened { watch, seen });
                });
            }
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

    /// Looks up what is used.
    pub(crate) fn measure(
        &self,
        watch: MonitorId,
        asked: Arc<UsageRequest>,
        identity: UserIdentity,
    ) {
        let (handle, host) = (self.handle.clone(), self.host.clone());
        self.work(identity, move || {
            let found = peal_system::usage::measure(&asked, identity, &|proc| match host
                .process_of(proc)
            {
                ProcessLookup::Running(pid) => Some(pid),
                ProcessLookup::Unknown | ProcessLookup::Ended => None,
            });
            handle.send(ActorMessage::Measured { watch, found });
        });
    }

    fn work(&self, identity: UserIdentity, work: impl FnOnce() + Send + 'static) {
        let turns = self.turns.clone();
        tokio::spawn(async move {
            // Nobody closes the turns as long as there is a server.
            let Ok(turn) = turns.take(identity.uid).await else {
                return;
            };
            let done = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                work();
            });
            if let Err(error) = done.await {
                tracing::error!(%error, "a look at what is monitored failed");
            }
        });
    }
}

/// What there is to say when something is not there, or not for whoever asks.
pub(crate) fn refused(error: &std::io::Error) -> peal_model::Status {
    match error.kind() {
        std::io::ErrorKind::NotFound => code::PMIX_ERR_NOT_FOUND,
        std::io::ErrorKind::PermissionDenied => code::PMIX_ERR_NO_PERMISSIONS,
        _ => code::PMIX_ERR_NOT_AVAILABLE,
    }
}
