//! Attacks by unprivileged users on `peal serve`. Each is a program that runs as another user,
//! beside a victim that must not notice it.
mod beside;
mod borrowed_groups;
mod decision_flood;
mod forwarded;
mod held_resources;
mod job_records;
mod large_components;
mod log_flood;
mod many_tools;
mod parked_values;
mod partial_frames;
mod port_reuse;
mod refusal_pace;
mod silent_sockets;
mod trail_flood;
mod trail_secrets;

use peal_tests::{daemon::Daemon, program};
use std::process::{Command, Stdio};

/// Users: the attacker and the victim.
const ATTACKER: u32 = 65_531;
const VICTIM: u32 = 65_532;

/// Returns `peal-attack` with these arguments as a user, not started yet.
fn attack_beside(uid: u32, args: &[&str]) -> Command {
    attack_by(Command::new("setpriv"), uid, args)
}

/// Returns `peal-attack` in the network namespace of a process.
fn attack_within(network: u32, uid: u32, args: &[&str]) -> Command {
    let mut command = Command::new("nsenter");
    command
        .arg("--target")
        .arg(network.to_string())
        .args(["--net", "setpriv"]);
    attack_by(command, uid, args)
}

fn attack_by(mut setpriv: Command, uid: u32, args: &[&str]) -> Command {
    setpriv
        .args([format!("--reuid={uid}"), format!("--regid={uid}")])
        .arg("--clear-groups");
    setpriv.arg(program("peal-attack")).args(args);
    setpriv
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    setpriv
}

/// Times that a victim measured, in microseconds.
#[derive(Clone, Copy, Debug)]
struct MeasuredTimes {
    median: u64,
    longest: u64,
}

impl MeasuredTimes {
    /// Parses the times that `peal-attack` printed.
    #[track_caller]
    fn of(printed: &str) -> MeasuredTimes {
        let time = |name: &str| {
            let lines = printed.lines().filter_map(|line| line.split_once(' '));
            lines
                .filter(|line| line.0 == name)
                .find_map(|(_, time)| time.parse().ok())
        };
        let (Some(median), Some(longest)) = (time("median_us"), time("longest_us")) else {
            panic!("{printed}")
        };
        MeasuredTimes { median, longest }
    }
}

/// Registers a job of 16 procs for a user.
fn register(daemon: &Daemon, job: &str, uid: u32) {
    let uid = uid.to_string();
    daemon.tell(&[
        "job", "register", job, "-n", "16", "--uid", &uid, "--gid", &uid,
    ]);
}

/// Returns the address and port of a server. Both users have a job there from then on, so that
/// tools of other users are refused.
fn address(daemon: &Daemon) -> String {
    for user in [ATTACKER, VICTIM] {
        register(daemon, &format!("job-of-{user}"), user);
    }
    address_of(daemon)
}

/// Returns the address and port of a server that has the victim's job.
fn address_of(daemon: &Daemon) -> String {
    let environment = daemon.environment(&format!("job-of-{VICTIM}"), 0);
    let (_, uri) = environment
        .iter()
        .find(|(name, _)| name == "PMIX_SERVER_URI41")
        .unwrap();
    uri.split_once("tcp4://").unwrap().1.to_owned()
}
