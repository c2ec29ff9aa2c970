//! Who a peer is: what it claims, compared with what the kernel says of its socket and of the process that holds it.

mod claims;
mod groups;
mod observer;
mod process;
mod socket;
mod table;

pub use self::observer::{ProcessObserver, observe};
use self::{claims::Claims, groups::GroupNames, observer::SearchStart, socket::Sockets};
pub(crate) use self::{
    claims::ProcClaim,
    process::{ObservedProcess, user},
    socket::{PeerLookup, PeerSearch, PeerSocket, unread, untaken},
};
use crate::host_environment::{HostEnvironment, ProcessLookup};
use peal_core::choice::IdentityCheck;
use peal_model::{Proc, UnixGroup, UserIdentity};
use std::{io, net::SocketAddr, os::fd::AsFd, sync::Arc};
use thiserror::Error;
use tokio::net::{TcpStream, UnixStream};

/// Who a peer is, by the kernel's word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerCredentials {
    /// User and group. The group of a proc is as claimed where its process is not looked for; it must be the job's.
    pub identity: UserIdentity,
    /// Its process, where that was looked for and can be told.
    pub pid: Option<u32>,
}

/// A peer whose claim is not contradicted.
#[derive(Debug)]
pub(crate) struct VerifiedPeer {
    /// Who it is.
    pub(crate) peer: PeerCredentials,
    /// The groups of its process, that of its identity first; that alone where its process is not looked for.
    pub(crate) groups: Arc<[UnixGroup]>,
    /// What it holds as long as it is connected.
    pub(crate) claim: Option<ProcClaim>,
}

/// The process at the other end of a Unix socket (`SO_PEERCRED`): the one that connected, as whom it was then.
pub fn peer_of(stream: &UnixStream) -> io::Result<PeerCredentials> {
    let credentials = stream.peer_cred()?;
    Ok(PeerCredentials {
        identity: UserIdentity {
            uid: credentials.uid(),
            gid: credentials.gid(),
        },
        // Zero stands for a process that cannot be seen from here.
        pid: credentials
            .pid()
            .and_then(|pid| u32::try_from(pid).ok())
            .filter(|pid| *pid != 0),
    })
}

/// The process that holds the other end of a loopback connection, if it is `root` or descends from it and the connection is
/// established.
pub async fn holder_below(root: u32, stream: &TcpStream) -> io::Result<Option<u32>> {
    let Some(socket) = Sockets::default().peer_of(stream).await? else {
        return Ok(None);
    };
    let searching = tokio::task::spawn_blocking(move || process::holder_below(root, socket.inode));
    searching.await.map_err(io::Error::other)
}

/// What the kernel contradicts, or cannot confirm.
#[derive(Debug, Error)]
pub(crate) enum IdentityMismatch {
    #[error("user {claimed} is claimed, the socket belongs to user {found}")]
    User { claimed: u32, found: u32 },
    #[error("group {claimed} is claimed, process {pid} runs as group {found}")]
    Group { claimed: u32, found: u32, pid: u32 },
    #[error(
        "{proc} is claimed; process {root}, which was started for it, does not hold the socket, nor does a descendant of it that can be looked at"
    )]
    Elsewhere { proc: Proc, root: u32 },
    #[error("{0} is claimed, whose process has ended")]
    Ended(Proc),
    #[error(
        "{proc} is claimed; it is process {first}, from which whoever holds the socket does not descend"
    )]
    Second { proc: Proc, first: u32 },
    #[error("{0} is claimed, and connected already from a process that cannot be looked at")]
    Hidden(Proc),
    #[error(
        "process {0} holds the socket and runs with the rights of more than one user or group, so its groups prove nothing"
    )]
    Mixed(u32),
    #[error("the process that holds the socket cannot be found")]
    Unseen,
    #[error("the kernel does not say who it is: {0}")]
    Kernel(#[from] io::Error),
}

/// Who a peer says it is.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum ClaimedIdentity {
    /// A proc of a job.
    Proc(Proc),
    /// Nobody's proc, perhaps with its process id.
    Tool(Option<u32>),
}

/// The desk at which claims are checked.
pub(crate) struct Checker {
    check: IdentityCheck,
    host: Arc<dyn HostEnvironment>,
    claims: Arc<Claims>,
    sockets: Sockets,
    observer: ProcessObserver,
    names: GroupNames,
}

impl Checker {
    pub(crate) fn new(
        check: IdentityCheck,
        host: Arc<dyn HostEnvironment>,
        observer: ProcessObserver,
    ) -> Checker {
        Checker {
            check,
            host,
            claims: Arc::default(),
            sockets: Sockets::default(),
            observer,
            names: GroupNames::read(),
        }
    }

    /// Asks for the peer's socket of a connection that was just accepted, from `far` to `near`, without waiting.
    pub(crate) fn look_up_peer(
        &self,
        socket: impl AsFd,
        far: SocketAddr,
        near: SocketAddr,
    ) -> io::Result<PeerLookup> {
        self.sockets.look_up(socket, far, near)
    }

    /// Searches for the peer's socket where the kernel did not answer at once; none where the connection is no longer established.
    pub(crate) async fn search_peer(
        &self,
        socket: impl AsFd,
        search: PeerSearch,
    ) -> io::Result<Option<PeerSocket>> {
        self.sockets.search(socket, search).await
    }

    /// Compares what a peer claims with what the kernel says. The claim that comes back lives as long as the connection. Reads
    /// files of the kernel's: not for tokio's own threads.
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
        // Nobody knows of a tool as which group it runs, so that is always looked for.
        if let (IdentityCheck::User, ClaimedIdentity::Proc(proc)) = (self.check, claimant) {
            let is_launched = self.host.process_of(proc) != ProcessLookup::Unknown;
            let pid = if is_launched {
                None
            } else {
                self.latest_holder(claimed.uid, inode)
            };
            return Ok(self.unseen(claimed, pid, None));
        }
        let pid = match claimant {
            ClaimedIdentity::Tool(hint) => self
                .tool(*hint, claimed.uid, inode)
                .ok_or(IdentityMismatch::Unseen)?,
            ClaimedIdentity::Proc(proc) => match self.host.process_of(proc) {
                ProcessLookup::Running(root) => self
                    .observer
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
                        .claim(proc, socket, (&self.sockets, &self.observer))?;
                    let pid = self.latest_holder(claimed.uid, inode);
                    return Ok(self.unseen(claimed, pid, Some(claim)));
                }
            },
        };
        let credentials = process::credentials(pid).ok_or(IdentityMismatch::Unseen)?;
        // A socket can be handed to a program with the rights of a group, as its standard input or in a message.
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

    /// Somebody whose process decides nothing: only the group is known that must be the job's. The process is told where it was found.
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

    /// The process of a proc that others started, so that it can be operated and watched; none where nobody may look at it.
    fn latest_holder(&self, uid: u32, inode: u64) -> Option<u32> {
        self.observer
            .holder(SearchStart::Latest(uid), inode)
            .map(|process| process.pid)
    }

    /// The process of a tool: the one it says it is, if that holds the socket, or whichever of its user's does.
    fn tool(&self, hint: Option<u32>, uid: u32, inode: u64) -> Option<u32> {
        let said = hint.and_then(|pid| self.observer.holder(SearchStart::In(pid), inode));
        said.or_else(|| self.observer.holder(SearchStart::Of(uid), inode))
            .map(|process| process.pid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn peer_of_unix_socket_is_the_connecting_process() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let (uid, gid) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let me = PeerCredentials {
            identity: UserIdentity { uid, gid },
            pid: Some(std::process::id()),
        };
        assert_eq!(peer_of(&stream).unwrap(), me);
    }
}
