//! Jobs over several nodes under real launchers: Slurm and `mpirun`. Each test has nodes of its own.
mod leftovers;
mod mpirun;
mod peal_cluster;
mod peal_mpirun;
mod peal_nodes;
mod peal_slurm;
mod peal_slurm_faults;
mod peal_slurm_site;
mod peal_upgrade;
mod placement;
mod probes;
mod slurm;
