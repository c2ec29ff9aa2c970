//! Attacks from inside the confinement of each role, and uses that it must allow. Each role is
//! confined in a process of its own, which this program starts. Every attack succeeds before the
//! confinement, so that its failure afterwards shows the confinement.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may fail, and this one prints its own results"
)]
use peal_confinement::{ActiveConfinement, Confinement, EnforcementLevel, OwnProgram, ProcessRole};
use rustix::{
    fd::OwnedFd,
    fs::{CWD, FileType, Mode, OFlags, ResolveFlags, XattrFlags},
    mount::{MountFlags, UnmountFlags},
    net::{
        AddressFamily, Protocol, SocketFlags, SocketType, ipproto, netlink, socket, socket_with,
    },
    process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, Uid},
    thread::CapabilitySet,
};
use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions, Permissions},
    io::{self, ErrorKind, Read, Seek, Write},
    net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket},
    os::{
        fd::AsFd,
        linux::net::SocketAddrExt,
        unix::{
            fs::{OpenOptionsExt, PermissionsExt, chown, chroot, symlink},
            net::{SocketAddr, UnixListener, UnixStream},
            process::ExitStatusExt,
        },
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
};

/// Exit status of a role on a kernel that lacks a measure.
const UNSUPPORTED: u8 = 77;
/// Sockets of the kernel's ciphers.
const ALG: AddressFamily = AddressFamily::from_raw(38);
/// User in the place of any other user.
const OTHER_USER: u32 = 54_321;
/// Devices with data of the machine; some machines lack some of them.
const RAW_DEVICES: [&str; 5] = [
    "/dev/loop0",
    "/dev/mem",
    "/dev/kmsg",
    "/dev/sda",
    "/dev/vda",
];

/// Things outside of a confined process.
struct Surroundings {
    dir: PathBuf,
    /// Port to which the server may connect.
    open_port: u16,
    /// Port to which it may not.
    shut_port: u16,
    /// Process that is not confined.
    outsider: u32,
}

impl Surroundings {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    fn outsider(&self) -> Pid {
        Pid::from_raw(self.outsider.cast_signed()).unwrap()
    }

    /// Returns the address of the outsider's abstract socket.
    fn abstract_socket(&self) -> SocketAddr {
        SocketAddr::from_abstract_name(format!("peal-roles-{}", self.outsider)).unwrap()
    }
}

/// Attempt of an attacker in a process.
struct Attack {
    name: &'static str,
    run: fn(&Surroundings) -> io::Result<()>,
    /// Roles in which it succeeds.
    allowed: &'static [ProcessRole],
    /// Requirement for its success before the confinement.
    requires: Requirement,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Requirement {
    Nothing,
    Root,
    /// A device or file system that not every machine has.
    Machine,
}

use ProcessRole::{
    ArtifactFetcher, AuditSigner, CallReplay, Compilation, CompilerParent, Console,
    PrivilegedHelper, Server, Supervisor, TenantRuntime,
};
use Requirement::{Machine, Nothing, Root};

/// Attacks of all roles.
#[expect(
    deprecated,
    reason = "the successor of `unshare` is unsafe; this flag of it harms no memory"
)]
const ATTACKS: &[Attack] = &[
    attack(
        "reads a file",
        Nothing,
        &[Supervisor, PrivilegedHelper],
        |at| fs::read(at.path("other/file")).map(drop),
    ),
    attack(
        "lists a directory",
        Nothing,
        &[Supervisor, PrivilegedHelper],
        |at| fs::read_dir(at.path("other")).map(drop),
    ),
    attack("writes a file", Nothing, &[Supervisor], |at| {
        fs::write(at.path("other/file"), "text")
    }),
    attack("makes a file", Nothing, &[Supervisor], |at| {
        let path = at.path("other/new");
        fs::write(&path, "text").and_then(|()| fs::remove_file(path))
    }),
    attack("runs another program", Nothing, &[Supervisor], |_| {
        let status = Command::new("/bin/true").status()?;
        status
            .success()
            .then_some(())
            .ok_or_else(|| io::Error::other(format!("{status}")))
    }),
    attack("makes a program set-user-ID", Nothing, &[], |at| {
        fs::set_permissions(at.path("write/file"), Permissions::from_mode(0o4755))
    }),
    attack("makes an open program set-group-ID", Nothing, &[], |at| {
        let file = File::open(at.path("write/file"))?;
        file.set_permissions(Permissions::from_mode(0o2755))
    }),
    attack("creates a set-user-ID program", Nothing, &[], |at| {
        let path = at.path("write/created");
        let mut options = OpenOptions::new();
        options
            .write(true)
            .create_new(true)
            .mode(0o4755)
            .open(&path)?;
        fs::remove_file(path)
    }),
    attack("creates one by openat2", Nothing, &[], |at| {
        let path = at.path("write/created");
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let mode = Mode::from_raw_mode(0o4755);
        rustix::fs::openat2(CWD, &path, flags, mode, ResolveFlags::empty())?;
        fs::remove_file(path)
    }),
    attack("gives a file away", Root, &[Supervisor], |at| {
        let path = at.path("write/file");
        chown(&path, Some(OTHER_USER), None)?;
        chown(path, Some(0), None)
    }),
    attack("sets an attribute", Machine, &[], |at| {
        let path = at.path("write/file");
        Ok(rustix::fs::setxattr(
            path,
            "user.peal",
            b"value",
            XattrFlags::empty(),
        )?)
    }),
    attack("makes a device", Root, &[], |at| {
        let path = at.path("write/device");
        // The null device.
        let device = rustix::fs::makedev(1, 3);
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(CWD, &path, FileType::CharacterDevice, mode, device)?;
        fs::remove_file(path)
    }),
    attack(
        "opens a raw device",
        Machine,
        &[Supervisor, PrivilegedHelper],
        |_| open_device(OpenOptions::new().read(true)),
    ),
    attack(
        "opens a raw device to write",
        Machine,
        &[Supervisor],
        |_| open_device(OpenOptions::new().write(true)),
    ),
    attack("connects by TCP", Nothing, &[Supervisor], |at| {
        TcpStream::connect((Ipv4Addr::LOCALHOST, at.shut_port)).map(drop)
    }),
    attack(
        "connects to a Unix socket, as D-Bus has",
        Nothing,
        &[Supervisor, Server, ArtifactFetcher, Console],
        |at| UnixStream::connect(at.path("other/bus")).map(drop),
    ),
    attack(
        "connects to an abstract socket",
        Nothing,
        &[Supervisor],
        |at| UnixStream::connect_addr(&at.abstract_socket()).map(drop),
    ),
    attack("reads packets", Root, &[], |_| {
        Ok(socket(AddressFamily::PACKET, SocketType::RAW, None).map(drop)?)
    }),
    attack("makes raw packets", Root, &[], |_| {
        Ok(socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::ICMP)).map(drop)?)
    }),
    attack("uses the kernel's ciphers", Machine, &[], |_| {
        Ok(socket(ALG, SocketType::SEQPACKET, None).map(drop)?)
    }),
    // Landlock does not see these connections.
    attack("connects by multipath TCP", Machine, &[], |_| {
        Ok(socket(
            AddressFamily::INET,
            SocketType::STREAM,
            Some(ipproto::MPTCP),
        )
        .map(drop)?)
    }),
    attack("listens to events of devices", Nothing, &[], |_| {
        netlink_socket(netlink::KOBJECT_UEVENT)
    }),
    attack(
        "signals another process",
        Nothing,
        &[Supervisor, PrivilegedHelper],
        |at| Ok(rustix::process::kill_process(at.outsider(), Signal::CONT)?),
    ),
    attack("takes a descriptor of another process", Root, &[], |at| {
        let process = rustix::process::pidfd_open(at.outsider(), PidfdFlags::empty())?;
        Ok(rustix::process::pidfd_getfd(process, 0, PidfdGetfdFlags::empty()).map(drop)?)
    }),
    // The helper is there to look into processes.
    attack(
        "reads another process",
        Root,
        &[Supervisor, PrivilegedHelper],
        |at| fs::read_link(format!("/proc/{}/exe", at.outsider)).map(drop),
    ),
    attack("mounts", Root, &[], |at| {
        let other = at.path("other");
        rustix::mount::mount(&other, &other, "none", MountFlags::BIND, None)?;
        Ok(rustix::mount::unmount(other, UnmountFlags::empty())?)
    }),
    attack("leaves its namespaces", Root, &[], |_| {
        Ok(rustix::thread::unshare(
            rustix::thread::UnshareFlags::NEWUTS,
        )?)
    }),
    attack("changes its root", Root, &[], |_| chroot("/")),
    attack("names the machine", Root, &[], |_| {
        let name = rustix::system::uname();
        Ok(rustix::system::sethostname(name.nodename().to_bytes())?)
    }),
    attack("keeps capabilities for another user", Nothing, &[], |_| {
        Ok(rustix::thread::set_keep_capabilities(false)?)
    }),
    attack(
        "becomes a user",
        Root,
        &[Supervisor, PrivilegedHelper],
        |_| Ok(rustix::thread::set_thread_res_uid(None, Uid::ROOT, None)?),
    ),
];

const fn attack(
    name: &'static str,
    requires: Requirement,
    allowed: &'static [ProcessRole],
    run: fn(&Surroundings) -> io::Result<()>,
) -> Attack {
    Attack {
        name,
        run,
        allowed,
        requires,
    }
}

/// Opens the first of the raw devices that this machine has.
fn open_device(options: &OpenOptions) -> io::Result<()> {
    RAW_DEVICES
        .iter()
        .map(|path| options.open(path).map(drop))
        .find(|done| !matches!(done, Err(error) if error.kind() != ErrorKind::PermissionDenied))
        .unwrap_or(Err(ErrorKind::NotFound.into()))
}

fn netlink_socket(protocol: Protocol) -> io::Result<()> {
    let kind = SocketType::DGRAM;
    Ok(socket_with(
        AddressFamily::NETLINK,
        kind,
        SocketFlags::empty(),
        Some(protocol),
    )
    .map(drop)?)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        [_, "--list", ..] => {
            println!("roles: test");
            ExitCode::SUCCESS
        }
        // The program that a role starts.
        [_, "wait"] => {
            let _ = io::stdin().read(&mut [0]);
            ExitCode::SUCCESS
        }
        [_, "role", name, dir, open_port, shut_port, outsider] => {
            let role = ProcessRole::ALL.iter().find(|role| role.name() == *name);
            let surroundings = Surroundings {
                dir: dir.into(),
                open_port: open_port.parse().unwrap(),
                shut_port: shut_port.parse().unwrap(),
                outsider: outsider.parse().unwrap(),
            };
            ExitCode::from(run_role(*role.unwrap(), &surroundings))
        }
        _ => run_all(),
    }
}

/// Runs each role in a process.
fn run_all() -> ExitCode {
    let own = std::env::current_exe().unwrap();
    let mut outsider = Command::new(&own)
        .arg("wait")
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let open = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let shut = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut outcome = "ok";
    for role in ProcessRole::ALL {
        let dir = tempfile::tempdir().unwrap();
        for name in ["read", "write", "remove", "other"] {
            fs::create_dir(dir.path().join(name)).unwrap();
            fs::write(dir.path().join(name).join("file"), "text").unwrap();
        }
        symlink(dir.path().join("other"), dir.path().join("read/out")).unwrap();
        let surroundings = Surroundings {
            dir: dir.path().canonicalize().unwrap(),
            open_port: open.local_addr().unwrap().port(),
            shut_port: shut.local_addr().unwrap().port(),
            outsider: outsider.id(),
        };
        let _bus = UnixListener::bind(surroundings.path("other/bus")).unwrap();
        let _abstract = UnixListener::bind_addr(&surroundings.abstract_socket()).unwrap();
        let mut command = Command::new(&own);
        command.args(["role", role.name()]).arg(&surroundings.dir);
        for number in [
            surroundings.open_port.into(),
            surroundings.shut_port.into(),
            outsider.id(),
        ] {
            command.arg(number.to_string());
        }
        let status = command.status().unwrap();
        match status.code() {
            Some(0) => println!("{}: ok", role.name()),
            Some(code) if code == i32::from(UNSUPPORTED) => {
                outcome = "ignored, needs a kernel with Landlock and seccomp";
            }
            _ => {
                println!("{}: {status}", role.name());
                outcome = "FAILED";
            }
        }
        if outcome == "FAILED" {
            break;
        }
    }
    drop(outsider.stdin.take());
    outsider.wait().unwrap();
    println!("test roles ... {outcome}");
    if outcome == "FAILED" {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Attacks from inside a role, and uses it.
fn run_role(role: ProcessRole, at: &Surroundings) -> u8 {
    assert_late_confinement_is_refused(role);
    let is_root = rustix::process::geteuid().is_root();
    let possible: Vec<&Attack> = ATTACKS
        .iter()
        .filter(|attack| {
            let done = (attack.run)(at);
            let must = attack.requires == Nothing || attack.requires == Root && is_root;
            assert!(done.is_ok() || !must, "{} before: {done:?}", attack.name);
            done.is_ok()
        })
        .collect();
    let device = File::open("/dev/vda");
    let mut memory = tempfile::tempfile().unwrap();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();

    let confined = confinement(role, at).enforce().unwrap();
    if (confined.files, confined.calls) != (EnforcementLevel::Full, EnforcementLevel::Full) {
        return UNSUPPORTED;
    }
    for attack in &possible {
        let done = (attack.run)(at);
        let name = attack.name;
        if attack.allowed.contains(&role) {
            assert!(done.is_ok(), "{name}: {done:?}");
        } else {
            let error = done.expect_err(name);
            // `openat2` is refused as if the kernel did not have it.
            let kinds = [ErrorKind::PermissionDenied, ErrorKind::Unsupported];
            assert!(kinds.contains(&error.kind()), "{name}: {error}");
        }
    }
    if let Ok(device) = device {
        let done = rustix::fs::ioctl_blksszget(&device);
        assert!(done.is_err(), "controls an open device: {done:?}");
    }
    match role {
        Supervisor => start_and_end_program(),
        Server => {
            use_files(&confined, at);
            use_network(at);
            watch_process(at);
        }
        PrivilegedHelper => {
            fs::remove_file(at.path("remove/file")).unwrap();
            use_threads(at);
        }
        AuditSigner => {
            memory.write_all(b"text").unwrap();
            memory.rewind().unwrap();
            let mut text = [0; 4];
            memory.read_exact(&mut text).unwrap();
            assert_eq!(&text, b"text");
        }
        CompilerParent => {
            start_and_end_program();
            fs::write(at.path("write/new"), "text").unwrap();
        }
        Compilation => {
            fs::write(at.path("write/new"), "text").unwrap();
            fs::rename(at.path("write/new"), at.path("write/renamed")).unwrap();
            let thread = thread::spawn(move || (1..10).sum::<u32>());
            assert_eq!(thread.join().unwrap(), 45);
        }
        ArtifactFetcher => {
            TcpStream::connect((Ipv4Addr::LOCALHOST, at.open_port)).unwrap();
            // The resolver of names asks by UDP, in a thread of its own.
            let thread = thread::spawn(|| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)));
            thread.join().unwrap().unwrap();
            assert_eq!(fs::read_to_string(at.path("read/file")).unwrap(), "text");
            fs::create_dir(at.path("write/blobs")).unwrap();
            fs::write(at.path("write/new"), "text").unwrap();
            fs::rename(at.path("write/new"), at.path("write/blobs/renamed")).unwrap();
        }
        TenantRuntime => {
            let (mut ours, mut theirs) = io::pipe().map(|(read, write)| (write, read)).unwrap();
            let thread = thread::spawn(move || ours.write_all(b"text"));
            let mut text = [0; 4];
            theirs.read_exact(&mut text).unwrap();
            thread.join().unwrap().unwrap();
        }
        CallReplay => {
            assert_eq!(fs::read_to_string(at.path("read/file")).unwrap(), "text");
            assert!(fs::write(at.path("read/file"), "changed").is_err());
            let thread = thread::spawn(move || (1..10).sum::<u32>());
            assert_eq!(thread.join().unwrap(), 45);
        }
        Console => {
            assert_eq!(fs::read_to_string(at.path("read/file")).unwrap(), "text");
            assert!(fs::write(at.path("read/file"), "changed").is_err());
            // Bound before the confinement.
            let address = listener.local_addr().unwrap();
            assert!(TcpStream::connect(address).is_err());
            listener.set_nonblocking(true).unwrap();
            let none = listener.accept().unwrap_err();
            assert_eq!(none.kind(), ErrorKind::WouldBlock);
        }
    }
    // The first thread may read its status after all else only if files are open to it.
    if role == PrivilegedHelper || role == Server {
        check_status(role);
    }
    // Nor can threads that start later.
    let refused: Vec<&Attack> = possible
        .into_iter()
        .filter(|attack| !attack.allowed.contains(&role))
        .collect();
    thread::scope(|scope| {
        scope.spawn(|| {
            for attack in refused {
                assert!((attack.run)(at).is_err(), "{} in a thread", attack.name);
            }
        });
    });
    0
}

/// A process is not confined while it has several threads.
fn assert_late_confinement_is_refused(role: ProcessRole) {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let other = thread::spawn(move || ended.recv().is_err());
    let error = Confinement::of(role).enforce().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a process can only be confined while it has one thread; this one has 2"
    );
    drop(end);
    // The kernel lists it for a moment longer, which hinders no confinement.
    other.join().unwrap();
}

fn confinement(role: ProcessRole, at: &Surroundings) -> Confinement {
    let none = Confinement::of(role);
    match role {
        Server => Confinement {
            read: BTreeSet::from(["/proc".into(), at.path("read"), at.path("missing")]),
            write: BTreeSet::from([at.path("write")]),
            connect: BTreeSet::from([at.open_port]),
            ..none
        },
        ArtifactFetcher => Confinement {
            read: BTreeSet::from([at.path("read")]),
            write: BTreeSet::from([at.path("write")]),
            connect: BTreeSet::from([at.open_port]),
            ..none
        },
        Console | CallReplay => Confinement {
            read: BTreeSet::from([at.path("read")]),
            ..none
        },
        CompilerParent => Confinement {
            read: ["/etc/ld.so.cache", "/proc"].map(PathBuf::from).into(),
            write: BTreeSet::from([at.path("write"), "/dev/null".into()]),
            execute: OwnProgram::find().unwrap().execute,
            ..none
        },
        Compilation => Confinement {
            write: BTreeSet::from([at.path("write")]),
            ..none
        },
        Supervisor | PrivilegedHelper | AuditSigner | TenantRuntime => none,
    }
}

fn use_files(confined: &ActiveConfinement, at: &Surroundings) {
    let (read, write) = (at.path("read"), at.path("write"));
    assert_eq!(fs::read_to_string(read.join("file")).unwrap(), "text");
    assert_eq!(fs::read_dir(&read).unwrap().count(), 2);
    assert!(fs::write(read.join("file"), "changed").is_err());
    assert!(fs::read(read.join("out/file")).is_err(), "a link leads out");
    assert!(
        confined.can_read(&read.join("not/yet/there")) && !confined.can_write(&read.join("file"))
    );
    assert!(
        !confined.can_read(&read.join("out/file")) && !confined.can_read(Path::new("/etc/shadow"))
    );

    fs::write(write.join("file"), "changed").unwrap();
    fs::set_permissions(write.join("file"), Permissions::from_mode(0o644)).unwrap();
    chown(
        write.join("file"),
        None,
        Some(rustix::process::getegid().as_raw()),
    )
    .unwrap();
    fs::create_dir(write.join("sub")).unwrap();
    fs::rename(write.join("file"), write.join("sub/file")).unwrap();
    fs::remove_dir_all(write.join("sub")).unwrap();
    assert!(confined.can_write(&write.join("new")) && confined.can_read(&write.join("new")));
}

fn use_network(at: &Surroundings) {
    TcpStream::connect((Ipv4Addr::LOCALHOST, at.open_port)).unwrap();
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    UnixListener::bind(at.path("write/socket")).unwrap();
    netlink_socket(netlink::SOCK_DIAG).unwrap();
}

/// Watches a process.
fn watch_process(at: &Surroundings) -> OwnedFd {
    rustix::process::pidfd_open(at.outsider(), PidfdFlags::empty()).unwrap()
}

/// Watches and signals a process, and acts as another user.
fn use_threads(at: &Surroundings) {
    let process = watch_process(at);
    rustix::process::pidfd_send_signal(process.as_fd(), Signal::CONT).unwrap();
    if rustix::process::geteuid().is_root() {
        let thread = thread::spawn(|| {
            rustix::thread::set_thread_groups(&[])?;
            rustix::thread::set_thread_res_uid(None, Uid::from_raw(OTHER_USER), None)
        });
        thread.join().unwrap().unwrap();
    }
}

/// Starts this program again and kills it.
fn start_and_end_program() {
    let mut command = Command::new("/proc/self/exe");
    command
        .arg("wait")
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(Signal::KILL.as_raw()));
}

/// Checks the capabilities and the flags of this process.
fn check_status(role: ProcessRole) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let value = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap().trim().to_owned()
    };
    assert_eq!(
        (value("NoNewPrivs:"), value("Seccomp:")),
        ("1".into(), "2".into())
    );
    let set = |key| CapabilitySet::from_bits_retain(u64::from_str_radix(&value(key), 16).unwrap());
    let kept = role.access().capabilities;
    for key in ["CapPrm:", "CapEff:"] {
        assert!(kept.contains(set(key)), "{key} {:?}", set(key));
    }
    for key in ["CapInh:", "CapAmb:"] {
        assert!(set(key).is_empty(), "{key} {:?}", set(key));
    }
    // Only root can drop capabilities from this set; no other user gains any of it.
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        !is_root || kept.contains(set("CapBnd:")),
        "CapBnd: {:?}",
        set("CapBnd:")
    );
}
