//! Events: what the client asked for, what is kept until it asks, and what a server sends again.
use peal_core::{audience::PeerRegistrations, class::ClassFilter};
use peal_model::{Event, Info, Infos, Proc, Range, Status, key};
use std::{
    collections::{BTreeSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// How many events are kept for a client that has not asked for them, and how many are known again: as many as libraries keep.
const MOST: usize = 512;
/// How much memory those that are kept may take, in bytes.
const MOST_BYTES: usize = 8 << 20;

/// An event on its way to the client.
#[derive(Clone, Debug)]
pub(crate) struct PackedDelivery {
    pub(crate) event: Arc<Event>,
    /// As it travels: header and payload.
    pub(crate) bytes: Vec<u8>,
}

/// What a client registers for.
#[derive(Clone, Debug)]
pub(crate) struct RelayedRegistration {
    codes: Vec<Status>,
    levels: ClassFilter,
    affected: Vec<Proc>,
}

impl RelayedRegistration {
    /// As a server reads it: `libpmix` says nothing of classes and wants both.
    pub(crate) fn new(codes: Vec<Status>, infos: &[Info]) -> RelayedRegistration {
        let filters = [
            key::PMIX_EVENT_AFFECTED_PROC,
            key::PMIX_EVENT_AFFECTED_PROCS,
        ];
        let affected = filters
            .iter()
            .filter_map(|key| infos.value_of(*key))
            .filter_map(|value| value.as_procs());
        RelayedRegistration {
            codes,
            levels: ClassFilter::of(infos, ClassFilter::Both),
            affected: affected.flatten().collect(),
        }
    }
}

/// What the relay knows of the client's events.
#[derive(Debug, Default)]
pub(crate) struct ClientEvents {
    interests: PeerRegistrations,
    kept: VecDeque<PackedDelivery>,
    bytes: usize,
    /// Events that have come, and in which epoch each came last.
    seen: VecDeque<(u64, u64)>,
    /// How many registrations the server has acknowledged: it sends what it keeps behind each.
    epoch: u64,
}

impl ClientEvents {
    /// The client is registered for this. Returns what was kept for it, oldest first.
    pub(crate) fn registers(&mut self, wish: RelayedRegistration) -> Vec<PackedDelivery> {
        self.interests.add(&wish.codes, wish.levels, wish.affected);
        self.acknowledged();
        let (wanted, kept): (Vec<PackedDelivery>, Vec<PackedDelivery>) =
            std::mem::take(&mut self.kept)
                .into_iter()
                .partition(|parcel| self.interests.want(&parcel.event));
        self.kept = kept.into();
        self.bytes = self.kept.iter().map(|parcel| parcel.bytes.len()).sum();
        wanted
    }

    /// The client wants these codes no more.
    pub(crate) fn deregisters(&mut self, codes: &[Status]) {
        self.interests
            .forget(&codes.iter().copied().collect::<BTreeSet<Status>>());
    }

    /// The server has acknowledged a registration.
    pub(crate) fn acknowledged(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// An event that is to go to the client: it is returned if that asked for it, else it is kept.
    pub(crate) fn send(&mut self, parcel: PackedDelivery) -> Option<PackedDelivery> {
        if self.interests.want(&parcel.event) {
            return Some(parcel);
        }
        self.bytes = self.bytes.saturating_add(parcel.bytes.len());
        self.kept.push_back(parcel);
        while self.kept.len() > MOST || self.bytes > MOST_BYTES {
            let Some(oldest) = self.kept.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(oldest.bytes.len());
        }
        None
    }

    /// Whether an event is one that was here before: the C library's servers send what they keep again behind every registration,
    /// and say no range then.
    pub(crate) fn is_repeated(&mut self, event: &Event) -> bool {
        let hash = hash(event);
        let epoch = self.epoch;
        if event.range == Range::Undef
            && let Some(seen) = self
                .seen
                .iter_mut()
                .find(|(seen, at)| *seen == hash && *at != epoch)
        {
            seen.1 = epoch;
            return true;
        }
        self.seen.push_back((hash, epoch));
        if self.seen.len() > MOST {
            self.seen.pop_front();
        }
        false
    }
}

/// What is the same of an event when it is sent again.
fn hash(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    event.code.hash(&mut hasher);
    event.source.hash(&mut hasher);
    format!("{:?}", event.infos).hash(&mut hasher);
    hasher.finish()
}
