//! Procs that are connected: who is in which assemblage, by the set of procs that they named (`PMIx_Connect`).
use peal_model::{NamedProcs, Nspace, Proc};
use std::collections::{BTreeMap, BTreeSet};

/// All assemblages of this server.
#[derive(Debug, Default)]
pub(crate) struct Assemblages(BTreeMap<NamedProcs, BTreeSet<Proc>>);

impl Assemblages {
    /// These procs are connected, under the set that they named.
    pub(crate) fn connect(&mut self, named: NamedProcs, members: BTreeSet<Proc>) {
        self.0.insert(named, members);
    }

    /// They are no more.
    pub(crate) fn disconnect(&mut self, named: &NamedProcs) {
        self.0.remove(named);
    }

    /// In how many somebody is.
    pub(crate) fn count(&self, proc: &Proc) -> usize {
        self.0
            .values()
            .filter(|members| members.contains(proc))
            .count()
    }

    /// Somebody is in none any more: with whom it was connected.
    pub(crate) fn leave(&mut self, proc: &Proc) -> BTreeSet<Proc> {
        let mut others = BTreeSet::new();
        for members in self.0.values_mut() {
            if members.remove(proc) {
                others.extend(members.iter().cloned());
            }
        }
        self.0.retain(|_, members| members.len() > 1);
        others
    }

    /// A job is gone.
    pub(crate) fn drop_job(&mut self, nspace: &Nspace) {
        self.0.retain(|_, members| {
            members.retain(|proc| proc.nspace != *nspace);
            members.len() > 1
        });
    }
}
