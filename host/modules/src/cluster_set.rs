//! Modules of the cluster: verified and compared with this node's configuration, tried, and run beside
//! the modules of the node.
use crate::{
    blocking::blocking,
    component::{ClusterComponent, ModuleOrigin, fitting},
    deployer::Deployer,
    error::DeployError,
    overrides::is_same,
    set::ModuleSet,
    signature::{Signature, SignatureError, lacking},
    version::{DesiredModule, shared},
};
use peal_config::{
    Config, ModuleEntry, ModuleOwner, Modules, Problem, Problems, Resolved, recalled,
};
use peal_sandbox::{Capability, Digest};
use peal_server::admin::Deployed;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

/// Module of the cluster, as it came.
#[derive(Clone, Debug)]
pub struct ClusterModuleParts {
    /// Name of the module.
    pub name: String,
    /// Settings as a `[[module]]` table.
    pub settings: String,
    /// Signature of the settings, as of [`settings_to_sign`].
    pub signature: Option<String>,
    /// Component, of which the digest was verified.
    pub component: Arc<[u8]>,
    /// Signature of the component.
    pub component_signature: Option<String>,
}

/// Returns the bytes that a signature of a module's settings covers: with the cluster's name, so that what
/// is signed for one cluster runs in no other.
pub fn settings_to_sign(cluster: &str, settings: &str) -> Vec<u8> {
    format!("peal module of cluster {cluster}\n{settings}").into_bytes()
}

/// Reads the entries of modules from their settings.
fn entries(set: &str, parts: &[ClusterModuleParts]) -> Result<Vec<ModuleEntry>, Problems> {
    let capabilities = Capability::ALL.map(Capability::name);
    let mut entries = Vec::new();
    let mut problems = Vec::new();
    for part in parts {
        let name = format!("{set}, module {}", part.name);
        let wrong = |message: &str| Problem::of_file(format!("{name}: {message}"));
        match recalled(
            &part.settings,
            Path::new(&name),
            Path::new("/"),
            &capabilities,
        ) {
            Ok(read) => match <[ModuleEntry; 1]>::try_from(read) {
                Ok([entry]) if entry.settings.name == part.name => entries.push(entry),
                Ok(_) => problems.push(wrong("the settings have another name")),
                Err(_) => problems.push(wrong("the settings are not of one module")),
            },
            Err(found) => problems.extend(found.0),
        }
    }
    if problems.is_empty() {
        Ok(entries)
    } else {
        Err(Problems(problems))
    }
}

/// Returns the reasons for which this node does not trust a module: its signature, or its grants.
fn distrust(
    cluster: &str,
    part: &ClusterModuleParts,
    entry: &ModuleEntry,
    rules: &Modules,
) -> Vec<Problem> {
    let name = &part.name;
    let signed = settings_to_sign(cluster, &part.settings);
    let signature = part
        .signature
        .as_deref()
        .map_or(Err(SignatureError::NotDeployed), Signature::parse);
    let owner = (ModuleOwner::Site, Some(name.as_str()));
    let unsigned = lacking(rules, owner, &signed, &signature)
        .map(|why| entry.problem("module.name", format!("settings of module {name} {why}")));
    let allowed = rules.cluster_grants.as_ref();
    let refused = entry
        .settings
        .grants
        .iter()
        .filter(|grant| allowed.is_some_and(|allowed| !allowed.contains(grant)))
        .map(|grant| {
            entry.problem(
                "module.grants",
                format!(
                    "module {name} has the grant {grant:?}, which modules.cluster_grants of this node does not allow"
                ),
            )
        });
    unsigned.into_iter().chain(refused).collect()
}

/// Verifies modules of a set, and compares them with a configuration. Nothing is compiled.
fn read(
    (cluster, set): (&str, &str),
    parts: &[ClusterModuleParts],
    config: &Config,
) -> Result<Vec<DesiredModule>, Problems> {
    let entries = entries(set, parts)?;
    // First, so that nothing of what is not trusted is inspected.
    let problems: Vec<Problem> = parts
        .iter()
        .zip(&entries)
        .flat_map(|(part, entry)| distrust(cluster, part, entry, &config.modules))
        .collect();
    if !problems.is_empty() {
        return Err(Problems(problems));
    }
    let components: BTreeMap<Digest, ClusterComponent> = parts
        .iter()
        .map(|part| {
            let component = ClusterComponent {
                bytes: part.component.clone(),
                signature: part
                    .component_signature
                    .as_deref()
                    .map_or(Err(SignatureError::NotDeployed), Signature::parse),
            };
            (Digest::of(&part.component), component)
        })
        .collect();
    fitting(&entries, config, ModuleOrigin::Cluster(&components))?.complete()
}

/// Returns true for a module of the cluster.
pub(crate) fn is_of_cluster((entry, _): &DesiredModule) -> bool {
    entry.settings.path.is_of_cluster()
}

/// Returns the modules of a node followed by those of the cluster.
///
/// # Errors
///
/// Fails if two have the same name.
pub(crate) fn joined(
    own: impl IntoIterator<Item = DesiredModule>,
    cluster: impl IntoIterator<Item = DesiredModule>,
) -> Result<Vec<DesiredModule>, Problems> {
    let own: Vec<DesiredModule> = own.into_iter().collect();
    let cluster: Vec<DesiredModule> = cluster.into_iter().collect();
    refuse_same_names(
        own.iter().map(|(entry, _)| entry),
        cluster.iter().map(|(entry, _)| entry),
    )?;
    Ok(own.into_iter().chain(cluster).collect())
}

/// Refuses modules of a node that have the name of a module of the cluster.
fn refuse_same_names<'a>(
    own: impl IntoIterator<Item = &'a ModuleEntry>,
    cluster: impl IntoIterator<Item = &'a ModuleEntry>,
) -> Result<(), Problems> {
    let cluster = cluster.into_iter();
    let names: BTreeSet<&str> = cluster.map(|entry| entry.settings.name.as_str()).collect();
    let problems: Vec<Problem> = own
        .into_iter()
        .filter(|entry| names.contains(entry.settings.name.as_str()))
        .map(|entry| {
            let name = &entry.settings.name;
            entry.problem(
                "module.name",
                format!(
                    "module {name} is configured on this node, and is a module of the cluster, too"
                ),
            )
        })
        .collect();
    if problems.is_empty() {
        Ok(())
    } else {
        Err(Problems(problems))
    }
}

/// Verifies modules of a set of the cluster by the configuration of a node, as its server does. Nothing is
/// compiled. `set` names the set in errors.
///
/// # Errors
///
/// Fails if a server with this configuration would refuse the modules.
pub fn verify_cluster_modules(
    (cluster, set): (&str, &str),
    parts: &[ClusterModuleParts],
    resolved: &Resolved,
) -> Result<(), Problems> {
    let modules = read((cluster, set), parts, &resolved.config)?;
    refuse_same_names(&resolved.modules, modules.iter().map(|(entry, _)| entry))
}

/// Returns the reasons for which modules of the cluster that run must not run by these rules.
pub(crate) fn unsigned_by(cluster: &[DesiredModule], rules: &Modules) -> Vec<Problem> {
    let unsigned = cluster
        .iter()
        .filter_map(|(entry, component)| component.unsigned(entry, rules));
    unsigned.collect()
}

impl Deployer {
    /// Returns the modules of the cluster that are desired here.
    pub(crate) fn cluster_modules(&self) -> Vec<DesiredModule> {
        let desired = self.desired_modules();
        desired
            .iter()
            .filter(|module| is_of_cluster(module))
            .cloned()
            .collect()
    }

    /// Verifies a set of the cluster, and compiles and starts its modules beside those of this node, without
    /// a change of what runs. `set` names the set in errors.
    ///
    /// # Errors
    ///
    /// Fails if this node cannot run the set. The refusal is counted, traced and in the trail.
    pub async fn prepare_cluster_set(
        &mut self,
        (cluster, set): (&str, &str),
        parts: Vec<ClusterModuleParts>,
    ) -> Result<Vec<DesiredModule>, DeployError> {
        let prepared = self.try_cluster_set((cluster, set), parts).await;
        prepared.map_err(|refused| self.refuse(refused))
    }

    async fn try_cluster_set(
        &self,
        (cluster, set): (&str, &str),
        parts: Vec<ClusterModuleParts>,
    ) -> Result<Vec<DesiredModule>, DeployError> {
        let rules = self.loader.rules();
        let config = Config {
            modules: rules.clone(),
            ..self.loader.config().clone()
        };
        let names = (cluster.to_owned(), set.to_owned());
        let modules = blocking(move || read((&names.0, &names.1), &parts, &config)).await?;
        let modules = shared(modules, self.versions.modules());
        let own = self.desired_modules();
        let own = own.iter().filter(|module| !is_of_cluster(module)).cloned();
        let site = joined(own, modules.iter().cloned())?;
        let members = self.overrides.applied(&self.everything(&site));
        let ready = self.running.with(&self.users.started);
        let (loader, chains, jobs) = (self.loader.clone(), self.chains.clone(), self.jobs.clone());
        let tried: Result<(), Problems> = blocking(move || {
            let set = ModuleSet::load(&loader, &members, &jobs, &ready, &rules)?;
            set.seated(&chains).map(drop)
        })
        .await;
        tried?;
        Ok(modules)
    }

    /// Runs the modules of a set of the cluster, in the place of those of another one. `cause` is the reason,
    /// to be recorded.
    ///
    /// # Errors
    ///
    /// Fails if the modules of this node have changed, so that they do not run beside the set. Then the old
    /// set stays.
    pub async fn run_cluster_set(
        &mut self,
        modules: Vec<DesiredModule>,
        cause: &str,
    ) -> Result<Deployed, DeployError> {
        let ran = self.desired_modules();
        let own = |of: &[DesiredModule]| -> Vec<DesiredModule> {
            of.iter()
                .filter(|module| !is_of_cluster(module))
                .cloned()
                .collect()
        };
        let desired = joined(own(&ran), modules.iter().cloned())
            .map_err(|problems| self.refuse(DeployError::Unfit(problems)))?;
        let configured: Vec<DesiredModule> =
            own(&self.configured).into_iter().chain(modules).collect();
        if !is_same(&ran, &desired) {
            tracing::info!(cause, "modules of the cluster change");
        }
        let deployed = self.deploy(desired.into(), cause).await?;
        self.configured = configured.into();
        Ok(deployed)
    }
}
