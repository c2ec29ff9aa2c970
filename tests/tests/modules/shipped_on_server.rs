//! Guests that ship, under a real server: the results of their offline cases hold there, too.
use peal_needs::needs;
use peal_tests::{
    Done,
    daemon::{Daemon, Place},
    finish, guest, run, until,
};
use serde_json::Value;
use std::process::{Command, Stdio};

/// Returns `peal event`, which finds the servers of this directory.
fn event(place: &Place, daemon: &Daemon, args: &[&str]) -> Command {
    let mut command = daemon.verb(&[&["event"], args].concat());
    command
        .env("PMIX_SYSTEM_TMPDIR", place.path(""))
        .env_remove("PMIX_SERVER_URI");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn notify(place: &Place, daemon: &Daemon) -> Done {
    run(&mut event(place, daemon, &["notify", "-3001"]))
}

#[needs(prepared)]
#[test]
fn quota_holds_for_all_users_and_after_restart() {
    let place = Place::new();
    place.configure(&format!(
        "store.path = {:?}\n[[module]]\nname = \"quota\"\npath = {:?}\ngrants = [\"clock\", \"state\"]\n\
         config = {{ connection = 2, exempt = \"\" }}\n",
        place.path("store.db"),
        guest("quota"),
    ));
    let daemon = place.start();
    notify(&place, &daemon).expect_status(0);
    notify(&place, &daemon).expect_status(0);
    let refused = notify(&place, &daemon);
    assert_ne!(refused.status, Some(0), "{refused:?}");
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);
    let daemon = place.start();
    let refused = notify(&place, &daemon);
    assert_ne!(refused.status, Some(0), "the counts are kept: {refused:?}");
}

#[needs(prepared)]
#[test]
fn module_with_bad_settings_stops_server_start_with_reason() {
    let place = Place::new();
    let path = guest("maintenance-window");
    let module =
        format!("[[module]]\nname = \"maintenance\"\npath = {path:?}\ngrants = [\"clock\"]\n");
    place.configure(&format!("{module}config = {{ weekly = \"Someday\" }}\n"));
    let (mut command, _states) = place.serve("states");
    let done = run(&mut command).expect_status(125);
    assert!(
        done.stderr
            .contains("\"Someday\" in \"weekly\" is no window"),
        "{}",
        done.stderr
    );
    assert!(done.stderr.contains("peal.toml:5:"), "{}", done.stderr);
}

#[needs(prepared)]
#[test]
fn connections_during_maintenance_are_refused_unless_exempt() {
    let uid = rustix::process::getuid().as_raw().to_string();
    for (exempt, may) in [("", false), (uid.as_str(), true)] {
        let place = Place::new();
        let path = guest("maintenance-window");
        let module =
            format!("[[module]]\nname = \"maintenance\"\npath = {path:?}\ngrants = [\"clock\"]\n");
        place.configure(&format!(
            "{module}config = {{ weekly = \"daily 00:00-24:00\", exempt = {exempt:?} }}\n"
        ));
        let daemon = place.start();
        assert_eq!(notify(&place, &daemon).status == Some(0), may, "{exempt}");
    }
}

#[needs(prepared)]
#[test]
fn repeated_event_raises_the_configured_event() {
    let place = Place::new();
    place.configure(&format!(
        "[[module]]\nname = \"escalate\"\npath = {:?}\ngrants = [\"clock\", \"notify\"]\n\
         config = {{ codes = -3001, count = 3, by = \"all\", into = -3100 }}\n",
        guest("escalate"),
    ));
    let daemon = place.start();
    let mut watch = event(
        &place,
        &daemon,
        &["watch", "-3100", "-o", "json", "--count", "1"],
    )
    .spawn()
    .unwrap();
    // The watcher may not be connected yet. If so, it receives the next three events.
    until("three events cause another one", || {
        notify(&place, &daemon).expect_status(0);
        watch.try_wait().unwrap().is_some()
    });
    let seen: Value = serde_json::from_str(&finish(watch).expect_status(0).stdout).unwrap();
    let info = |key: &str| {
        seen["infos"]
            .as_array()
            .unwrap()
            .iter()
            .find(|info| info["key"] == key)
            .unwrap()["value"]
            .clone()
    };
    assert_eq!(
        (&seen["code"]["number"], info("peal.escalate.count")),
        (&(-3100).into(), 3.into()),
        "{seen}"
    );
}
