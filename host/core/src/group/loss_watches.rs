//! Who invites procs of another server to a group hears when one of them is lost: that server tells ours, of jobs that we ask about.
//! Ends of procs are else known where the procs are, and to the coordinator.
use super::{GroupAction, GroupMessage, Groups, ServerId};
use peal_model::{Nspace, Proc};
use std::collections::{BTreeMap, BTreeSet};

/// Of whose ends servers tell each other.
#[derive(Debug, Default)]
pub(super) struct LossWatches {
    /// Servers that want to hear of jobs here.
    watchers: BTreeMap<Nspace, BTreeSet<ServerId>>,
    /// The jobs of others of which we do.
    watched: BTreeSet<Nspace>,
}

impl LossWatches {
    pub(super) fn is_empty(&self) -> bool {
        self.watchers.is_empty() && self.watched.is_empty()
    }

    /// A job is gone.
    pub(super) fn forget_job(&mut self, nspace: &Nspace) {
        self.watchers.remove(nspace);
        self.watched.remove(nspace);
    }

    /// A server is gone.
    pub(super) fn forget_server(&mut self, server: ServerId) {
        self.watchers.retain(|_, servers| {
            servers.remove(&server);
            !servers.is_empty()
        });
    }

    /// A server wants to hear of a job here.
    pub(super) fn add(&mut self, nspace: Nspace, server: ServerId) {
        self.watchers.entry(nspace).or_default().insert(server);
    }
}

impl Groups {
    /// Somebody here waits for these: whoever is lost of them at other servers is told of ([`GroupAction::Lost`]).
    pub fn watch(&mut self, procs: &[Proc]) -> Vec<GroupAction> {
        for proc in procs {
            let home = self
                .directory
                .home(&proc.nspace)
                .filter(|home| *home != self.me);
            if let Some(home) = home
                && self.watches.watched.insert(proc.nspace.clone())
            {
                self.send(home, GroupMessage::Watch(proc.nspace.clone()));
            }
        }
        self.taken()
    }

    /// A proc of this server has ended, or lost its connection, without having left in order.
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
        self.taken()
    }

    /// Procs of other servers are lost.
    pub(super) fn tell_lost(&mut self, procs: &[Proc]) {
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
