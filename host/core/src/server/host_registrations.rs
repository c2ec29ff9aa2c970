//! Which events of the environment the host environment is asked for: each code once, when the first client wants it, and
//! no more when the last one has gone (RFC 0002, "PMIx Server Registrations"). A standing registration for every code covers each
//! single one.
use super::{PeerId, RequestId};
use crate::class::ClassFilter;
use peal_model::{Proc, Status};
use std::collections::{BTreeMap, BTreeSet};

/// The number of a question to the host environment; never used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct HostRegistrationId(u64);

/// What the host can be asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Want {
    /// Events of every code: a default registration.
    All,
    /// Events of this code.
    Code(Status),
}

/// How far the host is with what it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HostRegistrationState {
    Asked(HostRegistrationId),
    Standing,
    /// The host was not asked, since its registration for every code covers this one.
    Covered,
}

/// Something that the host was asked for.
#[derive(Debug)]
struct HostRegistration {
    progress: HostRegistrationState,
    by: BTreeSet<PeerId>,
}

/// A registration that makes sense.
#[derive(Debug)]
pub(super) struct ClientRegistration {
    pub(super) to: RequestId,
    pub(super) codes: Vec<Status>,
    pub(super) levels: ClassFilter,
    pub(super) affected: Vec<Proc>,
}

impl Want {
    fn of(code: &Status) -> Want {
        if *code == Status::DEFAULT_HANDLER {
            Want::All
        } else {
            Want::Code(*code)
        }
    }

    /// How a deregistration names it.
    fn code(self) -> Status {
        match self {
            Want::All => Status::DEFAULT_HANDLER,
            Want::Code(code) => code,
        }
    }
}

impl ClientRegistration {
    fn wants(&self) -> impl Iterator<Item = Want> {
        let all = self.codes.is_empty().then_some(Want::All);
        all.into_iter()
            .chain(self.codes.iter().copied().map(Want::Code))
    }
}

/// A wish whose acknowledgement waits for the host.
#[derive(Debug)]
struct PendingRegistration {
    wish: ClientRegistration,
    on: BTreeSet<HostRegistrationId>,
}

/// Codes to be asked for, or given back; with none, the demand for every code.
pub(super) type Codes = Vec<Status>;

/// A change that the host is to be told of.
#[derive(Debug)]
pub(super) enum DemandChange {
    /// It is to register for these codes.
    Register(HostRegistrationId, Codes),
    /// It need not register for these codes any more.
    Deregister(Codes),
}

/// What comes of a wish.
#[derive(Debug)]
pub(super) enum Granted {
    /// The host knows already.
    Now(ClientRegistration),
    /// It has to be asked first: for these codes, if it was not asked yet.
    Later(Option<(HostRegistrationId, Codes)>),
}

/// What the host is asked for, and who waits for its answers.
#[derive(Debug, Default)]
pub(super) struct HostRegistrations {
    asked: BTreeMap<Want, HostRegistration>,
    waiting: Vec<PendingRegistration>,
    next: u64,
}

impl HostRegistrations {
    /// Somebody wants events of the environment.
    pub(super) fn want(&mut self, wish: ClientRegistration) -> Granted {
        let (id, peer) = (HostRegistrationId(self.next), wish.to.peer);
        let (mut new, mut on) = (Vec::new(), BTreeSet::new());
        let covers_all = self
            .asked
            .get(&Want::All)
            .is_some_and(|all| all.progress == HostRegistrationState::Standing);
        for want in wish.wants() {
            let asked = self.asked.entry(want).or_insert_with(|| {
                let progress = if covers_all {
                    HostRegistrationState::Covered
                } else {
                    HostRegistrationState::Asked(id)
                };
                new.extend((!covers_all).then_some(want));
                HostRegistration {
                    progress,
                    by: BTreeSet::new(),
                }
            });
            asked.by.insert(peer);
            if let HostRegistrationState::Asked(id) = asked.progress {
                on.insert(id);
            }
        }
        if on.is_empty() {
            return Granted::Now(wish);
        }
        self.waiting.push(PendingRegistration { wish, on });
        if new.is_empty() {
            return Granted::Later(None);
        }
        self.next += 1;
        Granted::Later(Some((id, codes(&new))))
    }

    /// The host has answered. Which wishes need wait no more and, where it refused, which are refused; then what nobody wants
    /// any more.
    pub(super) fn answered(
        &mut self,
        id: HostRegistrationId,
        is_standing: bool,
    ) -> (Vec<ClientRegistration>, Vec<DemandChange>) {
        let mut unwanted = Vec::new();
        let theirs = |asked: &HostRegistration| asked.progress == HostRegistrationState::Asked(id);
        if is_standing {
            for (want, asked) in self.asked.iter_mut().filter(|(_, asked)| theirs(asked)) {
                asked.progress = HostRegistrationState::Standing;
                if asked.by.is_empty() {
                    unwanted.push(*want);
                }
            }
            unwanted
                .iter()
                .for_each(|want| drop(self.asked.remove(want)));
        } else {
            self.asked.retain(|_, asked| !theirs(asked));
        }
        let settled = self.waiting.extract_if(.., |waiting| {
            waiting.on.remove(&id) && (waiting.on.is_empty() || !is_standing)
        });
        let wishes = settled.map(|waiting| waiting.wish).collect();
        (wishes, self.given_back(&unwanted))
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.waiting.is_empty()
    }

    /// How many codes and filters of a connection wait.
    pub(super) fn waiting_of(&self, peer: PeerId) -> usize {
        let theirs = self
            .waiting
            .iter()
            .filter(|waiting| waiting.wish.to.peer == peer);
        theirs
            .map(|waiting| waiting.wish.codes.len() + waiting.wish.affected.len() + 1)
            .sum()
    }

    /// A connection wants these codes no more (`Status::DEFAULT_HANDLER`: all codes). Whose wishes for nothing else need wait no
    /// more, and what nobody wants any more.
    pub(super) fn forget(
        &mut self,
        peer: PeerId,
        codes: &BTreeSet<Status>,
    ) -> (Vec<RequestId>, Vec<DemandChange>) {
        let of_peer = self.waiting.extract_if(.., |waiting| {
            waiting.wish.to.peer == peer && remove_codes(&mut waiting.wish.codes, codes)
        });
        let idle = of_peer.map(|waiting| waiting.wish.to).collect();
        let unwanted: Vec<Want> = codes
            .iter()
            .map(Want::of)
            .filter(|want| self.leave(peer, *want))
            .collect();
        (idle, self.given_back(&unwanted))
    }

    /// A wish of a connection was refused: of its codes, those go that the connection neither has (`keeps`) nor waits for
    /// besides. What nobody wants any more.
    pub(super) fn give_up(
        &mut self,
        wish: &ClientRegistration,
        keeps: impl Fn(Status) -> bool,
    ) -> Vec<DemandChange> {
        let peer = wish.to.peer;
        let others: BTreeSet<Want> = self
            .waiting
            .iter()
            .filter(|other| other.wish.to.peer == peer)
            .flat_map(|other| other.wish.wants())
            .collect();
        let gone = wish
            .wants()
            .filter(|want| !others.contains(want) && !keeps(want.code()));
        let gone: Vec<Want> = gone.collect();
        let unwanted: Vec<Want> = gone
            .into_iter()
            .filter(|want| self.leave(peer, *want))
            .collect();
        self.given_back(&unwanted)
    }

    /// A connection is heard no more. What nobody wants any more.
    pub(super) fn part(&mut self, peer: PeerId) -> Vec<DemandChange> {
        self.waiting.retain(|waiting| waiting.wish.to.peer != peer);
        let wants: Vec<Want> = self.asked.keys().copied().collect();
        let unwanted: Vec<Want> = wants
            .into_iter()
            .filter(|want| self.leave(peer, *want))
            .collect();
        self.given_back(&unwanted)
    }

    /// Whether that was the last one, and the host is to be told.
    fn leave(&mut self, peer: PeerId, want: Want) -> bool {
        let Some(asked) = self.asked.get_mut(&want) else {
            return false;
        };
        let is_last = asked.by.remove(&peer) && asked.by.is_empty();
        let progress = asked.progress;
        // While the host has not answered it cannot be told to forget.
        if is_last && !matches!(progress, HostRegistrationState::Asked(_)) {
            self.asked.remove(&want);
        }
        is_last && progress == HostRegistrationState::Standing
    }

    /// The host is told of what nobody wants any more. Where that is every code, it is asked before for those that were covered.
    fn given_back(&mut self, unwanted: &[Want]) -> Vec<DemandChange> {
        let mut changes = Vec::new();
        if unwanted.contains(&Want::All) {
            changes.extend(self.ask_for_covered());
        }
        let some = Some(codes(unwanted)).filter(|codes| !codes.is_empty());
        let all = unwanted.contains(&Want::All).then(Codes::new);
        changes.extend(some.into_iter().chain(all).map(DemandChange::Deregister));
        changes
    }

    fn ask_for_covered(&mut self) -> Option<DemandChange> {
        let id = HostRegistrationId(self.next);
        let mut uncovered = Vec::new();
        for (want, asked) in self
            .asked
            .iter_mut()
            .filter(|(_, asked)| asked.progress == HostRegistrationState::Covered)
        {
            asked.progress = HostRegistrationState::Asked(id);
            uncovered.push(*want);
        }
        if uncovered.is_empty() {
            return None;
        }
        self.next += 1;
        Some(DemandChange::Register(id, codes(&uncovered)))
    }
}

/// Takes codes out of those of a registration, none meaning all (`Status::DEFAULT_HANDLER`). Whether nothing is left.
pub(super) fn remove_codes(asked: &mut Vec<Status>, codes: &BTreeSet<Status>) -> bool {
    if asked.is_empty() {
        return codes.contains(&Status::DEFAULT_HANDLER);
    }
    asked.retain(|code| !codes.contains(code));
    asked.is_empty()
}

fn codes(wants: &[Want]) -> Codes {
    wants
        .iter()
        .filter_map(|want| {
            if let Want::Code(code) = want {
                Some(*code)
            } else {
                None
            }
        })
        .collect()
}
