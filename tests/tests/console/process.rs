//! The process of the console under a supervised server.
use crate::{
    http::get,
    site::{VIEWER, console_address, settings, settings_at, write_secret},
};
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place, SERVER_UID},
    finish,
    processes::nice,
    until,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::ErrorKind,
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

/// Has another process go on with a server, and waits until it is ready.
#[track_caller]
fn handed_over(place: &Place, old: Daemon) -> Daemon {
    let new = place.start_under(|mut serve| {
        serve.arg("--continue");
        serve
    });
    old.ends().expect_status(0);
    new
}

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
    // It yields to the server, which has a raised priority, and to procs.
    assert_eq!(nice(first), Some(10));
    let page = || get("/").with("authorization", format!("Bearer {VIEWER}"));
    page().send(address).expect(200);
    kill_process(Pid::from_raw(first.cast_signed()).unwrap(), Signal::KILL).unwrap();
    until("another console runs", || {
        let bound = TcpListener::bind(address).map_err(|error| error.kind());
        assert_eq!(bound.map(drop), Err(ErrorKind::AddrInUse));
        daemon.child("console").is_some_and(|pid| pid != first)
    });
    page().send(address).expect(200);
    // The console ends with its server.
    drop(daemon);
    until("nothing listens", || TcpStream::connect(address).is_err());
}

#[needs(prepared)]
#[test]
fn address_is_never_free_while_another_process_goes_on() {
    let place = Place::new();
    place.configure(&settings(&place));
    let mut old = place.start();
    let address = console_address(&mut old);
    place.configure(&settings_at(&place, address));
    let page = || get("/").with("authorization", format!("Bearer {VIEWER}"));
    page().send(address).expect(200);
    let ends = Arc::new(AtomicBool::new(false));
    let watched = {
        let ends = ends.clone();
        thread::spawn(move || {
            let is_over = || ends.load(Ordering::Relaxed);
            while !is_over() && TcpListener::bind(address).is_err() {}
            is_over()
        })
    };
    let new = handed_over(&place, old);
    page().send(address).expect(200);
    ends.store(true, Ordering::Relaxed);
    assert!(watched.join().unwrap(), "{address} was free");
    // It listened beside the old one.
    new.tell(&["stop", "--yes"]);
    let told = new.ends().stderr;
    assert!(!told.contains("does not listen yet"), "{told}");
}

#[needs(prepared)]
#[test]
fn address_in_use_ends_no_server_that_another_process_has() {
    let place = Place::new();
    let old = place.start();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    place.configure(&settings_at(&place, address));
    let new = handed_over(&place, old);
    new.tell(&["status"]);
    drop(taken);
    until("the console listens", || {
        TcpStream::connect(address).is_ok()
    });
    let page = get("/").with("authorization", format!("Bearer {VIEWER}"));
    page.send(address).expect(200);
}

#[needs(prepared)]
#[test]
fn unusable_token_leaves_the_server_where_it_is() {
    let place = Place::new();
    let old = place.start();
    place.configure(&settings(&place));
    write_secret(&place, "token", "guess");
    for (at, option) in ["--check", "--continue"].into_iter().enumerate() {
        let (mut serve, _states) = place.serve(&format!("refused-{at}"));
        let done = finish(serve.arg(option).spawn().unwrap());
        assert_ne!(done.status, Some(0), "{option}: {done:?}");
        assert!(done.stderr.contains("less than 16 bytes"), "{done:?}");
    }
    old.tell(&["status"]);
}
