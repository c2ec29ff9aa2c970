//! Open MPI's `mpirun` in a lab. It starts its daemons on the other nodes without ssh.
use crate::{
    CONTROL_NODE, Lab, LabSetup, ServerLibrary, lab::LabLifetime, setup::SERVER_DIRECTORY,
};
use anyhow::{Context, Result};
use std::{ffi::OsStr, fs, process::Command};

/// Number of procs that a node takes.
const SLOTS: u32 = 32;

/// List of nodes, for `mpirun`.
const HOST_FILE: &str = "/run/lab/hostfile";

/// Options by which `mpirun` and its daemons use the network of the lab and start without ssh.
const OPTIONS: [&str; 18] = [
    "--allow-run-as-root",
    "--hostfile",
    HOST_FILE,
    "--mca",
    "plm",
    "rsh",
    "--mca",
    "plm_rsh_agent",
    "/run/lab/agent.sh",
    "--mca",
    "plm_rsh_no_tree_spawn",
    "1",
    "--mca",
    "btl_tcp_if_include",
    "eth0",
    "--mca",
    "oob_tcp_if_include",
    "eth0,br0",
];

/// Lab for `mpirun` of the installed Open MPI.
#[derive(Debug)]
pub struct MpirunLab {
    /// Nodes on which procs run.
    pub lab: Lab,
}

impl MpirunLab {
    /// Starts the nodes.
    ///
    /// # Errors
    ///
    /// Says which step failed.
    pub fn start(setup: LabSetup) -> Result<MpirunLab> {
        MpirunLab::start_for(setup, LabLifetime::OfItsStarter)
    }

    pub(crate) fn start_for(setup: LabSetup, lifetime: LabLifetime) -> Result<MpirunLab> {
        let lab = Lab::start_for(setup, lifetime)?;
        let names = lab.nodes().map(|node| node.name());
        let lines: String = names
            .filter(|name| *name != CONTROL_NODE)
            .map(|name| format!("{name} slots={SLOTS}\n"))
            .collect();
        fs::write(lab.path("hostfile"), lines).context("writing the list of nodes")?;
        Ok(MpirunLab { lab })
    }

    /// Returns `mpirun` with more options and a program, on the node with the launcher. `mpirun` and its daemons use the
    /// server library of the lab, the program the client library.
    ///
    /// # Errors
    ///
    /// Fails if the node with the launcher is gone.
    pub fn mpirun<O: AsRef<OsStr>, P: AsRef<OsStr>>(
        &self,
        options: impl IntoIterator<Item = O>,
        program: impl IntoIterator<Item = P>,
    ) -> Result<Command> {
        let libraries = self.lab.libraries();
        let mut command = self.lab.control()?.command("env");
        match libraries.server {
            ServerLibrary::Stock => command.args(["-u", "LD_LIBRARY_PATH"]),
            ServerLibrary::File(_) => command.arg(format!("LD_LIBRARY_PATH={SERVER_DIRECTORY}")),
        };
        command
            .arg("mpirun")
            .args(OPTIONS)
            .args(options)
            .args(libraries.client.words())
            .args(program);
        Ok(command)
    }
}
