//! Modules of the cluster at `peal serve`: what the deployment wants, carried out by the deployer of the
//! node's modules.
use super::ServedCluster;
use crate::{confinement, error_text};
use anyhow::Error;
use peal_config::Problems;
use peal_confinement::ActiveConfinement;
use peal_model::{ClusterName, NodeName};
use peal_modules::{ClusterModuleParts, DeployError, Deployer, DesiredModule};
use peal_nats::{
    ClusterModule, DeploymentChange, DeploymentStatus, FetchedSet, ModuleExchange, ModuleWork,
    NodeReport, ObjectId, RolloutStage, RolloutTerms, SetAnswer, SetNumber, SetProposal,
};
use peal_sandbox::Digest;
use peal_server::admin::{
    AdminReply, ClusterAbandoned, ClusterModuleCall, ClusterModuleList, ClusterNodeModules,
    ClusterNodeState, ClusterRollout, ClusterRolloutStage, ClusterSetStatus, NewClusterSet,
};
use std::{
    collections::BTreeMap,
    future,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// Modules of the cluster of a server.
pub struct ServedModules {
    cluster: ClusterName,
    exchange: ModuleExchange,
    /// Sets that were prepared and are still in question.
    prepared: BTreeMap<SetNumber, PreparedModules>,
}

/// Modules of a set, ready to run.
struct PreparedModules {
    object: ObjectId,
    modules: Vec<DesiredModule>,
}

impl ServedModules {
    /// Starts to follow the deployment in a cluster, in the current runtime.
    pub fn start(cluster: &ServedCluster) -> ServedModules {
        let view = cluster.view.clone();
        ServedModules {
            cluster: cluster.access.cluster.clone(),
            exchange: ModuleExchange::start((*cluster.access).clone(), move || view.nodes()),
            prepared: BTreeMap::new(),
        }
    }

    /// Carries out work on the modules of this node.
    pub async fn carry_out(
        &mut self,
        work: ModuleWork,
        deployer: &mut Deployer,
        confinement: Option<&ActiveConfinement>,
    ) {
        match work {
            ModuleWork::Prepare(set) => {
                let number = set.set.number;
                let result = self.prepare(&set, deployer, confinement).await;
                self.exchange.prepared(number, result);
            }
            ModuleWork::Run(None) => {
                let result = deployer
                    .run_cluster_set(Vec::new(), "no set of the cluster")
                    .await;
                self.exchange.ran(None, without_value(result));
            }
            ModuleWork::Run(Some(set)) => {
                let result = self.run(&set, deployer, confinement).await;
                self.exchange.ran(Some(&set.set), result);
            }
        }
    }

    async fn prepare(
        &mut self,
        fetched: &FetchedSet,
        deployer: &mut Deployer,
        confinement: Option<&ActiveConfinement>,
    ) -> Result<(), String> {
        let set = &fetched.set;
        let modules = fetched.modules.iter();
        let parts = modules.map(|fetched| parts_of(&fetched.module, fetched.component.clone()));
        let name = format!("set {} of the cluster", set.number);
        let modules = deployer
            .prepare_cluster_set((self.cluster.as_str(), &name), parts.collect())
            .await
            .map_err(|refused| refused.to_string())?;
        let entries: Vec<_> = modules.iter().map(|(entry, _)| entry.clone()).collect();
        let blocked = confinement
            .map(|confinement| confinement::blocked_files(confinement, &entries))
            .unwrap_or_default();
        if !blocked.is_empty() {
            let refused = deployer.refuse(DeployError::Unfit(Problems(blocked)));
            return Err(refused.to_string());
        }
        let kept = self.kept_sets();
        self.prepared.retain(|number, _| kept.contains(number));
        let object = set.object;
        self.prepared
            .insert(set.number, PreparedModules { object, modules });
        Ok(())
    }

    async fn run(
        &mut self,
        fetched: &FetchedSet,
        deployer: &mut Deployer,
        confinement: Option<&ActiveConfinement>,
    ) -> Result<(), String> {
        let set = &fetched.set;
        let is_prepared = self
            .prepared
            .get(&set.number)
            .is_some_and(|prepared| prepared.object == set.object);
        if !is_prepared {
            self.prepare(fetched, deployer, confinement).await?;
        }
        let modules = self.prepared.get(&set.number);
        let modules = modules
            .map(|prepared| prepared.modules.clone())
            .unwrap_or_default();
        let cause = format!(
            "set {} of the cluster, by node {}: {}",
            set.number, set.by, set.cause
        );
        without_value(deployer.run_cluster_set(modules, &cause).await)
    }

    fn kept_sets(&self) -> Vec<SetNumber> {
        let status = self.exchange.status();
        status.record.sets.iter().map(|set| set.number).collect()
    }

    /// Notes that the configuration of this node has changed.
    pub fn reconsider(&mut self) {
        self.prepared.clear();
        self.exchange.reconsider();
    }

    /// Returns the future of an administrator's change, which does not borrow this.
    pub fn change(
        &self,
        call: ClusterModuleCall,
    ) -> impl Future<Output = Result<AdminReply, String>> + use<> {
        let change = deployment_change(call).map(|change| self.exchange.change(change));
        async move {
            let stored = change?.await;
            let set = stored.map_err(|error| error_text(&Error::new(error)))?;
            Ok(deploying(set))
        }
    }

    /// Returns the reply that a change would have now.
    ///
    /// # Errors
    ///
    /// Returns the reason for which the change would be refused.
    pub fn check(&self, call: ClusterModuleCall) -> Result<AdminReply, String> {
        let change = deployment_change(call)?;
        let set = self.exchange.check(change);
        set.map(deploying).map_err(|error| error.to_string())
    }

    /// Returns the modules of the cluster, as `peal module list` shows them.
    pub fn list(&self) -> ClusterModuleList {
        listed(&self.cluster, self.exchange.status())
    }
}

/// Waits for work of a server's cluster, or for ever.
pub async fn next_work(modules: &mut Option<ServedModules>) -> ModuleWork {
    match modules {
        Some(modules) => modules.exchange.next_work().await,
        None => future::pending().await,
    }
}

fn deploying(set: Option<SetNumber>) -> AdminReply {
    AdminReply::Deploying {
        set: set.map(|set| set.0),
    }
}

fn deployment_change(call: ClusterModuleCall) -> Result<DeploymentChange, String> {
    Ok(match call {
        ClusterModuleCall::Promote => DeploymentChange::Promote,
        ClusterModuleCall::Rollback { to } => DeploymentChange::RollBack(to.map(SetNumber)),
        ClusterModuleCall::Deploy(set) => DeploymentChange::Deploy(proposal(set)?),
    })
}

/// Returns a module of a set with its component, to be verified.
pub fn parts_of(module: &ClusterModule, component: Arc<[u8]>) -> ClusterModuleParts {
    ClusterModuleParts {
        name: module.name.clone(),
        settings: module.settings.clone(),
        signature: module.signature.clone(),
        component,
        component_signature: module.component_signature.clone(),
    }
}

fn without_value<T>(result: Result<T, DeployError>) -> Result<(), String> {
    result.map(drop).map_err(|refused| refused.to_string())
}

/// Returns the proposal of an administrator's set.
fn proposal(set: NewClusterSet) -> Result<SetProposal, String> {
    let NewClusterSet {
        base,
        sha256,
        size,
        cause,
        quota_percent,
        timeout_ms,
        canary_percent,
    } = set;
    let digest: Digest = sha256
        .parse()
        .map_err(|_| format!("{sha256:?} is no SHA-256 digest of 64 hexadecimal digits"))?;
    for (what, percent) in [
        ("the quota", Some(quota_percent)),
        ("the canary", canary_percent),
    ] {
        if percent.is_some_and(|percent| !(1..=100).contains(&percent)) {
            return Err(format!("{what} should be from 1 to 100 percent"));
        }
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Ok(SetProposal {
        base,
        object: ObjectId {
            digest: digest.0,
            size,
        },
        cause,
        terms: RolloutTerms {
            quota_percent,
            patience_ms: timeout_ms,
            canary_percent,
        },
        at: now.unwrap_or_default().as_secs(),
    })
}

fn listed(cluster: &ClusterName, status: DeploymentStatus) -> ClusterModuleList {
    let DeploymentStatus {
        record,
        members,
        reports,
    } = status;
    let next = record.rollout.as_ref().map(|rollout| rollout.set);
    let mut nodes: BTreeMap<&NodeName, ClusterNodeModules> = BTreeMap::new();
    for node in members.iter().chain(reports.keys()) {
        let report = reports.get(node).cloned().unwrap_or_default();
        let mut shown = node_modules(node, &report, record.target(node), next);
        if !members.contains(node) {
            shown.state = ClusterNodeState::Away;
        }
        nodes.insert(node, shown);
    }
    ClusterModuleList {
        cluster: cluster.to_string(),
        revision: record.revision,
        active: record.active.map(|set| set.0),
        nodes: nodes.into_values().collect(),
        sets: record
            .sets
            .iter()
            .map(|set| ClusterSetStatus {
                set: set.number.0,
                sha256: set.object.to_string(),
                size: set.object.size,
                by: set.by.to_string(),
                at: set.at,
                cause: set.cause.clone(),
            })
            .collect(),
        rollout: record.rollout.as_ref().map(|rollout| ClusterRollout {
            set: rollout.set.0,
            by: rollout.by.to_string(),
            stage: match rollout.stage {
                RolloutStage::Preparing => ClusterRolloutStage::Preparing,
                RolloutStage::Canary => ClusterRolloutStage::Canary,
                RolloutStage::Promoting => ClusterRolloutStage::Promoting,
            },
            quota_percent: rollout.quota_percent,
            canary: rollout.canary.iter().map(ToString::to_string).collect(),
        }),
        abandoned: record.abandoned.map(|given_up| ClusterAbandoned {
            set: given_up.set.0,
            reason: given_up.reason,
        }),
    }
}

/// Returns the reason for which a node keeps its set, or waits.
fn reason_of(answer: &SetAnswer) -> Option<String> {
    match answer {
        SetAnswer::Refused { set, reason } => Some(format!("set {set}: {reason}")),
        SetAnswer::Lacks { set, object, .. } => {
            Some(format!("set {set}: object {object} is stored nowhere"))
        }
        SetAnswer::Ready(_) => None,
    }
}

fn node_modules(
    node: &NodeName,
    report: &NodeReport,
    target: Option<SetNumber>,
    next: Option<SetNumber>,
) -> ClusterNodeModules {
    let reasons: Vec<String> = report.answers.iter().filter_map(reason_of).collect();
    let refuses = |answer: &SetAnswer| matches!(answer, SetAnswer::Refused { .. });
    let state = if report.answers.iter().any(refuses) {
        ClusterNodeState::Refuses
    } else if report.runs != target || next.is_some_and(|next| !report.has(next)) {
        // One that is ready for its set is about to run it.
        ClusterNodeState::Preparing
    } else if next.is_some_and(|next| report.runs != Some(next)) {
        ClusterNodeState::Ready
    } else {
        ClusterNodeState::Current
    };
    let reason = (!reasons.is_empty()).then(|| reasons.join("\n"));
    ClusterNodeModules {
        node: node.to_string(),
        runs: report.runs.map(|set| set.0),
        state,
        reason,
    }
}
