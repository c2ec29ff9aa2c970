//! Network between the servers of one process: in production one, in tests several.
use crate::{
    JoinedServer, LeaveFuture, RefusedSender, ServerKind, ServerNetwork, ServerTransport,
    backlog::Backlog,
};
use peal_core::{group::ServerId, server::InterServerMessage, user_scope::UserScope};
use peal_model::Event;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Network between the servers of one process.
#[derive(Default)]
pub struct InProcessNetwork {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    servers: BTreeMap<ServerId, InProcessServer>,
    last: u32,
    /// Messages that wait at their sender, by sender and receiver.
    backlogs: BTreeMap<(ServerId, ServerId), Backlog>,
}

struct InProcessServer {
    server: Arc<dyn JoinedServer>,
    kind: ServerKind,
}

/// Connection of one server to the others of its process.
struct InProcessTransport {
    network: Arc<Mutex<Inner>>,
    me: ServerId,
}

impl Inner {
    fn send(&mut self, from: ServerId, to: ServerId, message: InterServerMessage) {
        let Some(InProcessServer { server, .. }) = self.servers.get(&to) else {
            return;
        };
        let max_bytes = server.max_server_inbox_bytes();
        if let Some(backlog) = self.backlogs.get_mut(&(from, to)) {
            backlog.push(message, max_bytes);
        } else if let Err(message) = server.server_message(from, message) {
            let backlog = self.backlogs.entry((from, to)).or_default();
            backlog.push(*message, max_bytes);
        }
    }
}

impl InProcessNetwork {
    /// Creates a network without servers.
    pub fn new() -> Arc<InProcessNetwork> {
        Arc::default()
    }
}

fn locked(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ServerNetwork for InProcessNetwork {
    fn join(&self, server: Arc<dyn JoinedServer>, kind: ServerKind) -> Arc<dyn ServerTransport> {
        let mut inner = locked(&self.inner);
        inner.last += 1;
        let me = ServerId(inner.last);
        server.enroll(me);
        // Under the lock, so that each pair of servers is announced to each other exactly once.
        for (id, other) in &inner.servers {
            other.server.server_joined(me, kind);
            server.server_joined(*id, other.kind);
        }
        inner.servers.insert(me, InProcessServer { server, kind });
        Arc::new(InProcessTransport {
            network: self.inner.clone(),
            me,
        })
    }
}

impl ServerTransport for InProcessTransport {
    fn distribute(&self, event: Arc<Event>, reach: UserScope) {
        let mut inner = locked(&self.network);
        let others = inner.servers.keys().copied();
        let others: Vec<ServerId> = others.filter(|id| *id != self.me).collect();
        for to in others {
            let message = InterServerMessage::Event(event.clone(), reach);
            inner.send(self.me, to, message);
        }
    }

    fn send(&self, to: ServerId, message: InterServerMessage) {
        locked(&self.network).send(self.me, to, message);
    }

    fn sender(&self, server: ServerId) -> RefusedSender {
        RefusedSender::Server(server)
    }

    fn room(&self, of: ServerId) {
        let mut inner = locked(&self.network);
        let Inner {
            servers, backlogs, ..
        } = &mut *inner;
        let way = (of, self.me);
        let Some(backlog) = backlogs.get_mut(&way) else {
            return;
        };
        if let Some(InProcessServer { server, .. }) = servers.get(&self.me) {
            backlog.offer(|message| server.server_message(of, message));
        }
        if backlog.is_empty() {
            backlogs.remove(&way);
        }
    }

    fn leave(&self) -> LeaveFuture {
        let mut inner = locked(&self.network);
        let Inner {
            servers, backlogs, ..
        } = &mut *inner;
        let me = self.me;
        servers.remove(&me);
        backlogs.retain(|(_, to), _| *to != me);
        for (to, InProcessServer { server, .. }) in servers {
            // Nobody offers these again.
            if let Some(mut backlog) = backlogs.remove(&(me, *to)) {
                backlog.offer(|message| {
                    server.last_message(me, message);
                    Ok(())
                });
            }
            // Under the lock that `send` takes, so that this follows the last message of the
            // server.
            server.server_left(me);
        }
        Box::pin(std::future::ready(()))
    }
}
