//! How much may follow from one event: hosted handlers raise events, whose handlers raise events ...

/// How many events hosted handlers may still raise because of one event, all that follow from those included. An event that
/// no handler raised starts with the server's setting; whatever handlers do, no more than that many follow from it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EventBudget(pub u32);

/// What the handlers of one owner get of an allowance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// How many of the events they raised count; the others are refused.
    pub number: usize,
    /// What each of these may lead to.
    pub each: EventBudget,
}

impl EventBudget {
    /// Takes the share of an owner whose handlers want to raise so many events: at most half of what is left, so that
    /// something is left for the owners after it.
    pub fn share(&mut self, wanted: usize) -> Share {
        let rest = self.0 / 2;
        let mine = self.0 - rest;
        let number = u32::try_from(wanted).unwrap_or(u32::MAX).min(mine);
        if number == 0 {
            return Share {
                number: 0,
                each: EventBudget(0),
            };
        }
        self.0 = rest;
        Share {
            number: number as usize,
            each: EventBudget((mine - number) / number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everything that can follow when each chain of each event wants to raise so many.
    fn all_that_follows(mut allowance: EventBudget, owners: usize, wanted: usize) -> usize {
        let shares: Vec<Share> = (0..owners).map(|_| allowance.share(wanted)).collect();
        let raised = shares.iter().filter(|share| share.number > 0);
        raised
            .map(|share| share.number * (1 + all_that_follows(share.each, owners, wanted)))
            .sum()
    }

    #[test]
    fn a_handler_that_answers_its_own_event_comes_to_an_end() {
        let mut allowance = EventBudget(256);
        let mut row = 0;
        while let Share { number: 1, each } = allowance.share(1) {
            (allowance, row) = (each, row + 1);
        }
        assert_eq!(row, 8);
    }

    #[test]
    fn handlers_raising_nothing_use_no_budget() {
        let mut allowance = EventBudget(9);
        assert_eq!(allowance.share(0).number, 0);
        assert_eq!(allowance, EventBudget(9));
        assert_eq!(
            allowance.share(100),
            Share {
                number: 5,
                each: EventBudget(0)
            }
        );
        assert_eq!(allowance, EventBudget(4));
    }

    proptest! {
        #[test]
        fn no_more_follows_than_was_allowed(start in 0..600_u32, owners in 1..4_usize, wanted in 0..40_usize) {
            prop_assert!(all_that_follows(EventBudget(start), owners, wanted) <= start as usize);
        }
    }
}
