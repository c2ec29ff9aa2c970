//! `peal module deploy`: modules for all nodes of a cluster, from files of this node.
use super::{
    deploy_dry_run::{verify, would_deploy, would_promote, would_roll_back},
    deployed, deployed_cluster, sign,
};
use crate::{
    admin,
    args::{DryRunArgs, ModuleDeploy, ModuleRollback, ServerArgs},
    config, node, output, plain,
};
use anyhow::{Context, Result, bail};
use minisign::{PublicKey, SecretKey};
use peal_config::{ComponentSource, ModuleEntry, Problems, recalled, saved};
use peal_model::NodeName;
use peal_modules::{Signature, settings_to_sign};
use peal_nats::{ClusterAccess, ClusterModule, ClusterModuleSet, NatsLink, ObjectId, object_id};
use peal_sandbox::{Capability, Digest};
use peal_server::admin::{
    AdminReply, AdminRequest, ClusterModuleCall, ClusterModuleList, ClusterNodeState,
    ClusterRolloutStage, ModuleCall, NewClusterSet,
};
use std::{
    fs,
    io::Write,
    path::Path,
    process::ExitCode,
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

/// Time between two looks at the progress.
const LOOK_EACH: Duration = Duration::from_millis(300);
/// Time in which ready nodes begin to run an active set.
const RUN_LIMIT: Duration = Duration::from_secs(30);
/// Exit status if a set was given up.
const GIVEN_UP: u8 = 1;

/// Deploys modules, and waits for the nodes.
pub fn deploy(args: ModuleDeploy) -> Result<ExitCode> {
    let list = cluster_list(&args.at)?;
    if let Some(name) = args.cluster.as_ref().filter(|name| **name != list.cluster) {
        bail!(
            "this node is in cluster {}, not {name:?}; deploy on a node of that cluster",
            list.cluster
        );
    }
    let is_dry = args.dry_run.dry_run;
    if args.promote {
        let set = request(&args.at, ClusterModuleCall::Promote, args.dry_run)?;
        return if is_dry {
            would_promote(&list, set)
        } else {
            follow(&args.at, list.revision, set)
        };
    }
    let settings = config::load_sections(args.at.config.clone(), &["cluster"])?.cluster;
    let Some(access) = ClusterAccess::from_settings(&settings, &peal_system::hostname())? else {
        bail!("no cluster is configured; --config names the configuration of this node's server");
    };
    let mut added = Vec::new();
    for file in &args.files {
        added.extend(read(file)?);
    }
    let key = args
        .key
        .as_ref()
        .map(|path| sign::secret_key(path, &args.password))
        .transpose()?;
    for new in &mut added {
        if let Some(key) = &key {
            new.module.signature = Some(signature(&list.cluster, &new.module, key)?);
        }
    }
    if is_dry {
        verify(args.at.config.clone(), &list.cluster, &added)?;
    }
    let object = node::as_tool(set_object(&access, &list, &args, &added))?;
    let call = ClusterModuleCall::Deploy(NewClusterSet {
        base: list.revision,
        sha256: object.to_string(),
        size: object.size,
        cause: cause(&args.remove, &added),
        quota_percent: args.quota,
        timeout_ms: u64::try_from(args.timeout.as_millis()).unwrap_or(u64::MAX),
        canary_percent: args.canary,
    });
    let set = request(&args.at, call, args.dry_run)?;
    if is_dry {
        would_deploy(&args, &list, &added)
    } else {
        follow(&args.at, list.revision, set)
    }
}

/// Has all nodes return to an earlier set, and waits for them.
pub fn rollback(args: ModuleRollback) -> Result<ExitCode> {
    let list = cluster_list(&args.at)?;
    let call = ClusterModuleCall::Rollback { to: args.to };
    let set = request(&args.at, call, args.dry_run)?;
    if args.dry_run.dry_run {
        would_roll_back(&list, set)
    } else {
        follow(&args.at, list.revision, set)
    }
}

/// Module of a file with its component.
pub(super) struct NewModule {
    pub(super) module: ClusterModule,
    pub(super) component: Arc<[u8]>,
}

/// Reads the modules of a file.
fn read(file: &Path) -> Result<Vec<NewModule>> {
    let text = fs::read_to_string(file).with_context(|| file.display().to_string())?;
    let absolute = std::path::absolute(file)?;
    let base = absolute.parent().unwrap_or(Path::new("/"));
    let capabilities = Capability::ALL.map(Capability::name);
    let entries = recalled(&text, file, base, &capabilities)?;
    if entries.is_empty() {
        bail!("{}: there is no [[module]]", file.display());
    }
    entries.into_iter().map(new_module).collect()
}

fn new_module(mut entry: ModuleEntry) -> Result<NewModule> {
    let ComponentSource::File(path) = entry.settings.path.clone() else {
        let wrong = format!(
            "{} is no file; `peal module pull` makes one of an artefact",
            entry.settings.path
        );
        return Err(Problems(vec![entry.problem("module.path", wrong)]).into());
    };
    let component = peal_modules::read(&path)?;
    let digest = Digest::of(&component);
    if let Some(pin) = entry
        .settings
        .sha256
        .map(Digest)
        .filter(|pin| *pin != digest)
    {
        let wrong = format!(
            "{} has sha256 {digest}; the configuration requires {pin}",
            path.display()
        );
        return Err(Problems(vec![entry.problem("module.sha256", wrong)]).into());
    }
    entry.settings.path = ComponentSource::Cluster(digest.0);
    // Nodes that need a signature say that there is none.
    let signature = Signature::beside(&path).ok();
    Ok(NewModule {
        module: ClusterModule {
            name: entry.settings.name.clone(),
            settings: saved([&entry]),
            signature: None,
            component: object_id(&component),
            component_signature: signature.map(|signature| signature.text().to_owned()),
        },
        component: component.into(),
    })
}

/// Signs the settings of a module.
fn signature(cluster: &str, module: &ClusterModule, key: &SecretKey) -> Result<String> {
    let public = PublicKey::from_secret_key(key)?;
    let signed = settings_to_sign(cluster, &module.settings);
    let comment = format!("module {} of cluster {cluster}", module.name);
    let signature = minisign::sign(
        Some(&public),
        key,
        &*signed,
        Some(&comment),
        Some("signature of peal"),
    )?;
    Ok(signature.to_string())
}

/// Returns the reason of a deployment, to be shown.
fn cause(removed: &[String], added: &[NewModule]) -> String {
    let added = added.iter().map(|new| new.module.name.clone());
    let removed = removed.iter().map(|name| format!("without {name}"));
    added.chain(removed).collect::<Vec<_>>().join(", ")
}

/// Returns the object of the cluster's set with these changes. Stores it and the new components, except in a
/// dry run.
async fn set_object(
    access: &ClusterAccess,
    list: &ClusterModuleList,
    args: &ModuleDeploy,
    added: &[NewModule],
) -> Result<ObjectId> {
    let link = NatsLink::connect(access).await?;
    let set = changed_set(&link, list, &args.remove, added).await?;
    let set = set.encode()?;
    if args.dry_run.dry_run {
        return Ok(object_id(&set));
    }
    for new in added {
        link.store_object(&new.component).await?;
    }
    Ok(link.store_object(&set).await?)
}

/// Returns the set of the cluster with these changes.
async fn changed_set(
    link: &NatsLink,
    list: &ClusterModuleList,
    removed: &[String],
    added: &[NewModule],
) -> Result<ClusterModuleSet> {
    let active = list.sets.iter().find(|set| Some(set.set) == list.active);
    let mut set = match active {
        None => ClusterModuleSet::default(),
        Some(active) => {
            let digest: Digest = active.sha256.parse()?;
            let object = ObjectId {
                digest: digest.0,
                size: active.size,
            };
            let nodes = list.nodes.iter().map(|node| &node.node);
            let sources = std::iter::once(&active.by)
                .chain(nodes)
                .map(|node| Ok(node.parse::<NodeName>()?))
                .collect::<Result<Vec<_>>>()?;
            let fetched = link.fetch_set(&object, &sources).await;
            fetched.with_context(|| format!("cannot read set {} of the cluster", active.set))?
        }
    };
    for name in removed {
        let before = set.modules.len();
        set.modules.retain(|module| module.name != *name);
        if set.modules.len() == before {
            let names: Vec<&str> = set
                .modules
                .iter()
                .map(|module| module.name.as_str())
                .collect();
            bail!(
                "the cluster has no module {name:?}; it has: {}",
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                }
            );
        }
    }
    for NewModule { module, .. } in added {
        let known = set
            .modules
            .iter_mut()
            .find(|known| known.name == module.name);
        match known {
            Some(known) => *known = module.clone(),
            None => set.modules.push(module.clone()),
        }
    }
    Ok(set)
}

/// Returns the modules of the cluster of a server.
fn cluster_list(at: &ServerArgs) -> Result<ClusterModuleList> {
    let list = deployed::modules(at.clone())?.cluster;
    list.context("the server is in no cluster: its configuration has no [cluster]")
}

fn request(at: &ServerArgs, call: ClusterModuleCall, dry_run: DryRunArgs) -> Result<Option<u64>> {
    let request = AdminRequest::Module(ModuleCall::Cluster { call });
    match admin::request_change(at.clone(), request, dry_run)?.0 {
        AdminReply::Deploying { set } => Ok(set),
        reply => admin::unexpected(&reply),
    }
}

/// Progress of a change.
enum DeployProgress {
    Underway,
    Done,
    GivenUp(String),
}

/// Waits until the nodes follow a change, and prints their sets. `set` is the set that the change brings,
/// `base` the revision before it.
fn follow(at: &ServerArgs, base: u64, set: Option<u64>) -> Result<ExitCode> {
    let mut active_since = None;
    loop {
        let list = cluster_list(at)?;
        let mut out = output::stdout();
        match progress(&list, base, set, &mut active_since) {
            DeployProgress::Underway => sleep(LOOK_EACH),
            DeployProgress::Done => {
                deployed_cluster::print(&mut out, &list)?;
                return Ok(ExitCode::SUCCESS);
            }
            DeployProgress::GivenUp(reason) => {
                deployed_cluster::print_nodes(&mut out, &list)?;
                out.flush()?;
                let set = set.map(|set| set.to_string()).unwrap_or_default();
                crate::print_line(&format!("set {set} was given up: {}", plain(&reason)));
                return Ok(ExitCode::from(GIVEN_UP));
            }
        }
    }
}

fn progress(
    list: &ClusterModuleList,
    base: u64,
    set: Option<u64>,
    active_since: &mut Option<Instant>,
) -> DeployProgress {
    if list.revision <= base {
        return DeployProgress::Underway;
    }
    let given_up = list
        .abandoned
        .as_ref()
        .filter(|given_up| Some(given_up.set) == set);
    if let Some(given_up) = given_up {
        return DeployProgress::GivenUp(given_up.reason.clone());
    }
    // The canary is on its own, or it is awaited that nodes are ready.
    let concerned = match &list.rollout {
        Some(rollout) if rollout.stage != ClusterRolloutStage::Canary => {
            return DeployProgress::Underway;
        }
        Some(rollout) => Some(&rollout.canary),
        None => None,
    };
    let since = *active_since.get_or_insert_with(Instant::now);
    let follows = list
        .nodes
        .iter()
        .filter(|node| concerned.is_none_or(|canary| canary.contains(&node.node)))
        .all(|node| {
            node.runs == set
                || matches!(
                    node.state,
                    ClusterNodeState::Refuses | ClusterNodeState::Away
                )
        });
    if follows || since.elapsed() > RUN_LIMIT {
        DeployProgress::Done
    } else {
        DeployProgress::Underway
    }
}
