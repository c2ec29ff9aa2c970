//! The process of the console under a supervised server.
use crate::{
    http::get,
    site::{VIEWER, console_address, settings},
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
    let place = Place::of_server_user();
    place.configure_supervised(&settings(&place));
    let mut daemon = place.start();
    let address = console_address(&mut daemon);
    let first = daemon.child("console").unwrap();
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
    let address = console_address(&mut daemon);
    assert_ne!(daemon.child("console"), Some(first));
    page().send(address).expect(200);
    // The console ends with its server.
    drop(daemon);
    until("nothing listens", || TcpStream::connect(address).is_err());
}
