//! Handle of a server's part in the deployment of modules.
use super::task::{DeploymentTask, RecordOrder};
use crate::link::ClusterAccess;
use peal_cluster::{
    ClusterDeployment, ClusterModule, DeployedSet, DeploymentRecord, NodeReport, ObjectId,
    PendingRecord, PreparedSet, ProposalError, SetNumber, SetProposal,
};
use peal_core::MonotonicTime;
use peal_model::NodeName;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};
use thiserror::Error;
use tokio::sync::{Notify, mpsc, oneshot};

/// Orders and work that wait.
const MAX_WAITING: usize = 4;

/// Module of a set with its component.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchedModule {
    /// Manifest.
    pub module: ClusterModule,
    /// Component.
    pub component: Arc<[u8]>,
}

/// Set with its components. Their digests are right.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchedSet {
    /// Number, origin and time of the set.
    pub set: DeployedSet,
    /// Bytes of the set.
    pub(super) bytes: Arc<[u8]>,
    /// Modules.
    pub modules: Vec<FetchedModule>,
}

impl FetchedSet {
    /// Returns the bytes of an object of the set.
    pub(super) fn object(&self, id: &ObjectId) -> Option<Arc<[u8]>> {
        if self.set.object == *id {
            return Some(self.bytes.clone());
        }
        let mut modules = self.modules.iter();
        let module = modules.find(|fetched| fetched.module.component == *id)?;
        Some(module.component.clone())
    }
}

/// Work on the modules of this node.
#[derive(Clone, Debug)]
pub enum ModuleWork {
    /// Verify and compile a set; [`ModuleExchange::prepared`] takes the result.
    Prepare(Arc<FetchedSet>),
    /// Run a set, or no modules of the cluster; [`ModuleExchange::ran`] takes the result.
    Run(Option<Arc<FetchedSet>>),
}

/// Change of the deployment by an administrator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeploymentChange {
    /// A set whose objects are stored goes to the nodes.
    Deploy(SetProposal),
    /// The set of the canary goes to all nodes.
    Promote,
    /// The set on its way is given up, or an earlier set runs again.
    RollBack(Option<SetNumber>),
}

/// State of the deployment, to be shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeploymentStatus {
    /// Last record.
    pub record: DeploymentRecord,
    /// Nodes of the cluster; none as long as this server is no member, or the last record is not known.
    pub members: BTreeSet<NodeName>,
    /// Reports of nodes, also of those that are away.
    pub reports: BTreeMap<NodeName, NodeReport>,
}

/// Reason for which an administrator's record is not stored.
#[derive(Debug, Error)]
pub enum DeploymentError {
    /// The record is not possible.
    #[error(transparent)]
    Proposal(#[from] ProposalError),
    /// The key of the node does not suffice.
    #[error(
        "the key of node {node} may not deploy modules to the cluster; `peal cluster init --deployer {node}` lets it, once the NATS servers have read their new configuration"
    )]
    NoDeployer {
        /// Name of the node.
        node: NodeName,
    },
    /// The NATS server did not store the record.
    #[error("the record of the deployment is not stored: {reason}")]
    NotStored {
        /// Answer of the NATS server.
        reason: String,
    },
    /// The server ends.
    #[error("the server has stopped")]
    Stopped,
}

/// Shared by the handle and its task.
pub(super) struct ExchangeState {
    pub(super) deployment: Mutex<ClusterDeployment>,
    pub(super) wake: Notify,
    started: Instant,
}

impl ExchangeState {
    pub(super) fn deployment(&self) -> MutexGuard<'_, ClusterDeployment> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.deployment
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> MonotonicTime {
        MonotonicTime::default() + self.started.elapsed()
    }
}

/// Part of one server in the deployment of modules. Its task ends with it.
pub struct ModuleExchange {
    state: Arc<ExchangeState>,
    orders: mpsc::Sender<RecordOrder>,
    work: mpsc::Receiver<ModuleWork>,
}

impl ModuleExchange {
    /// Starts the task in the current runtime. `members` returns the nodes of the cluster, and none as long
    /// as the server is no member: then nothing on the NATS server is believed.
    pub fn start(
        access: ClusterAccess,
        members: impl Fn() -> BTreeSet<NodeName> + Send + Sync + 'static,
    ) -> ModuleExchange {
        let state = Arc::new(ExchangeState {
            deployment: Mutex::new(ClusterDeployment::new(access.node.clone())),
            wake: Notify::new(),
            started: Instant::now(),
        });
        let (orders, received) = mpsc::channel(MAX_WAITING);
        let (sender, work) = mpsc::channel(MAX_WAITING);
        let task = DeploymentTask {
            access,
            members: Box::new(members),
            state: state.clone(),
            work: sender,
            sets: BTreeMap::new(),
        };
        tokio::spawn(task.run(received));
        ModuleExchange {
            state,
            orders,
            work,
        }
    }

    /// Returns the next work. May be cancelled.
    pub async fn next_work(&mut self) -> ModuleWork {
        match self.work.recv().await {
            Some(work) => work,
            None => std::future::pending().await,
        }
    }

    /// Takes the result of [`ModuleWork::Prepare`]: an error is the reason of a refusal.
    pub fn prepared(&self, set: SetNumber, result: Result<(), String>) {
        let result = match result {
            Ok(()) => PreparedSet::Ready,
            Err(reason) => PreparedSet::Refused(reason),
        };
        let now = self.state.now();
        self.state.deployment().prepared(set, result, now);
        self.state.wake.notify_one();
    }

    /// Takes the result of [`ModuleWork::Run`].
    pub fn ran(&self, set: Option<&DeployedSet>, result: Result<(), String>) {
        self.state.deployment().ran(set, result);
        self.state.wake.notify_one();
    }

    /// Notes that the configuration of this node has changed: sets that it refused are tried again.
    pub fn reconsider(&self) {
        self.state.deployment().reconsider();
        self.state.wake.notify_one();
    }

    /// Returns the state of the deployment.
    pub fn status(&self) -> DeploymentStatus {
        let deployment = self.state.deployment();
        DeploymentStatus {
            record: deployment.record().cloned().unwrap_or_default(),
            members: if deployment.is_following() {
                deployment.members().clone()
            } else {
                BTreeSet::new()
            },
            reports: deployment.reports().clone(),
        }
    }

    /// Returns the set that a change would bring, as [`Self::change`] does. Nothing is stored.
    ///
    /// # Errors
    ///
    /// Fails if the change is not possible now. The permissions of the node's key are not checked.
    pub fn check(&self, change: DeploymentChange) -> Result<Option<SetNumber>, ProposalError> {
        self.pending(change).map(|pending| set_of(&pending))
    }

    /// Carries out a change. The future returns the set on its way or, without one, that of all nodes.
    pub fn change(
        &self,
        change: DeploymentChange,
    ) -> impl Future<Output = Result<Option<SetNumber>, DeploymentError>> + use<> {
        let pending = self.pending(change);
        self.write(pending)
    }

    fn pending(&self, change: DeploymentChange) -> Result<PendingRecord, ProposalError> {
        let deployment = self.state.deployment();
        match change {
            DeploymentChange::Deploy(proposal) => deployment.propose(proposal),
            DeploymentChange::Promote => deployment.promote(),
            DeploymentChange::RollBack(to) => deployment.roll_back(to),
        }
    }

    /// Returns the future in which a record is stored.
    fn write(
        &self,
        pending: Result<PendingRecord, ProposalError>,
    ) -> impl Future<Output = Result<Option<SetNumber>, DeploymentError>> + use<> {
        let orders = self.orders.clone();
        async move {
            let (reply, stored) = oneshot::channel();
            let pending = pending?;
            let set = set_of(&pending);
            let order = RecordOrder { pending, reply };
            let sent = orders.send(order).await;
            sent.map_err(|_| DeploymentError::Stopped)?;
            let stored = stored.await.unwrap_or(Err(DeploymentError::Stopped));
            stored.map(|()| set)
        }
    }
}

/// Returns the set on its way after a record or, without one, that of all nodes.
fn set_of(pending: &PendingRecord) -> Option<SetNumber> {
    let rollout = pending.record.rollout.as_ref();
    rollout.map(|rollout| rollout.set).or(pending.record.active)
}
