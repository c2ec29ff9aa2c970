//! Lab of nodes: its start, its network and its end.
use crate::{LabLibraries, LabNode, LabSetup, MAX_NODES};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    time::{Duration, Instant},
};

/// Name of the node with the launcher.
pub const CONTROL_NODE: &str = "ctl";

/// Network of each lab. Labs do not see each other.
const NETWORK: &str = "10.77.0";

/// Time within which a state of the lab must be reached.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Scripts that run inside of the lab.
const BASE: &str = include_str!("../scripts/base.sh");
const NODE: &str = include_str!("../scripts/node.sh");
const AGENT: &str = include_str!("../scripts/agent.sh");

/// Lifetime of a lab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LabLifetime {
    /// It ends with the process that started it.
    OfItsStarter,
    /// It stays until something ends it.
    Unlimited,
}

/// Nodes in namespaces, joined by a network. Dropping it ends it and everything in it.
#[derive(Debug)]
pub struct Lab {
    setup: LabSetup,
    /// Process id of the first process outside of the lab.
    base: u32,
    /// `unshare`, the parent of the first process; `None` if another process started the lab.
    holder: Option<Child>,
    /// The first process reads from here until its end.
    _lifeline: Option<ChildStdin>,
    nodes: BTreeMap<String, LabNode>,
    /// `nsenter` of each node that this process started.
    entries: BTreeMap<String, Child>,
    is_kept: bool,
}

impl Lab {
    /// Starts the nodes. The lab ends with this process.
    ///
    /// # Errors
    ///
    /// Says which step failed; nothing is left then.
    pub fn start(setup: LabSetup) -> Result<Lab> {
        Lab::start_for(setup, LabLifetime::OfItsStarter)
    }

    pub(crate) fn start_for(setup: LabSetup, lifetime: LabLifetime) -> Result<Lab> {
        ensure!(
            (1..=MAX_NODES).contains(&setup.nodes),
            "{} nodes; a lab has 1 to {MAX_NODES}",
            setup.nodes
        );
        ensure!(
            rustix::process::geteuid().is_root(),
            "only root can start a lab"
        );
        let setup = setup.with_server_library()?;
        let mut holder = merged("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--"])
            .args(["bash", "-c", BASE, "peal-lab"])
            .arg(match lifetime {
                LabLifetime::OfItsStarter => "attached",
                LabLifetime::Unlimited => "detached",
            })
            .stdin(match lifetime {
                LabLifetime::OfItsStarter => Stdio::piped(),
                LabLifetime::Unlimited => Stdio::null(),
            })
            .stdout(Stdio::piped())
            .spawn()
            .context("running unshare")?;
        let lifeline = holder.stdin.take();
        let ready = ready_line(&mut holder);
        let mut lab = Lab {
            setup,
            base: 0,
            holder: Some(holder),
            _lifeline: lifeline,
            nodes: BTreeMap::new(),
            entries: BTreeMap::new(),
            is_kept: false,
        };
        lab.base = ready?
            .trim()
            .parse()
            .context("reading the pid of the lab")?;
        lab.write_files()?;
        for name in lab.node_names() {
            lab.start_node(&name)?;
        }
        Ok(lab)
    }

    /// Returns a lab that another process started. Dropping it does not end it.
    pub(crate) fn open(base: u32, setup: LabSetup) -> Result<Lab> {
        let mut lab = Lab {
            setup,
            base,
            holder: None,
            _lifeline: None,
            nodes: BTreeMap::new(),
            entries: BTreeMap::new(),
            is_kept: true,
        };
        let entries = fs::read_dir(lab.path("nodes")).context("reading the nodes of the lab")?;
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            lab.find_node(&name)?;
        }
        Ok(lab)
    }

    /// Keeps the lab when this value is dropped, and returns the pid of its first process.
    pub(crate) fn keep(mut self) -> u32 {
        self.is_kept = true;
        self.base
    }

    /// Returns the libraries.
    pub fn libraries(&self) -> &LabLibraries {
        &self.setup.libraries
    }

    /// Returns the path by which the machine reaches a file in `/run/lab`, which all nodes share.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        Path::new("/proc")
            .join(self.base.to_string())
            .join("root/run/lab")
            .join(name)
    }

    /// Returns the node of this name: `ctl` for the one with the launcher, and `n1` and so on.
    ///
    /// # Errors
    ///
    /// Names the nodes of the lab if there is no such node.
    pub fn node(&self, name: &str) -> Result<&LabNode> {
        self.nodes.get(name).with_context(|| {
            let names: Vec<&str> = self.nodes.keys().map(String::as_str).collect();
            format!("no node {name}; the lab has {}", names.join(", "))
        })
    }

    /// Returns the node with the launcher.
    ///
    /// # Errors
    ///
    /// Fails if it was killed.
    pub fn control(&self) -> Result<&LabNode> {
        self.node(CONTROL_NODE)
    }

    /// Returns all nodes, including the one with the launcher.
    pub fn nodes(&self) -> impl Iterator<Item = &LabNode> {
        self.nodes.values()
    }

    /// Kills all processes of a node at once. The kernel closes their connections.
    ///
    /// # Errors
    ///
    /// Fails if there is no such node.
    pub fn kill_node(&mut self, name: &str) -> Result<()> {
        ensure!(
            name != CONTROL_NODE,
            "{CONTROL_NODE} shares its processes with the lab; end the lab"
        );
        self.node(name)?.kill()?;
        self.nodes.remove(name);
        if let Some(mut entry) = self.entries.remove(name) {
            // It ends when the last process of the node has ended.
            entry.wait().context("waiting for the end of the node")?;
        }
        // The kernel removes the link some time after the node, unless it has done so already.
        let _ = self.run_ip(CONTROL_NODE, &format!("link del p-{name}\n"));
        Ok(())
    }

    /// Takes a node off the network. Its peers hear nothing from it until [`Lab::connect_node`].
    ///
    /// # Errors
    ///
    /// Fails if there is no such node.
    pub fn disconnect_node(&self, name: &str) -> Result<()> {
        self.run_ip(CONTROL_NODE, &format!("link set p-{name} down\n"))
    }

    /// Puts a node on the network again.
    ///
    /// # Errors
    ///
    /// Fails if there is no such node.
    pub fn connect_node(&self, name: &str) -> Result<()> {
        self.run_ip(CONTROL_NODE, &format!("link set p-{name} up\n"))
    }

    /// Starts a node that was killed. Its own files are new.
    ///
    /// # Errors
    ///
    /// Says which step failed.
    pub fn restart_node(&mut self, name: &str) -> Result<()> {
        ensure!(
            self.node_names().iter().any(|known| known == name) && !self.nodes.contains_key(name),
            "{name} is no node that was killed"
        );
        self.start_node(name)
    }

    /// Returns the names of nodes, the one with the launcher first.
    fn node_names(&self) -> Vec<String> {
        let others = self.setup.node_names();
        std::iter::once(CONTROL_NODE.to_owned())
            .chain(others)
            .collect()
    }

    fn write_files(&self) -> Result<()> {
        let mut hosts = "127.0.0.1 localhost\n".to_owned();
        for name in self.node_names() {
            hosts += &format!("{} {name}\n", address(&name));
        }
        for (name, text) in [
            ("hosts", hosts.as_str()),
            ("node.sh", NODE),
            ("agent.sh", AGENT),
        ] {
            let file = self.path(name);
            fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
        }
        let agent = self.path("agent.sh");
        rustix::fs::chmod(&agent, rustix::fs::Mode::from_raw_mode(0o755))
            .context("making the agent executable")
    }

    fn start_node(&mut self, name: &str) -> Result<()> {
        let directory = self.path("nodes").join(name);
        fs::create_dir_all(&directory)
            .with_context(|| format!("creating {}", directory.display()))?;
        fs::write(directory.join("mounts"), self.setup.mounts_of(name)?)
            .context("writing the mounts of a node")?;
        let mut entry = merged("nsenter");
        entry
            .args(["--target", &self.base.to_string(), "--mount", "--pid", "--"])
            .args(["unshare", "--mount", "--uts", "--ipc", "--net"]);
        // The control node sees the processes of all nodes, so that `mpirun` can start its daemons on them.
        if name != CONTROL_NODE {
            entry.args(["--pid", "--fork", "--kill-child"]);
        }
        entry.args(["--", "bash", "/run/lab/node.sh", name]);
        entry.args(&self.setup.packages);
        let mut entry = entry
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("running nsenter")?;
        let ready = ready_line(&mut entry);
        self.entries.insert(name.to_owned(), entry);
        ready.with_context(|| format!("starting node {name}"))?;
        self.find_node(name)?;
        self.connect(name)
    }

    /// Adds a node that has written its pid.
    fn find_node(&mut self, name: &str) -> Result<()> {
        let file = self.path("nodes").join(name).join("pids");
        let text =
            fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let pid = text
            .split_whitespace()
            .next()
            .and_then(|pid| pid.parse().ok());
        let node = LabNode {
            name: name.to_owned(),
            pid: pid.with_context(|| format!("{} has no pid: {text:?}", file.display()))?,
        };
        if Path::new("/proc").join(node.pid.to_string()).exists() {
            self.nodes.insert(name.to_owned(), node);
        }
        Ok(())
    }

    fn connect(&self, name: &str) -> Result<()> {
        let address = address(name);
        if name == CONTROL_NODE {
            return self.run_ip(
                name,
                &format!(
                    "link set lo up\nlink add br0 type bridge\naddr add {address}/24 dev br0\nlink set br0 up\n"
                ),
            );
        }
        let pid = self.node(name)?.pid;
        // The same address after a restart, since the others remember it.
        let number: u32 = name.trim_start_matches('n').parse().unwrap_or(0);
        self.run_ip(
            CONTROL_NODE,
            &format!(
                "link add p-{name} type veth peer name eth0 address 02:00:0a:4d:00:{number:02x} netns {pid}\n\
                 link set p-{name} master br0 up\n"
            ),
        )?;
        self.run_ip(
            name,
            &format!("link set lo up\naddr add {address}/24 dev eth0\nlink set eth0 up\n"),
        )
    }

    /// Runs lines of `ip` in the network of a node.
    fn run_ip(&self, node: &str, lines: &str) -> Result<()> {
        let mut ip = self.node(node)?.enter(&["--net"]);
        let mut ip = ip
            .args(["ip", "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("running ip")?;
        if let Some(mut input) = ip.stdin.take() {
            input.write_all(lines.as_bytes()).context("writing to ip")?;
        }
        let output = ip.wait_with_output().context("waiting for ip")?;
        ensure!(
            output.status.success(),
            "the network of {node}: {}{lines}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }

    /// Ends the lab, and waits until all of its processes have ended.
    pub(crate) fn end(&mut self) -> Result<()> {
        if let Some(pid) = i32::try_from(self.base).ok().and_then(Pid::from_raw) {
            // It may have ended already.
            if let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) {
                let _ = pidfd_send_signal(&process, Signal::KILL);
            }
        }
        let children = self.holder.iter_mut().chain(self.entries.values_mut());
        for child in children {
            if self.base == 0 {
                let _ = child.kill();
            }
            // The kernel ends the first process of a namespace after all others.
            child.wait().context("waiting for the end of the lab")?;
        }
        Ok(())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if !self.is_kept {
            // There is nobody to report to. The kernel ends the lab with this process in any case.
            let _ = self.end();
        }
    }
}

/// Returns the address of a node.
pub(crate) fn address(name: &str) -> String {
    let number = name.strip_prefix('n').unwrap_or("254");
    format!("{NETWORK}.{number}")
}

/// Returns a command that writes errors where it writes its output.
fn merged(program: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 2>&1", "sh", program]);
    command
}

/// Waits for the line `ready` of a script, and returns what follows in it.
fn ready_line(child: &mut Child) -> Result<String> {
    let output = child.stdout.take().context("the output is piped")?;
    let mut said = String::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("reading from the lab")?;
        if let Some(rest) = line.strip_prefix("ready") {
            return Ok(rest.to_owned());
        }
        said += &line;
        said.push('\n');
    }
    bail!("the lab did not start: {said}")
}

/// Repeats a check until it holds.
///
/// # Errors
///
/// Fails after a minute, with what the check found last.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> Result<Option<String>>) -> Result<()> {
    let began = Instant::now();
    while let Some(state) = holds()? {
        ensure!(
            began.elapsed() < PATIENCE,
            "this did not happen within {} s: {what}; the last state is {state}",
            PATIENCE.as_secs()
        );
    }
    Ok(())
}
