//! Requests of the proxy itself, with tags that the client does not use, and their deadlines.
use peal_core::MonotonicTime;
use peal_model::CommandCode;
use peal_wire::{Tag, WireError};
use std::{collections::BTreeMap, time::Duration};
use thiserror::Error;

/// First tag of the proxy; its tags count down. Clients count up from [`Tag::FIRST_REQUEST`], and
/// servers of 7.x use the upper half for their own requests. They would meet after two thousand
/// million requests.
const FIRST_TAG: Tag = Tag(0x7fff_ffff);

/// Bound on the requests that await a reply. Some host environments never answer some requests.
const MAX_OPEN_REQUESTS: usize = 4096;

/// Number of a request of the proxy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnRequestId(pub u64);

/// Reason why a request cannot be made.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum OwnRequestError {
    /// No client is connected yet, or its connection was not understood.
    #[error("program has no usable connection to its server yet")]
    NotYet,
    /// Too many requests await a reply.
    #[error("{limit} requests already await a reply of the server, which is the limit")]
    Full {
        /// Bound on open requests.
        limit: usize,
    },
    /// The request cannot be encoded.
    #[error("request cannot be encoded: {0}")]
    Pack(WireError),
}

/// Requests that await a reply.
#[derive(Debug)]
pub(crate) struct OwnRequests {
    next: Tag,
    number: u64,
    /// Time that a request may take.
    request_timeout: Duration,
    open: BTreeMap<Tag, OpenRequest>,
}

#[derive(Debug)]
struct OpenRequest {
    request_id: OwnRequestId,
    command: CommandCode,
    wait: RequestDeadline,
}

/// Deadline of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RequestDeadline {
    /// The time is not known yet: `tick` was not called since the request.
    New,
    Until(MonotonicTime),
    /// The deadline has passed.
    Late,
}

impl OwnRequests {
    pub(crate) fn new(request_timeout: Duration) -> OwnRequests {
        OwnRequests {
            next: FIRST_TAG,
            number: 0,
            request_timeout,
            open: BTreeMap::new(),
        }
    }

    /// Adds a request. Returns its number and the tag of its reply.
    pub(crate) fn open(
        &mut self,
        command: CommandCode,
    ) -> Result<(Tag, OwnRequestId), OwnRequestError> {
        if self.open.len() >= MAX_OPEN_REQUESTS {
            return Err(OwnRequestError::Full {
                limit: MAX_OPEN_REQUESTS,
            });
        }
        // A late reply may still come for a tag that is open, so no tag is used twice at a time.
        // There are fewer open requests than tags, so the loop ends.
        while self.open.contains_key(&self.next) {
            self.count();
        }
        let tag = self.next;
        let request_id = OwnRequestId(self.number);
        self.count();
        self.number = self.number.wrapping_add(1);
        self.open.insert(
            tag,
            OpenRequest {
                request_id,
                command,
                wait: RequestDeadline::New,
            },
        );
        Ok((tag, request_id))
    }

    fn count(&mut self) {
        let next = Tag(self.next.0.saturating_sub(1));
        self.next = if next > Tag::FIRST_REQUEST {
            next
        } else {
            FIRST_TAG
        };
    }

    /// Returns true if a reply with this tag belongs to one of these requests.
    pub(crate) fn contains(&self, tag: Tag) -> bool {
        self.open.contains_key(&tag)
    }

    /// Removes the request whose reply has a tag, and returns it.
    pub(crate) fn close(&mut self, tag: Tag) -> Option<(OwnRequestId, CommandCode)> {
        self.open
            .remove(&tag)
            .map(|open| (open.request_id, open.command))
    }

    /// Advances the time. Requests made since the last call get their deadline from `now`. Returns
    /// the requests that have become late; their replies may still come.
    pub(crate) fn tick(&mut self, now: MonotonicTime) -> Vec<OwnRequestId> {
        let until = now + self.request_timeout;
        let mut late = Vec::new();
        for open in self.open.values_mut() {
            match open.wait {
                // The proxy has no clock: a request that was made since the last tick gets its
                // deadline now.
                RequestDeadline::New => open.wait = RequestDeadline::Until(until),
                RequestDeadline::Until(at) if at <= now => {
                    open.wait = RequestDeadline::Late;
                    late.push(open.request_id);
                }
                RequestDeadline::Until(_) | RequestDeadline::Late => {}
            }
        }
        late.sort();
        late
    }

    /// Returns the next deadline.
    pub(crate) fn deadline(&self) -> Option<MonotonicTime> {
        let until = |open: &OpenRequest| match open.wait {
            RequestDeadline::Until(at) => Some(at),
            RequestDeadline::New | RequestDeadline::Late => None,
        };
        self.open.values().filter_map(until).min()
    }
}
