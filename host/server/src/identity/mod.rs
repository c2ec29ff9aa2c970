//! Verification of peers: the claimed identity is compared with the kernel's data about the socket
//! and about the process that holds it.

mod claims;
mod groups;
mod socket;
mod table;

use self::{claims::Claims, groups::GroupNames, socket::Sockets};
pub(crate) use self::{
    claims::ProcClaim,
    socket::{PeerLookup, PeerSearch, PeerSocket, unread, untaken},
};
use crate::host_environment::{HostEnvironment, ProcessLookup};
use peal_core::choice::IdentityCheck;
use peal_helper::PrivilegedHelper;
use peal_model::{Proc, UnixGroup, UserIdentity};
use peal_system::{
    credentials,
    process::ProcessId,
    socket_holder::{HolderSearch, SearchStart},
};
use std::{io, net::SocketAddr, os::fd::AsFd, sync::Arc};
use thiserror::Error;
use tokio::net::{TcpStream, UnixStream};

/// Credentials of a peer, as reported by the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCredentials {
    /// User and group. The group of a proc is the claimed one if its process is not searched for;
    /// it must be the job's.
    pub identity: UserIdentity,
    /// Process id, if the process was searched for and found.
    pub pid: Option<u32>,
}

/// Peer whose claimed identity does not contradict the kernel's data.
#[derive(Debug)]
pub(crate) struct VerifiedPeer {
    /// Credentials.
    pub(crate) peer: PeerCredentials,
    /// Unix groups of the process, the group of its identity first. Contains only that group if the
    /// process is not searched for.
    pub(crate) groups: Arc<[UnixGroup]>,
    /// Claim that the peer holds while it is connected.
    pub(crate) claim: Option<ProcClaim>,
}

/// Returns the credentials of the process at the other end of a Unix socket (`SO_PEERCRED`), as
/// they were when it connected.
pub fn peer_of(stream: &UnixStream) -> io::Result<PeerCredentials> {
    let credentials = stream.peer_cred()?;
    Ok(PeerCredentials {
        identity: UserIdentity {
            uid: credentials.uid(),
            gid: credentials.gid(),
        },
        // The kernel reports zero for a process in a PID namespace that is not visible from here.
        pid: credentials
            .pid()
            .and_then(|pid| u32::try_from(pid).ok())
            .filter(|pid| *pid != 0),
    })
}

/// Returns the process that holds the other end of a loopback connection, if it is `root` or a
/// descendant of it and the connection is established.
pub async fn holder_below(root: u32, stream: &TcpStream) -> io::Result<Option<u32>> {
    let Some(socket) = Sockets::default().peer_of(stream).await? else {
        return Ok(None);
    };
    // The search reads files in `/proc`, which blocks.
    let search = HolderSearch {
        start: SearchStart::Below(root),
        inode: socket.inode,
    };
    let searching = tokio::task::spawn_blocking(move || search.find());
    let holder = searching.await.map_err(io::Error::other)?;
    Ok(holder.map(|process| process.pid))
}

/// Claim that contradicts the kernel's data, or that the kernel cannot confirm.
#[derive(Debug, Error)]
pub(crate) enum IdentityMismatch {
    #[error("user {claimed} is claimed, but the socket belongs to user {found}")]
    User { claimed: u32, found: u32 },
    #[error("group {claimed} is claimed, but process {pid} runs as group {found}")]
    Group { claimed: u32, found: u32, pid: u32 },
    #[error(
        "{proc} is claimed; process {root} of that proc does not hold the socket, nor does any descendant that can be observed"
    )]
    Elsewhere { proc: Proc, root: u32 },
    #[error("{0} is claimed, but its process has ended")]
    Ended(Proc),
    #[error(
        "{proc} is claimed; it is process {first}, and the process that holds the socket is no descendant of it"
    )]
    Second { proc: Proc, first: u32 },
    #[error("{0} is claimed, but is connected already from a process that cannot be observed")]
    Hidden(Proc),
    #[error(
        "process {0} holds the socket but runs with the rights of more than one user or group, so its groups prove nothing"
    )]
    Mixed(u32),
    #[error("the process that holds the socket was not found")]
    Unseen,
    #[error("cannot read the identity of the peer from the kernel: {0}")]
    Kernel(#[from] io::Error),
}

/// Identity that a peer claims.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ClaimedIdentity {
    /// Proc of a job.
    Proc(Proc),
    /// Tool, with its claimed process id if it sent one.
    Tool(Option<u32>),
}

/// Verifier of claimed identities.
pub(crate) struct Checker {
    check: IdentityCheck,
    host: Arc<dyn HostEnvironment>,
    claims: Arc<Claims>,
    sockets: Sockets,
    helper: PrivilegedHelper,
    names: GroupNames,
}

impl Checker {
    pub(crate) fn new(
        check: IdentityCheck,
        host: Arc<dyn HostEnvironment>,
        helper: PrivilegedHelper,
    ) -> Checker {
        Checker {
            check,
            host,
            claims: Arc::default(),
            sockets: Sockets::default(),
            helper,
            names: GroupNames::read(),
        }
    }

    /// Looks up the peer's socket of a connection that was just accepted, from `far` to `near`,
    /// without waiting.
    pub(crate) fn look_up_peer(
        &self,
        socket: impl AsFd,
        far: SocketAddr,
        near: SocketAddr,
    ) -> io::Result<PeerLookup> {
        self.sockets.look_up(socket, far, near)
    }

    /// Searches for the peer's socket if the lookup had no answer; returns none if the connection
    /// is no longer established.
    pub(crate) async fn search_peer(
        &self,
        socket: impl AsFd,
        search: PeerSearch,
    ) -> io::Result<Option<PeerSocket>> {
        self.sockets.search(socket, search).await
    }

    /// Compares a claimed identity with the kernel's data. The returned claim must be kept as long
    /// as the connection. Reads files in `/proc`, so it must not run on tokio's own threads.
    pub(crate) fn check(
        &self,
        claimant: &ClaimedIdentity,
        claimed: UserIdentity,
        socket: PeerSocket,
    ) -> Result<VerifiedPeer, IdentityMismatch> {
        let PeerSocket { uid, inode, .. } = socket;
        if uid != claimed.uid {
            return Err(IdentityMismatch::User {
                claimed: claimed.uid,
                found: uid,
            });
        }
        // Of procs only the user is verified in this mode. The group of a tool is not known
        // otherwise, so tools always take the path below.
        if let (IdentityCheck::User, ClaimedIdentity::Proc(proc)) = (self.check, claimant) {
            let is_launched = self.host.process_of(proc) != ProcessLookup::Unknown;
            let pid = if is_launched {
                None
            } else {
                self.holder_of(proc, claimed.uid, inode)
            };
            return Ok(self.unseen(claimed, pid, None));
        }
        let pid = match claimant {
            ClaimedIdentity::Tool(hint) => self
                .tool(*hint, claimed.uid, inode)
                .ok_or(IdentityMismatch::Unseen)?,
            ClaimedIdentity::Proc(proc) => match self.host.process_of(proc) {
                ProcessLookup::Running(root) => self
                    .holder(SearchStart::Below(root), inode)
                    .map(|process| process.pid)
                    .ok_or_else(|| IdentityMismatch::Elsewhere {
                        proc: proc.clone(),
                        root,
                    })?,
                ProcessLookup::Ended => return Err(IdentityMismatch::Ended(proc.clone())),
                ProcessLookup::Unknown => {
                    let claim = self
                        .claims
                        .claim(proc, socket, (&self.sockets, &self.helper))?;
                    let pid = self.holder_of(proc, claimed.uid, inode);
                    return Ok(self.unseen(claimed, pid, Some(claim)));
                }
            },
        };
        let credentials = credentials::credentials(pid).ok_or(IdentityMismatch::Unseen)?;
        // A process can pass its socket to a program with the rights of another group, as standard
        // input or in a message. So all ids must agree.
        let found = credentials
            .only_group(uid)
            .ok_or(IdentityMismatch::Mixed(pid))?;
        if found != claimed.gid {
            return Err(IdentityMismatch::Group {
                claimed: claimed.gid,
                found,
                pid,
            });
        }
        let gids: Vec<u32> = std::iter::once(found)
            .chain(credentials.supplementary)
            .collect();
        let peer = PeerCredentials {
            identity: claimed,
            pid: Some(pid),
        };
        Ok(VerifiedPeer {
            peer,
            groups: self.names.named(&gids),
            claim: None,
        })
    }

    /// Restores a claim that another process of this server has accepted.
    pub(crate) fn reclaim(&self, proc: &Proc, end: PeerSocket) -> ProcClaim {
        self.claims.restore(proc, end)
    }

    /// Returns a peer whose process does not matter for the verification. Its only group is the
    /// claimed one, which must be the job's. The process id is included if it was found.
    fn unseen(
        &self,
        identity: UserIdentity,
        pid: Option<u32>,
        claim: Option<ProcClaim>,
    ) -> VerifiedPeer {
        VerifiedPeer {
            peer: PeerCredentials { identity, pid },
            groups: self.names.named(&[identity.gid]),
            claim,
        }
    }

    /// Searches for the process of a proc of an external launcher, for job control and monitoring;
    /// none if the observer may not read its files. Where the launcher has named the proc's process,
    /// the search begins there: that of all processes takes longer the more procs a node has.
    fn holder_of(&self, proc: &Proc, uid: u32, inode: u64) -> Option<u32> {
        let named = self.host.running_process(proc).and_then(|named| {
            let holder = self.holder(SearchStart::Below(named), inode)?;
            (credentials::user(holder.pid) == Some(uid)).then_some(holder)
        });
        named
            .or_else(|| self.holder(SearchStart::Latest(uid), inode))
            .map(|process| process.pid)
    }

    fn holder(&self, start: SearchStart, inode: u64) -> Option<ProcessId> {
        self.helper.holder(HolderSearch { start, inode })
    }

    /// Searches for the process of a tool: first the claimed process, then all processes of the
    /// user.
    fn tool(&self, hint: Option<u32>, uid: u32, inode: u64) -> Option<u32> {
        let claimed = hint.and_then(|pid| self.holder(SearchStart::In(pid), inode));
        claimed
            .or_else(|| self.holder(SearchStart::Of(uid), inode))
            .map(|process| process.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn peer_of_unix_socket_is_the_connecting_process() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        let me = PeerCredentials {
            identity: UserIdentity { uid, gid },
            pid: Some(std::process::id()),
        };
        assert_eq!(peer_of(&stream).unwrap(), me);
    }
}
