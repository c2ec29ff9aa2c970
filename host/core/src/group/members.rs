//! Who is in a group, in their order, and found without looking through all of them.
use peal_model::{NamedProcs, Nspace, Proc};
use std::sync::Arc;

/// The members of a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Members {
    named: NamedProcs,
    /// Their order, where it is another.
    ordered: Option<Arc<[Proc]>>,
}

impl Default for Members {
    fn default() -> Members {
        NamedProcs::default().into()
    }
}

impl From<NamedProcs> for Members {
    /// These, in the order of procs.
    fn from(named: NamedProcs) -> Members {
        Members {
            named,
            ordered: None,
        }
    }
}

impl Members {
    /// These in this order, each of whom is named once.
    pub fn new(ordered: Vec<Proc>) -> Members {
        let named: NamedProcs = ordered.iter().cloned().collect();
        let ordered = (*named != *ordered).then(|| ordered.into());
        Members { named, ordered }
    }

    /// In their order.
    pub fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.ordered.as_deref().unwrap_or(&self.named).iter()
    }

    /// Who they are, whatever their order is.
    pub(super) fn named(&self) -> &NamedProcs {
        &self.named
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.named.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty()
    }

    /// Whether somebody is one.
    pub fn contains(&self, proc: &Proc) -> bool {
        self.named.holds(proc)
    }

    /// Their jobs.
    pub fn jobs(&self) -> impl Iterator<Item = &Nspace> {
        self.of_each_job()
            .filter_map(<[Proc]>::first)
            .map(|proc| &proc.nspace)
    }

    /// Those of each job.
    pub fn of_each_job(&self) -> impl Iterator<Item = &[Proc]> {
        self.named.of_each_job()
    }

    /// Whether any of them is of this job.
    pub(super) fn has_job(&self, nspace: &Nspace) -> bool {
        !self.named.of_job(nspace).is_empty()
    }

    /// Those of a job.
    pub fn of_job(&self, nspace: &Nspace) -> &[Proc] {
        self.named.of_job(nspace)
    }
}
