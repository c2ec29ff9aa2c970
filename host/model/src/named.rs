//! Procs as calls name them.
use crate::Proc;
use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
    ops::Deref,
    sync::Arc,
};

/// Procs, each once and in their order. It does not change, and whoever has it shares it: all members of a group of thousands name
/// the same.
#[derive(Clone, Debug)]
pub struct NamedProcs(Arc<[Proc]>);

impl From<Vec<Proc>> for NamedProcs {
    fn from(mut procs: Vec<Proc>) -> NamedProcs {
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
    /// By their procs. What is one and the same is not looked into.
    fn cmp(&self, other: &NamedProcs) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.cmp(&other.0) }
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
        self.0.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Nspace, Rank};
    use std::collections::BTreeSet;

    #[test]
    fn a_set_is_the_same_in_whatever_order_and_however_often_its_procs_are_named() {
        let procs = |ranks: &[(&str, u32)]| -> Vec<Proc> {
            ranks.iter().map(|(job, rank)| Proc::new(Nspace::new(job).unwrap(), Rank(*rank))).collect()
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
        assert!(set(&[("a", 1)]) < set(&[("a", 1), ("a", 2)]) && set(&[("a", 9)]) < set(&[("b", 0)]));
    }
}
