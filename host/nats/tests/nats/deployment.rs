//! Module sets reach the nodes of a cluster on the real NATS server.
use crate::support::{PATIENCE, RunningSite, node, settle};
use peal_nats::{
    ClusterModule, ClusterModuleSet, DeploymentChange, DeploymentError, DeploymentStatus,
    FetchedSet, ModuleExchange, ModuleWork, ObjectError, ObjectId, RolloutTerms, SetNumber,
    SetProposal, object_id,
};
use peal_needs::needs;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, sleep},
};

/// Component of several parts.
fn component() -> Vec<u8> {
    (0..300_000_u32).map(|index| (index % 251) as u8).collect()
}

fn module(name: &str, component: &[u8]) -> ClusterModule {
    ClusterModule {
        name: name.to_owned(),
        settings: format!("[[module]]\nname = {name:?}\n"),
        signature: None,
        component: object_id(component),
        component_signature: None,
    }
}

type Members = Arc<Mutex<BTreeSet<peal_model::NodeName>>>;

fn members(names: &[&str]) -> Members {
    Arc::new(Mutex::new(names.iter().map(|name| node(name)).collect()))
}

/// Request to the task of a server.
type Request = Box<dyn FnOnce(&ModuleExchange) + Send>;

/// Server that runs what it is told, unless it refuses.
struct Server {
    requests: mpsc::UnboundedSender<Request>,
    ran: Arc<Mutex<Option<Arc<FetchedSet>>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Starts the server of a node. `refusal` is its reason for refusing each set.
    fn start(
        running: &RunningSite,
        name: &str,
        members: &Members,
        refusal: Option<&'static str>,
    ) -> Server {
        let members = members.clone();
        let mut exchange = ModuleExchange::start(running.access(name), move || {
            members.lock().unwrap().clone()
        });
        let (requests, mut received) = mpsc::unbounded_channel::<Request>();
        let ran = Arc::new(Mutex::new(None));
        let shown = ran.clone();
        let task = tokio::spawn(async move {
            loop {
                tokio::select! {
                    work = exchange.next_work() => match work {
                        ModuleWork::Prepare(set) => {
                            let result = refusal.map_or(Ok(()), |reason| Err(reason.to_owned()));
                            exchange.prepared(set.set.number, result);
                        }
                        ModuleWork::Run(set) => {
                            exchange.ran(set.as_ref().map(|set| &set.set), Ok(()));
                            *shown.lock().unwrap() = set;
                        }
                    },
                    Some(request) = received.recv() => request(&exchange),
                }
            }
        });
        Server {
            requests,
            ran,
            task,
        }
    }

    async fn with<T: Send + 'static>(
        &self,
        request: impl FnOnce(&ModuleExchange) -> T + Send + 'static,
    ) -> T {
        let (reply, answer) = oneshot::channel();
        let request: Request = Box::new(move |exchange| drop(reply.send(request(exchange))));
        self.requests.send(request).ok().unwrap();
        answer.await.unwrap()
    }

    async fn status(&self) -> DeploymentStatus {
        self.with(ModuleExchange::status).await
    }

    async fn until(&self, what: &str, is_so: impl Fn(&DeploymentStatus) -> bool) {
        let began = Instant::now();
        loop {
            let status = self.status().await;
            if is_so(&status) {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "{what}: {status:?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a node says that it runs a set.
    async fn until_runs(&self, name: &str, set: u64) {
        let node = node(name);
        self.until(&format!("{node} runs {set}"), |status| {
            let report = status.reports.get(&node);
            report.is_some_and(|report| report.runs == Some(SetNumber(set)))
        })
        .await;
    }

    /// Deploys a set that is stored as soon as the server is a member that knows the last record.
    async fn deploy(&self, object: ObjectId, quota: u8) -> Result<u64, DeploymentError> {
        let began = Instant::now();
        loop {
            let deployed = self.with(move |exchange| {
                exchange.change(DeploymentChange::Deploy(SetProposal {
                    base: exchange.status().record.revision,
                    object,
                    cause: "test".to_owned(),
                    terms: RolloutTerms {
                        quota_percent: quota,
                        patience_ms: 60_000,
                        canary_percent: None,
                    },
                    at: 0,
                }))
            });
            match deployed.await.await {
                Ok(set) => return Ok(set.unwrap().0),
                Err(DeploymentError::Proposal(error)) if began.elapsed() < PATIENCE => {
                    drop(error);
                    sleep(Duration::from_millis(50)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Stores a set of one module with a node's key.
async fn stored(running: &RunningSite, name: &str, module_name: &str) -> ObjectId {
    let link = running.link(name).await;
    let component = component();
    link.store_object(&component).await.unwrap();
    let set = ClusterModuleSet {
        modules: vec![module(module_name, &component)],
    };
    link.store_object(&set.encode().unwrap()).await.unwrap()
}

#[needs(nats)]
#[tokio::test]
async fn set_reaches_all_nodes_and_those_that_come_later() {
    let running = RunningSite::of_nodes(&["a", "b", "c"]).await;
    let members = members(&["a", "b"]);
    let a = Server::start(&running, "a", &members, None);
    let b = Server::start(&running, "b", &members, None);
    let set = stored(&running, "a", "quota").await;
    assert_eq!(a.deploy(set, 100).await.unwrap(), 1);
    for name in ["a", "b"] {
        a.until_runs(name, 1).await;
        b.until_runs(name, 1).await;
    }
    members.lock().unwrap().insert(node("c"));
    let c = Server::start(&running, "c", &members, None);
    c.until_runs("c", 1).await;
    let ran = c.ran.lock().unwrap().clone().unwrap();
    assert_eq!(&*ran.modules[0].component, component());
    assert_eq!(ran.modules[0].module.name, "quota");
}

#[needs(nats)]
#[tokio::test]
async fn node_that_refuses_keeps_its_set_and_says_why() {
    let running = RunningSite::of_nodes(&["a", "b", "c"]).await;
    let members = members(&["a", "b", "c"]);
    let a = Server::start(&running, "a", &members, None);
    let _b = Server::start(&running, "b", &members, Some("no key is trusted"));
    let c = Server::start(&running, "c", &members, None);
    let set = stored(&running, "a", "quota").await;
    assert_eq!(a.deploy(set, 100).await.unwrap(), 1);
    c.until("given up", |status| {
        let given_up = status.record.abandoned.as_ref();
        given_up.is_some_and(|given_up| given_up.reason == "b refuses: no key is trusted")
    })
    .await;
    assert!(c.ran.lock().unwrap().is_none());
    assert_eq!(a.deploy(set, 66).await.unwrap(), 2);
    for name in ["a", "c"] {
        c.until_runs(name, 2).await;
    }
    c.until("b says why", |status| {
        let report = &status.reports[&node("b")];
        report.runs.is_none() && report.refusal(SetNumber(2)) == Some("no key is trusted")
    })
    .await;
}

#[needs(nats)]
#[tokio::test]
async fn key_of_plain_node_deploys_nothing() {
    let running = RunningSite::of_nodes(&["a", "b"]).await;
    let members = members(&["a", "b"]);
    let a = Server::start(&running, "a", &members, None);
    let b = Server::start(&running, "b", &members, None);
    let set = stored(&running, "b", "quota").await;
    let refused = b.deploy(set, 100).await.unwrap_err();
    assert!(
        matches!(&refused, DeploymentError::NoDeployer { node } if node.as_str() == "b"),
        "{refused}"
    );
    // The next record is the first one, so nothing of the other was stored.
    let set = stored(&running, "a", "other").await;
    assert_eq!(a.deploy(set, 100).await.unwrap(), 1);
    b.until_runs("b", 1).await;
    assert_eq!(b.status().await.record.sets.len(), 1);
}

#[needs(nats)]
#[tokio::test]
async fn forged_object_is_passed_over() {
    let running = RunningSite::start(1).await;
    let (a, b) = (running.link("a").await, running.link("b").await);
    let set = ClusterModuleSet {
        modules: vec![module("quota", b"true")],
    };
    let bytes = set.encode().unwrap();
    let id = object_id(&bytes);
    let forged = vec![7; bytes.len()];
    let subject = b.subjects.object_part(&node("b"), &id, 0);
    b.client.publish(subject, forged.into()).await.unwrap();
    settle(&b).await;
    let missing = a.fetch_set(&id, &[node("b"), node("a")]).await.unwrap_err();
    assert!(matches!(missing, ObjectError::Missing { .. }), "{missing}");
    assert_eq!(a.store_object(&bytes).await.unwrap(), id);
    let found = a.fetch_set(&id, &[node("b"), node("a")]).await;
    assert_eq!(found.unwrap(), set);
}

#[needs(nats)]
#[tokio::test]
async fn store_that_was_wiped_is_filled_by_the_nodes() {
    let mut running = RunningSite::of_nodes(&["a", "b", "c"]).await;
    let members = members(&["a", "b"]);
    let a = Server::start(&running, "a", &members, None);
    let b = Server::start(&running, "b", &members, None);
    let set = stored(&running, "a", "quota").await;
    a.deploy(set, 100).await.unwrap();
    for name in ["a", "b"] {
        b.until_runs(name, 1).await;
    }
    running.kill();
    running.wipe();
    running.start_again();
    let running = running.with_streams().await;
    // A server without any memory gets the record from the deployer, and the objects from those that have
    // them.
    members.lock().unwrap().insert(node("c"));
    let c = Server::start(&running, "c", &members, None);
    c.until_runs("c", 1).await;
    let ran = c.ran.lock().unwrap().clone().unwrap();
    assert_eq!(&*ran.modules[0].component, component());
}
