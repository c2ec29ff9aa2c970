//! Event budgets: a bound on the events that follow from one event, because hosted handlers raise
//! events that run through further handlers.
//!
//! An event that comes from another server gets the whole budget of the receiver, however many
//! servers there are, and what handlers raise in response stays there. So no server raises more than
//! its own setting allows, and servers do not answer each other's events without end.
use serde::{Deserialize, Serialize};

/// The events that hosted handlers may still raise in response to one event, directly or indirectly.
/// An event that no handler raised starts with the server's setting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventBudget {
    events: u32,
    spread: EventSpread,
}

/// The servers that receive an event which a hosted handler raises.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum EventSpread {
    /// All that the range of the event includes.
    AllServers,
    /// This server alone: the event follows from one of another server.
    ThisServer,
}

/// The share of one owner's handlers in an event budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Share {
    /// The number of raised events that are accepted. Further ones are refused.
    pub number: usize,
    /// The budget of each accepted event.
    pub per_event: EventBudget,
}

impl EventBudget {
    /// Creates a budget of this number of events, for all servers.
    pub const fn new(events: u32) -> EventBudget {
        EventBudget {
            events,
            spread: EventSpread::AllServers,
        }
    }

    /// Returns the budget for an event of another server.
    pub const fn on_this_server(self) -> EventBudget {
        EventBudget {
            spread: EventSpread::ThisServer,
            ..self
        }
    }

    /// Returns the servers that receive the events.
    pub const fn spread(self) -> EventSpread {
        self.spread
    }

    fn of(self, events: u32) -> EventBudget {
        EventBudget { events, ..self }
    }

    /// Divides the budget among owners whose chains run beside each other. The first ones get the
    /// remainder.
    pub fn divided(self, owners: usize) -> impl Iterator<Item = EventBudget> {
        let owners = u32::try_from(owners).unwrap_or(u32::MAX).max(1);
        let (each, remainder) = (self.events / owners, self.events % owners);
        (0..owners).map(move |at| self.of(each + u32::from(at < remainder)))
    }

    /// Takes the share of an owner whose handlers raise this many events. It is half of what is
    /// left, rounded up, so that the owners after it get a share, too.
    pub fn share(&mut self, wanted: usize) -> Share {
        let rest = self.events / 2;
        // Rounded up, so that a budget of one still allows one event.
        let mine = self.events - rest;
        let number = u32::try_from(wanted).unwrap_or(u32::MAX).min(mine);
        // Nothing is taken from the budget, and the division below needs at least one event.
        if number == 0 {
            return Share {
                number: 0,
                per_event: self.of(0),
            };
        }
        self.events = rest;
        Share {
            number: number as usize,
            // Each accepted event takes one unit of the share, and the rest is divided among them.
            // The division rounds down, so together they never exceed the share.
            per_event: self.of((mine - number) / number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everything that can follow when each chain of each event raises so many.
    fn all_that_follows(mut allowance: EventBudget, owners: usize, wanted: usize) -> usize {
        let shares: Vec<Share> = (0..owners).map(|_| allowance.share(wanted)).collect();
        let raised = shares.iter().filter(|share| share.number > 0);
        raised
            .map(|share| share.number * (1 + all_that_follows(share.per_event, owners, wanted)))
            .sum()
    }

    #[test]
    fn a_handler_that_answers_its_own_event_comes_to_an_end() {
        let mut allowance = EventBudget::new(256);
        let mut row = 0;
        while let Share {
            number: 1,
            per_event: each,
        } = allowance.share(1)
        {
            (allowance, row) = (each, row + 1);
        }
        assert_eq!(row, 8);
    }

    #[test]
    fn handlers_raising_nothing_use_no_budget() {
        let mut allowance = EventBudget::new(9);
        assert_eq!(allowance.share(0).number, 0);
        assert_eq!(allowance, EventBudget::new(9));
        assert_eq!(
            allowance.share(100),
            Share {
                number: 5,
                per_event: EventBudget::new(0)
            }
        );
        assert_eq!(allowance, EventBudget::new(4));
    }

    proptest! {
        #[test]
        fn divided_budget_is_neither_more_nor_less(budget in any::<u32>(), owners in 1..300_usize) {
            let shares: Vec<u32> = EventBudget::new(budget).divided(owners).map(|share| share.events).collect();
            prop_assert_eq!(shares.len(), owners);
            prop_assert_eq!(shares.iter().map(|share| u64::from(*share)).sum::<u64>(), u64::from(budget));
            prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }

    proptest! {
        #[test]
        fn no_more_follows_than_was_allowed(start in 0..600_u32, owners in 1..4_usize, wanted in 0..40_usize) {
            prop_assert!(all_that_follows(EventBudget::new(start), owners, wanted) <= start as usize);
        }
    }
}
