//! Assemblages of connected procs, by the set of procs that they named (`PMIx_Connect`).
use peal_model::{NamedProcs, Nspace, Proc};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// All assemblages of a server.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Assemblages(BTreeMap<NamedProcs, BTreeSet<Proc>>);

impl Assemblages {
    /// Connects procs under the set that they named.
    pub(crate) fn connect(&mut self, named: NamedProcs, members: BTreeSet<Proc>) {
        self.0.insert(named, members);
    }

    /// Dissolves an assemblage.
    pub(crate) fn disconnect(&mut self, named: &NamedProcs) {
        self.0.remove(named);
    }

    /// Returns the number of assemblages that a proc is in.
    pub(crate) fn count(&self, proc: &Proc) -> usize {
        self.0
            .values()
            .filter(|members| members.contains(proc))
            .count()
    }

    /// Removes a proc from all assemblages and returns the procs that it was connected with.
    pub(crate) fn leave(&mut self, proc: &Proc) -> BTreeSet<Proc> {
        let mut others = BTreeSet::new();
        for members in self.0.values_mut() {
            if members.remove(proc) {
                others.extend(members.iter().cloned());
            }
        }
        // A proc that is left alone is connected with no other.
        self.0.retain(|_, members| members.len() > 1);
        others
    }

    /// Removes the procs of a job.
    pub(crate) fn drop_job(&mut self, nspace: &Nspace) {
        self.0.retain(|_, members| {
            members.retain(|proc| proc.nspace != *nspace);
            members.len() > 1
        });
    }
}
