//! The relay's own requests, by tags that the client does not use, and how long each may take.
use peal_core::MonotonicTime;
use peal_model::CommandCode;
use peal_wire::{Tag, WireError};
use std::{collections::BTreeMap, time::Duration};
use thiserror::Error;

/// The first of the relay's tags, which count down. Clients count up from [`Tag::FIRST_REQUEST`], and servers of 7.x use the upper
/// half for requests of theirs: they would meet after two thousand million requests.
const FIRST: Tag = Tag(0x7fff_ffff);

/// How many may await their answer. Some hosts never answer some requests.
const MOST: usize = 4096;

/// The number of a request of the relay's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnRequestId(pub u64);

/// Why a request is not made.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum OwnRequestError {
    /// There is no client yet for which it could be made, or one that is not understood.
    #[error("the program has no connection to the server that is understood")]
    NotYet,
    /// As many as may be await their answer.
    #[error("the server owes answers to {limit} requests already")]
    Full {
        /// How many that is.
        limit: usize,
    },
    /// It cannot be packed.
    #[error("it cannot be packed: {0}")]
    Pack(WireError),
}

/// Those that await their answer.
#[derive(Debug)]
pub(crate) struct OwnRequests {
    next: Tag,
    number: u64,
    /// How long each may take.
    patience: Duration,
    open: BTreeMap<Tag, OpenRequest>,
}

#[derive(Debug)]
struct OpenRequest {
    ask: OwnRequestId,
    command: CommandCode,
    wait: Wait,
}

/// How long an answer has been waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wait {
    /// It was not said yet what time it is.
    New,
    Until(MonotonicTime),
    /// Longer than it may take.
    Late,
}

impl OwnRequests {
    pub(crate) fn new(patience: Duration) -> OwnRequests {
        OwnRequests {
            next: FIRST,
            number: 0,
            patience,
            open: BTreeMap::new(),
        }
    }

    /// One more, and the tag that its answer will have.
    pub(crate) fn open(
        &mut self,
        command: CommandCode,
    ) -> Result<(Tag, OwnRequestId), OwnRequestError> {
        if self.open.len() >= MOST {
            return Err(OwnRequestError::Full { limit: MOST });
        }
        while self.open.contains_key(&self.next) {
            self.count();
        }
        let (tag, ask) = (self.next, OwnRequestId(self.number));
        self.count();
        self.number = self.number.wrapping_add(1);
        self.open.insert(
            tag,
            OpenRequest {
                ask,
                command,
                wait: Wait::New,
            },
        );
        Ok((tag, ask))
    }

    fn count(&mut self) {
        let next = Tag(self.next.0.saturating_sub(1));
        self.next = if next > Tag::FIRST_REQUEST {
            next
        } else {
            FIRST
        };
    }

    /// Whether an answer with this tag would be one of these.
    pub(crate) fn has(&self, tag: Tag) -> bool {
        self.open.contains_key(&tag)
    }

    /// The answer with this tag has come: to which request that was one.
    pub(crate) fn answered(&mut self, tag: Tag) -> Option<(OwnRequestId, CommandCode)> {
        self.open.remove(&tag).map(|open| (open.ask, open.command))
    }

    /// It is so late: from now on those are waited for that were made since that was said last. Returns those that have become late;
    /// their answers may still come.
    pub(crate) fn tick(&mut self, now: MonotonicTime) -> Vec<OwnRequestId> {
        let until = now + self.patience;
        let mut late = Vec::new();
        for open in self.open.values_mut() {
            match open.wait {
                Wait::New => open.wait = Wait::Until(until),
                Wait::Until(at) if at <= now => {
                    open.wait = Wait::Late;
                    late.push(open.ask);
                }
                Wait::Until(_) | Wait::Late => {}
            }
        }
        late.sort();
        late
    }

    /// When the next one becomes late.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        let until = |open: &OpenRequest| match open.wait {
            Wait::Until(at) => Some(at),
            Wait::New | Wait::Late => None,
        };
        self.open.values().filter_map(until).min()
    }
}
