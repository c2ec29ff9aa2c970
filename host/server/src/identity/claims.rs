//! Live claims on procs whose processes the host does not know: the first one is believed, and what descends from its
//! process are its clones.
use super::{
    IdentityMismatch, PeerSocket, ProcessObserver, observer::SearchStart, process::ObservedProcess,
    socket::Sockets,
};
use peal_model::Proc;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// A user's claim on a proc: what others claim is no business of theirs.
type Claimed = (Proc, u32);

/// The claims that live.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<Claimed, Claimants>>);

/// Who claims a proc.
#[derive(Debug, Default)]
struct Claimants {
    /// Whose descendants the claimants are; looked for only when there is a second one.
    first: Option<ObservedProcess>,
    live: Vec<PeerSocket>,
}

/// A claim that lives as long as this does.
#[derive(Debug)]
pub(crate) struct ProcClaim {
    claims: Arc<Claims>,
    claimed: Claimed,
    end: PeerSocket,
}

impl Claims {
    /// Claims a proc for the holder of a connection, or says who has it. Looks at processes, so it takes its time.
    pub(super) fn claim(
        self: &Arc<Self>,
        proc: &Proc,
        end: PeerSocket,
        (sockets, observer): (&Sockets, &ProcessObserver),
    ) -> Result<ProcClaim, IdentityMismatch> {
        let claimed = (proc.clone(), end.uid);
        loop {
            let Some((first, other)) = self.join(&claimed, end) else {
                return Ok(self.claim_of(claimed, end));
            };
            let first = first.filter(|first| first.is_there());
            match first.or_else(|| observer.holder(SearchStart::Of(end.uid), other.inode)) {
                Some(first)
                    if observer
                        .holder(SearchStart::Below(first.pid), end.inode)
                        .is_some() =>
                {
                    let mut all = self.all();
                    let claimants = all.entry(claimed.clone()).or_default();
                    claimants.first = Some(first);
                    claimants.live.push(end);
                    drop(all);
                    return Ok(self.claim_of(claimed, end));
                }
                Some(first) => {
                    return Err(IdentityMismatch::Second {
                        proc: proc.clone(),
                        first: first.pid,
                    });
                }
                // Whoever held it let it go: what is left of the claim is a message of ours that was not yet read.
                None if !sockets.is_there(&other)? => self.forget(&claimed, other),
                None => return Err(IdentityMismatch::Hidden(proc.clone())),
            }
        }
    }

    /// Joins nobody; or else says whom there is to be compared with.
    fn join(
        &self,
        claimed: &Claimed,
        end: PeerSocket,
    ) -> Option<(Option<ObservedProcess>, PeerSocket)> {
        let mut all = self.all();
        let claimants = all.entry(claimed.clone()).or_default();
        match claimants.live.first() {
            Some(other) => Some((claimants.first, *other)),
            None => {
                claimants.live.push(end);
                None
            }
        }
    }

    fn claim_of(self: &Arc<Self>, claimed: Claimed, end: PeerSocket) -> ProcClaim {
        ProcClaim {
            claims: self.clone(),
            claimed,
            end,
        }
    }

    fn forget(&self, claimed: &Claimed, end: PeerSocket) {
        let mut all = self.all();
        let Some(claimants) = all.get_mut(claimed) else {
            return;
        };
        claimants.live.retain(|other| *other != end);
        if claimants.live.is_empty() {
            all.remove(claimed);
        }
    }

    fn all(&self) -> MutexGuard<'_, HashMap<Claimed, Claimants>> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProcClaim {
    fn drop(&mut self) {
        self.claims.forget(&self.claimed, self.end);
    }
}
