//! The seam between servers: what they need of each other.
//!
//! [`EmbeddedFabric`] joins the servers of one process: in production one, in tests several.
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

/// What comes back from the other servers, in their own time.
pub type TransportFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// What servers need of each other.
pub trait ServerTransport: Send + Sync + 'static {
    /// This server hosts procs of this namespace from now on.
    fn hosts(&self, server: ServerId, nspace: Nspace);

    /// It does not any more.
    fn forgets(&self, server: ServerId, nspace: &Nspace);

    /// Makes an event known to the other servers, to those whom it may reach; the handlers there may raise so many in turn.
    fn distribute(
        &self,
        from: ServerId,
        event: Arc<Event>,
        reach: UserScope,
        allowance: EventBudget,
    );

    /// Hands what all servers that host one of these procs bring to each of them. Servers that gather for the same procs and
    /// purpose at the same time meet; each gets what the others bring, and whether all took part.
    fn gather(
        &self,
        from: ServerId,
        purpose: Purpose,
        procs: NamedProcs,
        brought: FenceContribution,
    ) -> TransportFuture<'_, FenceContribution>;

    /// Sends something about groups to another server, which gets what one sends it in its order. One that is gone gets nothing.
    fn group(&self, from: ServerId, to: ServerId, message: GroupMessage);

    /// Whether there is a gateway for this server.
    fn gateway(&self, of: ServerId) -> GatewayAvailability;

    /// Has a gateway write what is for one channel. `PMIX_ERR_NOT_AVAILABLE` if there is none, or it does not know that channel.
    fn log(
        &self,
        from: ServerId,
        channel: Key,
        request: Arc<LogRequest>,
        origin: LogOrigin,
    ) -> TransportFuture<'_, ()>;
}

/// What a server does for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ServerKind {
    /// Nothing.
    #[default]
    Node,
    /// It writes to log channels that they do not have (`PMIX_SERVER_GATEWAY`).
    Gateway,
}

/// A server that waits for others.
struct Arrived {
    server: ServerId,
    brought: FenceContribution,
    tell: oneshot::Sender<FenceContribution>,
}

/// Servers that gather for the same procs.
struct PendingGather {
    arrived: Vec<Arrived>,
    /// Whether everybody is still there for whom they wait.
    attendance: Completeness,
}

#[derive(Default)]
struct Inner {
    servers: BTreeMap<ServerId, (ServerHandle, ServerKind)>,
    /// Which servers host procs of a namespace.
    hosts: BTreeMap<Nspace, Vec<ServerId>>,
    meetings: BTreeMap<(Purpose, NamedProcs), Vec<PendingGather>>,
    next: u32,
}

/// Joins the servers of one process.
#[derive(Default)]
pub struct InProcessTransport {
    inner: Mutex<Inner>,
}

impl InProcessTransport {
    /// A fabric without servers.
    pub fn new() -> Arc<InProcessTransport> {
        Arc::default()
    }

    /// A number for a server that is about to join.
    pub fn allot(&self) -> ServerId {
        let mut inner = self.lock();
        inner.next += 1;
        ServerId(inner.next)
    }

    /// Makes a server reachable for the others.
    pub fn join(&self, id: ServerId, server: ServerHandle, duty: ServerKind) {
        let mut inner = self.lock();
        for (other, (handle, _)) in &inner.servers {
            handle.server_joined(id);
            server.server_joined(*other);
        }
        inner.servers.insert(id, (server, duty));
    }

    /// The gateway for a server: the first that joined, of those that there are.
    fn gateway_of(&self, id: ServerId) -> Option<ServerHandle> {
        let inner = self.lock();
        let mut gateways = inner
            .servers
            .iter()
            .filter(|(other, (_, duty))| **other != id && *duty == ServerKind::Gateway);
        // A gateway writes for itself.
        let is_one = matches!(inner.servers.get(&id), Some((_, ServerKind::Gateway)));
        gateways
            .next()
            .filter(|_| !is_one)
            .map(|(_, (server, _))| server.clone())
    }

    /// A server is gone.
    pub fn leave(&self, id: ServerId) {
        let mut inner = self.lock();
        inner.servers.remove(&id);
        inner
            .servers
            .values()
            .for_each(|(other, _)| other.server_left(id));
        inner.host_no_more(id, |_| true);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a contribution to the first meeting for these procs that this server has not joined; when the last one has come,
    /// everybody is told.
    fn meet(
        &self,
        from: ServerId,
        purpose: Purpose,
        procs: NamedProcs,
        brought: FenceContribution,
    ) -> oneshot::Receiver<FenceContribution> {
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        let Inner {
            hosts, meetings, ..
        } = &mut *inner;
        let open = meetings.entry((purpose, procs.clone())).or_default();
        let at = open.iter().position(|meeting| !meeting.has(from));
        let at = at.unwrap_or_else(|| {
            open.push(PendingGather {
                arrived: Vec::new(),
                attendance: Completeness::Full,
            });
            open.len() - 1
        });
        let Some(meeting) = open.get_mut(at) else {
            return told;
        };
        meeting.arrived.push(Arrived {
            server: from,
            brought,
            tell,
        });
        if meeting.is_complete(hosts, &procs) {
            open.swap_remove(at).conclude();
            if open.is_empty() {
                meetings.remove(&(purpose, procs));
            }
        }
        told
    }
}

impl Inner {
    /// A server hosts these namespaces no more. Nobody waits for it because of them; those who met go on with what they have.
    fn host_no_more(&mut self, server: ServerId, is_meant: impl Fn(&Nspace) -> bool) {
        let Inner {
            hosts, meetings, ..
        } = self;
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
        for ((_, procs), meetings) in meetings.iter_mut() {
            if procs.iter().any(|proc| lost.contains(&proc.nspace)) {
                let deserted = meetings.iter_mut().filter(|meeting| !meeting.has(server));
                deserted.for_each(|meeting| meeting.attendance = Completeness::Partial);
                meetings
                    .extract_if(.., |meeting| meeting.is_complete(hosts, procs))
                    .for_each(PendingGather::conclude);
            }
        }
        meetings.retain(|_, meetings| !meetings.is_empty());
    }
}

impl PendingGather {
    fn has(&self, server: ServerId) -> bool {
        self.arrived.iter().any(|arrived| arrived.server == server)
    }

    /// Whether every server that hosts one of these procs has come.
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
        for Arrived { server, tell, .. } in self.arrived {
            let others = || {
                all.iter()
                    .filter(|(other, _)| *other != server)
                    .map(|(_, brought)| brought)
            };
            let attendance =
                others().fold(self.attendance, |all, brought| all.and(brought.attendance));
            let data = others().flat_map(|brought| brought.data.clone()).collect();
            // Who no longer listens has given the fence up.
            let _ = tell.send(FenceContribution { data, attendance });
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
        self.lock().host_no_more(server, |hosted| hosted == nspace);
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
        let told = self.meet(from, purpose, procs, brought);
        Box::pin(async move { told.await.map_err(|_| code::PMIX_ERR_LOST_CONNECTION) })
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
        let (one, two) = (fabric.allot(), fabric.allot());
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
            fabric.lock().meetings.is_empty(),
            "nothing is left of a meeting that is over"
        );
    }

    #[tokio::test]
    async fn departed_server_is_not_awaited_and_that_is_reported() {
        type Goes = fn(&InProcessTransport, ServerId);
        let goes: [Goes; 2] = [InProcessTransport::leave, |fabric, id| {
            fabric.forgets(id, &nspace())
        }];
        for goes in goes {
            let (fabric, one, two) = of_two();
            let waiting = fabric.gather(
                one,
                Purpose::Fence,
                vec![Proc::all(nspace())].into(),
                brings(&[0], Completeness::Full),
            );
            goes(&fabric, two);
            assert_eq!(waiting.await, Ok(brings(&[], Completeness::Partial)));
            assert!(fabric.lock().meetings.is_empty());
        }
    }
}
