//! Interface between servers: the services that they need from each other.
//!
//! [`InProcessTransport`] joins the servers of one process: in production one, in tests several.
use crate::handle::ServerHandle;
use peal_core::{
    group::GroupMessage,
    log::{GatewayAvailability, LogOrigin},
    server::{Completeness, EventBudget, FenceContribution, Purpose},
    user_scope::UserScope,
};
use peal_model::{Event, Key, LogRequest, NamedProcs, Nspace, Proc, Status, code};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::oneshot;

pub use peal_core::group::ServerId;

/// Result from other servers, which may take any time.
pub type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// Server transport: the connection of a server to the others.
pub trait ServerTransport: Send + Sync + 'static {
    /// Registers a server as host of procs of this namespace.
    fn hosts(&self, server: ServerId, nspace: Nspace);

    /// Removes a server as host of procs of this namespace.
    fn forgets(&self, server: ServerId, nspace: &Nspace);

    /// Distributes an event to the other servers. `reach` are the users whose procs may receive it,
    /// `allowance` is the number of events that handlers there may raise in response.
    fn distribute(
        &self,
        from: ServerId,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    );

    /// Exchanges contributions between all servers that host one of these procs. Calls of several
    /// servers with the same procs and purpose belong together. Each returns the contributions of
    /// the other servers and whether all took part.
    fn gather(
        &self,
        from: ServerId,
        purpose: Purpose,
        procs: NamedProcs,
        contribution: FenceContribution,
    ) -> TransportFuture<'_, FenceContribution>;

    /// Sends a message about groups to another server. Messages of one server arrive in order.
    /// Messages to a server that has left are dropped.
    fn group(&self, from: ServerId, to: ServerId, message: GroupMessage);

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

/// A server that has contributed and waits for the others.
struct ArrivedServer {
    server: ServerId,
    brought: FenceContribution,
    reply: oneshot::Sender<FenceContribution>,
}

/// Exchange of contributions that is not complete.
struct PendingGather {
    arrived: Vec<ArrivedServer>,
    /// Partial if a server has left before it contributed.
    completeness: Completeness,
}

#[derive(Default)]
struct Inner {
    servers: BTreeMap<ServerId, (ServerHandle, ServerKind)>,
    /// Servers that host procs of each namespace.
    hosts: BTreeMap<Nspace, Vec<ServerId>>,
    gathers: BTreeMap<(Purpose, NamedProcs), Vec<PendingGather>>,
    next: u32,
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
        inner.servers.remove(&id);
        inner
            .servers
            .values()
            // Under the lock that `group` takes, so that this follows the last message of the
            // server.
            .for_each(|(other, _)| other.server_left(id));
        inner.remove_host(id, |_| true);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a contribution to the first exchange for these procs that has none of this server. The
    /// last contribution completes the exchange.
    fn contribute(
        &self,
        from: ServerId,
        purpose: Purpose,
        procs: NamedProcs,
        brought: FenceContribution,
    ) -> oneshot::Receiver<FenceContribution> {
        let (reply, others) = oneshot::channel();
        let mut inner = self.lock();
        let Inner { hosts, gathers, .. } = &mut *inner;
        let open = gathers.entry((purpose, procs.clone())).or_default();
        // A server may contribute to the next exchange while others are missing in this one.
        let at = open.iter().position(|gather| !gather.has(from));
        let at = at.unwrap_or_else(|| {
            open.push(PendingGather {
                arrived: Vec::new(),
                completeness: Completeness::Full,
            });
            open.len() - 1
        });
        let Some(gather) = open.get_mut(at) else {
            return others;
        };
        gather.arrived.push(ArrivedServer {
            server: from,
            brought,
            reply,
        });
        if gather.is_complete(hosts, &procs) {
            // The others keep their order, by which the next contributions find their exchange.
            open.remove(at).conclude();
            if open.is_empty() {
                gathers.remove(&(purpose, procs));
            }
        }
        others
    }
}

impl Inner {
    /// Removes a server as host of the namespaces that the filter accepts. Exchanges no longer wait
    /// for it because of them, and complete without its contribution.
    fn remove_host(&mut self, server: ServerId, is_meant: impl Fn(&Nspace) -> bool) {
        let Inner { hosts, gathers, .. } = self;
        let lost = |nspace: &Nspace, hosts: &mut Vec<ServerId>| {
            let before = hosts.len();
            hosts.retain(|host| *host != server || !is_meant(nspace));
            hosts.len() < before
        };
        let lost: Vec<Nspace> = hosts
            .iter_mut()
            .filter_map(|(nspace, hosts)| lost(nspace, hosts).then(|| nspace.clone()))
            .collect();
        hosts.retain(|_, hosts| !hosts.is_empty());
        for ((_, procs), pending) in gathers.iter_mut() {
            if procs.iter().any(|proc| lost.contains(&proc.nspace)) {
                let without_server = pending.iter_mut().filter(|gather| !gather.has(server));
                without_server.for_each(|gather| gather.completeness = Completeness::Partial);
                pending
                    .extract_if(.., |gather| gather.is_complete(hosts, procs))
                    .for_each(PendingGather::conclude);
            }
        }
        gathers.retain(|_, pending| !pending.is_empty());
    }
}

impl PendingGather {
    fn has(&self, server: ServerId) -> bool {
        self.arrived.iter().any(|arrived| arrived.server == server)
    }

    /// Returns true if every server that hosts one of these procs has contributed.
    fn is_complete(&self, hosts: &BTreeMap<Nspace, Vec<ServerId>>, procs: &[Proc]) -> bool {
        let mut expected = procs
            .iter()
            .filter_map(|proc| hosts.get(&proc.nspace))
            .flatten();
        expected.all(|server| self.has(*server))
    }

    fn conclude(self) {
        let all: Vec<(ServerId, FenceContribution)> = self
            .arrived
            .iter()
            .map(|arrived| (arrived.server, arrived.brought.clone()))
            .collect();
        for ArrivedServer { server, reply, .. } in self.arrived {
            // A server has its own contribution already.
            let others = || {
                all.iter()
                    .filter(|(other, _)| *other != server)
                    .map(|(_, brought)| brought)
            };
            let attendance = others().fold(self.completeness, |all, brought| {
                all.and(brought.attendance)
            });
            let data = others().flat_map(|brought| brought.data.clone()).collect();
            // Ignore a server that no longer waits: it has given up the fence.
            let _ = reply.send(FenceContribution { data, attendance });
        }
    }
}

impl ServerTransport for InProcessTransport {
    fn hosts(&self, server: ServerId, nspace: Nspace) {
        let mut inner = self.lock();
        let hosts = inner.hosts.entry(nspace).or_default();
        if !hosts.contains(&server) {
            hosts.push(server);
        }
    }

    fn forgets(&self, server: ServerId, nspace: &Nspace) {
        self.lock().remove_host(server, |hosted| hosted == nspace);
    }

    fn distribute(
        &self,
        from: ServerId,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    ) {
        let inner = self.lock();
        let others: Vec<&ServerHandle> = inner
            .servers
            .iter()
            .filter(|(id, _)| **id != from)
            .map(|(_, (server, _))| server)
            .collect();
        // Divide the budget among all servers, the sender included.
        let each = EventBudget(allowance.0 / u32::try_from(others.len() + 1).unwrap_or(u32::MAX));
        for server in others {
            server.distributed(event.clone(), reach, each);
        }
    }

    fn gather(
        &self,
        from: ServerId,
        purpose: Purpose,
        procs: NamedProcs,
        brought: FenceContribution,
    ) -> TransportFuture<'_, FenceContribution> {
        let others = self.contribute(from, purpose, procs, brought);
        Box::pin(async move { others.await.map_err(|_| code::PMIX_ERR_LOST_CONNECTION) })
    }

    fn group(&self, from: ServerId, to: ServerId, message: GroupMessage) {
        let inner = self.lock();
        if let Some((server, _)) = inner.servers.get(&to) {
            server.group_message(from, message);
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

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{Rank, RankData};

    fn nspace() -> Nspace {
        Nspace::new("job").unwrap()
    }

    fn brings(ranks: &[u32], attendance: Completeness) -> FenceContribution {
        let data = |rank: &u32| RankData {
            proc: Proc::new(nspace(), Rank(*rank)),
            kvals: Vec::new(),
        };
        FenceContribution {
            data: ranks.iter().map(data).collect(),
            attendance,
        }
    }

    fn of_two() -> (Arc<InProcessTransport>, ServerId, ServerId) {
        let fabric = InProcessTransport::new();
        let one = fabric.allot();
        let two = fabric.allot();
        fabric.hosts(one, nspace());
        fabric.hosts(two, nspace());
        (fabric, one, two)
    }

    #[tokio::test]
    async fn servers_of_same_job_exchange_contributions() {
        let (fabric, one, two) = of_two();
        let all = || NamedProcs::from(vec![Proc::all(nspace())]);
        let (first, second) = tokio::join!(
            fabric.gather(
                one,
                Purpose::Fence,
                all(),
                brings(&[0], Completeness::Partial)
            ),
            fabric.gather(two, Purpose::Fence, all(), brings(&[1], Completeness::Full))
        );
        assert_eq!(
            (first, second),
            (
                Ok(brings(&[1], Completeness::Full)),
                Ok(brings(&[0], Completeness::Partial))
            )
        );
        assert!(
            fabric.lock().gathers.is_empty(),
            "a completed exchange is kept"
        );
    }

    #[test]
    fn third_gather_after_first_completes_stays_behind_second() {
        let (fabric, one, two) = of_two();
        let fence = |server, rank| {
            fabric.contribute(
                server,
                Purpose::Fence,
                vec![Proc::all(nspace())].into(),
                brings(&[rank], Completeness::Full),
            )
        };
        let mut ahead = [0, 1, 2].map(|rank| fence(one, rank));
        for rank in [10, 11, 12] {
            drop(fence(two, rank));
        }
        assert_eq!(
            ahead.each_mut().map(|others| others.try_recv().ok()),
            [10, 11, 12].map(|rank| Some(brings(&[rank], Completeness::Full)))
        );
    }

    #[tokio::test]
    async fn departed_server_is_not_awaited_and_that_is_reported() {
        type Departure = fn(&InProcessTransport, ServerId);
        let departures: [Departure; 2] = [InProcessTransport::leave, |fabric, id| {
            fabric.forgets(id, &nspace())
        }];
        for depart in departures {
            let (fabric, one, two) = of_two();
            let waiting = fabric.gather(
                one,
                Purpose::Fence,
                vec![Proc::all(nspace())].into(),
                brings(&[0], Completeness::Full),
            );
            depart(&fabric, two);
            assert_eq!(waiting.await, Ok(brings(&[], Completeness::Partial)));
            assert!(fabric.lock().gathers.is_empty());
        }
    }
}
