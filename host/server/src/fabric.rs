//! The seam between servers: what they need of each other.
//!
//! [`EmbeddedFabric`] joins the servers of one process: in production one, in tests several.
use crate::handle::ServerHandle;
use peal_core::{
    group::Message,
    log::{Gateway, Origin},
    reach::Reach,
    server::Allowance,
};
use peal_model::{Event, LogRequest, Nspace, Proc, RankData, Status, code};
use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::oneshot;

pub use peal_core::group::ServerId;

/// What comes back from the other servers, in their own time.
pub type Gathered<'a, T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send + 'a>>;

/// What servers need of each other.
pub trait Fabric: Send + Sync + 'static {
    /// This server hosts procs of this namespace from now on.
    fn hosts(&self, server: ServerId, nspace: Nspace);

    /// It does not any more.
    fn forgets(&self, server: ServerId, nspace: &Nspace);

    /// Makes an event known to the other servers, to those whom it may reach; the handlers there may raise so many in turn.
    fn distribute(&self, from: ServerId, event: Arc<Event>, reach: Reach, allowance: Allowance);

    /// Hands the contributions of all servers that host one of these procs to each of them. Servers that gather for the same
    /// procs at the same time meet; each gets the contributions of the others.
    fn gather(&self, from: ServerId, procs: Vec<Proc>, data: Vec<RankData>) -> Gathered<'_, Vec<RankData>>;

    /// Sends something about groups to another server, which gets what one sends it in its order. One that is gone gets nothing.
    fn group(&self, from: ServerId, to: ServerId, message: Message);

    /// Whether there is a gateway for this server.
    fn gateway(&self, of: ServerId) -> Gateway;

    /// Has a gateway write what is for one channel. `PMIX_ERR_NOT_AVAILABLE` if there is none, or it does not know that channel.
    fn log(&self, from: ServerId, request: Arc<LogRequest>, origin: Origin) -> Gathered<'_, ()>;
}

/// What a server does for others.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Duty {
    /// Nothing.
    #[default]
    Node,
    /// It writes to log channels that they do not have (`PMIX_SERVER_GATEWAY`).
    Gateway,
}

type Meeting = Vec<(ServerId, Vec<RankData>, oneshot::Sender<Vec<RankData>>)>;

#[derive(Default)]
struct Inner {
    servers: BTreeMap<ServerId, (ServerHandle, Duty)>,
    /// Which servers host procs of a namespace.
    hosts: BTreeMap<Nspace, Vec<ServerId>>,
    meetings: BTreeMap<Vec<Proc>, Vec<Meeting>>,
    next: u32,
}

/// Joins the servers of one process.
#[derive(Default)]
pub struct EmbeddedFabric {
    inner: Mutex<Inner>,
}

impl EmbeddedFabric {
    /// A fabric without servers.
    pub fn new() -> Arc<EmbeddedFabric> {
        Arc::default()
    }

    /// A number for a server that is about to join.
    pub fn allot(&self) -> ServerId {
        let mut inner = self.lock();
        inner.next += 1;
        ServerId(inner.next)
    }

    /// Makes a server reachable for the others.
    pub fn join(&self, id: ServerId, server: ServerHandle, duty: Duty) {
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
        let mut gateways = inner.servers.iter().filter(|(other, (_, duty))| **other != id && *duty == Duty::Gateway);
        // A gateway writes for itself.
        let is_one = matches!(inner.servers.get(&id), Some((_, Duty::Gateway)));
        gateways.next().filter(|_| !is_one).map(|(_, (server, _))| server.clone())
    }

    /// A server is gone.
    pub fn leave(&self, id: ServerId) {
        let mut inner = self.lock();
        inner.servers.remove(&id);
        inner.servers.values().for_each(|(other, _)| other.server_left(id));
        for hosts in inner.hosts.values_mut() {
            hosts.retain(|host| *host != id);
        }
        // Nobody waits for it any more; those who met it go on with what they have.
        let Inner { hosts, meetings, .. } = &mut *inner;
        for (procs, meetings) in meetings {
            meetings.extract_if(.., |meeting| is_complete(hosts, procs, meeting)).for_each(conclude);
        }
        inner.meetings.retain(|_, meetings| !meetings.is_empty());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        // Nothing in here panics half-way, so what a poisoned lock guards is whole.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a contribution to the first meeting for these procs that this server has not joined; when the last one has come,
    /// everybody is told.
    fn meet(&self, from: ServerId, procs: Vec<Proc>, data: Vec<RankData>) -> oneshot::Receiver<Vec<RankData>> {
        let (tell, told) = oneshot::channel();
        let mut inner = self.lock();
        let Inner { hosts, meetings, .. } = &mut *inner;
        let open = meetings.entry(procs.clone()).or_default();
        let at = open.iter().position(|meeting| !meeting.iter().any(|(id, _, _)| *id == from));
        let at = at.unwrap_or_else(|| {
            open.push(Meeting::new());
            open.len() - 1
        });
        let Some(meeting) = open.get_mut(at) else { return told };
        meeting.push((from, data, tell));
        if is_complete(hosts, &procs, meeting) {
            conclude(open.swap_remove(at));
            if open.is_empty() {
                meetings.remove(&procs);
            }
        }
        told
    }
}

/// Whether every server that hosts one of these procs has come.
fn is_complete(hosts: &BTreeMap<Nspace, Vec<ServerId>>, procs: &[Proc], meeting: &Meeting) -> bool {
    let mut expected = procs.iter().filter_map(|proc| hosts.get(&proc.nspace)).flatten();
    expected.all(|id| meeting.iter().any(|(arrived, _, _)| arrived == id))
}

fn conclude(meeting: Meeting) {
    let contributions: Vec<(ServerId, Vec<RankData>)> =
        meeting.iter().map(|(id, data, _)| (*id, data.clone())).collect();
    for (id, _, tell) in meeting {
        let others = contributions.iter().filter(|(other, _)| *other != id).flat_map(|(_, data)| data.clone());
        // Who no longer listens has given the fence up.
        let _ = tell.send(others.collect());
    }
}

impl Fabric for EmbeddedFabric {
    fn hosts(&self, server: ServerId, nspace: Nspace) {
        let mut inner = self.lock();
        let hosts = inner.hosts.entry(nspace).or_default();
        if !hosts.contains(&server) {
            hosts.push(server);
        }
    }

    fn forgets(&self, server: ServerId, nspace: &Nspace) {
        let mut inner = self.lock();
        if let Some(hosts) = inner.hosts.get_mut(nspace) {
            hosts.retain(|host| *host != server);
            if hosts.is_empty() {
                inner.hosts.remove(nspace);
            }
        }
    }

    fn distribute(&self, from: ServerId, event: Arc<Event>, reach: Reach, allowance: Allowance) {
        let inner = self.lock();
        let others: Vec<&ServerHandle> =
            inner.servers.iter().filter(|(id, _)| **id != from).map(|(_, (server, _))| server).collect();
        let each = Allowance(allowance.0 / u32::try_from(others.len() + 1).unwrap_or(u32::MAX));
        for server in others {
            server.distributed(event.clone(), reach, each);
        }
    }

    fn gather(&self, from: ServerId, procs: Vec<Proc>, data: Vec<RankData>) -> Gathered<'_, Vec<RankData>> {
        let told = self.meet(from, procs, data);
        Box::pin(async move { told.await.map_err(|_| code::PMIX_ERR_LOST_CONNECTION) })
    }

    fn group(&self, from: ServerId, to: ServerId, message: Message) {
        let inner = self.lock();
        if let Some((server, _)) = inner.servers.get(&to) {
            server.group_message(from, message);
        }
    }

    fn gateway(&self, of: ServerId) -> Gateway {
        if self.gateway_of(of).is_some() { Gateway::Elsewhere } else { Gateway::NotElsewhere }
    }

    fn log(&self, from: ServerId, request: Arc<LogRequest>, origin: Origin) -> Gathered<'_, ()> {
        let gateway = self.gateway_of(from);
        Box::pin(async move {
            let status = gateway.ok_or(code::PMIX_ERR_NOT_AVAILABLE)?.log_from(request, origin).await;
            if status.is_success() { Ok(()) } else { Err(status) }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::Rank;

    fn nspace() -> Nspace {
        Nspace::new("job").unwrap()
    }

    fn data(rank: u32) -> Vec<RankData> {
        vec![RankData { proc: Proc::new(nspace(), Rank(rank)), kvals: Vec::new() }]
    }

    #[tokio::test]
    async fn servers_that_host_the_same_job_meet_and_each_gets_what_the_others_bring() {
        let fabric = EmbeddedFabric::new();
        let (one, two) = (fabric.allot(), fabric.allot());
        fabric.hosts(one, nspace());
        fabric.hosts(two, nspace());
        let all = || vec![Proc::all(nspace())];
        let (first, second) = tokio::join!(fabric.gather(one, all(), data(0)), fabric.gather(two, all(), data(1)));
        assert_eq!((first, second), (Ok(data(1)), Ok(data(0))));
        assert!(fabric.lock().meetings.is_empty(), "nothing is left of a meeting that is over");
    }

    #[tokio::test]
    async fn a_server_that_leaves_is_not_waited_for() {
        let fabric = EmbeddedFabric::new();
        let (one, two) = (fabric.allot(), fabric.allot());
        fabric.hosts(one, nspace());
        fabric.hosts(two, nspace());
        let waiting = fabric.gather(one, vec![Proc::all(nspace())], data(0));
        fabric.leave(two);
        assert_eq!(waiting.await, Ok(Vec::new()));
    }
}
