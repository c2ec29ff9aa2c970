//! Members of a group in their order, with lookup in logarithmic time.
use peal_model::{NamedProcs, Nspace, Proc};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, sync::Arc};

/// The members of a group.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
// The list of a stranger is made anew when it is read, so that both lists have the same procs.
#[serde(from = "Vec<Proc>", into = "Vec<Proc>")]
pub struct Members {
    named: NamedProcs,
    /// Their order, if it differs from the order of procs.
    ordered: Option<Arc<[Proc]>>,
}

impl Default for Members {
    fn default() -> Members {
        NamedProcs::default().into()
    }
}

impl From<Vec<Proc>> for Members {
    /// Returns members in this order. A proc that occurs again is left out.
    fn from(mut ordered: Vec<Proc>) -> Members {
        let mut seen = BTreeSet::new();
        ordered.retain(|proc| seen.insert(proc.clone()));
        Members::new(ordered)
    }
}

impl From<Members> for Vec<Proc> {
    fn from(members: Members) -> Vec<Proc> {
        members.iter().cloned().collect()
    }
}

impl From<NamedProcs> for Members {
    /// Returns members in the order of procs.
    fn from(named: NamedProcs) -> Members {
        Members {
            named,
            ordered: None,
        }
    }
}

impl Members {
    /// Returns members in this order. Each proc must occur once.
    pub fn new(ordered: Vec<Proc>) -> Members {
        let named: NamedProcs = ordered.iter().cloned().collect();
        // Most groups have the order of procs, which needs no second list.
        let ordered = (*named != *ordered).then(|| ordered.into());
        Members { named, ordered }
    }

    /// Returns the members in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.ordered.as_deref().unwrap_or(&self.named).iter()
    }

    /// Returns the members in the order of procs.
    pub(super) fn named(&self) -> &NamedProcs {
        &self.named
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Returns true if there are no members.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Returns true if a proc is a member.
    pub fn contains(&self, proc: &Proc) -> bool {
        self.named.contains(proc)
    }

    /// Returns the jobs of the members.
    pub fn jobs(&self) -> impl Iterator<Item = &Nspace> {
        self.of_each_job()
            .filter_map(<[Proc]>::first)
            .map(|proc| &proc.nspace)
    }

    /// Returns the members of each job.
    pub fn of_each_job(&self) -> impl Iterator<Item = &[Proc]> {
        self.named.of_each_job()
    }

    /// Returns true if any member belongs to a job.
    pub(super) fn has_job(&self, nspace: &Nspace) -> bool {
        !self.named.of_job(nspace).is_empty()
    }

    /// Returns the members of a job.
    pub fn of_job(&self, nspace: &Nspace) -> &[Proc] {
        self.named.of_job(nspace)
    }
}
