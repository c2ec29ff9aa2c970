//! Which servers there are on this node that we might connect to (`PMIX_QUERY_AVAIL_SERVERS`): their files say so, so no server is asked.
use crate::{ClientError, Places, rendezvous::RendezvousEntry};
use peal_model::UserIdentity;
use peal_wire::{Release, ServerUri};

/// A server that has left a file for tools, and what else the file says. Servers of older releases say less.
#[derive(Clone, PartialEq, Debug)]
pub struct AvailableServer {
    /// Its name (`PMIX_SERVER_NSPACE`, `PMIX_SERVER_RANK`) and address, by which a tool can attach to it.
    pub uri: ServerUri,
    /// Its release (`PMIX_VERSION_INFO`).
    pub release: Option<Release>,
    /// Its process (`PMIX_SERVER_PIDINFO`).
    pub pid: Option<u32>,
    /// As whom it runs (`PMIX_USERID`, `PMIX_GRPID`).
    pub identity: Option<UserIdentity>,
    /// Since when, as it has written it (`PMIX_SERVER_START_TIME`).
    pub started: Option<String>,
}

impl Places {
    /// The servers of this host whose files are root's or ours, each once. One that was killed may be among them.
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
