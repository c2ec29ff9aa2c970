//! Files of a cluster, as `peal cluster init` makes them:
//!
//! ```text
//! cluster.toml                 name, NATS servers, public keys: what the files below are made of
//! ca.pem, ca.key               certificate authority
//! administrator.seed           key of the administrator, who sets the streams up
//! servers/HOST-PORT/           for the NATS server: nats-server.conf, server.pem, server.key, ca.pem
//! nodes/NODE/                  for the node: node.seed, ca.pem, cluster.toml
//! ```
use crate::{
    authority::{CertificateError, CertificateFiles, ClusterAuthority},
    files::{self, PlannedFiles, SiteFileAccess, SiteFileChange, SiteFileError, WrittenFiles},
    keys::{NodeKey, NodeKeyError, is_public_key},
    permissions::NodeKind,
    server_config::{MAX_PORT, server_config},
};
use peal_config::NatsAddress;
use peal_model::{ClusterName, NodeName};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};
use thiserror::Error;

/// Name of the certificate of a NATS server in its directory.
pub(crate) const SERVER_CERTIFICATE: &str = "server";
/// Name of the configuration of a NATS server in its directory.
const SERVER_CONFIG: &str = "nats-server.conf";
/// File with the description of the cluster, and in a node's directory with its section.
const DESCRIPTION: &str = "cluster.toml";
/// Directory beside the site's file into which an administrator puts the files of a node.
const INSTALLED: &str = "cluster";
/// Maximum number of NATS servers: each of them stores, or votes about, what others have stored.
const MAX_SERVERS: usize = 9;
/// Maximum number of nodes.
const MAX_NODES: usize = 100_000;
/// NATS servers that store a stream where there are several.
const REPLICAS: usize = 3;

/// Error of making the files of a cluster.
#[derive(Debug, Error)]
pub enum SiteError {
    /// First command without a name.
    #[error("{}: there is no cluster yet; --name NAME says what it is called", directory.display())]
    NoName {
        /// Directory of the cluster.
        directory: PathBuf,
    },
    /// First command without NATS servers.
    #[error(
        "cluster {name} has no NATS server; --server tls://HOST:4222 names one, and three survive the loss of one"
    )]
    NoServer {
        /// Name of the cluster.
        name: ClusterName,
    },
    /// First command without nodes.
    #[error("cluster {name} has no node; --node NODE names one")]
    NoNode {
        /// Name of the cluster.
        name: ClusterName,
    },
    /// Directory of another cluster.
    #[error("{} holds cluster {found}, not {given}; leave --name out, or choose another --dir", directory.display())]
    OtherCluster {
        /// Directory of the cluster.
        directory: PathBuf,
        /// Name in the directory.
        found: ClusterName,
        /// Name that was given.
        given: ClusterName,
    },
    /// Directory without a cluster.
    #[error("{}: there is no cluster in this directory; `peal cluster init --name NAME --server tls://HOST:4222 --node NODE` makes one", directory.display())]
    NoCluster {
        /// Directory that was given.
        directory: PathBuf,
    },
    /// Number of NATS servers with which no majority is left after the loss of one.
    #[error(
        "cluster {name} would have {count} NATS servers; 1, 3, 5, 7 or 9 are right, since more than half must be there"
    )]
    ServerCount {
        /// Name of the cluster.
        name: ClusterName,
        /// Number of servers.
        count: usize,
    },
    /// Port that leaves none for the connections between NATS servers.
    #[error(
        "{server}: the port is too high; the limit is {MAX_PORT}, since NATS servers reach each other at the port that is higher by 2000"
    )]
    Port {
        /// Address of the server.
        server: NatsAddress,
    },
    /// Too many nodes.
    #[error("cluster {name} would have {count} nodes; the limit is {MAX_NODES}")]
    NodeCount {
        /// Name of the cluster.
        name: ClusterName,
        /// Number of nodes.
        count: usize,
    },
    /// Deployer that is no node.
    #[error("cluster {name} has no node {node}; --node {node} adds it")]
    NoSuchDeployer {
        /// Name of the cluster.
        name: ClusterName,
        /// Name of the deployer.
        node: NodeName,
    },
    /// Seed that does not belong to the key of its owner.
    #[error("{}: this is the seed of {found}, and the key of {owner} is {expected}; put the seed of that key back, or move the file away", path.display())]
    OtherKey {
        /// Path of the seed.
        path: PathBuf,
        /// Name of the node, or `administrator`.
        owner: String,
        /// Public key that belongs to the seed.
        found: String,
        /// Public key in the description.
        expected: String,
    },
    /// Description that cannot be read.
    #[error("{}: {problem}", path.display())]
    Description {
        /// Path of the description.
        path: PathBuf,
        /// Reason.
        problem: String,
    },
    /// Key that cannot be read or made.
    #[error(transparent)]
    Key(#[from] NodeKeyError),
    /// Certificate that cannot be made.
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    /// File that cannot be read or written.
    #[error(transparent)]
    File(#[from] SiteFileError),
}

/// Description of a cluster in the form of its file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteDescription {
    name: ClusterName,
    servers: Vec<String>,
    administrator: String,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    deployers: BTreeSet<NodeName>,
    nodes: BTreeMap<NodeName, String>,
}

/// Request of `peal cluster init`.
#[derive(Clone, Debug)]
pub struct SiteRequest {
    /// Directory of the cluster.
    pub directory: PathBuf,
    /// Name of the cluster; `None` for that in the directory.
    pub name: Option<ClusterName>,
    /// NATS servers that the cluster has, too. They get certificates if they have none.
    pub servers: Vec<NatsAddress>,
    /// Nodes that the cluster has, too.
    pub nodes: Vec<NodeName>,
    /// Nodes that may deploy modules to all nodes, too.
    pub deployers: Vec<NodeName>,
}

/// Result of a dry run of `peal cluster init`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SitePlan {
    /// Cluster as it would be. Keys that would be made are others then.
    pub site: ClusterSite,
    /// Files that would change, in the order of their paths.
    pub changes: Vec<SiteFileChange>,
}

/// Cluster with its files.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClusterSite {
    /// Directory of the files.
    pub directory: PathBuf,
    /// Name of the cluster.
    pub name: ClusterName,
    /// NATS servers.
    pub servers: Vec<NatsAddress>,
    /// Public key of the administrator.
    pub administrator: String,
    /// Nodes and their public keys.
    pub nodes: BTreeMap<NodeName, String>,
    /// Nodes that may deploy modules to all nodes.
    pub deployers: BTreeSet<NodeName>,
}

impl ClusterSite {
    /// Reads the description of a cluster.
    ///
    /// # Errors
    ///
    /// Fails if the directory has no valid description.
    pub fn read(directory: &Path) -> Result<ClusterSite, SiteError> {
        ClusterSite::find(directory)?.ok_or_else(|| SiteError::NoCluster {
            directory: directory.to_owned(),
        })
    }

    fn find(directory: &Path) -> Result<Option<ClusterSite>, SiteError> {
        let path = directory.join(DESCRIPTION);
        let Some(text) = files::read(&path)? else {
            return Ok(None);
        };
        let wrong = |problem: String| SiteError::Description {
            path: path.clone(),
            problem,
        };
        let read: SiteDescription =
            toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        for (owner, key) in read
            .nodes
            .iter()
            .map(|(node, key)| (node.as_str(), key))
            .chain([("administrator", &read.administrator)])
        {
            if !is_public_key(key) {
                let key: String = key.chars().take(60).collect();
                return Err(wrong(format!(
                    "{owner} has {key:?}; a public key has 56 characters and begins with U"
                )));
            }
        }
        let servers = read.servers.iter().map(|server| server.parse());
        Ok(Some(ClusterSite {
            directory: directory.to_owned(),
            name: read.name,
            servers: servers
                .collect::<Result<_, _>>()
                .map_err(|error: peal_config::NatsAddressError| wrong(error.to_string()))?,
            administrator: read.administrator,
            nodes: read.nodes,
            deployers: read.deployers,
        }))
    }

    /// Returns the rights of a node.
    pub fn kind_of(&self, node: &NodeName) -> NodeKind {
        if self.deployers.contains(node) {
            NodeKind::Deployer
        } else {
            NodeKind::Plain
        }
    }

    /// Returns the path of the certificate by which the NATS servers are verified.
    pub fn authority(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// Returns the path of the administrator's seed.
    pub fn administrator_seed(&self) -> PathBuf {
        administrator_seed(&self.directory)
    }

    /// Returns the directory of a NATS server.
    pub fn server_directory(&self, server: &NatsAddress) -> PathBuf {
        self.directory
            .join("servers")
            .join(server_directory(server))
    }

    /// Returns the path of the configuration of a NATS server.
    pub fn server_config_file(&self, server: &NatsAddress) -> PathBuf {
        self.server_directory(server).join(SERVER_CONFIG)
    }

    /// Returns the directory of a node.
    pub fn node_directory(&self, node: &NodeName) -> PathBuf {
        node_directory(&self.directory, node)
    }

    /// Returns the number of NATS servers that store each stream.
    pub fn replicas(&self) -> usize {
        self.servers.len().min(REPLICAS)
    }

    /// Returns the section for the site's file on a node whose files are in this directory. A relative
    /// path starts at the site's file.
    pub fn section(&self, node: &NodeName, files: &Path) -> String {
        let servers: Vec<String> = self.servers.iter().map(ToString::to_string).collect();
        let value = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let file = |name: &str| value(&files.join(name).to_string_lossy());
        let servers = servers.iter().map(|server| value(server));
        format!(
            "[cluster]\nname = {}\nnode = {}\nservers = [{}]\ncredentials = {}\nca = {}\n",
            value(self.name.as_str()),
            value(node.as_str()),
            servers.collect::<Vec<_>>().join(", "),
            file("node.seed"),
            file("ca.pem"),
        )
    }

    fn description(&self) -> Result<String, SiteError> {
        let description = SiteDescription {
            name: self.name.clone(),
            servers: self.servers.iter().map(ToString::to_string).collect(),
            administrator: self.administrator.clone(),
            nodes: self.nodes.clone(),
            deployers: self.deployers.clone(),
        };
        let text = toml::to_string(&description).map_err(|error| SiteError::Description {
            path: self.directory.join(DESCRIPTION),
            problem: error.to_string(),
        })?;
        Ok(format!(
            "# Cluster {}, by `peal cluster init`. A node without a line here has no access: delete the line and\n\
             # the directory of the node, repeat the command, and give the NATS servers their new configuration.\n{text}",
            self.name
        ))
    }

    /// Makes the certificates of these NATS servers, unless they are there.
    fn certify(
        &self,
        files: &mut dyn SiteFileAccess,
        authority: &ClusterAuthority,
        servers: &[NatsAddress],
    ) -> Result<(), SiteError> {
        for server in servers {
            let directory = self.server_directory(server);
            files.create_directory(&directory)?;
            let pair = CertificateFiles::named(&directory, SERVER_CERTIFICATE);
            authority.certify(files, server.host(), &pair)?;
        }
        Ok(())
    }

    /// Writes what is made of the description: configurations, sections, copies of the certificate.
    fn write(
        &self,
        files: &mut dyn SiteFileAccess,
        authority: &ClusterAuthority,
    ) -> Result<(), SiteError> {
        let certificate = authority.certificate(files)?;
        for server in &self.servers {
            let directory = self.server_directory(server);
            files.create_directory(&directory)?;
            files.replace(&directory.join("ca.pem"), &certificate)?;
            files.replace(&directory.join(SERVER_CONFIG), &server_config(self, server))?;
        }
        for node in self.nodes.keys() {
            let directory = self.node_directory(node);
            // The files of a node may have been moved there.
            if files.contains(&directory.join("node.seed")) {
                files.replace(&directory.join("ca.pem"), &certificate)?;
                let text = format!(
                    "# For the site's file of node {node}, with node.seed and ca.pem in the directory {INSTALLED} beside it.\n{}",
                    self.section(node, Path::new(INSTALLED))
                );
                files.replace(&directory.join(DESCRIPTION), &text)?;
            }
        }
        Ok(())
    }
}

/// Makes the files of a cluster, or adds NATS servers and nodes to it. Keys that exist are kept.
///
/// # Errors
///
/// Fails for a request that leaves the cluster without a name, NATS server or node, and for files that
/// do not belong together. Nothing is written in the first case, and no description in the second.
pub fn prepare_site(request: &SiteRequest) -> Result<ClusterSite, SiteError> {
    make_site(request, &mut WrittenFiles)
}

/// Finds the files that [`prepare_site`] would create or replace, and writes none.
///
/// # Errors
///
/// Fails for the requests and files for which [`prepare_site`] fails, except for those that cannot be
/// written.
pub fn plan_site(request: &SiteRequest) -> Result<SitePlan, SiteError> {
    let mut files = PlannedFiles::default();
    let site = make_site(request, &mut files)?;
    let changes = files.into_changes();
    Ok(SitePlan { site, changes })
}

fn make_site(
    request: &SiteRequest,
    files: &mut dyn SiteFileAccess,
) -> Result<ClusterSite, SiteError> {
    let directory = &request.directory;
    let found = ClusterSite::find(directory)?;
    let name = match (&found, &request.name) {
        (Some(site), Some(given)) if site.name != *given => {
            return Err(SiteError::OtherCluster {
                directory: directory.clone(),
                found: site.name.clone(),
                given: given.clone(),
            });
        }
        (Some(site), _) => site.name.clone(),
        (None, Some(given)) => given.clone(),
        (None, None) => {
            return Err(SiteError::NoName {
                directory: directory.clone(),
            });
        }
    };
    let mut deployers = found
        .as_ref()
        .map(|site| site.deployers.clone())
        .unwrap_or_default();
    deployers.extend(request.deployers.iter().cloned());
    let (mut servers, mut nodes, administrator) = match found {
        Some(site) => (site.servers, site.nodes, Some(site.administrator)),
        None => (Vec::new(), BTreeMap::new(), None),
    };
    for server in &request.servers {
        if !servers.contains(server) {
            servers.push(server.clone());
        }
    }
    check_servers(&name, &servers)?;
    check_nodes(&name, &nodes, &request.nodes)?;
    let is_node = |node: &&NodeName| nodes.contains_key(node) || request.nodes.contains(node);
    if let Some(node) = request.deployers.iter().find(|node| !is_node(node)) {
        return Err(SiteError::NoSuchDeployer {
            name,
            node: node.clone(),
        });
    }
    // A node whose line was deleted deploys nothing either.
    deployers.retain(|node| is_node(&node));
    files.create_directory(directory)?;
    let authority = ClusterAuthority::open(files, directory, &name)?;
    let administrator = public_key(
        files,
        "administrator",
        &administrator_seed(directory),
        administrator,
    )?;
    for node in &request.nodes {
        let own = node_directory(directory, node);
        let known = nodes.get(node).cloned();
        if known.is_none() {
            files.create_directory(&own)?;
        }
        let key = public_key(files, node.as_str(), &own.join("node.seed"), known)?;
        nodes.insert(node.clone(), key);
    }
    let site = ClusterSite {
        directory: directory.clone(),
        name,
        servers,
        administrator,
        nodes,
        deployers,
    };
    // The certificates of the others may have been moved to their machines.
    site.certify(files, &authority, &request.servers)?;
    files.replace(&directory.join(DESCRIPTION), &site.description()?)?;
    site.write(files, &authority)?;
    Ok(site)
}

/// Returns the public key of an owner, whose seed is created if there is neither a key nor a seed. The
/// seed of a known key may have been moved elsewhere.
fn public_key(
    files: &mut dyn SiteFileAccess,
    owner: &str,
    seed: &Path,
    known: Option<String>,
) -> Result<String, SiteError> {
    match known {
        // On disk: a key that a dry run has made is known, and its seed is nowhere.
        Some(known) if !seed.exists() => Ok(known),
        known => {
            let found = NodeKey::read_or_create(files, seed)?.public();
            match known {
                Some(expected) if expected != found => Err(SiteError::OtherKey {
                    path: seed.to_owned(),
                    owner: owner.to_owned(),
                    found,
                    expected,
                }),
                _ => Ok(found),
            }
        }
    }
}

fn check_servers(name: &ClusterName, servers: &[NatsAddress]) -> Result<(), SiteError> {
    if servers.is_empty() {
        return Err(SiteError::NoServer { name: name.clone() });
    }
    if servers.len().is_multiple_of(2) || servers.len() > MAX_SERVERS {
        return Err(SiteError::ServerCount {
            name: name.clone(),
            count: servers.len(),
        });
    }
    match servers.iter().find(|server| server.port() > MAX_PORT) {
        Some(server) => Err(SiteError::Port {
            server: server.clone(),
        }),
        None => Ok(()),
    }
}

fn check_nodes(
    name: &ClusterName,
    nodes: &BTreeMap<NodeName, String>,
    more: &[NodeName],
) -> Result<(), SiteError> {
    let count = nodes.len().saturating_add(more.len());
    if count == 0 {
        return Err(SiteError::NoNode { name: name.clone() });
    }
    if count > MAX_NODES {
        return Err(SiteError::NodeCount {
            name: name.clone(),
            count,
        });
    }
    Ok(())
}

fn administrator_seed(directory: &Path) -> PathBuf {
    directory.join("administrator.seed")
}

fn node_directory(directory: &Path, node: &NodeName) -> PathBuf {
    directory.join("nodes").join(node.as_str())
}

/// Returns the name of a NATS server, which is that of its directory.
pub(crate) fn server_directory(server: &NatsAddress) -> String {
    format!("{}-{}", server.host().replace(':', "_"), server.port())
}
