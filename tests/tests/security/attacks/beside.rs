//! An attacker that stays while victims are measured, and what they and the server say meanwhile.
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

/// The time that an attacker, or a victim, may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A connection that takes no longer counts as undisturbed, whatever it takes without an attack, in microseconds. The attacker
/// takes a core, and the machine may be busy with other tests. `cargo xtask bench attack` has the ratio.
const UNDISTURBED: u64 = 1_000_000;

/// `peal-attack` as the attacker; killed when it is dropped.
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

    /// The next line that it prints.
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

/// Connects so many times as a tool of this user; all of them must be admitted.
#[track_caller]
pub fn connected(uid: u32, address: &str, times: u32) -> MeasuredTimes {
    let mut connect = attack_beside(uid, &["connect", address, &times.to_string()]);
    MeasuredTimes::of(&run_within(PATIENCE, &mut connect).expect_status(0).stdout)
}

/// True if half of the connections took no longer than twice what half of them took before.
pub fn is_undisturbed(during: MeasuredTimes, before: MeasuredTimes) -> bool {
    during.median <= (2 * before.median).max(UNDISTURBED)
}

/// The memory that the server takes, in bytes.
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

/// A number of `peal stats`, nothing where it is not shown.
pub fn stat(daemon: &Daemon, family: &str, labels: &[(&str, &str)]) -> u64 {
    let stats: Value = serde_json::from_str(&daemon.tell(&["stats", "--json"])).unwrap();
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

/// The attacker's usage of something, by `peal stats`.
pub fn attackers(daemon: &Daemon, resource: &str) -> u64 {
    stat(
        daemon,
        "peal_user_usage",
        &[("resource", resource), ("uid", &ATTACKER.to_string())],
    )
}
