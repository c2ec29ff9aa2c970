//! An attacker that stays while victims are measured, and the measurements of the victims and the
//! server.
use super::{ATTACKER, MeasuredTimes, attack_beside};
use peal_tests::{daemon::Daemon, finish, run_within};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    process::Child,
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// Time limit of an attacker, or a victim, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Time in microseconds below which a connection counts as undisturbed, regardless of its time
/// without an attack. The attacker uses a core, and the machine may be busy with other tests.
/// `cargo xtask bench attack` measures the ratio.
const UNDISTURBED: u64 = 1_000_000;

/// `peal-attack` as the attacker. It is killed when it is dropped.
pub struct Attacker {
    child: Option<Child>,
    lines: Receiver<String>,
}

impl Attacker {
    pub fn start(args: &[&str]) -> Attacker {
        let mut child = attack_beside(ATTACKER, args).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, lines_told) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        Attacker {
            child: Some(child),
            lines: lines_told,
        }
    }

    /// True if it has not ended.
    pub fn is_running(&mut self) -> bool {
        let child = self.child.as_mut().unwrap();
        child.try_wait().unwrap().is_none()
    }

    /// Returns the next line that it prints.
    #[track_caller]
    pub fn line(&mut self) -> String {
        match self.lines.recv_timeout(PATIENCE) {
            Ok(line) => line,
            Err(error) => {
                let mut child = self.child.take().unwrap();
                let _ = child.kill();
                panic!("{error}: {:?}", finish(child));
            }
        }
    }
}

impl Drop for Attacker {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Connects this number of times as a tool of this user. The server must admit all of them.
#[track_caller]
pub fn connected(uid: u32, address: &str, times: u32) -> MeasuredTimes {
    let mut connect = attack_beside(uid, &["connect", address, &times.to_string()]);
    MeasuredTimes::of(&run_within(PATIENCE, &mut connect).expect_status(0).stdout)
}

/// True if half of the connections took no longer than twice the median time before.
pub fn is_undisturbed(during: MeasuredTimes, before: MeasuredTimes) -> bool {
    during.median <= (2 * before.median).max(UNDISTURBED)
}

/// Returns the memory of the server in bytes.
pub fn memory(daemon: &Daemon) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim()
        .strip_suffix(" kB")
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}

/// Returns a number of `peal stats`, or 0 if it is not shown.
pub fn stat(daemon: &Daemon, family: &str, labels: &[(&str, &str)]) -> u64 {
    let stats: Value = serde_json::from_str(&daemon.tell(&["stats", "-o", "json"])).unwrap();
    let families = stats["families"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|known| known["name"] == family);
    let mut samples = families.flat_map(|family| family["samples"].as_array().unwrap());
    let found = samples.find(|sample| {
        labels
            .iter()
            .all(|(name, value)| sample["labels"][*name] == *value)
    });
    found.map_or(0, |sample| sample["value"].as_u64().unwrap())
}

/// Returns the attacker's usage of a resource from `peal stats`.
pub fn attackers(daemon: &Daemon, resource: &str) -> u64 {
    stat(
        daemon,
        "peal_user_usage",
        &[("resource", resource), ("uid", &ATTACKER.to_string())],
    )
}
