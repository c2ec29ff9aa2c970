//! Slurm in a lab: its daemons on every node, and `srun`.
use crate::{
    CONTROL_NODE, Lab, LabNode, LabSetup,
    lab::{LabLifetime, address, wait_until},
};
use anyhow::{Context, Result, ensure};
use std::{ffi::OsStr, fs, path::Path, process::Command};

/// Log of the controller.
const CONTROLLER_LOG: &str = "/var/log/slurm/slurmctld.log";

/// Log of the daemon of a node, and of the steps on it.
const NODE_LOG: &str = "/var/log/slurm/slurmd.log";

/// Names of the daemons.
const CONTROLLER: &str = "slurmctld";
const DAEMON: &str = "slurmd";

/// Settings of Slurm that change how its PMIx plugin works.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SlurmSettings {
    /// Width of the tree in which its daemons reach each other. With at least as many as there are nodes, a fence without
    /// data does not wait for other nodes. Slurm's default is 50.
    pub tree_width: u32,
    /// Number of procs that a node takes.
    pub cpus: u32,
    /// Time after which a fence fails, in seconds; `None` for Slurm's own, 300.
    pub fence_timeout: Option<u32>,
    /// Time without an answer after which a node counts as lost, in seconds.
    pub node_timeout: u32,
    /// Level of the logs, such as `info` or `debug3`.
    pub log_level: &'static str,
}

impl Default for SlurmSettings {
    fn default() -> Self {
        SlurmSettings {
            tree_width: 50,
            cpus: 32,
            fence_timeout: None,
            node_timeout: 10,
            log_level: "info",
        }
    }
}

/// Lab with Slurm. The lab needs its packages: [`LabSetup::with_packages`].
#[derive(Debug)]
pub struct SlurmLab {
    /// Nodes of the cluster.
    pub lab: Lab,
}

impl SlurmLab {
    /// Starts the nodes and Slurm on them, and waits until all nodes take jobs.
    ///
    /// # Errors
    ///
    /// Says what did not start, with its output.
    pub fn start(setup: LabSetup, settings: &SlurmSettings) -> Result<SlurmLab> {
        SlurmLab::start_for(setup, settings, LabLifetime::OfItsStarter)
    }

    pub(crate) fn start_for(
        setup: LabSetup,
        settings: &SlurmSettings,
        lifetime: LabLifetime,
    ) -> Result<SlurmLab> {
        let lab = Lab::start_for(setup, lifetime)?;
        let configuration = configuration(&lab, settings)?;
        fs::write(lab.path("slurm.conf"), configuration).context("writing slurm.conf")?;
        let timeout = settings.fence_timeout;
        let mpi = timeout.map_or_else(String::new, |seconds| format!("PMIxTimeout={seconds}\n"));
        fs::write(lab.path("mpi.conf"), mpi).context("writing mpi.conf")?;
        let key: [u8; 128] = random_bytes()?;
        fs::write(lab.path("munge.key"), key).context("writing the key of munge")?;
        let slurm = SlurmLab { lab };
        // The nodes do not wait for each other.
        std::thread::scope(|scope| {
            let starts: Vec<_> = slurm
                .lab
                .nodes()
                .map(|node| scope.spawn(|| slurm.start_daemons(node)))
                .collect();
            starts.into_iter().try_for_each(|start| {
                start
                    .join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("a thread panicked")))
            })
        })?;
        slurm.wait_for_nodes()?;
        Ok(slurm)
    }

    /// Returns `srun --mpi=pmix` with more options and a program, on the node with the launcher. The program uses the
    /// client library of the lab.
    ///
    /// # Errors
    ///
    /// Fails if the node with the launcher is gone.
    pub fn srun<O: AsRef<OsStr>, P: AsRef<OsStr>>(
        &self,
        options: impl IntoIterator<Item = O>,
        program: impl IntoIterator<Item = P>,
    ) -> Result<Command> {
        let mut command = self.lab.control()?.command("srun");
        command
            .arg("--mpi=pmix")
            .args(options)
            .args(self.lab.libraries().client.words())
            .args(program);
        Ok(command)
    }

    /// Kills a node, starts it again, and waits until it takes jobs.
    ///
    /// # Errors
    ///
    /// Says which step failed.
    pub fn restart_node(&mut self, name: &str) -> Result<()> {
        if self.lab.node(name).is_ok() {
            self.lab.kill_node(name)?;
        }
        self.lab.restart_node(name)?;
        self.start_daemons(self.lab.node(name)?)?;
        self.wait_for_nodes()
    }

    /// Waits until all nodes take jobs.
    ///
    /// # Errors
    ///
    /// Shows the states of the nodes if that does not happen.
    pub fn wait_for_nodes(&self) -> Result<()> {
        let nodes = self.lab.nodes().count() - 1;
        wait_until("every node takes jobs", || {
            let states = self.output("sinfo", &["--noheader", "--Node", "--format", "%T"])?;
            let ready = states
                .lines()
                .filter(|state| ["idle", "mixed", "allocated"].contains(state));
            Ok((ready.count() != nodes).then_some(states))
        })
    }

    /// Waits until Slurm has no job.
    ///
    /// # Errors
    ///
    /// Shows the jobs if they do not end.
    pub fn wait_for_end_of_jobs(&self) -> Result<()> {
        wait_until("all jobs end", || {
            let jobs = self.output("squeue", &["--noheader"])?;
            Ok((!jobs.trim().is_empty()).then_some(jobs))
        })
    }

    /// Returns the output of one of Slurm's commands; empty if the controller does not answer yet.
    ///
    /// # Errors
    ///
    /// Fails if the command cannot be run.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let mut command = self.lab.control()?.command(program);
        let output = command
            .args(arguments)
            .output()
            .with_context(|| format!("running {program}"))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns the log of the controller, for `ctl`, or of the daemon and the steps of a node.
    ///
    /// # Errors
    ///
    /// Fails if there is no such node, or no log.
    pub fn log(&self, node: &str) -> Result<String> {
        self.lab.node(node)?.read(if node == CONTROL_NODE {
            CONTROLLER_LOG
        } else {
            NODE_LOG
        })
    }

    fn start_daemons(&self, node: &LabNode) -> Result<()> {
        for name in ["slurm.conf", "mpi.conf"] {
            let text = fs::read(self.lab.path(name)).with_context(|| format!("reading {name}"))?;
            node.write(Path::new("/etc/slurm").join(name), text)?;
        }
        let key = fs::read(self.lab.path("munge.key")).context("reading the key of munge")?;
        node.write("/etc/munge/munge.key", key)?;
        rustix::fs::chmod(
            node.path("/etc/munge/munge.key"),
            rustix::fs::Mode::from_raw_mode(0o400),
        )
        .context("protecting the key of munge")?;
        for directory in [
            "/run/munge",
            "/var/lib/munge",
            "/var/log/munge",
            "/var/log/slurm",
            "/var/spool/slurmd",
            "/var/spool/slurmctld",
        ] {
            let path = node.path(directory);
            fs::create_dir_all(&path).with_context(|| format!("creating {}", path.display()))?;
        }
        // It refuses to run as root otherwise.
        node.start_daemon(&["munged", "--force", "--num-threads=2"])?;
        let started = if node.name() == CONTROL_NODE {
            node.start_daemon(&[CONTROLLER])
        } else {
            node.start_daemon(&[DAEMON, "-N", node.name()])
        };
        started.with_context(|| self.log(node.name()).unwrap_or_default())
    }
}

/// Returns `slurm.conf`.
fn configuration(lab: &Lab, settings: &SlurmSettings) -> Result<String> {
    ensure!(
        lab.control()?.path("/usr/sbin").join(CONTROLLER).exists(),
        "the lab has no Slurm: run `cargo xtask prepare`, which unpacks its packages"
    );
    let SlurmSettings {
        tree_width,
        cpus,
        node_timeout,
        log_level,
        ..
    } = settings;
    let address_of_control = address(CONTROL_NODE);
    let mut text = format!(
        "\
ClusterName=peallab
SlurmctldHost={CONTROL_NODE}({address_of_control})
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile={CONTROLLER_LOG}
SlurmdLogFile={NODE_LOG}
SlurmctldDebug={log_level}
SlurmdDebug={log_level}
TmpFS=/tmp
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TreeWidth={tree_width}
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
PriorityType=priority/basic
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout={node_timeout}
SlurmctldTimeout=30
MessageTimeout=10
KillWait=2
UnkillableStepTimeout=30
InactiveLimit=0
WaitTime=0
MpiDefault=none
"
    );
    for node in lab.nodes().filter(|node| node.name() != CONTROL_NODE) {
        let name = node.name();
        let address = address(name);
        text += &format!("NodeName={name} NodeAddr={address} CPUs={cpus} State=UNKNOWN\n");
    }
    text += "PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
    Ok(text)
}

fn random_bytes() -> Result<[u8; 128]> {
    let mut bytes = [0; 128];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .context("asking the kernel for random bytes")?;
    Ok(bytes)
}
