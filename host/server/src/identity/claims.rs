//! Claims on procs whose processes the host environment does not know. The first claim on a proc is
//! accepted; later ones must come from descendants of its process, which are clones of the proc.
use super::{IdentityMismatch, PeerSocket, socket::Sockets};
use peal_helper::PrivilegedHelper;
use peal_model::Proc;
use peal_system::{
    process::ProcessId,
    socket_holder::{HolderSearch, SearchStart},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Proc and user of a claim. Claims of different users on one proc are independent.
type Claimed = (Proc, u32);

/// Open claims.
#[derive(Debug, Default)]
pub(super) struct Claims(Mutex<HashMap<Claimed, Claimants>>);

/// Claimants of a proc.
#[derive(Debug, Default)]
struct Claimants {
    /// Process of the first claimant. It is searched for only when a second one claims the proc.
    first: Option<ProcessId>,
    live: Vec<PeerSocket>,
}

/// Claim that stays open until it is dropped.
#[derive(Debug)]
pub(crate) struct ProcClaim {
    claims: Arc<Claims>,
    claimed: Claimed,
    end: PeerSocket,
}

impl Claims {
    /// Claims a proc for the holder of a connection. Fails if another process holds the claim.
    /// Reads files in `/proc`, so it may block.
    pub(super) fn claim(
        self: &Arc<Self>,
        proc: &Proc,
        end: PeerSocket,
        (sockets, helper): (&Sockets, &PrivilegedHelper),
    ) -> Result<ProcClaim, IdentityMismatch> {
        let claimed = (proc.clone(), end.uid);
        let holder = |start, inode| helper.holder(HolderSearch { start, inode });
        // Repeated after the claim of a connection that has ended was removed.
        loop {
            let Some((first, other)) = self.join(&claimed, end) else {
                return Ok(self.claim_of(claimed, end));
            };
            let first = first.filter(|first| first.is_there());
            match first.or_else(|| holder(SearchStart::Of(end.uid), other.inode)) {
                Some(first) if holder(SearchStart::Below(first.pid), end.inode).is_some() => {
                    let mut all = self.all();
                    // The lock was released since `join`, so the first claim may be gone: `entry`
                    // restores it.
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
                // The first claimant has closed its socket. Its claim remains only because the
                // server has not processed the end of the connection yet.
                None if !sockets.is_there(&other)? => self.forget(&claimed, other),
                None => return Err(IdentityMismatch::Hidden(proc.clone())),
            }
        }
    }

    /// Adds the first claim on a proc; otherwise returns the first claimant to compare with.
    fn join(&self, claimed: &Claimed, end: PeerSocket) -> Option<(Option<ProcessId>, PeerSocket)> {
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

    /// Restores a claim that another process of this server has accepted.
    pub(super) fn restore(self: &Arc<Self>, proc: &Proc, end: PeerSocket) -> ProcClaim {
        let claimed = (proc.clone(), end.uid);
        let mut all = self.all();
        all.entry(claimed.clone()).or_default().live.push(end);
        drop(all);
        self.claim_of(claimed, end)
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
        // No holder of this lock panics while the map is inconsistent, so a poisoned map is usable.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ProcClaim {
    /// Returns the socket that holds the claim.
    pub(crate) fn socket(&self) -> PeerSocket {
        self.end
    }
}

impl Drop for ProcClaim {
    fn drop(&mut self) {
        self.claims.forget(&self.claimed, self.end);
    }
}
