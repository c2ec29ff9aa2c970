//! A NATS server with the files of a cluster, for servers that meet on it.
use crate::{daemon::Place, peal, run, test_servers, until};
use std::{
    fs::{self, File},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU16, Ordering},
};

/// Files of cluster `site`, in a temporary directory.
pub struct SiteFiles {
    dir: tempfile::TempDir,
}

impl SiteFiles {
    /// Makes the files for one NATS server and these nodes.
    pub fn new(server: &str, nodes: &[&str]) -> SiteFiles {
        let files = SiteFiles {
            dir: tempfile::tempdir().unwrap(),
        };
        let mut init = files.init();
        init.args(["--name", "site", "--server", server]);
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
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    /// Returns the directory of a node's files.
    pub fn of_node(&self, node: &str) -> PathBuf {
        self.path().join("nodes").join(node)
    }
}

/// Cluster `site` with one NATS server on this machine.
pub struct NatsSite {
    files: SiteFiles,
    port: u16,
    server: Option<Child>,
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
    /// Makes the files for these nodes, starts the NATS server and sets the streams up.
    pub fn start(nodes: &[&str]) -> NatsSite {
        let port = free_port();
        let mut site = NatsSite {
            files: SiteFiles::new(&format!("tls://127.0.0.1:{port}"), nodes),
            port,
            server: None,
        };
        site.start_again();
        site.apply();
        site
    }

    fn server_directory(&self) -> PathBuf {
        self.files
            .path()
            .join(format!("servers/127.0.0.1-{}", self.port))
    }

    /// Starts the NATS server, and waits until it listens.
    pub fn start_again(&mut self) {
        let directory = self.server_directory();
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
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        self.server = Some(server);
    }

    /// Kills the NATS server if it runs.
    pub fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.kill().unwrap();
            server.wait().unwrap();
        }
    }

    /// Removes what the killed NATS server has stored.
    pub fn wipe(&self) {
        fs::remove_dir_all(self.server_directory().join("jetstream")).unwrap();
    }

    /// Sets the streams up again.
    pub fn apply(&self) {
        run(self.files.init().arg("--apply")).expect_status(0);
    }

    /// Returns the section of a node with the files of a directory.
    pub fn section_with(&self, node: &str, files: &Path) -> String {
        format!(
            "[cluster]\nname = \"site\"\nnode = {node:?}\nservers = [\"tls://127.0.0.1:{}\"]\ncredentials = {:?}\nca = {:?}\n",
            self.port,
            files.join("node.seed"),
            files.join("ca.pem")
        )
    }

    /// Makes the place of a node's server, which owns its files.
    pub fn place(&self, node: &str) -> Place {
        let place = Place::new();
        let files = place.path("cluster");
        fs::create_dir(&files).unwrap();
        for file in ["node.seed", "ca.pem"] {
            fs::copy(self.files.of_node(node).join(file), files.join(file)).unwrap();
        }
        let mut owned = Command::new("chown");
        owned.arg("-R").arg("--reference").arg(place.path("."));
        run(owned.arg(&files)).expect_status(0);
        place.configure(&self.section_with(node, &files));
        place
    }
}
