//! A user is not taken for another user whose next connection comes from the same port.
use super::{ATTACKER, VICTIM, attack_within};
use peal_needs::needs;
use peal_tests::{
    attacks::port_reuse::FORGED,
    daemon::{Daemon, Place, wrapped},
    finish, run, run_within,
};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::Duration,
};

/// Time limit of an attack on a busy machine.
const ATTACK: Duration = Duration::from_secs(180);

/// Number of connections of the attacker and of the victim.
const TRIES: u32 = 4000;

/// Time within which an event is printed; otherwise it is raised again.
const SOON: Duration = Duration::from_secs(2);

/// Starts a server in a network of its own, in which the kernel assigns few ports.
fn server(place: &Place) -> Daemon {
    let ports = "echo 40000 40063 > /proc/sys/net/ipv4/ip_local_port_range";
    place.start_under(|serve| {
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "sh",
            "-c",
            &format!("ip link set lo up && {ports} && exec \"$@\""),
            "sh",
        ]);
        wrapped(command, &serve)
    })
}

/// Administrator that watches the code of the forged event.
struct EventWatcher {
    child: Child,
    lines: Receiver<String>,
}

impl EventWatcher {
    fn start(daemon: &Daemon) -> EventWatcher {
        let mut watch = daemon.verb(&["event", "watch", &FORGED.0.to_string(), "-o", "json"]);
        let mut child = watch.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| tell.send(line))
        });
        EventWatcher { child, lines: told }
    }

    /// Returns the source of the next event, if there is one soon.
    fn next_source(&self) -> Option<String> {
        let event: Value = serde_json::from_str(&self.lines.recv_timeout(SOON).ok()?).unwrap();
        assert_eq!(event["code"]["number"], FORGED.0);
        Some(event["source"].as_str().unwrap().to_owned())
    }
}

impl Drop for EventWatcher {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[needs(prepared, root, networks, socket_diagnosis)]
#[test]
fn reused_port_gives_attacker_no_other_user() {
    let place = Place::new();
    let daemon = server(&place);
    let address = super::address(&daemon);
    let attack = |uid, args: &[&str]| attack_within(daemon.pid(), uid, args);
    let watcher = EventWatcher::start(&daemon);
    // The victim may raise the event as its own user. The first event may come before the watcher
    // is ready.
    let raise = |name| drop(run(&mut attack(VICTIM, &["raise", &address, name])).expect_status(0));
    let seen = (0..20).find_map(|_| {
        raise("before");
        watcher.next_source()
    });
    assert_eq!(seen.as_deref(), Some("before:0"));

    let tries = &TRIES.to_string();
    let mut attacker = attack(
        ATTACKER,
        &["port-reuse", &address, &VICTIM.to_string(), tries],
    );
    let attacking = attacker.spawn().unwrap();
    let connected = run_within(ATTACK, &mut attack(VICTIM, &["connect", &address, tries]));
    let attacked = finish(attacking).expect_status(0);
    connected.expect_status(0);
    let claims: u32 = attacked.stdout.trim().parse().unwrap();
    assert!(
        claims >= TRIES,
        "connections that claimed another user: {claims}"
    );
    raise("after");
    let sources: Vec<String> = std::iter::from_fn(|| watcher.next_source())
        .take_while(|name| name != "after:0")
        .collect();
    assert!(
        sources.iter().all(|source| source == "before:0"),
        "{} events were forged",
        sources.len()
    );
}
