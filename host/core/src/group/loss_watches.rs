//! Watches for the loss of procs on other servers, for leaders of invitations. The server of the
//! procs notifies the servers that watch their jobs. Other than that, only a proc's own server and
//! the coordinator know of its end.
use super::{GroupAction, GroupMessage, Groups, ServerId};
use peal_model::{Nspace, Proc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The watches of this server and of others.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct LossWatches {
    /// Servers that watch local jobs.
    watchers: BTreeMap<Nspace, BTreeSet<ServerId>>,
    /// Servers that this one has asked to report losses, by the jobs that it watches.
    watched: BTreeMap<Nspace, BTreeSet<ServerId>>,
}

impl LossWatches {
    pub(super) fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.watched.is_empty()
    }

    /// Removes the watches for a job of this server.
    pub(super) fn forget_watchers(&mut self, nspace: &Nspace) {
        self.watchers.remove(nspace);
    }

    /// Removes the watch for procs of a job on another server.
    pub(super) fn forget_watched(&mut self, nspace: &Nspace, server: ServerId) {
        if let Some(servers) = self.watched.get_mut(nspace) {
            servers.remove(&server);
            if servers.is_empty() {
                self.watched.remove(nspace);
            }
        }
    }

    /// Removes the watches for procs on another server.
    pub(super) fn forget_watched_at(&mut self, server: ServerId) {
        self.watched.retain(|_, servers| {
            servers.remove(&server);
            !servers.is_empty()
        });
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
            for home in self.directory.servers_of(proc) {
                // One watch for each job and server is enough: the server reports the loss of any
                // of its procs.
                if home != self.me
                    && self
                        .watches
                        .watched
                        .entry(proc.nspace.clone())
                        .or_default()
                        .insert(home)
                {
                    self.send(home, GroupMessage::Watch(proc.nspace.clone()));
                }
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
            .filter(|proc| self.watches.watched.contains_key(&proc.nspace))
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
