//! CPU times of users' processes, as the kernel counts them.
use peal_system::process::{ProcessId, RunningProcess};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// CPU times of the processes of each user, since the start of the server.
#[derive(Clone, Debug, Default)]
pub struct GuestCpuTimes(Arc<Mutex<BTreeMap<u32, UserCpuTime>>>);

/// CPU time of the processes of one user, one after the other.
#[derive(Debug, Default)]
struct UserCpuTime {
    /// Time of the processes before the current one.
    before: Duration,
    /// Time of the current process when it was last read.
    current: Duration,
    process: Option<ProcessId>,
}

impl UserCpuTime {
    /// Reads the time of the current process. One that has ended keeps the last time that was read.
    fn read(&mut self) -> Duration {
        let time = self.process.and_then(ProcessId::cpu_time);
        self.current = self.current.max(time.unwrap_or_default());
        self.before.saturating_add(self.current)
    }
}

impl GuestCpuTimes {
    /// Follows another process of a user, after the one before it.
    pub(crate) fn begin(&self, uid: u32, pid: u32) {
        let mut users = self.lock();
        let own = users.entry(uid).or_default();
        own.before = own.read();
        own.current = Duration::ZERO;
        own.process = RunningProcess::of(pid).map(|process| process.id);
    }

    /// Returns the CPU time of each user.
    pub fn by_user(&self) -> Vec<(u32, Duration)> {
        let mut users = self.lock();
        users
            .iter_mut()
            .map(|(uid, own)| (*uid, own.read()))
            .collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, UserCpuTime>> {
        // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn times_of_processes_add_up_and_stay_after_their_end() {
        let times = GuestCpuTimes::default();
        let of_user = |times: &GuestCpuTimes| match times.by_user().as_slice() {
            [(7, time)] => *time,
            other => panic!("{other:?}"),
        };
        let mut before = Duration::ZERO;
        for _ in 0..2 {
            let mut busy = Command::new("sh")
                .args(["-c", "while :; do :; done"])
                .stdin(Stdio::null())
                .spawn()
                .unwrap();
            times.begin(7, busy.id());
            while of_user(&times) < before + Duration::from_millis(50) {
                std::thread::yield_now();
            }
            busy.kill().unwrap();
            busy.wait().unwrap();
            let after = of_user(&times);
            assert!(after >= before + Duration::from_millis(50));
            before = after;
        }
        assert_eq!(of_user(&times), before, "it stays");
    }
}
