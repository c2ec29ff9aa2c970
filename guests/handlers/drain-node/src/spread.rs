//! Nodes of one group that one code touched within a time, in bounded memory.
use std::collections::BTreeMap;

/// Code, and name of the group.
type GroupCode = (i32, String);

/// Last times of a code on the nodes of groups.
#[derive(Debug)]
pub struct Spread {
    /// Number of nodes that is reported.
    nodes: usize,
    /// Window, in milliseconds.
    window: u64,
    /// Maximum number of times.
    room: usize,
    times: BTreeMap<GroupCode, BTreeMap<String, u64>>,
}

impl Spread {
    /// Creates an empty record.
    pub fn new(nodes: usize, window: u64, room: usize) -> Spread {
        Spread {
            nodes: nodes.max(1),
            window,
            room: room.max(1),
            times: BTreeMap::new(),
        }
    }

    /// Records that a code touched a node. Returns the touched nodes of the group if there are enough;
    /// the group then starts again.
    pub fn add(&mut self, code: i32, group: &str, node: &str, now: u64) -> Option<Vec<String>> {
        let key = (code, group.to_owned());
        let times = self.times.entry(key.clone()).or_default();
        // What seems to come later was before the clock was set back.
        times.retain(|_, time| *time <= now && now - *time < self.window);
        times.insert(node.to_owned(), now);
        if times.len() >= self.nodes {
            return self
                .times
                .remove(&key)
                .map(|times| times.into_keys().collect());
        }
        self.make_room();
        None
    }

    /// Drops the group whose last event is the oldest, while there are too many times.
    fn make_room(&mut self) {
        while self.times.values().map(BTreeMap::len).sum::<usize>() > self.room {
            let last = |times: &BTreeMap<String, u64>| times.values().max().copied();
            let oldest = self.times.iter().min_by_key(|(_, times)| last(times));
            let Some(oldest) = oldest.map(|(key, _)| key.clone()) else {
                return;
            };
            self.times.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enough_nodes_within_window_are_reported_once() {
        let mut spread = Spread::new(3, 1000, 8);
        assert_eq!(spread.add(-1, "a", "n1", 0), None);
        assert_eq!(spread.add(-1, "a", "n1", 10), None);
        assert_eq!(spread.add(-2, "a", "n2", 10), None);
        assert_eq!(spread.add(-1, "b", "m1", 10), None);
        assert_eq!(spread.add(-1, "a", "n2", 900), None);
        assert_eq!(spread.add(-1, "a", "n3", 1100), None, "n1 is too old");
        let all = ["n2", "n3", "n4"].map(str::to_owned).to_vec();
        assert_eq!(spread.add(-1, "a", "n4", 1200), Some(all));
        assert_eq!(spread.add(-1, "a", "n5", 1300), None, "it starts again");
    }

    #[test]
    fn oldest_groups_are_dropped_first() {
        let mut spread = Spread::new(2, 1000, 2);
        for (time, group) in ["a", "b", "c"].into_iter().enumerate() {
            assert_eq!(spread.add(-1, group, "n1", time as u64), None);
        }
        assert_eq!(spread.add(-1, "a", "n2", 3), None, "a was dropped");
        assert!(spread.add(-1, "c", "n2", 4).is_some());
    }
}
