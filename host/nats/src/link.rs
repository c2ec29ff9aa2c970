//! Connections to the NATS servers of a cluster, as a node and as the administrator.
use crate::{
    keys::{NodeKey, NodeKeyError},
    site::ClusterSite,
    subjects::ClusterSubjects,
};
use async_nats::{Client, ConnectError, ConnectErrorKind, ConnectOptions, Event};
use peal_config::{ClusterSettings, NatsAddress};
use peal_model::{ClusterName, ClusterNameError, NodeName};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    time::Duration,
};
use thiserror::Error;
use tokio::sync::mpsc;

/// Events of a connection that are kept until they are read; later ones are dropped.
const MAX_EVENTS: usize = 256;
/// Time limit of the administrator's requests.
const ADMINISTRATOR_TIMEOUT: Duration = Duration::from_secs(10);

/// Error for a `[cluster]` section without what a cluster needs.
#[derive(Debug, Error)]
pub enum ClusterAccessError {
    /// Missing setting.
    #[error("{key} is not set; {remedy}")]
    Missing {
        /// Name of the setting.
        key: &'static str,
        /// Value that would be right.
        remedy: &'static str,
    },
    /// Host name that is no name of a node.
    #[error("the host name cannot be the name of the node: {source}. Set cluster.node")]
    Hostname {
        /// Reason.
        source: ClusterNameError,
    },
}

/// Access of one node to its cluster: the `[cluster]` section with all that it needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterAccess {
    /// Name of the cluster.
    pub cluster: ClusterName,
    /// Name of the node.
    pub node: NodeName,
    /// NATS servers.
    pub servers: Vec<NatsAddress>,
    /// File of the node's seed.
    pub credentials: PathBuf,
    /// File of the authorities' certificates; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// Time limit of connections and requests.
    pub timeout: Duration,
}

impl ClusterAccess {
    /// Takes the access from the settings; `None` if they name no cluster at all.
    ///
    /// # Errors
    ///
    /// Names the first setting that is missing.
    pub fn from_settings(
        settings: &ClusterSettings,
        hostname: &str,
    ) -> Result<Option<ClusterAccess>, ClusterAccessError> {
        if *settings == ClusterSettings::default() {
            return Ok(None);
        }
        let missing = |key, remedy| ClusterAccessError::Missing { key, remedy };
        if settings.servers.is_empty() {
            return Err(missing(
                "cluster.servers",
                "it names the NATS servers, as in [\"tls://nats1.example.org:4222\"]",
            ));
        }
        let cluster = settings.name.clone().ok_or_else(|| {
            missing(
                "cluster.name",
                "it is the name given to `peal cluster init`",
            )
        })?;
        let credentials = settings.credentials.clone().ok_or_else(|| {
            missing(
                "cluster.credentials",
                "it names the file node.seed, which `peal cluster init` writes",
            )
        })?;
        let node = match &settings.node {
            Some(node) => node.clone(),
            None => NodeName::from_hostname(hostname)
                .map_err(|source| ClusterAccessError::Hostname { source })?,
        };
        Ok(Some(ClusterAccess {
            cluster,
            node,
            servers: settings.servers.clone(),
            credentials,
            ca: settings.ca.clone(),
            timeout: settings.timeout,
        }))
    }

    /// Reads the files that a connection needs, so that a server that starts says what is wrong with them.
    ///
    /// # Errors
    ///
    /// Fails if the key or the certificates cannot be used.
    pub fn check_files(&self) -> Result<(), LinkError> {
        NodeKey::read(&self.credentials)?;
        self.ca.as_deref().map_or(Ok(()), check_authority)
    }
}

/// Error of a connection to the NATS servers.
#[derive(Debug, Error)]
pub enum LinkError {
    /// Key that cannot be used.
    #[error(transparent)]
    Key(#[from] NodeKeyError),
    /// File of certificates that cannot be used.
    #[error("{}: {reason}; certificates in PEM form are needed, as in ca.pem of `peal cluster init`", path.display())]
    Authority {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// Key that no NATS server accepts.
    #[error(
        "{servers} refused the key {key} of {file}; a NATS server needs the configuration that `peal cluster init` wrote after it made this key"
    )]
    KeyRefused {
        /// NATS servers.
        servers: String,
        /// Public key.
        key: String,
        /// File of the seed.
        file: String,
    },
    /// Certificate that cannot be verified.
    #[error(
        "{servers}: {reason}; cluster.ca must name the authority of the NATS server's certificate, and the certificate the host in the address"
    )]
    Tls {
        /// NATS servers.
        servers: String,
        /// Reason.
        reason: String,
    },
    /// NATS servers that do not answer.
    #[error("no NATS server answers at {servers}: {reason}")]
    Unreachable {
        /// NATS servers.
        servers: String,
        /// Reason of the last try.
        reason: String,
    },
}

/// Connection of a node, with what NATS servers say of it.
pub struct NatsLink {
    /// Connection.
    pub client: Client,
    /// Names of the subjects.
    pub subjects: ClusterSubjects,
    /// Name of the node.
    pub node: NodeName,
    /// Time limit of requests.
    pub timeout: Duration,
    /// Events of the connection, such as violations of permissions.
    pub events: mpsc::Receiver<Event>,
}

impl NatsLink {
    /// Connects to a NATS server of the node's cluster.
    ///
    /// # Errors
    ///
    /// Fails if the key or the certificates cannot be used, and if no NATS server accepts the node.
    pub async fn connect(access: &ClusterAccess) -> Result<NatsLink, LinkError> {
        let key = NodeKey::read(&access.credentials)?;
        let subjects = ClusterSubjects::new(access.cluster.clone());
        let (sender, events) = mpsc::channel(MAX_EVENTS);
        let options = options(
            &key,
            access.ca.as_deref(),
            access.timeout,
            &subjects.inbox_prefix(&access.node),
        )?
        .name(format!("peal {}", access.node))
        .event_callback(move |event| {
            // A reader that is late learns of violations from the trace of the NATS server.
            let _ = sender.try_send(event);
            std::future::ready(())
        });
        let client = connect(options, &access.servers, &key, &access.credentials).await?;
        Ok(NatsLink {
            client,
            subjects,
            node: access.node.clone(),
            timeout: access.timeout,
            events,
        })
    }
}

/// Connects as the administrator of a cluster.
pub(crate) async fn administrator(site: &ClusterSite) -> Result<Client, LinkError> {
    let seed = site.administrator_seed();
    let key = NodeKey::read(&seed)?;
    let prefix = ClusterSubjects::new(site.name.clone()).administration_prefix();
    let ca = site.authority();
    let options =
        options(&key, Some(&ca), ADMINISTRATOR_TIMEOUT, &prefix)?.name("peal administrator");
    connect(options, &site.servers, &key, &seed).await
}

fn options(
    key: &NodeKey,
    ca: Option<&Path>,
    timeout: Duration,
    inbox_prefix: &str,
) -> Result<ConnectOptions, LinkError> {
    // The default of rustls depends on the features of all crates in the program.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let options = ConnectOptions::with_nkey(key.seed().to_owned())
        .require_tls(true)
        .connection_timeout(timeout)
        .request_timeout(Some(timeout))
        .custom_inbox_prefix(inbox_prefix)
        // Those that the configuration names are reached by the names in their certificates.
        .ignore_discovered_servers();
    match ca {
        Some(path) => {
            check_authority(path)?;
            Ok(options.add_root_certificates(path.to_owned()))
        }
        None => Ok(options),
    }
}

/// Checks a file of certificates, whose errors the connection would show without its name.
fn check_authority(path: &Path) -> Result<(), LinkError> {
    let wrong = |reason: String| LinkError::Authority {
        path: path.to_owned(),
        reason,
    };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| wrong(error.to_string()))?;
    if certificates.is_empty() {
        return Err(wrong("there is no certificate in the file".to_owned()));
    }
    Ok(())
}

async fn connect(
    options: ConnectOptions,
    servers: &[NatsAddress],
    key: &NodeKey,
    file: &Path,
) -> Result<Client, LinkError> {
    let addresses: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let servers = addresses.join(", ");
    options
        .connect(addresses)
        .await
        .map_err(|error| match error.kind() {
            ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                LinkError::KeyRefused {
                    servers,
                    key: key.public(),
                    file: file.display().to_string(),
                }
            }
            ConnectErrorKind::Tls => LinkError::Tls {
                servers,
                reason: reason(&error),
            },
            // Handshakes of TLS fail as errors of input and output, too.
            _ if is_of_tls(&error) => LinkError::Tls {
                servers,
                reason: reason(&error),
            },
            _ => LinkError::Unreachable {
                servers,
                reason: reason(&error),
            },
        })
}

/// Returns the causes of an error.
fn causes(error: &ConnectError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error;
    std::iter::successors(Some(first), |error| (*error).source())
}

fn is_of_tls(error: &ConnectError) -> bool {
    causes(error).any(|cause| {
        let inner = cause
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        cause.is::<rustls::Error>() || inner.is_some_and(|inner| inner.is::<rustls::Error>())
    })
}

/// Returns the innermost cause, which says most.
fn reason(error: &ConnectError) -> String {
    causes(error).last().unwrap_or(error).to_string()
}
