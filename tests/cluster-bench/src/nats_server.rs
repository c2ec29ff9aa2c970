//! A real NATS server with the files of a cluster of many nodes.
use anyhow::{Context, Result, bail, ensure};
use peal_config::NatsAddress;
use peal_model::NodeName;
use peal_nats::{ClusterAccess, ClusterSite, SiteRequest, apply_streams, prepare_site};
use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Time limit until the NATS server listens.
const PATIENCE: Duration = Duration::from_secs(30);
/// Interval of the attempts to set the streams up.
const LOOK: Duration = Duration::from_millis(20);

/// Running NATS server of a cluster. It ends with this value.
pub struct NatsServer {
    site: ClusterSite,
    process: Child,
}

impl Drop for NatsServer {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl NatsServer {
    /// Makes the files of a cluster with this number of nodes, starts its NATS server, and sets the
    /// streams up.
    pub async fn start(program: &Path, directory: &Path, nodes: usize) -> Result<NatsServer> {
        let nodes = (0..nodes).map(|number| format!("node{number}").parse());
        let address = NatsAddress::loopback(free_port()?);
        let site = prepare_site(&SiteRequest {
            directory: directory.join("site"),
            name: Some("bench".parse()?),
            servers: vec![address.clone()],
            nodes: nodes.collect::<Result<Vec<NodeName>, _>>()?,
            deployers: Vec::new(),
        })?;
        let files = site.server_directory(&address);
        let process = Command::new(program)
            .args(["-c", "nats-server.conf"])
            .current_dir(&files)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(files.join("log"))?)
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let mut server = NatsServer { site, process };
        server.set_up(&files.join("log")).await?;
        Ok(server)
    }

    async fn set_up(&mut self, log: &Path) -> Result<()> {
        let began = Instant::now();
        while let Err(error) = apply_streams(&self.site).await {
            if let Some(status) = self.process.try_wait()? {
                bail!("NATS server: {status}: {}", fs::read_to_string(log)?);
            }
            ensure!(began.elapsed() < PATIENCE, "NATS server: {error}");
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the accesses of all nodes.
    pub fn accesses(&self, timeout: Duration) -> impl Iterator<Item = ClusterAccess> {
        self.site.nodes.keys().map(move |node| ClusterAccess {
            cluster: self.site.name.clone(),
            node: node.clone(),
            servers: self.site.servers.clone(),
            credentials: self.site.node_directory(node).join("node.seed"),
            ca: Some(self.site.authority()),
            timeout,
        })
    }
}

/// Returns a port that had no listener a moment ago.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
