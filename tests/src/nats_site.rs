//! A NATS server with the files of a cluster, for servers that meet on it.
use crate::{daemon::Place, peal, run, test_servers, until};
use peal_nats::ClusterAccess;
use std::{
    fs::{self, File},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

/// Files of cluster `site`, in a temporary directory.
struct SiteFiles {
    dir: tempfile::TempDir,
}

impl SiteFiles {
    /// Makes the files for these NATS servers and nodes.
    fn new(servers: &[String], nodes: &[&str]) -> SiteFiles {
        let files = SiteFiles {
            dir: tempfile::tempdir().unwrap(),
        };
        let mut init = files.init();
        init.args(["--name", "site"]);
        init.args(servers.iter().flat_map(|server| ["--server", server]));
        init.args(nodes.iter().flat_map(|node| ["--node", node]));
        // The first one is the deployer.
        init.args(nodes.first().iter().flat_map(|node| ["--deployer", node]));
        run(&mut init).expect_status(0);
        files
    }

    fn init(&self) -> Command {
        let mut command = peal(["cluster", "init", "--dir"]);
        command.arg(self.path());
        command
    }

    /// Returns their directory.
    fn path(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    /// Returns the directory of a node's files.
    fn of_node(&self, node: &str) -> PathBuf {
        self.path().join("nodes").join(node)
    }
}

/// Cluster `site` with NATS servers on this machine.
pub struct NatsSite {
    files: SiteFiles,
    servers: Vec<NatsServer>,
}

/// NATS server of a cluster, which may have ended.
struct NatsServer {
    port: u16,
    process: Option<Child>,
}

impl NatsServer {
    fn address(&self) -> String {
        address(self.port)
    }

    /// Returns the directory of its files among those of the cluster.
    fn directory(&self, site: &Path) -> PathBuf {
        site.join(format!("servers/127.0.0.1-{}", self.port))
    }
}

/// Returns a port that had no listener a moment ago, below those that the system gives to connections.
pub fn free_port() -> u16 {
    static TRIED: AtomicU16 = AtomicU16::new(0);
    let first = 24_000 + u16::try_from(std::process::id() % 2000).unwrap();
    (first..32_000)
        .skip(usize::from(TRIED.fetch_add(1, Ordering::Relaxed)))
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}

/// Returns the program of the NATS server.
pub fn nats_server() -> PathBuf {
    test_servers().join("nats/bin/nats-server")
}

impl Drop for NatsSite {
    fn drop(&mut self) {
        self.kill();
    }
}

impl NatsSite {
    /// Makes the files for these nodes, starts a NATS server and sets the streams up.
    pub fn start(nodes: &[&str]) -> NatsSite {
        NatsSite::of_servers(1, nodes)
    }

    /// Does the same with this number of NATS servers.
    pub fn of_servers(number: usize, nodes: &[&str]) -> NatsSite {
        let servers: Vec<NatsServer> = (0..number)
            .map(|_| NatsServer {
                port: free_port(),
                process: None,
            })
            .collect();
        let addresses: Vec<String> = servers.iter().map(NatsServer::address).collect();
        let mut site = NatsSite {
            files: SiteFiles::new(&addresses, nodes),
            servers,
        };
        site.start_again();
        site.set_up();
        site
    }

    /// Sets the streams up, as soon as the NATS servers have elected leaders.
    pub fn set_up(&self) {
        until("the streams are set up", || {
            run(self.files.init().arg("--apply")).status == Some(0)
        });
    }

    /// Starts the NATS servers that do not run, and waits until they listen.
    pub fn start_again(&mut self) {
        let files = self.files.path();
        for server in &mut self.servers {
            let directory = server.directory(&files);
            let NatsServer { port, process } = server;
            if process.is_some() {
                continue;
            }
            let mut command = Command::new(nats_server());
            command
                .args(["-c", "nats-server.conf"])
                .current_dir(&directory)
                .stdin(Stdio::null())
                .stderr(File::create(directory.join("log")).unwrap());
            let mut server = command.spawn().unwrap();
            until("the NATS server listens", || {
                let log = || fs::read_to_string(directory.join("log")).unwrap();
                assert!(server.try_wait().unwrap().is_none(), "{}", log());
                TcpStream::connect(("127.0.0.1", *port)).is_ok()
            });
            *process = Some(server);
        }
    }

    /// Returns the directory of its files.
    pub fn directory(&self) -> PathBuf {
        self.files.path()
    }

    /// Returns `peal cluster init` with its files, not started yet.
    pub fn init(&self) -> Command {
        self.files.init()
    }

    /// Kills the NATS servers that run.
    pub fn kill(&mut self) {
        for server in 0..self.servers.len() {
            self.kill_one(server);
        }
    }

    /// Kills one of the NATS servers if it runs.
    pub fn kill_one(&mut self, server: usize) {
        if let Some(mut process) = self.servers[server].process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Removes all that the NATS servers have stored. They must not run.
    pub fn wipe(&self) {
        for server in &self.servers {
            let directory = server.directory(&self.files.path());
            fs::remove_dir_all(directory.join("jetstream")).unwrap();
        }
    }

    fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(NatsServer::address).collect()
    }

    /// Returns the ports of the NATS servers.
    pub fn ports(&self) -> impl Iterator<Item = u16> {
        self.servers.iter().map(|server| server.port)
    }

    /// Returns the section of a node with the files of a directory.
    pub fn section_with(&self, node: &str, files: &Path) -> String {
        section(node, &self.addresses(), files)
    }

    /// Returns the connection of a node.
    pub fn access(&self, node: &str) -> ClusterAccess {
        let files = self.files.of_node(node);
        ClusterAccess {
            cluster: "site".parse().unwrap(),
            node: node.parse().unwrap(),
            servers: self
                .addresses()
                .iter()
                .map(|address| address.parse().unwrap())
                .collect(),
            credentials: files.join("node.seed"),
            ca: Some(files.join("ca.pem")),
            timeout: Duration::from_secs(5),
        }
    }

    /// Makes the place of a node's server, which owns its files.
    pub fn place(&self, node: &str) -> Place {
        self.place_with(node, |_| String::new())
    }

    /// Makes the place of a node's server with more of its configuration.
    pub fn place_with(&self, node: &str, more: impl FnOnce(&Place) -> String) -> Place {
        let (place, files) = self.prepared(node);
        let section = self.section_with(node, &files);
        place.configure(&format!("{section}{}", more(&place)));
        place
    }

    /// Makes the place of a node's server that reaches the NATS servers by these ports of this machine.
    pub fn place_at(&self, node: &str, ports: impl Iterator<Item = u16>) -> Place {
        let (place, files) = self.prepared(node);
        let addresses: Vec<String> = ports.map(address).collect();
        place.configure(&section(node, &addresses, &files));
        place
    }

    /// Makes the place of a node's server, without its configuration, and returns the directory of its files.
    fn prepared(&self, node: &str) -> (Place, PathBuf) {
        let place = Place::new();
        let files = place.path("cluster");
        fs::create_dir(&files).unwrap();
        for file in ["node.seed", "ca.pem"] {
            fs::copy(self.files.of_node(node).join(file), files.join(file)).unwrap();
        }
        let mut owned = Command::new("chown");
        owned.arg("-R").arg("--reference").arg(place.path("."));
        run(owned.arg(&files)).expect_status(0);
        (place, files)
    }
}

fn address(port: u16) -> String {
    format!("tls://127.0.0.1:{port}")
}

/// Returns the section of a node's configuration.
fn section(node: &str, addresses: &[String], files: &Path) -> String {
    format!(
        "[cluster]\nname = \"site\"\nnode = {node:?}\nservers = {addresses:?}\ncredentials = {:?}\nca = {:?}\n",
        files.join("node.seed"),
        files.join("ca.pem")
    )
}
