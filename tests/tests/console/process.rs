//! The process of the console under a supervised server.
use crate::{
    http::get,
    site::{VIEWER, free_address, settings},
};
use peal_needs::needs;
use peal_tests::{
    daemon::{Place, SERVER_UID},
    until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, net::TcpStream};

#[needs(prepared, root)]
#[test]
fn console_is_confined_and_is_started_again() {
    let (place, address) = (Place::of_server_user(), free_address());
    let console = settings(&place, address);
    place.configure_supervised(&console);
    let daemon = place.start();
    let console = || daemon.child("console");
    let first = console().unwrap();
    let status = fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap().trim().to_owned()
    };
    assert!(
        value("Uid:").starts_with(&SERVER_UID.to_string()),
        "{status}"
    );
    assert_eq!(value("CapEff:"), "0000000000000000");
    assert_eq!(
        (value("NoNewPrivs:"), value("Seccomp:")),
        ("1".into(), "2".into())
    );
    let page = || get("/").with("authorization", format!("Bearer {VIEWER}"));
    page().send(address).expect(200);
    kill_process(Pid::from_raw(first.cast_signed()).unwrap(), Signal::KILL).unwrap();
    until("another console answers", || {
        console().is_some_and(|pid| pid != first) && TcpStream::connect(address).is_ok()
    });
    page().send(address).expect(200);
    // The console ends with its server.
    drop(daemon);
    until("nothing listens", || TcpStream::connect(address).is_err());
}
