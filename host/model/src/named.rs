//! Sets of procs that calls name.
use crate::{Nspace, Proc};
use serde::{Deserialize, Serialize};
use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

/// Procs, sorted and each once. The list is immutable and shared: all members of a group of
/// thousands name the same procs.
#[derive(Clone, Debug, Serialize, Deserialize)]
// The list of a stranger is sorted when it is read.
#[serde(from = "Vec<Proc>")]
pub struct NamedProcs(Arc<[Proc]>);

impl From<Vec<Proc>> for NamedProcs {
    fn from(mut procs: Vec<Proc>) -> NamedProcs {
        // Lists mostly name ranks in their order. The check takes linear time and spares the sort.
        // Strict order also means that no proc occurs twice.
        if !procs.is_sorted_by(|one, next| one < next) {
            procs.sort_unstable();
            procs.dedup();
        }
        NamedProcs(procs.into())
    }
}

impl FromIterator<Proc> for NamedProcs {
    fn from_iter<I: IntoIterator<Item = Proc>>(procs: I) -> NamedProcs {
        procs.into_iter().collect::<Vec<Proc>>().into()
    }
}

impl NamedProcs {
    /// Returns true if a proc is in the list.
    pub fn contains(&self, proc: &Proc) -> bool {
        self.position_of(proc).is_some()
    }

    /// Returns the index of a proc in the list.
    pub fn position_of(&self, proc: &Proc) -> Option<usize> {
        self.binary_search(proc).ok()
    }

    /// Returns the procs of a job.
    pub fn of_job(&self, nspace: &Nspace) -> &[Proc] {
        // Procs are sorted by namespace first, so those of a job are one range.
        let before = |proc: &Proc| proc.nspace < *nspace;
        let behind = |proc: &Proc| proc.nspace <= *nspace;
        self.get(self.partition_point(before)..self.partition_point(behind))
            .unwrap_or_default()
    }

    /// Returns the procs of each job.
    pub fn of_each_job(&self) -> impl Iterator<Item = &[Proc]> {
        self.chunk_by(|one, next| one.nspace == next.nspace)
    }
}

impl Default for NamedProcs {
    fn default() -> NamedProcs {
        Vec::new().into()
    }
}

impl Deref for NamedProcs {
    type Target = [Proc];

    fn deref(&self) -> &[Proc] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a NamedProcs {
    type Item = &'a Proc;
    type IntoIter = std::slice::Iter<'a, Proc>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl Ord for NamedProcs {
    /// Compares the procs. Two lists that share an allocation are equal without a look at them.
    fn cmp(&self, other: &NamedProcs) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) {
            Ordering::Equal
        } else {
            self.0.cmp(&other.0)
        }
    }
}

impl PartialOrd for NamedProcs {
    fn partial_cmp(&self, other: &NamedProcs) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for NamedProcs {
    fn eq(&self, other: &NamedProcs) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for NamedProcs {}

impl Hash for NamedProcs {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Equal lists need equal hashes, also where they do not share an allocation.
        self.0.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rank;
    use std::collections::BTreeSet;

    #[test]
    fn set_of_procs_ignores_order_and_repetition() {
        let procs = |ranks: &[(&str, u32)]| -> Vec<Proc> {
            ranks
                .iter()
                .map(|(job, rank)| Proc::new(Nspace::new(job).unwrap(), Rank(*rank)))
                .collect()
        };
        let ordered = procs(&[("a", 0), ("a", 2), ("b", 1)]);
        for other in [
            procs(&[("a", 0), ("a", 2), ("b", 1)]),
            procs(&[("b", 1), ("a", 2), ("a", 0)]),
            procs(&[("a", 0), ("a", 0), ("a", 2), ("b", 1), ("b", 1)]),
        ] {
            let set: NamedProcs = other.iter().cloned().collect();
            assert_eq!(set.to_vec(), ordered);
            assert_eq!(set, NamedProcs::from(ordered.clone()));
            assert!(set.iter().eq(&other.into_iter().collect::<BTreeSet<_>>()));
        }
        let set = |ranks| NamedProcs::from(procs(ranks));
        assert_ne!(set(&[("a", 0)]), set(&[("a", 1)]));
        assert!(
            set(&[("a", 1)]) < set(&[("a", 1), ("a", 2)]) && set(&[("a", 9)]) < set(&[("b", 0)])
        );
    }

    #[test]
    fn procs_and_jobs_are_found_in_a_set() {
        let proc = |job: &str, rank| Proc::new(Nspace::new(job).unwrap(), Rank(rank));
        let all = [proc("a", 1), proc("a", 3), proc("b", 0), proc("d", 2)];
        let set: NamedProcs = all.iter().cloned().collect();
        for (place, proc) in all.iter().enumerate() {
            assert_eq!(set.position_of(proc), Some(place));
        }
        assert!(!set.contains(&proc("a", 2)) && !set.contains(&proc("c", 0)));
        let of = |job| set.of_job(&Nspace::new(job).unwrap()).to_vec();
        assert_eq!(
            [of("a"), of("b"), of("c"), of("d")],
            [&all[..2], &all[2..3], &[], &all[3..]]
        );
        let each: Vec<&[Proc]> = set.of_each_job().collect();
        assert_eq!(each, [&all[..2], &all[2..3], &all[3..]]);
    }
}
