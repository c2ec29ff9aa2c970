//! Command lines of `peal cluster`.
use super::{ConfigArgs, DryRunArgs, ListFormats, OutputArgs};
use clap::{Args as ClapArgs, Subcommand};
use peal_config::{NatsAddress, NatsAddressError};
use peal_model::{ClusterName, ClusterNameError, NodeName};
use std::{path::PathBuf, time::Duration};

pub(super) const INIT_HELP: &str = "\
DIR gets cluster.toml, the certificate authority, the administrator's key, a directory for each NATS
server in servers/, and one for each node in nodes/. Repeat the command with --node or --server to add
some. Keys are never overwritten. Files that were moved to their nodes are not made anew.

Examples:
  peal cluster init --name site --server tls://nats1.example.org --node n1 --node n2 --deployer n1
  peal cluster init --dry-run --node n3 # says which files would change
  peal cluster init --apply             # once the NATS servers run: creates the streams
  peal cluster init --node n3           # then give the NATS servers their new nats-server.conf";

pub(super) const DEV_HELP: &str = "\
The NATS server listens on 127.0.0.1 alone. It ends with this command.

Examples:
  peal cluster dev
  peal cluster dev --port 4333 --nats-server ~/bin/nats-server";

pub(super) const STATUS_HELP: &str = "\
Reads [cluster] of the configuration and connects with the key of this node. Shows the NATS server,
its streams, and the servers that have joined. Whether the server of this node has: `peal status`.

Exit status: 0 if the NATS server is fit for the cluster, 1 if a check failed, 125 if no NATS server
accepts the node.

Examples:
  peal cluster status --config /etc/peal/peal.toml
  peal cluster status -o json | jq -r '.nodes[].node'";

/// `peal cluster`.
#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Make keys, certificates and the configuration of NATS servers for a cluster, or add nodes to it
    #[command(after_help = INIT_HELP)]
    Init(ClusterInit),
    /// Start a NATS server on this machine to try with, until interrupted
    #[command(after_help = DEV_HELP)]
    Dev(ClusterDev),
    /// Check the NATS server of this node's cluster, and show its nodes
    #[command(after_help = STATUS_HELP)]
    Status(ClusterStatus),
}

fn cluster_name(text: &str) -> Result<ClusterName, ClusterNameError> {
    text.parse()
}

pub fn node_name(text: &str) -> Result<NodeName, ClusterNameError> {
    text.parse()
}

fn nats_address(text: &str) -> Result<NatsAddress, NatsAddressError> {
    text.parse()
}

/// Options of commands that can ask all nodes of a cluster.
#[derive(ClapArgs, Clone)]
pub struct ClusterArgs {
    /// Ask the servers of all nodes of the cluster, with the key of this node; exit with 3 if one did
    /// not answer
    #[arg(long)]
    pub cluster: bool,
    /// Wait for answers of nodes for SECONDS at most, with --cluster
    #[arg(long, value_name = "SECONDS", requires = "cluster", default_value = "5", value_parser = seconds)]
    pub timeout: Duration,
}

/// Parses a time limit: a day at most.
pub fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=86_400) => Ok(Duration::from_secs(seconds)),
        Ok(_) | Err(_) => Err(format!("{text:?} is no number of seconds from 1 to 86400")),
    }
}

/// `peal cluster init`.
#[derive(ClapArgs)]
pub struct ClusterInit {
    /// Name of the cluster; default: that in DIR
    #[arg(long, value_name = "NAME", value_parser = cluster_name)]
    pub name: Option<ClusterName>,
    /// Give NODE a key; may be repeated. A node is called by its host name up to the first dot, unless
    /// cluster.node names it
    #[arg(long, value_name = "NODE", value_parser = node_name)]
    pub node: Vec<NodeName>,
    /// Let NODE deploy modules to all nodes; may be repeated
    #[arg(long, value_name = "NODE", value_parser = node_name)]
    pub deployer: Vec<NodeName>,
    /// Configure a NATS server at URL: tls://HOST or tls://HOST:PORT. Repeat for 3 or more
    #[arg(long, value_name = "URL", value_parser = nats_address)]
    pub server: Vec<NatsAddress>,
    /// Keep the files in DIR, which only you can read
    #[arg(long, value_name = "DIR", default_value = "peal-cluster", value_hint = clap::ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Create the streams on the running NATS servers, or check them
    #[arg(long)]
    pub apply: bool,
    /// Dry run.
    #[command(flatten)]
    pub dry_run: DryRunArgs,
}

/// `peal cluster dev`.
#[derive(ClapArgs)]
pub struct ClusterDev {
    /// Keep the files in DIR
    #[arg(long, value_name = "DIR", default_value = "peal-cluster-dev", value_hint = clap::ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Listen on PORT; default: that in DIR, else 4222
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Start the program FILE; default: nats-server of PATH
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub nats_server: Option<PathBuf>,
}

/// `peal cluster status`.
#[derive(ClapArgs)]
pub struct ClusterStatus {
    /// Configuration with the cluster.
    #[command(flatten)]
    pub config: ConfigArgs,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<ListFormats>,
}
