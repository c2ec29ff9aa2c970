//! Tests of what a confined process can still reach. One process without a test harness, because a
//! confinement cannot be undone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may fail, and this one prints its own results"
)]
use peal_confinement::{Confinement, EnforcementLevel};
use rustix::{
    mount::{MountFlags, mount},
    net::{AddressFamily, SocketFlags, SocketType, netlink, socket, socket_with},
};
use std::{
    collections::BTreeSet,
    fs,
    io::{self, ErrorKind},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::unix::fs::{chroot, symlink},
    path::Path,
    process::{Command, ExitCode},
    thread,
};

fn main() -> ExitCode {
    if std::env::args().any(|argument| argument == "--list") {
        println!("raised: test");
        return ExitCode::SUCCESS;
    }
    let dir = tempfile::tempdir().unwrap();
    let read = dir.path().join("read");
    let write = dir.path().join("write");
    let other = dir.path().join("other");
    let remove = dir.path().join("remove");
    for dir in [&read, &write, &remove, &other] {
        fs::create_dir(dir).unwrap();
        fs::write(dir.join("file"), "text").unwrap();
    }
    symlink(&other, read.join("out")).unwrap();
    let open = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let shut = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let open_port = open.local_addr().unwrap().port();
    let shut_port = shut.local_addr().unwrap().port();

    late();
    // Before it, all of that can be done.
    refusals(&other, shut_port)
        .iter()
        .for_each(|(what, done)| assert!(done.is_ok(), "{what} before: {done:?}"));

    let mine = BTreeSet::from(["/proc".into(), read.clone(), dir.path().join("missing")]);
    let wall = Confinement {
        read: mine,
        write: BTreeSet::from([write.clone()]),
        remove: BTreeSet::from([remove.clone()]),
        connect: BTreeSet::from([open_port]),
    };
    let raised = wall.enforce().unwrap();
    println!("files {:?}, calls {:?}", raised.files, raised.calls);
    if (raised.files, raised.calls) != (EnforcementLevel::Full, EnforcementLevel::Full) {
        println!("test raised ... ignored, needs a kernel with Landlock and seccomp");
        return ExitCode::SUCCESS;
    }
    for (what, done) in refusals(&other, shut_port) {
        let refused = done.expect_err(what);
        assert_eq!(
            refused.kind(),
            ErrorKind::PermissionDenied,
            "{what}: {refused}"
        );
    }
    // Nor can what comes later.
    let later = thread::spawn(move || {
        refusals(&other, shut_port)
            .iter()
            .all(|(_, done)| done.is_err())
    });
    assert!(later.join().unwrap());

    assert_eq!(fs::read_to_string(read.join("file")).unwrap(), "text");
    assert_eq!(fs::read_dir(&read).unwrap().count(), 2);
    assert!(fs::write(read.join("file"), "changed").is_err());
    assert!(fs::read(read.join("out/file")).is_err(), "a link leads out");
    assert!(raised.can_read(&read.join("not/yet/there")) && !raised.can_write(&read.join("file")));
    assert!(!raised.can_read(&read.join("out/file")) && !raised.can_read(Path::new("/etc/shadow")));

    fs::write(write.join("file"), "changed").unwrap();
    fs::create_dir(write.join("sub")).unwrap();
    fs::rename(write.join("file"), write.join("sub/file")).unwrap();
    fs::remove_dir_all(write.join("sub")).unwrap();
    assert!(raised.can_write(&write.join("new")) && raised.can_read(&write.join("new")));

    assert!(
        fs::read(remove.join("file")).is_err()
            && fs::write(remove.join("file"), "changed").is_err()
    );
    assert!(fs::create_dir(remove.join("sub")).is_err());
    assert_eq!(fs::read_dir(&remove).unwrap().count(), 1);
    fs::remove_file(remove.join("file")).unwrap();

    TcpStream::connect((Ipv4Addr::LOCALHOST, open_port)).unwrap();
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let kind = Some(netlink::SOCK_DIAG);
    socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::empty(),
        kind,
    )
    .unwrap();
    println!("test raised ... ok");
    ExitCode::SUCCESS
}

/// A process is not confined while it has several threads.
fn late() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let other = thread::spawn(move || ended.recv().is_err());
    let error = Confinement::default().enforce().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a process can only be confined while it has one thread; this one has 2"
    );
    drop(end);
    other.join().unwrap();
    // The kernel may count it for a moment longer.
    while fs::read_dir("/proc/self/task").unwrap().count() > 1 {
        thread::yield_now();
    }
}

/// Attempts of an attacker in the process, and their results.
fn refusals(other: &Path, port: u16) -> Vec<(&'static str, io::Result<()>)> {
    let mut tried = vec![
        ("reads a file", fs::read(other.join("file")).map(drop)),
        ("lists a directory", fs::read_dir(other).map(drop)),
        ("writes a file", fs::write(other.join("file"), "text")),
        (
            "makes a file",
            fs::write(other.join("new"), "text").and_then(|()| fs::remove_file(other.join("new"))),
        ),
        (
            "runs a program",
            Command::new("/bin/true").status().map(drop),
        ),
        (
            "connects",
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map(drop),
        ),
    ];
    if rustix::process::geteuid().is_root() {
        let packets = socket(AddressFamily::PACKET, SocketType::RAW, None).map(drop);
        let bind = mount(other, other, "none", MountFlags::BIND, None);
        tried.push(("reads packets", packets.map_err(io::Error::from)));
        tried.push(("mounts", bind.map_err(io::Error::from)));
        tried.push(("changes its root", chroot("/")));
        let _ = rustix::mount::unmount(other, rustix::mount::UnmountFlags::empty());
    }
    tried
}
