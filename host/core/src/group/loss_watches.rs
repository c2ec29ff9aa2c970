//! Watches for the loss of procs on other servers, for leaders of invitations. The server of the
//! procs notifies the servers that watch their jobs. Other than that, only a proc's own server and
//! the coordinator know of its end.
use super::{GroupAction, GroupMessage, Groups, ServerId};
use peal_model::{Nspace, Proc};
use std::collections::{BTreeMap, BTreeSet};

/// The watches of this server and of others.
#[derive(Debug, Default)]
pub(super) struct LossWatches {
    /// Servers that watch local jobs.
    watchers: BTreeMap<Nspace, BTreeSet<ServerId>>,
    /// Remote jobs that this server watches.
    watched: BTreeSet<Nspace>,
}

impl LossWatches {
    pub(super) fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.watched.is_empty()
    }

    /// Removes a job.
    pub(super) fn forget_job(&mut self, nspace: &Nspace) {
        self.watchers.remove(nspace);
        self.watched.remove(nspace);
    }

    /// Removes a server.
    pub(super) fn forget_server(&mut self, server: ServerId) {
        self.watchers.retain(|_, servers| {
            servers.remove(&server);
            !servers.is_empty()
        });
    }

    /// Adds a watch of a server for a local job.
    pub(super) fn add(&mut self, nspace: Nspace, server: ServerId) {
        self.watchers.entry(nspace).or_default().insert(server);
    }
}

impl Groups {
    /// Watches procs on behalf of a local leader. Remote ones that are lost are reported by
    /// [`GroupAction::Lost`].
    pub fn watch(&mut self, procs: &[Proc]) -> Vec<GroupAction> {
        for proc in procs {
            let home = self
                .directory
                .home(&proc.nspace)
                .filter(|home| *home != self.me);
            if let Some(home) = home
                // One watch for each job is enough: its server reports the loss of any of its
                // procs.
                && self.watches.watched.insert(proc.nspace.clone())
            {
                self.send(home, GroupMessage::Watch(proc.nspace.clone()));
            }
        }
        self.take_actions()
    }

    /// Reports a proc of this server that ended without finalizing to the servers that watch its
    /// job.
    pub fn lost(&mut self, proc: &Proc) -> Vec<GroupAction> {
        let watchers = self
            .watches
            .watchers
            .get(&proc.nspace)
            .cloned()
            .unwrap_or_default();
        watchers
            .into_iter()
            .for_each(|server| self.send(server, GroupMessage::Lost(proc.clone())));
        self.take_actions()
    }

    /// Reports lost procs of other servers to the caller.
    pub(super) fn report_lost(&mut self, procs: &[Proc]) {
        for proc in procs
            .iter()
            .filter(|proc| self.watches.watched.contains(&proc.nspace))
        {
            let Some(owner) = self.directory.owner(&proc.nspace) else {
                continue;
            };
            self.steps.push(GroupAction::Lost {
                proc: proc.clone(),
                uid: owner.uid,
            });
        }
    }
}
