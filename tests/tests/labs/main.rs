//! Jobs over several nodes under real launchers: Slurm and `mpirun`. Each test has nodes of its own.
mod leftovers;
mod mpirun;
mod peal_slurm;
mod placement;
mod slurm;
