//! Slurm in a lab with `peal serve` on each node, whose servers meet on a NATS server on the launcher's node.
use crate::{CONTROL_NODE, LabNode, LabSetup, NodeMount, SlurmLab, SlurmSettings, lab::wait_until};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

/// Place of Peal's command on nodes, where the library looks for it.
pub const COMMAND: &str = "/usr/bin/peal";

/// Configuration of the servers on a node.
pub const CONFIG: &str = "/etc/peal/peal.toml";

/// Address of the NATS server, and the name of the directory of its files.
const NATS_SERVER: &str = "tls://10.77.0.254:4222";
const NATS_DIRECTORY: &str = "10.77.0.254-4222";

/// Directory of the cluster's files on the launcher's node, and that of a node's files on others.
const SITE_FILES: &str = "/run/peal-site";
const NODE_FILES: &str = "/etc/peal/cluster";

/// Socket of a node's server for the servers of launchers.
const HOSTS_SOCKET: &str = "/run/peal/hosts.sock";

/// Programs that run on the nodes of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterPrograms {
    /// `peal`.
    pub peal: PathBuf,
    /// `nats-server`.
    pub nats_server: PathBuf,
}

/// Nodes under Slurm with `peal serve` on each, all of one cluster.
#[derive(Debug)]
pub struct SlurmCluster {
    /// The nodes.
    pub slurm: SlurmLab,
    servers: Vec<Child>,
    nats: Child,
    /// Files of the cluster and the configuration, for as long as the nodes use them.
    _files: tempfile::TempDir,
}

/// Options of a cluster in a lab.
pub struct ClusterOptions<'a> {
    /// Text of the configuration, beside that of the cluster.
    pub config: &'a str,
    /// Installs something on a node before its server starts.
    pub install: &'a dyn Fn(&LabNode) -> Result<()>,
    /// Returns options of a node's server.
    pub serve: &'a dyn Fn(&LabNode) -> Vec<&'static str>,
}

impl Default for ClusterOptions<'_> {
    fn default() -> Self {
        ClusterOptions {
            config: "",
            install: &|_| Ok(()),
            serve: &|_| Vec::new(),
        }
    }
}

impl SlurmCluster {
    /// Starts the nodes, the NATS server and the servers, and waits until these have met.
    ///
    /// # Errors
    ///
    /// Says what did not start, or not in time.
    pub fn start(
        setup: LabSetup,
        programs: &ClusterPrograms,
        options: &ClusterOptions<'_>,
    ) -> Result<SlurmCluster> {
        let files = tempfile::tempdir().context("making a directory of the cluster's files")?;
        let names: Vec<String> = setup.node_names().collect();
        let site = files.path().join("cluster");
        let mut init = Command::new(&programs.peal);
        init.args(["cluster", "init", "--name", "site", "--server", NATS_SERVER]);
        init.arg("--dir").arg(&site);
        init.args(names.iter().flat_map(|node| ["--node", node]));
        finish(&mut init)?;
        let config = files.path().join("peal.toml");
        fs::write(&config, configuration(options.config)).context("writing the configuration")?;
        let mount = |node: Option<&str>, source: &Path, target: &str| NodeMount {
            node: node.map(str::to_owned),
            source: source.to_owned(),
            target: target.into(),
        };
        let setup = setup
            .mount(mount(None, &programs.peal, COMMAND))
            .mount(mount(None, &config, CONFIG))
            .mount(mount(Some(CONTROL_NODE), &site, SITE_FILES));
        let setup = names.iter().fold(setup, |setup, node| {
            let files = site.join("nodes").join(node);
            setup.mount(mount(Some(node), &files, NODE_FILES))
        });
        let slurm = SlurmLab::start(setup, &SlurmSettings::default())?;
        let nats = start_nats(&slurm, &programs.nats_server)?;
        let mut cluster = SlurmCluster {
            slurm,
            servers: Vec::new(),
            nats,
            _files: files,
        };
        let nodes: Vec<&LabNode> = cluster.nodes().collect();
        nodes.iter().try_for_each(|node| (options.install)(node))?;
        let servers = nodes.iter().map(|node| {
            let mut command = node.command(COMMAND);
            command.arg("serve").args((options.serve)(node));
            let server = command.stdout(Stdio::null()).spawn();
            server.with_context(|| format!("starting the server of {}", node.name()))
        });
        cluster.servers = servers.collect::<Result<_>>()?;
        cluster.wait_until_all_have_met()?;
        Ok(cluster)
    }

    /// Returns the nodes with servers.
    pub fn nodes(&self) -> impl Iterator<Item = &LabNode> {
        let nodes = self.slurm.lab.nodes();
        nodes.filter(|node| node.name() != CONTROL_NODE)
    }

    /// Waits until the server of each node is in the cluster with all others.
    ///
    /// # Errors
    ///
    /// Shows the state of a server that is not in time.
    pub fn wait_until_all_have_met(&self) -> Result<()> {
        let number = self.nodes().count();
        self.nodes().try_for_each(|node| {
            wait_until("the node's server has met the others", || {
                let status = node
                    .command(COMMAND)
                    .args(["status", "-o", "json"])
                    .output();
                let status = status.context("asking for the state of a server")?;
                let state: Value = serde_json::from_slice(&status.stdout).unwrap_or_default();
                let place = state.get("cluster").unwrap_or(&Value::Null);
                let id = place.get("id").and_then(Value::as_u64);
                let servers = place.get("servers").and_then(Value::as_u64);
                let has_met = id.is_some() && servers == u64::try_from(number).ok();
                Ok((!has_met).then(|| format!("{} has {place}", node.name())))
            })
        })
    }
}

impl Drop for SlurmCluster {
    fn drop(&mut self) {
        // The processes end with the lab; their parents here are reaped.
        for child in self.servers.iter_mut().chain([&mut self.nats]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the configuration of the servers.
fn configuration(more: &str) -> String {
    format!(
        "[hosts]\nsocket = {HOSTS_SOCKET:?}\n[sandbox]\ncache_dir = \"/run/peal-cache\"\n\
         [cluster]\nname = \"site\"\nservers = [{NATS_SERVER:?}]\n\
         credentials = \"{NODE_FILES}/node.seed\"\nca = \"{NODE_FILES}/ca.pem\"\n{more}"
    )
}

/// Starts the NATS server on the launcher's node, and sets its streams up.
fn start_nats(lab: &SlurmLab, nats_server: &Path) -> Result<Child> {
    let control = lab.lab.node(CONTROL_NODE)?;
    let directory = format!("{SITE_FILES}/servers/{NATS_DIRECTORY}");
    let nats = control
        .command_in(&directory, nats_server)
        .args(["-c", "nats-server.conf"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .context("starting the NATS server")?;
    wait_until("the streams are set up", || {
        let mut init = control.command(COMMAND);
        init.args(["cluster", "init", "--apply", "--dir", SITE_FILES]);
        Ok(finish(&mut init).err().map(|error| format!("{error:#}")))
    })?;
    Ok(nats)
}

/// Runs a command, and returns its standard error if it fails.
fn finish(command: &mut Command) -> Result<()> {
    let output = command.output().context("running peal")?;
    ensure!(
        output.status.success(),
        "`peal cluster init` failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}
