//! Servers that write to log channels for this one (`PMIX_SERVER_GATEWAY`), and the requests that they
//! have not answered.
use peal_cluster::{ServerKind, ServerTransport};
use peal_core::{
    group::ServerId,
    log::{GatewayAvailability, LogOrigin},
    server::{InterServerMessage, LogMessage},
};
use peal_model::{Key, LogRequest, Status, code};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::oneshot;

/// The gateways of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gateways {
    transport: Arc<dyn ServerTransport>,
    /// A gateway has none.
    kind: ServerKind,
    table: Arc<Mutex<GatewayTable>>,
}

#[derive(Default)]
struct GatewayTable {
    gateways: BTreeSet<ServerId>,
    open: BTreeMap<u64, OpenWrite>,
    last_number: u64,
}

/// Request that a gateway has not answered.
struct OpenWrite {
    gateway: ServerId,
    done: oneshot::Sender<Status>,
}

/// Removes a request when nobody waits for its answer any more.
struct WriteGuard {
    table: Arc<Mutex<GatewayTable>>,
    number: u64,
}

impl Drop for WriteGuard {
    fn drop(&mut self) {
        locked(&self.table).open.remove(&self.number);
    }
}

impl Gateways {
    /// Returns the gateways of a server of this kind, which knows none yet.
    pub(crate) fn new(transport: Arc<dyn ServerTransport>, kind: ServerKind) -> Gateways {
        Gateways {
            transport,
            kind,
            table: Arc::default(),
        }
    }

    /// Returns whether there is a gateway.
    pub(crate) fn availability(&self) -> GatewayAvailability {
        if self.first().is_some() {
            GatewayAvailability::Elsewhere
        } else {
            GatewayAvailability::NotElsewhere
        }
    }

    /// Returns the gateway for this server: the one with the lowest number.
    fn first(&self) -> Option<ServerId> {
        match self.kind {
            ServerKind::Node => locked(&self.table).gateways.first().copied(),
            ServerKind::Gateway => None,
        }
    }

    /// Has a gateway write the data for one log channel. Returns `PMIX_ERR_NOT_AVAILABLE` if there is
    /// no gateway, or if it does not have that channel, and `PMIX_ERR_LOST_CONNECTION` if it has left.
    pub(crate) async fn write(
        &self,
        channel: Key,
        request: Arc<LogRequest>,
        origin: LogOrigin,
    ) -> Result<(), Status> {
        let gateway = self.first().ok_or(code::PMIX_ERR_NOT_AVAILABLE)?;
        let (done, written) = oneshot::channel();
        let number = {
            let mut table = locked(&self.table);
            table.last_number = table.last_number.wrapping_add(1);
            let number = table.last_number;
            table.open.insert(number, OpenWrite { gateway, done });
            number
        };
        let _guard = WriteGuard {
            table: self.table.clone(),
            number,
        };
        let message = InterServerMessage::Log(LogMessage::Write {
            number,
            channel,
            request,
            origin,
        });
        self.transport.send(gateway, message);
        match written.await.unwrap_or(code::PMIX_ERR_LOST_CONNECTION) {
            status if status.is_success() => Ok(()),
            status => Err(status),
        }
    }

    /// Notes another server.
    pub(crate) fn joined(&self, id: ServerId, kind: ServerKind) {
        if kind == ServerKind::Gateway {
            locked(&self.table).gateways.insert(id);
        }
    }

    /// Removes a server. What it was asked for has failed.
    pub(crate) fn left(&self, id: ServerId) {
        let mut table = locked(&self.table);
        table.gateways.remove(&id);
        // The requesters learn of it by the end of their channels.
        table.open.retain(|_, open| open.gateway != id);
    }

    /// Processes the answer of a gateway. Another server than the one that was asked answers nothing.
    pub(crate) fn written(&self, from: ServerId, number: u64, status: Status) {
        let mut table = locked(&self.table);
        let is_asked = |open: &OpenWrite| open.gateway == from;
        if table.open.get(&number).is_some_and(is_asked)
            && let Some(open) = table.open.remove(&number)
        {
            // Ignore an error: the requester waits no more.
            let _ = open.done.send(status);
        }
    }

    /// Answers a server for which this one is the gateway.
    pub(crate) fn answer(&self, to: ServerId, number: u64, status: Status) {
        let message = LogMessage::Written { number, status };
        self.transport.send(to, InterServerMessage::Log(message));
    }
}

fn locked(table: &Mutex<GatewayTable>) -> MutexGuard<'_, GatewayTable> {
    // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
