//! Interface between servers: the services that they need from each other.
//!
//! [`InProcessTransport`] joins the servers of one process: in production one, in tests several.
mod backlog;

use self::backlog::Backlog;
use crate::handle::ServerHandle;
use peal_core::{
    log::{GatewayAvailability, LogOrigin},
    server::InterServerMessage,
    user_scope::UserScope,
};
use peal_model::{Event, Key, LogRequest, Status, code};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};

pub use peal_core::group::ServerId;

/// Result from other servers, which may take any time.
pub type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// Server transport: the connection of a server to the others.
pub trait ServerTransport: Send + Sync + 'static {
    /// Distributes an event to the other servers. `reach` are the users whose procs may receive it.
    fn distribute(&self, from: ServerId, event: Arc<Event>, reach: UserScope);

    /// Sends a message to another server. Messages of one server to another arrive in order, events
    /// included. A message for which the receiver has no room waits at the sender. Messages to a
    /// server that has left are dropped.
    fn send(&self, from: ServerId, to: ServerId, message: InterServerMessage);

    /// Tells that a server has room again for messages of another one.
    fn room(&self, at: ServerId, of: ServerId);

    /// Returns the availability of a gateway for this server.
    fn gateway(&self, of: ServerId) -> GatewayAvailability;

    /// Has a gateway write the data for one log channel. Returns `PMIX_ERR_NOT_AVAILABLE` if there
    /// is no gateway, or if it does not have that channel.
    fn log(
        &self,
        from: ServerId,
        channel: Key,
        request: Arc<LogRequest>,
        origin: LogOrigin,
    ) -> TransportFuture<'_, ()>;
}

/// Service of a server for the others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ServerKind {
    /// No service.
    #[default]
    Node,
    /// Writing to log channels that the others do not have (`PMIX_SERVER_GATEWAY`).
    Gateway,
}

#[derive(Default)]
struct Inner {
    servers: BTreeMap<ServerId, (ServerHandle, ServerKind)>,
    next: u32,
    /// Messages that wait at their sender, by sender and receiver.
    backlogs: BTreeMap<(ServerId, ServerId), Backlog>,
}

impl Inner {
    fn send(&mut self, from: ServerId, to: ServerId, message: InterServerMessage) {
        let Some((server, _)) = self.servers.get(&to) else {
            return;
        };
        let max_bytes = server.inbox_limits().server;
        if let Some(backlog) = self.backlogs.get_mut(&(from, to)) {
            backlog.push(message, max_bytes);
        } else if let Err(message) = server.server_message(from, message) {
            let backlog = self.backlogs.entry((from, to)).or_default();
            backlog.push(*message, max_bytes);
        }
    }
}

/// Transport between the servers of one process.
#[derive(Default)]
pub struct InProcessTransport {
    inner: Mutex<Inner>,
}

impl InProcessTransport {
    /// Creates a transport without servers.
    pub fn new() -> Arc<InProcessTransport> {
        Arc::default()
    }

    /// Assigns the id of a server that is about to join.
    pub fn allot(&self) -> ServerId {
        let mut inner = self.lock();
        inner.next += 1;
        ServerId(inner.next)
    }

    /// Makes a server reachable for the others.
    pub fn join(&self, id: ServerId, server: ServerHandle, duty: ServerKind) {
        let mut inner = self.lock();
        // Under the lock, so that each pair of servers is announced to each other exactly once.
        for (other, (handle, _)) in &inner.servers {
            handle.server_joined(id);
            server.server_joined(*other);
        }
        inner.servers.insert(id, (server, duty));
    }

    /// Returns the gateway for a server: the one with the lowest id. A gateway has none.
    fn gateway_of(&self, id: ServerId) -> Option<ServerHandle> {
        let inner = self.lock();
        let mut gateways = inner
            .servers
            .iter()
            .filter(|(other, (_, duty))| **other != id && *duty == ServerKind::Gateway);
        let is_gateway = matches!(inner.servers.get(&id), Some((_, ServerKind::Gateway)));
        gateways
            .next()
            .filter(|_| !is_gateway)
            .map(|(_, (server, _))| server.clone())
    }

    /// Removes a server.
    pub fn leave(&self, id: ServerId) {
        let mut inner = self.lock();
        let Inner {
            servers, backlogs, ..
        } = &mut *inner;
        servers.remove(&id);
        backlogs.retain(|(_, to), _| *to != id);
        for (to, (other, _)) in servers {
            // Nobody offers these again.
            if let Some(mut backlog) = backlogs.remove(&(id, *to)) {
                backlog.offer(|message| {
                    other.last_message(id, message);
                    Ok(())
                });
            }
            // Under the lock that `send` takes, so that this follows the last message of the
            // server.
            other.server_left(id);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerTransport for InProcessTransport {
    fn distribute(&self, from: ServerId, event: Arc<Event>, reach: UserScope) {
        let mut inner = self.lock();
        let others = inner.servers.keys().copied();
        let others: Vec<ServerId> = others.filter(|id| *id != from).collect();
        for to in others {
            let message = InterServerMessage::Event(event.clone(), reach);
            inner.send(from, to, message);
        }
    }

    fn send(&self, from: ServerId, to: ServerId, message: InterServerMessage) {
        self.lock().send(from, to, message);
    }

    fn room(&self, at: ServerId, of: ServerId) {
        let mut inner = self.lock();
        let Inner {
            servers, backlogs, ..
        } = &mut *inner;
        let Some(backlog) = backlogs.get_mut(&(of, at)) else {
            return;
        };
        if let Some((server, _)) = servers.get(&at) {
            backlog.offer(|message| server.server_message(of, message));
        }
        if backlog.is_empty() {
            backlogs.remove(&(of, at));
        }
    }

    fn gateway(&self, of: ServerId) -> GatewayAvailability {
        if self.gateway_of(of).is_some() {
            GatewayAvailability::Elsewhere
        } else {
            GatewayAvailability::NotElsewhere
        }
    }

    fn log(
        &self,
        from: ServerId,
        channel: Key,
        request: Arc<LogRequest>,
        origin: LogOrigin,
    ) -> TransportFuture<'_, ()> {
        let gateway = self.gateway_of(from);
        Box::pin(async move {
            let status = gateway
                .ok_or(code::PMIX_ERR_NOT_AVAILABLE)?
                .log_from(request, origin, Some(channel))
                .await;
            if status.is_success() {
                Ok(())
            } else {
                Err(status)
            }
        })
    }
}
