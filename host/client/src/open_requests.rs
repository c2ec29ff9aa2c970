//! Open requests, by the tag of their reply.
use crate::{caller::CallerWait, lock};
use peal_model::{CommandCode, Reply};
use peal_wire::{Tag, WireError};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Result of a request.
pub(crate) type Answer = Result<Reply, WireError>;

/// Recipient of a reply.
#[derive(Debug)]
pub(crate) enum ReplyRecipient {
    /// Caller, which may have given up. The permit is released only with the reply: until then the
    /// server may count the request as open, and its tag must not be reused.
    Caller {
        tell: oneshot::Sender<Answer>,
        waiting: CallerWait,
        _place: OwnedSemaphorePermit,
    },
    /// No recipient: a refusal is logged. The permit is as above; an event that a handler raised has
    /// none, since a handler must not wait for it.
    Nobody {
        _place: Option<OwnedSemaphorePermit>,
    },
}

/// Reason why a request cannot be opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The connection is closed.
    Closed,
    /// The limit of events without a reply is reached.
    Full,
}

/// Open request without a recipient of its reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RaisedRequest {
    /// Tag.
    pub(crate) tag: Tag,
    /// Number of such requests, with this one.
    pub(crate) open: usize,
}

/// Open requests of one connection.
pub(crate) struct OpenReplies {
    table: Mutex<ReplyTable>,
    places: Arc<Semaphore>,
    max_events: usize,
}

struct ReplyTable {
    next: Tag,
    requests: HashMap<Tag, (CommandCode, ReplyRecipient)>,
    events: usize,
    closed: bool,
}

impl OpenReplies {
    pub(crate) fn new(max_calls: usize, max_events: usize) -> OpenReplies {
        OpenReplies::from_tag(Tag::FIRST_REQUEST, max_calls, max_events)
    }

    fn from_tag(next: Tag, max_calls: usize, max_events: usize) -> OpenReplies {
        let table = ReplyTable {
            next,
            requests: HashMap::new(),
            events: 0,
            closed: false,
        };
        let places = Arc::new(Semaphore::new(max_calls.clamp(1, Semaphore::MAX_PERMITS)));
        OpenReplies {
            table: Mutex::new(table),
            places,
            max_events,
        }
    }

    /// Waits for a permit for one more caller.
    pub(crate) async fn place(&self) -> Result<OwnedSemaphorePermit, NoRoom> {
        self.places
            .clone()
            .acquire_owned()
            .await
            .map_err(|_| NoRoom::Closed)
    }

    /// Opens a request of a caller.
    pub(crate) fn ask(
        &self,
        command: CommandCode,
        place: OwnedSemaphorePermit,
    ) -> Result<(Tag, oneshot::Receiver<Answer>), NoRoom> {
        let (tell, reply) = oneshot::channel();
        let mut table = lock(&self.table);
        let tag = table.free_tag()?;
        table.requests.insert(
            tag,
            (
                command,
                ReplyRecipient::Caller {
                    tell,
                    waiting: CallerWait::current(),
                    _place: place,
                },
            ),
        );
        Ok((tag, reply))
    }

    /// Opens a request whose reply has no recipient. Without a permit it counts against the limit of
    /// events.
    pub(crate) fn raise(
        &self,
        command: CommandCode,
        place: Option<OwnedSemaphorePermit>,
    ) -> Result<RaisedRequest, NoRoom> {
        let mut table = lock(&self.table);
        if place.is_none() && table.events >= self.max_events {
            return Err(NoRoom::Full);
        }
        let tag = table.free_tag()?;
        table.events += 1;
        let open = table.events;
        table
            .requests
            .insert(tag, (command, ReplyRecipient::Nobody { _place: place }));
        Ok(RaisedRequest { tag, open })
    }

    /// Returns the number of open requests.
    pub(crate) fn count(&self) -> usize {
        lock(&self.table).requests.len()
    }

    /// Returns a tag for the one request that has no reply.
    pub(crate) fn tag(&self) -> Result<Tag, NoRoom> {
        lock(&self.table).free_tag()
    }

    /// Closes the request that a reply with this tag belongs to; `None` if there is none.
    pub(crate) fn answered(&self, tag: Tag) -> Option<(CommandCode, ReplyRecipient)> {
        let mut table = lock(&self.table);
        let closed = table.requests.remove(&tag)?;
        if let ReplyRecipient::Nobody { .. } = closed.1 {
            table.events = table.events.saturating_sub(1);
        }
        Some(closed)
    }

    /// Closes the request that a reply with this tag belongs to, if its caller waits on its own
    /// thread.
    pub(crate) fn answered_in_wait(
        &self,
        tag: Tag,
    ) -> Option<(CommandCode, oneshot::Sender<Answer>)> {
        let mut table = lock(&self.table);
        let (_, ReplyRecipient::Caller { waiting, .. }) = table.requests.get(&tag)? else {
            return None;
        };
        if *waiting != CallerWait::OnItsThread {
            return None;
        }
        match table.requests.remove(&tag) {
            Some((command, ReplyRecipient::Caller { tell, .. })) => Some((command, tell)),
            _ => None,
        }
    }

    /// Closes all requests at the end of the connection. Their callers learn that there will be no
    /// reply.
    pub(crate) fn close(&self) {
        let mut table = lock(&self.table);
        table.closed = true;
        // The drop of the senders ends the waits of their callers.
        table.requests.clear();
        self.places.close();
    }

    /// Returns true if the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.table).closed
    }
}

impl ReplyTable {
    fn free_tag(&mut self) -> Result<Tag, NoRoom> {
        if self.closed {
            return Err(NoRoom::Closed);
        }
        // There are far more tags than requests can be open, so the loop ends.
        while self.requests.contains_key(&self.next) {
            self.next = self.next.next_request();
        }
        let tag = self.next;
        self.next = tag.next_request();
        Ok(tag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::code;

    const LAST: Tag = Tag(u32::MAX - 1);

    async fn asked(open: &OpenReplies) -> (Tag, oneshot::Receiver<Answer>) {
        open.ask(CommandCode::Fence, open.place().await.unwrap())
            .unwrap()
    }

    #[tokio::test]
    async fn a_tag_is_used_again_only_when_its_answer_is_there() {
        let open = OpenReplies::from_tag(LAST, 8, 8);
        let (given_up, _) = asked(&open).await;
        let (first, waiting) = asked(&open).await;
        assert_eq!((given_up, first), (LAST, Tag::FIRST_REQUEST));
        // The counter comes to the same value once more.
        lock(&open.table).next = LAST;
        assert_eq!(asked(&open).await.0, Tag(102));
        let (_, ReplyRecipient::Caller { tell, .. }) = open.answered(first).unwrap() else {
            panic!("a caller asked")
        };
        tell.send(Ok(Reply::Status(code::PMIX_SUCCESS))).unwrap();
        assert!(waiting.await.unwrap().is_ok());
        assert!(
            open.answered(first).is_none(),
            "a second answer belongs to nobody"
        );
        lock(&open.table).next = LAST;
        assert_eq!(asked(&open).await.0, first);
    }

    #[tokio::test]
    async fn a_place_is_free_again_only_when_its_answer_is_there() {
        let open = OpenReplies::new(1, 1);
        let (tag, waiting) = asked(&open).await;
        drop(waiting);
        assert!(open.places.try_acquire().is_err());
        drop(open.answered(tag));
        assert!(open.places.try_acquire().is_ok());
        let event = open.raise(CommandCode::Notify, None).unwrap();
        assert_eq!(open.raise(CommandCode::Notify, None), Err(NoRoom::Full));
        let place = open.place().await.unwrap();
        let awaited = open.raise(CommandCode::Notify, Some(place)).unwrap();
        assert_eq!(awaited.open, 2);
        assert!(open.places.try_acquire().is_err());
        drop(open.answered(awaited.tag));
        assert!(open.places.try_acquire().is_ok());
        drop(open.answered(event.tag));
        open.raise(CommandCode::Notify, None).unwrap();
    }

    #[tokio::test]
    async fn the_end_of_the_connection_is_the_end_of_every_request() {
        let open = OpenReplies::new(1, 1);
        let (_, waiting) = asked(&open).await;
        let queued = open.place();
        open.close();
        assert!(waiting.await.is_err());
        assert_eq!(queued.await.unwrap_err(), NoRoom::Closed);
        assert_eq!(open.raise(CommandCode::Notify, None), Err(NoRoom::Closed));
        assert!(open.is_closed());
    }
}
