//! Accounting of memory that is charged to users.
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The bytes of each user; users without any are not contained.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct UserBytes(BTreeMap<u32, usize>);

/// Error for a charge beyond the user's share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverShare;

impl UserBytes {
    /// Charges `new` bytes in place of `old` ones. A user beyond `share` may still replace
    /// something by less.
    pub(crate) fn replace(
        &mut self,
        uid: u32,
        old: usize,
        new: usize,
        share: usize,
    ) -> Result<(), OverShare> {
        let after = self.of(uid).saturating_sub(old).saturating_add(new);
        if new > old && after > share {
            return Err(OverShare);
        }
        self.set(uid, after);
        Ok(())
    }

    /// Gives bytes of a user back.
    pub(crate) fn give_back(&mut self, uid: u32, bytes: usize) {
        self.set(uid, self.of(uid).saturating_sub(bytes));
    }

    /// Returns the bytes of a user.
    pub(crate) fn of(&self, uid: u32) -> usize {
        self.0.get(&uid).copied().unwrap_or_default()
    }

    /// Returns the bytes of each user.
    pub(crate) fn by_user(&self) -> impl Iterator<Item = (u32, usize)> {
        self.0.iter().map(|(uid, bytes)| (*uid, *bytes))
    }

    /// Returns the bytes of all users.
    pub(crate) fn total(&self) -> usize {
        self.0
            .values()
            .fold(0, |sum, bytes| sum.saturating_add(*bytes))
    }

    fn set(&mut self, uid: u32, bytes: usize) {
        match bytes {
            0 => drop(self.0.remove(&uid)),
            bytes => drop(self.0.insert(uid, bytes)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHARE: usize = 100;

    proptest! {
        /// Things of three users, each of some bytes: what is charged is the sum of them, and never more than the share.
        #[test]
        fn charged_bytes_are_sum_of_things_within_share(
            changes in prop::collection::vec((0..9_usize, 0..80_usize), 1..200)
        ) {
            let mut ledger = UserBytes::default();
            let mut things = [0; 9];
            for (thing, bytes) in changes {
                let uid = u32::try_from(thing % 3).unwrap();
                let others: usize = (0..9).filter(|other| other % 3 == thing % 3 && *other != thing).map(|other| things[other]).sum();
                let fits = others + bytes <= SHARE || bytes <= things[thing];
                let charged = ledger.replace(uid, things[thing], bytes, SHARE);
                prop_assert_eq!(charged.is_ok(), fits);
                if fits {
                    things[thing] = bytes;
                }
                for uid in 0..3 {
                    let sum: usize = (uid..9).step_by(3).map(|thing| things[thing]).sum();
                    prop_assert_eq!(ledger.of(u32::try_from(uid).unwrap()), sum);
                    prop_assert!(sum <= SHARE);
                }
                prop_assert_eq!(ledger.total(), things.iter().sum::<usize>());
            }
            for (thing, bytes) in things.into_iter().enumerate() {
                ledger.give_back(u32::try_from(thing % 3).unwrap(), bytes);
            }
            prop_assert!(ledger.0.is_empty());
        }
    }
}
