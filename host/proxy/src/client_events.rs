//! Events of the client: its registrations, the events kept until it registers for them, and events
//! that a server repeats.
use peal_core::{audience::PeerRegistrations, class::ClassFilter};
use peal_model::{Event, Info, Infos, Proc, Range, Status};
use std::{
    collections::{BTreeSet, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

/// Bound on the events kept for a client that has not registered for them, and on the events
/// remembered to recognize repetitions. Libraries keep as many.
const MAX_EVENTS: usize = 512;
/// Bound on the memory of kept events, in bytes.
const MAX_EVENT_BYTES: usize = 8 << 20;

/// An event for the client.
#[derive(Clone, Debug)]
pub(crate) struct PackedDelivery {
    pub(crate) event: Arc<Event>,
    /// Encoded frame: header and payload.
    pub(crate) bytes: Vec<u8>,
}

/// A registration of the client.
#[derive(Clone, Debug)]
pub(crate) struct RelayedRegistration {
    codes: Vec<Status>,
    levels: ClassFilter,
    affected: Vec<Proc>,
}

impl RelayedRegistration {
    /// Reads a registration as a server does. Without a class directive both classes count, as in
    /// `libpmix`.
    pub(crate) fn new(codes: Vec<Status>, infos: &[Info]) -> RelayedRegistration {
        RelayedRegistration {
            codes,
            levels: ClassFilter::of(infos, ClassFilter::Both),
            affected: infos.affected_procs(),
        }
    }
}

/// Events and registrations of the client.
#[derive(Debug, Default)]
pub(crate) struct ClientEvents {
    registrations: PeerRegistrations,
    deliveries: VecDeque<PackedDelivery>,
    bytes: usize,
    /// Hashes of received events, each with the epoch in which it was last received.
    received_hashes: VecDeque<(u64, u64)>,
    /// Number of registrations that the server has acknowledged. It sends its retained events after
    /// each.
    epoch: u64,
}

impl ClientEvents {
    /// Adds a registration of the client. Returns the kept events that match it, oldest first.
    pub(crate) fn add_registration(
        &mut self,
        registration: RelayedRegistration,
    ) -> Vec<PackedDelivery> {
        self.registrations.add(
            &registration.codes,
            registration.levels,
            registration.affected,
        );
        self.count_acknowledgement();
        let (wanted, kept): (Vec<PackedDelivery>, Vec<PackedDelivery>) =
            std::mem::take(&mut self.deliveries)
                .into_iter()
                .partition(|parcel| self.registrations.covers_event(&parcel.event));
        self.deliveries = kept.into();
        self.bytes = self
            .deliveries
            .iter()
            .map(|parcel| parcel.bytes.len())
            .sum();
        wanted
    }

    /// Removes codes from the client's registrations.
    pub(crate) fn remove_codes(&mut self, codes: &[Status]) {
        self.registrations
            .forget(&codes.iter().copied().collect::<BTreeSet<Status>>());
    }

    /// Counts a registration that the server has acknowledged.
    pub(crate) fn count_acknowledgement(&mut self) {
        self.epoch = self.epoch.wrapping_add(1);
    }

    /// Returns an event if the client is registered for it. Otherwise keeps the event.
    pub(crate) fn send(&mut self, parcel: PackedDelivery) -> Option<PackedDelivery> {
        if self.registrations.covers_event(&parcel.event) {
            return Some(parcel);
        }
        self.bytes = self.bytes.saturating_add(parcel.bytes.len());
        self.deliveries.push_back(parcel);
        while self.deliveries.len() > MAX_EVENTS || self.bytes > MAX_EVENT_BYTES {
            let Some(oldest) = self.deliveries.pop_front() else {
                break;
            };
            self.bytes = self.bytes.saturating_sub(oldest.bytes.len());
        }
        None
    }

    /// Returns true if an event was received before. Servers of the C library send their retained
    /// events again after every registration, without a range.
    pub(crate) fn is_repeated(&mut self, event: &Event) -> bool {
        let hash = hash(event);
        let epoch = self.epoch;
        if event.range == Range::Undef
            && let Some(seen) = self
                .received_hashes
                .iter_mut()
                .find(|(seen, at)| *seen == hash && *at != epoch)
        {
            seen.1 = epoch;
            return true;
        }
        self.received_hashes.push_back((hash, epoch));
        if self.received_hashes.len() > MAX_EVENTS {
            self.received_hashes.pop_front();
        }
        false
    }
}

/// Returns a hash of the parts of an event that stay the same when it is sent again.
fn hash(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    event.code.hash(&mut hasher);
    event.source.hash(&mut hasher);
    // Values include floats, which have no `Hash`.
    format!("{:?}", event.infos).hash(&mut hasher);
    hasher.finish()
}
