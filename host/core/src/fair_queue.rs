//! Queue that serves users in turn. The items of one user keep their order.
use std::collections::{BTreeMap, VecDeque};

/// Queue of the items of several users, or of other keys. It is not bounded: callers check for room
/// first, by [`FairQueue::len`] and [`FairQueue::len_of`].
#[derive(Debug)]
pub struct FairQueue<K, T> {
    /// Items of each user; users without any are not contained.
    items: BTreeMap<K, VecDeque<T>>,
    /// Each user with items once, in the order of their turns.
    turns: VecDeque<K>,
    len: usize,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> Self {
        FairQueue {
            items: BTreeMap::new(),
            turns: VecDeque::new(),
            len: 0,
        }
    }
}

impl<K: Ord + Clone, T> FairQueue<K, T> {
    /// Adds an item behind all others of its user.
    pub fn push(&mut self, user: K, item: T) {
        let items = self.items.entry(user.clone()).or_default();
        if items.is_empty() {
            self.turns.push_back(user);
        }
        items.push_back(item);
        self.len += 1;
    }

    /// Takes the first item of the user whose turn it is.
    pub fn pop(&mut self) -> Option<T> {
        let user = self.turns.pop_front()?;
        let items = self.items.get_mut(&user)?;
        let item = items.pop_front()?;
        self.len -= 1;
        if items.is_empty() {
            self.items.remove(&user);
        } else {
            self.turns.push_back(user);
        }
        Some(item)
    }

    /// Returns the number of all items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if there are no items.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of a user's items.
    pub fn len_of(&self, user: &K) -> usize {
        self.items.get(user).map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection, prelude::*};

    /// An item of the model: its user and its number.
    type Item = (u8, usize);

    /// The next item of a list: the first one of the user that was served longest ago. Users that
    /// were not served since their first item came follow in the order of these items.
    fn next(list: &[Item], waits_since: &BTreeMap<u8, usize>) -> Option<usize> {
        let first = |user: u8| list.iter().position(|item| item.0 == user);
        let (user, _) = waits_since
            .iter()
            .filter(|(user, _)| first(**user).is_some())
            .min_by_key(|(_, since)| **since)?;
        first(*user)
    }

    proptest! {
        #[test]
        fn queue_serves_users_as_a_list_with_times_does(steps in collection::vec((0..5_u8, any::<bool>()), 1..300)) {
            let mut queue: FairQueue<u8, Item> = FairQueue::default();
            let mut list: Vec<Item> = Vec::new();
            // When each user was served last, or began to wait.
            let mut waits_since: BTreeMap<u8, usize> = BTreeMap::new();
            for (now, (user, adds)) in steps.into_iter().enumerate() {
                if adds {
                    if !list.iter().any(|item| item.0 == user) {
                        waits_since.insert(user, now);
                    }
                    list.push((user, now));
                    queue.push(user, (user, now));
                } else {
                    let wanted = next(&list, &waits_since).map(|at| list.remove(at));
                    prop_assert_eq!(queue.pop(), wanted);
                    if let Some((user, _)) = wanted {
                        waits_since.insert(user, now);
                    }
                }
                prop_assert_eq!(queue.len(), list.len());
                prop_assert_eq!(queue.is_empty(), list.is_empty());
                for user in 0..5 {
                    prop_assert_eq!(queue.len_of(&user), list.iter().filter(|item| item.0 == user).count());
                }
                prop_assert_eq!(queue.turns.len(), queue.items.len());
            }
        }
    }

    #[test]
    fn user_waits_for_one_item_of_each_other_user() {
        let mut queue = FairQueue::default();
        (0..1000).for_each(|number| queue.push(1, number));
        queue.push(2, 2000);
        queue.push(3, 3000);
        let first: Vec<i32> = std::iter::from_fn(|| queue.pop()).take(4).collect();
        assert_eq!(first, [0, 2000, 3000, 1]);
    }
}
