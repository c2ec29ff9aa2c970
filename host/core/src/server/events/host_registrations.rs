//! Registrations with the host environment for environment events (RFC 0002, "PMIx Server
//! Registrations"). Each code is registered once, when the first client needs it, and deregistered
//! when the last one leaves. An acknowledged registration for every code covers each single code.
use crate::{
    class::ClassFilter,
    server::{PeerId, RequestId},
};
use peal_model::{Proc, Status};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Identifier of a registration upcall; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct HostRegistrationId(u64);

/// An event code, or every code, that clients need from the host environment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
enum EventDemand {
    /// Every code: a default registration.
    All,
    /// One code.
    Code(Status),
}

/// The progress of a registration with the host environment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
enum HostRegistrationState {
    Requested(HostRegistrationId),
    Standing,
    /// The code was not registered, because the registration for every code covers it.
    Covered,
}

/// A registration with the host environment, and the connections that need it.
#[derive(Debug, Serialize, Deserialize)]
struct HostRegistration {
    progress: HostRegistrationState,
    by: BTreeSet<PeerId>,
}

/// A valid registration of a client.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ClientRegistration {
    pub(super) to: RequestId,
    pub(super) codes: Vec<Status>,
    pub(super) levels: ClassFilter,
    pub(super) affected: Vec<Proc>,
}

impl EventDemand {
    fn of(code: &Status) -> EventDemand {
        if *code == Status::DEFAULT_HANDLER {
            EventDemand::All
        } else {
            EventDemand::Code(*code)
        }
    }

    /// Returns the code by which a deregistration names it.
    fn code(self) -> Status {
        match self {
            EventDemand::All => Status::DEFAULT_HANDLER,
            EventDemand::Code(code) => code,
        }
    }
}

impl ClientRegistration {
    fn demands(&self) -> impl Iterator<Item = EventDemand> {
        let all = self.codes.is_empty().then_some(EventDemand::All);
        all.into_iter()
            .chain(self.codes.iter().copied().map(EventDemand::Code))
    }
}

/// A client's registration that waits for the host environment.
#[derive(Debug, Serialize, Deserialize)]
struct PendingRegistration {
    registration: ClientRegistration,
    on: BTreeSet<HostRegistrationId>,
}

/// Codes to register or deregister; an empty list is the registration for every code.
pub(super) type Codes = Vec<Status>;

/// A change of the registrations with the host environment.
#[derive(Debug)]
pub(super) enum DemandChange {
    /// Registers for these codes.
    Register(HostRegistrationId, Codes),
    /// Deregisters these codes.
    Deregister(Codes),
}

/// The result of a client's registration.
#[derive(Debug)]
pub(super) enum Granted {
    /// The host environment has registered all of its codes already.
    Now(ClientRegistration),
    /// The host environment must register first; the codes are those that were not requested yet.
    Later(Option<(HostRegistrationId, Codes)>),
}

/// All registrations with the host environment, and the clients that wait for its answers.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct HostRegistrations {
    registrations: BTreeMap<EventDemand, HostRegistration>,
    waiting: Vec<PendingRegistration>,
    next: u64,
}

impl HostRegistrations {
    /// Adds a client's registration for environment events.
    pub(super) fn add_registration(&mut self, registration: ClientRegistration) -> Granted {
        let id = HostRegistrationId(self.next);
        let peer = registration.to.peer;
        let mut new = Vec::new();
        let mut on = BTreeSet::new();
        // A registration for every code that is not acknowledged may still be refused, so it covers
        // nothing yet.
        let covers_all = self
            .registrations
            .get(&EventDemand::All)
            .is_some_and(|all| all.progress == HostRegistrationState::Standing);
        for demand in registration.demands() {
            let host_registration = self.registrations.entry(demand).or_insert_with(|| {
                let progress = if covers_all {
                    HostRegistrationState::Covered
                } else {
                    HostRegistrationState::Requested(id)
                };
                new.extend((!covers_all).then_some(demand));
                HostRegistration {
                    progress,
                    by: BTreeSet::new(),
                }
            });
            host_registration.by.insert(peer);
            if let HostRegistrationState::Requested(id) = host_registration.progress {
                on.insert(id);
            }
        }
        if on.is_empty() {
            return Granted::Now(registration);
        }
        self.waiting.push(PendingRegistration { registration, on });
        if new.is_empty() {
            return Granted::Later(None);
        }
        self.next += 1;
        Granted::Later(Some((id, codes(&new))))
    }

    /// Handles the host environment's answer. Returns the client registrations that wait no longer
    /// (if it refused, those that are refused), and the changes for codes that no client needs any
    /// more.
    pub(super) fn answered(
        &mut self,
        id: HostRegistrationId,
        is_standing: bool,
    ) -> (Vec<ClientRegistration>, Vec<DemandChange>) {
        let mut unwanted = Vec::new();
        let is_answered = |host_registration: &HostRegistration| {
            host_registration.progress == HostRegistrationState::Requested(id)
        };
        if is_standing {
            for (demand, host_registration) in self
                .registrations
                .iter_mut()
                .filter(|(_, host_registration)| is_answered(host_registration))
            {
                host_registration.progress = HostRegistrationState::Standing;
                // All clients that needed the code have left while the host environment registered
                // it.
                if host_registration.by.is_empty() {
                    unwanted.push(*demand);
                }
            }
            unwanted
                .iter()
                .for_each(|demand| drop(self.registrations.remove(demand)));
        } else {
            // Without its entry, the next client asks the host environment again.
            self.registrations
                .retain(|_, host_registration| !is_answered(host_registration));
        }
        let settled = self.waiting.extract_if(.., |waiting| {
            // One refused code refuses the registration: a client registers all of its codes or
            // none.
            waiting.on.remove(&id) && (waiting.on.is_empty() || !is_standing)
        });
        let registrations = settled.map(|waiting| waiting.registration).collect();
        (registrations, self.deregister_unneeded(&unwanted))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.registrations.is_empty() && self.waiting.is_empty()
    }

    /// Returns the number of codes and filters that wait for a connection.
    pub(super) fn waiting_of(&self, peer: PeerId) -> usize {
        let of_peer = self
            .waiting
            .iter()
            .filter(|waiting| waiting.registration.to.peer == peer);
        of_peer
            .map(|waiting| {
                waiting.registration.codes.len() + waiting.registration.affected.len() + 1
            })
            .sum()
    }

    /// Removes codes from the registrations of a connection (`Status::DEFAULT_HANDLER`: all codes).
    /// Returns the waiting requests that have no code left, and the changes for codes that no
    /// client needs any more.
    pub(super) fn forget(
        &mut self,
        peer: PeerId,
        codes: &BTreeSet<Status>,
    ) -> (Vec<RequestId>, Vec<DemandChange>) {
        let of_peer = self.waiting.extract_if(.., |waiting| {
            waiting.registration.to.peer == peer
                && remove_codes(&mut waiting.registration.codes, codes)
        });
        let idle = of_peer.map(|waiting| waiting.registration.to).collect();
        let unwanted: Vec<EventDemand> = codes
            .iter()
            .map(EventDemand::of)
            .filter(|demand| self.remove_demand(peer, *demand))
            .collect();
        (idle, self.deregister_unneeded(&unwanted))
    }

    /// Withdraws a refused registration. The connection gives up the codes that it neither has
    /// registered (`keeps`) nor waits for in another registration. Returns the changes for codes
    /// that no client needs any more.
    pub(super) fn give_up(
        &mut self,
        registration: &ClientRegistration,
        keeps: impl Fn(Status) -> bool,
    ) -> Vec<DemandChange> {
        let peer = registration.to.peer;
        let others: BTreeSet<EventDemand> = self
            .waiting
            .iter()
            .filter(|other| other.registration.to.peer == peer)
            .flat_map(|other| other.registration.demands())
            .collect();
        let unneeded = registration
            .demands()
            .filter(|demand| !others.contains(demand) && !keeps(demand.code()));
        let unneeded: Vec<EventDemand> = unneeded.collect();
        let unwanted: Vec<EventDemand> = unneeded
            .into_iter()
            .filter(|demand| self.remove_demand(peer, *demand))
            .collect();
        self.deregister_unneeded(&unwanted)
    }

    /// Removes all registrations of a connection that is no longer active. Returns the changes for
    /// codes that no client needs any more.
    pub(super) fn remove_peer(&mut self, peer: PeerId) -> Vec<DemandChange> {
        self.waiting
            .retain(|waiting| waiting.registration.to.peer != peer);
        let demands: Vec<EventDemand> = self.registrations.keys().copied().collect();
        let unwanted: Vec<EventDemand> = demands
            .into_iter()
            .filter(|demand| self.remove_demand(peer, *demand))
            .collect();
        self.deregister_unneeded(&unwanted)
    }

    /// Removes a connection from a code. Returns true if it was the last one and the host
    /// environment must be notified.
    fn remove_demand(&mut self, peer: PeerId, demand: EventDemand) -> bool {
        let Some(host_registration) = self.registrations.get_mut(&demand) else {
            return false;
        };
        let is_last = host_registration.by.remove(&peer) && host_registration.by.is_empty();
        let progress = host_registration.progress;
        // The host environment cannot deregister what it has not answered yet; `answered` does it
        // then.
        if is_last && !matches!(progress, HostRegistrationState::Requested(_)) {
            self.registrations.remove(&demand);
        }
        is_last && progress == HostRegistrationState::Standing
    }

    /// Returns the changes that give up codes. If the registration for every code is given up, the
    /// codes that it covered are registered first, so that no event is missed in between.
    fn deregister_unneeded(&mut self, unwanted: &[EventDemand]) -> Vec<DemandChange> {
        let mut changes = Vec::new();
        if unwanted.contains(&EventDemand::All) {
            changes.extend(self.register_covered());
        }
        // An empty list would mean every code.
        let some = Some(codes(unwanted)).filter(|codes| !codes.is_empty());
        let all = unwanted.contains(&EventDemand::All).then(Codes::new);
        changes.extend(some.into_iter().chain(all).map(DemandChange::Deregister));
        changes
    }

    fn register_covered(&mut self) -> Option<DemandChange> {
        let id = HostRegistrationId(self.next);
        let mut uncovered = Vec::new();
        for (demand, host_registration) in
            self.registrations
                .iter_mut()
                .filter(|(_, host_registration)| {
                    host_registration.progress == HostRegistrationState::Covered
                })
        {
            host_registration.progress = HostRegistrationState::Requested(id);
            uncovered.push(*demand);
        }
        // An upcall without codes would register for every code.
        if uncovered.is_empty() {
            return None;
        }
        self.next += 1;
        Some(DemandChange::Register(id, codes(&uncovered)))
    }
}

/// Removes codes from those of a registration; an empty list means every code
/// (`Status::DEFAULT_HANDLER`). Returns true if nothing is left.
pub(in crate::server) fn remove_codes(
    registered: &mut Vec<Status>,
    codes: &BTreeSet<Status>,
) -> bool {
    if registered.is_empty() {
        return codes.contains(&Status::DEFAULT_HANDLER);
    }
    registered.retain(|code| !codes.contains(code));
    registered.is_empty()
}

fn codes(demands: &[EventDemand]) -> Codes {
    demands
        .iter()
        .filter_map(|demand| {
            if let EventDemand::Code(code) = demand {
                Some(*code)
            } else {
                None
            }
        })
        .collect()
}
