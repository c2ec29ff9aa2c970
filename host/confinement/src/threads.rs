//! Count of the threads of this process.
use procfs_core::{
    FromRead,
    process::{Stat, StatFlags},
};
use std::{
    fs::{self, DirEntry, File},
    io,
};

/// Returns the number of threads of this process that run code of programs.
///
/// The kernel lists a thread for a moment after it has ended, also if another one has waited for its end.
///
/// # Errors
///
/// Fails if the list of threads cannot be read.
pub fn count() -> io::Result<usize> {
    let tasks: Vec<DirEntry> = fs::read_dir("/proc/self/task")?.collect::<io::Result<_>>()?;
    let running = tasks.iter().filter(|task| !has_ended(task));
    Ok(running.count())
}

fn has_ended(task: &DirEntry) -> bool {
    match File::open(task.path().join("stat")) {
        Ok(stat) => Stat::from_read(stat).is_ok_and(|stat| {
            StatFlags::from_bits_truncate(stat.flags).contains(StatFlags::PF_EXITING)
        }),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}
