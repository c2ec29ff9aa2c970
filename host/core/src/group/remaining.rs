//! A set of named procs from which procs are checked off.
use peal_model::{NamedProcs, Proc};
use serde::{Deserialize, Serialize};

/// Number of procs in one word of the bit set.
const WORD: usize = 64;

/// Procs of which some are checked off. The list of names is shared, so the set is cheap however
/// large the list is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct RemainingProcs {
    named: NamedProcs,
    /// One bit for each proc that is checked off; as many words as needed.
    ticked: Vec<u64>,
    left: usize,
}

impl From<NamedProcs> for RemainingProcs {
    /// Returns a set with none of the procs checked off.
    fn from(named: NamedProcs) -> RemainingProcs {
        RemainingProcs {
            left: named.len(),
            ticked: Vec::new(),
            named,
        }
    }
}

impl RemainingProcs {
    /// Returns true if a proc is named and not checked off.
    pub(super) fn has(&self, proc: &Proc) -> bool {
        self.named
            .position_of(proc)
            .is_some_and(|place| !self.is_ticked(place))
    }

    /// Checks a proc off. Returns true if it remained.
    pub(super) fn check_off(&mut self, proc: &Proc) -> bool {
        let Some(place) = self
            .named
            .position_of(proc)
            .filter(|place| !self.is_ticked(*place))
        else {
            return false;
        };
        let word = place / WORD;
        let bit = place % WORD;
        // Bits are allocated as procs are checked off, so a set in which all remain has none.
        if word >= self.ticked.len() {
            self.ticked.resize(word + 1, 0);
        }
        if let Some(word) = self.ticked.get_mut(word) {
            *word |= 1 << bit;
        }
        self.left -= 1;
        true
    }

    /// Returns the remaining procs, in the order of procs.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Proc> {
        self.named
            .iter()
            .enumerate()
            .filter(|(place, _)| !self.is_ticked(*place))
            .map(|(_, proc)| proc)
    }

    /// Returns true if no proc remains.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }

    fn is_ticked(&self, place: usize) -> bool {
        self.ticked
            .get(place / WORD)
            .is_some_and(|word| word >> (place % WORD) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Nspace, Rank};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn removed_procs_equal_set_difference(named in prop::collection::vec(0u32..200, 0..150), ticked in prop::collection::vec(0u32..200, 0..150)) {
            let nspace = Nspace::new("job").unwrap();
            let proc = |rank: &u32| Proc::new(nspace.clone(), Rank(*rank));
            let mut set: BTreeSet<Proc> = named.iter().map(proc).collect();
            let mut roll = RemainingProcs::from(named.iter().map(proc).collect::<NamedProcs>());
            // Some procs by chance, then all that remain.
            for rank in ticked.iter().chain(&named) {
                prop_assert_eq!(roll.has(&proc(rank)), set.contains(&proc(rank)));
                prop_assert_eq!(roll.check_off(&proc(rank)), set.remove(&proc(rank)));
                prop_assert_eq!(roll.is_empty(), set.is_empty());
                prop_assert!(roll.iter().eq(&set));
            }
        }
    }
}
