//! Labs: several nodes on one machine, made of namespaces, with Slurm or Open MPI's `mpirun` on them.
//!
//! A lab is a PID namespace with one first process. It lives as long as the process that started it: when that
//! process drops the [`Lab`] or ends for any reason, the kernel ends all processes of the lab, and with them
//! go its mounts, networks and files. The machine's own network and file system are not changed.
mod cluster;
mod lab;
mod libraries;
mod mpirun;
mod node;
mod setup;
mod slurm;
mod state;

pub use cluster::{COMMAND, CONFIG, ClusterOptions, ClusterPrograms, SlurmCluster};
pub use lab::{CONTROL_NODE, Lab, wait_until};
pub use libraries::{ClientLibrary, LabLibraries, ServerLibrary};
pub use mpirun::MpirunLab;
pub use node::LabNode;
pub use setup::{LabSetup, MAX_NODES, NodeMount};
pub use slurm::{SlurmLab, SlurmSettings};
pub use state::{DetachedLab, LabLauncher};
