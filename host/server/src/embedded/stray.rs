//! Leaves no process behind: what a proc started, and what of it got away from its process group.
use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper, waitpid};

/// Makes orphans of our procs our own children, so that they can be found.
pub(crate) fn adopt_orphans() {
    if let Err(error) = set_child_subreaper(Some(rustix::process::getpid())) {
        tracing::warn!(%error, "orphans of procs cannot be adopted: some may outlive their job");
    }
}

/// Sends a signal to a proc and all that stayed in its process group.
pub(crate) fn signal_group(leader: u32, signal: Signal) {
    let Some(group) = pid(leader) else { return };
    match kill_process_group(group, signal) {
        // A group that has ended needs no signal.
        Ok(()) | Err(rustix::io::Errno::SRCH) => {}
        Err(error) => tracing::warn!(leader, ?signal, %error, "cannot signal a process group"),
    }
}

/// Reaps orphans that have ended by themselves; these procs are waited for elsewhere.
pub(crate) fn reap_orphans(procs: &[u32]) {
    let ours: Vec<Pid> = procs.iter().filter_map(|number| pid(*number)).collect();
    for orphan in children().into_iter().filter(|child| !ours.contains(child)) {
        // One that still runs is left alone.
        let _ = waitpid(Some(orphan), WaitOptions::NOHANG);
    }
}

/// Kills and reaps our children, until there are none. Blocks. Only to be called when no proc is left: then every child is an orphan.
pub(crate) fn kill_orphans() {
    loop {
        let children = children();
        if children.is_empty() {
            return;
        }
        for child in children {
            // A child that has ended by itself is reaped all the same.
            let _ = kill_process(child, Signal::KILL);
            let _ = waitpid(Some(child), WaitOptions::empty());
        }
    }
}

fn children() -> Vec<Pid> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let lists = tasks.flatten().filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_whitespace().filter_map(|word| pid(word.parse().ok()?)).collect::<Vec<_>>())
        .collect()
}

fn pid(number: u32) -> Option<Pid> {
    i32::try_from(number).ok().and_then(Pid::from_raw)
}
