//! Invariants of retained events, checked after every step of a test.
use super::{Retained, Seq};

impl Retained {
    /// Checks the invariants that hold at all times.
    pub(crate) fn check(&self) {
        let sets = || {
            self.owed
                .values()
                .chain(self.readers.values().map(|reader| &reader.pending))
        };
        for uid in sets()
            .map(|set| set.uid)
            .chain(self.users.0.keys().copied())
        {
            let theirs = || sets().filter(|set| set.uid == uid);
            let needs = self.users.0.get(&uid);
            let pieces = theirs().map(|set| set.members.pieces()).sum::<usize>();
            assert_eq!(needs.map_or(0, |needs| needs.intervals), pieces);
            let holders = |at: Seq| theirs().filter(|set| set.members.contains(at)).count();
            let all = || (0..self.next.0).map(Seq);
            assert_eq!(
                needs.map_or(0, |needs| needs.events),
                all().filter(|at| holders(*at) > 0).count()
            );
            assert!(
                all().all(|at| needs.map_or(0, |needs| needs.tally.at(at)) as usize == holders(at))
            );
        }
        let outside = |at: &Seq| self.ring.get(*at).is_none();
        let bytes = self
            .events
            .iter()
            .filter(|(at, kept)| outside(at) && kept.content.is_some());
        assert_eq!(
            self.bytes,
            bytes.map(|(_, kept)| kept.bytes as usize).sum::<usize>()
        );
        assert!(self.bytes <= self.limits.memory);
        assert_eq!(
            self.spilled,
            self.events
                .values()
                .filter(|kept| kept.content.is_none())
                .count()
        );
        for uid in self.events.values().filter_map(|kept| kept.owner.uid()) {
            let theirs = self
                .events
                .values()
                .filter(|kept| kept.content.is_none() && kept.owner.uid() == Some(uid));
            assert_eq!(
                self.spilled_bytes.of(uid),
                theirs.map(|kept| kept.bytes as usize).sum::<usize>()
            );
        }
        let spilled = self.events.values().filter(|kept| kept.content.is_none());
        assert_eq!(
            self.all_spilled_bytes,
            spilled.map(|kept| kept.bytes as usize).sum::<usize>()
        );
        assert!(self.all_spilled_bytes <= self.limits.spill);
        for at in (0..=self.next.0).map(Seq) {
            let needed =
                sets().filter(|set| set.members.contains(at)).count() + usize::from(!outside(&at));
            assert_eq!(self.demand.at(at) as usize, needed, "{at:?}");
            assert_eq!(self.events.contains_key(&at), needed > 0, "{at:?}");
        }
        assert!(self.spill_actions.is_empty());
    }

    /// Checks the invariants that hold when all peers are gone.
    pub(crate) fn check_empty(&self) {
        self.check();
        assert!(self.owed.is_empty() && self.readers.is_empty() && self.users.0.is_empty());
        assert_eq!((self.bytes, self.events.len()), (0, self.ring.len()));
        assert_eq!(self.spilled_bytes.total(), 0);
    }
}
