//! `peal artifact-fetcher`: a process of `peal serve` that fetches artefacts from registries into the
//! store of artefacts. It alone connects to registries, reads the credentials and parses their
//! answers; the server compares what it reads from the store with the digests of its configuration.
use crate::{
    args::ArtifactFetcherArgs,
    confinement::{SYSTEM_FILES, refused_calls},
    node, process_setup,
    supervisor::{ProcessStarter, ServerAccount, StartOrder, StartedProcess, own_program},
};
use anyhow::{Context, Result};
use peal_config::{ArtifactReference, Config, Keyword, ModuleEntry, Resolved};
use peal_confinement::{Confinement, ProcessRole};
use peal_frames::{FrameLimit, MessageStream, StreamError};
use peal_modules::{ArtifactFetcher, DesiredModule, artifact_dir};
use peal_registry::{ArtifactStore, RegistryClient, RegistrySettings, usual_credentials};
use rustix::process::Resource;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::DirBuilder,
    io,
    os::unix::{fs::DirBuilderExt, net::UnixStream, process::CommandExt},
    path::PathBuf,
    process::ExitCode,
    sync::{Mutex, PoisonError},
    time::Duration,
};

/// Limit of an order or reply.
const LIMIT: FrameLimit = FrameLimit(8192);
/// Longest reason of a failure, in characters.
const MAX_REASON: usize = 1000;
/// Time after a time-out within which a process must have reported it.
const SLACK: Duration = Duration::from_secs(10);
/// Memory of a process beside that of a component, in bytes. Registries send manifests, errors and
/// tokens of any size.
const OWN_MEMORY: u64 = 256 << 20;
/// Port of registries without one in their name, and of the servers that give tokens for them and
/// keep their blobs.
const HTTPS: u16 = 443;
/// Port of name servers for replies that exceed a datagram.
const NAMES: u16 = 53;

/// Result of an order, which is the name of an artefact.
#[derive(Serialize, Deserialize)]
enum FetchReply {
    /// The artefact is in the store.
    Stored,
    /// The artefact was not fetched.
    Failed(String),
}

/// Fetches artefacts by processes, one for each port of registries.
pub struct FetcherProcesses {
    idle: Mutex<BTreeMap<u16, MessageStream>>,
    settings: Config,
    starter: Option<ProcessStarter>,
    is_confined: bool,
}

/// Returns the port of each registry from which these modules come.
fn ports(modules: &[ModuleEntry]) -> BTreeSet<u16> {
    let references = modules
        .iter()
        .filter_map(|module| module.settings.path.artifact());
    references.map(ArtifactReference::port).collect()
}

/// Returns the processes that fetch for a server that is about to be confined. A supervised server has
/// them started when there is something to fetch. Another one that is confined has those that it needs
/// for the modules of its start.
pub fn start(
    config: &Config,
    modules: &[ModuleEntry],
    starter: Option<ProcessStarter>,
) -> Result<FetcherProcesses> {
    let is_confined = refused_calls(config.confinement.mode).is_some();
    let mut idle = BTreeMap::new();
    if starter.is_none() && is_confined {
        for port in ports(modules) {
            let started = spawn(config, None, port)?;
            idle.insert(port, connected(started.connection, config)?);
        }
    }
    Ok(FetcherProcesses {
        idle: Mutex::new(idle),
        settings: config.clone(),
        starter,
        is_confined,
    })
}

/// Starts a process that fetches from registries at a port, as the user of the server that it serves.
pub fn spawn(
    config: &Config,
    account: Option<&ServerAccount>,
    port: u16,
) -> Result<StartedProcess> {
    let directory = match account {
        Some(account) => Some(account.artifact_dir(config)),
        None => artifact_dir(config),
    };
    let directory = std::path::absolute(required_dir(directory)?)
        .context("cannot find the directory of artefacts")?;
    let settings = RegistrySettings::from(&config.registry);
    let mut command = own_program();
    command
        .arg("artifact-fetcher")
        .arg("--store-dir")
        .arg(directory);
    command.args(["--settings", &serde_json::to_string(&settings)?]);
    command.args(["--port", &port.to_string()]);
    command.args(["--confinement", config.confinement.mode.name()]);
    if let Some(account) = account {
        command.uid(account.identity.uid).gid(account.identity.gid);
    }
    StartedProcess::start(command).context("cannot start the process that fetches artefacts")
}

fn connected(stream: UnixStream, config: &Config) -> io::Result<MessageStream> {
    stream.set_read_timeout(Some(config.registry.timeout.saturating_add(SLACK)))?;
    stream.set_write_timeout(Some(SLACK))?;
    Ok(MessageStream::new(stream, LIMIT))
}

impl FetcherProcesses {
    /// Returns true if the server has only the processes of its start.
    fn is_limited(&self) -> bool {
        self.starter.is_none() && self.is_confined
    }

    fn process(&self, port: u16) -> Result<MessageStream> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&port);
        if let Some(process) = idle {
            return Ok(process);
        }
        let stream = match &self.starter {
            Some(starter) => {
                starter
                    .start(StartOrder::ArtifactFetcher { port })?
                    .connection
            }
            None if self.is_limited() => anyhow::bail!(
                "no process fetches from port {port}, and a confined server starts none; restart the server"
            ),
            None => spawn(&self.settings, None, port)?.connection,
        };
        Ok(connected(stream, &self.settings)?)
    }

    fn try_to_fetch(&self, reference: &ArtifactReference) -> Result<FetchReply> {
        let port = reference.port();
        let mut process = self.process(port)?;
        let reply = order(&mut process, reference).context("the process that fetches was lost")?;
        // One that can be started again is used once, so that what a registry has sent to it reaches no
        // other artefact. Another one is not put back after an error: its next reply could be that to
        // this order.
        if self.is_limited() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            idle.insert(port, process);
        }
        Ok(reply)
    }
}

impl ArtifactFetcher for FetcherProcesses {
    fn fetch(&self, reference: &ArtifactReference) -> Result<(), String> {
        match self.try_to_fetch(reference) {
            Ok(FetchReply::Stored) => Ok(()),
            // The text comes from a process that a registry may have taken over.
            Ok(FetchReply::Failed(reason)) => {
                Err(crate::plain(&reason).chars().take(MAX_REASON).collect())
            }
            Err(error) => Err(crate::error_text(&error)),
        }
    }
}

fn order(
    process: &mut MessageStream,
    reference: &ArtifactReference,
) -> Result<FetchReply, StreamError> {
    process.send(&reference.to_string())?;
    let reply = process.next_message()?;
    reply.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
}

/// Fetches the artefacts that standard input names, until that is closed.
pub fn work(args: ArtifactFetcherArgs) -> Result<ExitCode> {
    process_setup::forbid_core_files()?;
    process_setup::end_with_parent()?;
    bound_memory(&args.settings)?;
    // Errors are ignored here: the store reports what is wrong when it is written.
    let _ = DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(&args.store_dir);
    confine(&args)?;
    let orders = process_setup::standard_input()?;
    let mut orders = MessageStream::new(orders.into(), LIMIT);
    let runtime = node::runtime()?;
    let store = ArtifactStore::at(&args.store_dir);
    while let Some(order) = orders.next_message::<String>()? {
        let reference = order.parse()?;
        // A client of its own, so that changed certificates count.
        let fetched = RegistryClient::new(args.settings.clone())
            .map_err(anyhow::Error::new)
            .and_then(|client| runtime.block_on(fetch(&client, &reference, &store)));
        let reply = match fetched {
            Ok(()) => FetchReply::Stored,
            Err(error) => {
                FetchReply::Failed(crate::error_text(&error).chars().take(MAX_REASON).collect())
            }
        };
        orders.send(&reply)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fetches an artefact into the store.
pub async fn fetch(
    client: &RegistryClient,
    reference: &ArtifactReference,
    store: &ArtifactStore,
) -> Result<()> {
    let pulled = client.pull(reference).await?;
    store.put(&pulled.manifest_bytes, &pulled.component)?;
    Ok(())
}

/// Reads the components of a configuration for a command that runs one job. Artefacts that are not in
/// the store are fetched first.
///
/// # Errors
///
/// Fails if one cannot be fetched, or with the mismatches of components and settings.
pub fn read_components(resolved: &Resolved) -> Result<Vec<DesiredModule>> {
    let read = || peal_modules::read_components(&resolved.modules, &resolved.config);
    let first = read()?;
    let awaited = first.awaited();
    if awaited.is_empty() {
        return Ok(first.complete()?);
    }
    let store = ArtifactStore::at(&required_dir(artifact_dir(&resolved.config))?);
    let client = RegistryClient::new(user_settings(&resolved.config))?;
    node::as_tool(async {
        for module in &awaited {
            fetch(&client, &module.reference, &store)
                .await
                .with_context(|| format!("module {}", module.entry.settings.name))?;
        }
        Ok(())
    })?;
    Ok(read()?.complete()?)
}

/// Returns the settings of registries with the user's own credentials, unless the configuration names
/// others.
pub fn user_settings(config: &Config) -> RegistrySettings {
    let settings = RegistrySettings::from(&config.registry);
    RegistrySettings {
        credentials: settings.credentials.or_else(usual_credentials),
        ..settings
    }
}

/// Returns the directory of artefacts.
///
/// # Errors
///
/// Fails if there is none; names the setting.
pub fn required_dir(directory: Option<PathBuf>) -> Result<PathBuf> {
    directory.context("artefacts have no directory: set registry.store_dir")
}

/// Limits the memory of a process that asks registries.
pub fn bound_memory(settings: &RegistrySettings) -> Result<()> {
    let of_component = settings.max_component.saturating_mul(4);
    let most = of_component.saturating_add(OWN_MEMORY);
    process_setup::limit(Resource::Data, most).context("cannot limit the memory")
}

fn confine(args: &ArtifactFetcherArgs) -> Result<()> {
    let Some(refused) = refused_calls(args.confinement) else {
        return Ok(());
    };
    let mut read: BTreeSet<PathBuf> = SYSTEM_FILES.map(PathBuf::from).into();
    read.extend(["/dev/random", "/dev/urandom"].map(PathBuf::from));
    let settings = &args.settings;
    read.extend(peal_sinks::AUTHORITIES.map(PathBuf::from));
    read.extend(settings.ca.clone());
    // The file alone: its directory may hold keys.
    read.extend(settings.credentials.clone());
    Confinement {
        refused,
        read,
        write: BTreeSet::from([args.store_dir.clone()]),
        connect: BTreeSet::from([args.port, HTTPS, NAMES]),
        ..Confinement::of(ProcessRole::ArtifactFetcher)
    }
    .enforce()
    .context("cannot confine the process that fetches artefacts")?;
    Ok(())
}
