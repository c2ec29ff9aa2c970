//! Messages between servers about published data.
use super::{DataRequester, ItemNumber, Publication, PublishedLookup};
use peal_model::{Key, Pdata, Size, Status};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A message between a server and the holder of published data: the server that answers lookups over
/// all servers.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub enum PublishedDataMessage {
    /// Has the holder publish data.
    Publish {
        /// The sender's number of the request.
        number: u64,
        /// The data.
        publication: Publication,
    },
    /// Has the holder look up data.
    Lookup {
        /// The sender's number of the request.
        number: u64,
        /// The proc that looks up.
        by: DataRequester,
        /// The lookup.
        lookup: PublishedLookup,
    },
    /// Reduces a lookup that waits, because its server has found keys itself.
    Narrow {
        /// The number of the lookup.
        number: u64,
        /// The keys that are left.
        keys: BTreeSet<Key>,
        /// The number of keys that it still waits for.
        required_keys: usize,
    },
    /// Withdraws a lookup that waits.
    GiveUp {
        /// The number of the lookup.
        number: u64,
    },
    /// Withdraws items of the sender.
    Withdraw {
        /// The sender's number of the request; none if it wants no answer.
        number: Option<u64>,
        /// The items.
        items: BTreeSet<ItemNumber>,
    },
    /// Answers a publication, a lookup or a withdrawal.
    Answer {
        /// The number of the request.
        number: u64,
        /// The found data of a lookup.
        result: Result<Vec<Pdata>, Status>,
    },
    /// Tells the holder that all items and requests of the sender follow.
    RestoreBegins,
    /// Gives the holder some of the items.
    Restore(Vec<Publication>),
    /// Ends the items. Open requests follow.
    RestoreEnds,
    /// Tells a server that some of its items cannot be restored, because their keys exist or a limit is
    /// reached.
    Refused(BTreeSet<ItemNumber>),
    /// Tells a server that some of its items for the first read were read.
    Taken(BTreeSet<ItemNumber>),
}

impl PublishedDataMessage {
    /// Returns the approximate memory of the message beside its own size, in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            PublishedDataMessage::Publish { publication, .. } => publication.bytes(),
            PublishedDataMessage::Lookup { lookup, .. } => lookup.bytes(),
            PublishedDataMessage::Narrow { keys, .. } => {
                let keys = keys
                    .iter()
                    .map(|key| size_of::<Key>() + key.as_bytes().len());
                keys.sum()
            }
            PublishedDataMessage::Withdraw { items, .. }
            | PublishedDataMessage::Refused(items)
            | PublishedDataMessage::Taken(items) => items.len() * size_of::<ItemNumber>(),
            PublishedDataMessage::Answer {
                result: Ok(found), ..
            } => {
                let values = found.iter().map(|data| Size::of(&data.value).bytes);
                let values = values.fold(0, usize::saturating_add);
                values.saturating_add(found.len() * size_of::<Pdata>())
            }
            PublishedDataMessage::Restore(publications) => {
                let publications = publications.iter().map(Publication::bytes);
                publications.fold(0, usize::saturating_add)
            }
            PublishedDataMessage::Answer { result: Err(_), .. }
            | PublishedDataMessage::GiveUp { .. }
            | PublishedDataMessage::RestoreBegins
            | PublishedDataMessage::RestoreEnds => 0,
        }
    }
}
