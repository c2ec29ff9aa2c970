//! List of the servers on this node that a client may connect to (`PMIX_QUERY_AVAIL_SERVERS`). It
//! is read from their rendezvous files; no server is contacted.
use crate::{ClientError, Places, rendezvous::RendezvousEntry};
use peal_model::UserIdentity;
use peal_wire::{Release, ServerUri};

/// Server with a rendezvous file for tools, and the other contents of that file. Files of older
/// releases hold less.
#[derive(Clone, PartialEq, Debug)]
pub struct AvailableServer {
    /// Name (`PMIX_SERVER_NSPACE`, `PMIX_SERVER_RANK`) and address, by which a tool can attach.
    pub uri: ServerUri,
    /// Release (`PMIX_VERSION_INFO`).
    pub release: Option<Release>,
    /// Process id (`PMIX_SERVER_PIDINFO`).
    pub pid: Option<u32>,
    /// User and group of the server process (`PMIX_USERID`, `PMIX_GRPID`).
    pub identity: Option<UserIdentity>,
    /// Start time as the server wrote it (`PMIX_SERVER_START_TIME`).
    pub started: Option<String>,
}

impl Places {
    /// Returns the servers of this node whose files belong to root or to the caller, each once. The
    /// list may hold a server that was killed, since its file stays.
    pub async fn servers(&self) -> Result<Vec<AvailableServer>, ClientError> {
        let places = self.clone();
        let looked = tokio::task::spawn_blocking(move || places.every()).await;
        let found = looked
            .unwrap_or_else(|error| Err(ClientError::Thread(std::io::Error::other(error))))?;
        Ok(found.into_iter().map(AvailableServer::from).collect())
    }
}

impl From<RendezvousEntry> for AvailableServer {
    fn from(found: RendezvousEntry) -> AvailableServer {
        let RendezvousEntry {
            server: uri,
            release,
            rest,
        } = found;
        // The lines are process id, `uid:gid` and start time. Servers of older releases leave them
        // out.
        let line = |at: usize| {
            rest.get(at)
                .map(|line| line.trim())
                .filter(|line| !line.is_empty())
        };
        let identity = line(1)
            .and_then(|line| line.split_once(':'))
            .and_then(|(uid, gid)| {
                Some(UserIdentity {
                    uid: uid.parse().ok()?,
                    gid: gid.parse().ok()?,
                })
            });
        AvailableServer {
            pid: line(0).and_then(|line| line.parse().ok()),
            identity,
            started: line(2).map(str::to_owned),
            uri,
            release,
        }
    }
}
