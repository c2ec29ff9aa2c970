//! A server that root starts and that runs as a user of its own: its processes and their rights, work
//! for users by the helper, and the end of each process.
use base64::{Engine as _, engine::general_purpose::STANDARD};
use peal_audit::TrailSource;
use peal_needs::needs;
use peal_store::Filter;
use peal_tests::{
    c_program,
    daemon::{Daemon, Place, SERVER_UID, SERVER_USER, wrapped},
    finish, peal,
    processes::{is_running, nice, signal, status},
    program, run, service_unit, until,
};
use rustix::process::Signal;
use std::{
    fs,
    io::Write,
    net::TcpStream,
    os::unix::{
        fs::{FileExt, MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Stdio},
};

/// User of a job.
const USER: u32 = 54_321;

fn uid(pid: u32) -> Option<u32> {
    status(pid, "Uid")?.split_whitespace().next()?.parse().ok()
}

/// Child of the supervisor that runs this verb of `peal`.
fn child(daemon: &Daemon, verb: &str) -> u32 {
    let found = daemon.child(verb);
    found.unwrap_or_else(|| panic!("no process runs {verb}"))
}

/// Place whose directory belongs to the server's user.
fn place(text: &str) -> Place {
    let place = Place::of_server_user();
    place.configure_supervised(text);
    place
}

/// Registers a job of the user, with one rank.
fn register(daemon: &Daemon, job: &str) {
    let user = USER.to_string();
    daemon.tell(&[
        "job", "register", job, "-n", "1", "--uid", &user, "--gid", &user,
    ]);
}

/// Directory of the user with a copy of a C program that the user may run.
fn own_program(program: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("program");
    fs::copy(program, &copy).unwrap();
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    chown(dir.path(), Some(USER), Some(USER)).unwrap();
    dir
}

/// Returns `peal-attack` with this command against a server, as the user.
fn attack(command: &str, daemon: &Daemon) -> Command {
    let environment = daemon.environment("theirs", 0);
    let mut uris = environment
        .iter()
        .filter(|pair| pair.0 == "PMIX_SERVER_URI41");
    let address = uris.next().unwrap().1.split_once("tcp4://").unwrap().1;
    let mut attack = Command::new(program("peal-attack"));
    attack.args([command, address, "1"]);
    attack.uid(USER).gid(USER).current_dir("/");
    attack
}

fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

#[needs(prepared, root)]
#[test]
fn server_has_user_of_its_own_and_no_capability() {
    let place = place("");
    let daemon = place.start();
    let server = child(&daemon, "serve");
    let helper = child(&daemon, "helper");
    assert_eq!((uid(daemon.pid()), uid(helper)), (Some(0), Some(0)));
    assert_eq!(uid(server), Some(SERVER_UID));
    for kind in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
        assert_eq!(status(server, kind).unwrap(), "0000000000000000", "{kind}");
    }
    assert_eq!(status(server, "Groups").as_deref(), Some(""));
    // What it has written is its own.
    for path in [place.socket(), place.path("code")] {
        assert_eq!(
            fs::metadata(&path).unwrap().uid(),
            SERVER_UID,
            "{}",
            path.display()
        );
    }
    let listed = daemon.tell(&["status"]);
    assert!(listed.contains("serving"), "{listed}");
}

#[needs(prepared, root)]
#[test]
fn server_has_the_priority_of_its_setting() {
    let place = Place::of_server_user();
    place.configure_supervised("");
    let daemon = place.start();
    for verb in ["serve", "helper"] {
        assert_eq!(nice(child(&daemon, verb)), Some(-10), "{verb}");
    }
    let usual = Place::of_server_user();
    usual.configure_supervised("");
    let daemon = usual.start_under(|mut serve| {
        serve.env("PEAL_SERVER_PRIORITY", "0");
        serve
    });
    assert_eq!(nice(child(&daemon, "serve")), nice(std::process::id()));
}

#[needs(prepared, root)]
#[test]
fn helper_logs_calls_where_the_server_does() {
    let place = place("[confinement]\nmode = \"log\"\n");
    let daemon = place.start();
    let helper = child(&daemon, "helper");
    let line = fs::read(format!("/proc/{helper}/cmdline")).unwrap();
    let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
    let log: [&[u8]; 2] = [b"--confinement", b"log"];
    assert!(arguments.windows(2).any(|pair| pair == log));
    // It is confined by a filter, and works.
    assert_eq!(status(helper, "Seccomp").as_deref(), Some("2"));
    register(&daemon, "theirs");
    let mut tool = attack("connect", &daemon);
    run(&mut tool).expect_status(0);
}

#[needs(prepared, root, libpmix)]
#[test]
fn helper_removes_and_looks_at_files_as_their_user() {
    let place = place("");
    let daemon = place.start();
    register(&daemon, "theirs");
    let dir = own_program(&c_program("monitor"));
    let hidden = tempfile::tempdir().unwrap();
    fs::set_permissions(hidden.path(), fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(hidden.path().join("secret"), "").unwrap();
    let look = |action: &str, path: &Path| {
        let mut proc = daemon.proc("theirs", 0, &dir.path().join("program"));
        proc.arg(action)
            .arg(path)
            .uid(USER)
            .gid(USER)
            .current_dir("/");
        proc.env("TMPDIR", dir.path());
        run(&mut proc).expect_status(0).by_rank()
    };
    assert_eq!(
        look("look", &hidden.path().join("secret")),
        ["rank 0: a file: NO-PERMISSIONS (-23)"]
    );
    let lines = look("file", &dir.path().join("log"));
    assert_eq!(lines[1], "rank 0: a file: SUCCESS (0)");
}

#[needs(prepared, root, libpmix)]
#[test]
fn lost_helper_is_replaced_and_clients_are_admitted() {
    let place = place("");
    let daemon = place.start();
    register(&daemon, "theirs");
    let dir = own_program(&c_program("hello"));
    let hello = || {
        let mut proc = daemon.proc("theirs", 0, &dir.path().join("program"));
        proc.uid(USER)
            .gid(USER)
            .current_dir("/")
            .env("TMPDIR", dir.path());
        run(&mut proc).expect_status(0)
    };
    hello();
    for _ in 0..3 {
        let helper = child(&daemon, "helper");
        kill(helper);
        // The next connection starts another one, at the latest when the first call fails.
        hello();
        assert_ne!(child(&daemon, "helper"), helper);
    }
}

#[needs(prepared, root, libpmix)]
#[test]
fn server_works_with_capabilities_of_its_unit() {
    let place = place("");
    // Directories of several levels, all missing, below one of the server's user.
    let [store, trail, cache] = [
        "var/lib/store.db",
        "var/lib/audit/audit.db",
        "var/cache/code",
    ]
    .map(|path| place.path(path));
    place.configure(&format!(
        "[server]\nuser = {SERVER_USER:?}\n[store]\npath = {store:?}\n[audit]\npath = {trail:?}\n\
         on_failure = \"deny\"\n[sandbox]\ncache_dir = {cache:?}\n"
    ));
    let allowed: Vec<String> = service_unit::words("CapabilityBoundingSet")
        .map(|name| name.replace("CAP_", "+").to_lowercase())
        .collect();
    let daemon = place.start_under(|serve| {
        let mut setpriv = Command::new("setpriv");
        setpriv.arg("--no-new-privs");
        setpriv.arg(format!("--bounding-set=-all,{}", allowed.join(",")));
        wrapped(setpriv, &serve)
    });
    for path in [&store, &trail, &cache] {
        assert_eq!(fs::metadata(path).unwrap().uid(), SERVER_UID, "{path:?}");
    }
    register(&daemon, "theirs");
    let dir = own_program(&c_program("monitor"));
    let mut proc = daemon.proc("theirs", 0, &dir.path().join("program"));
    proc.arg("file").arg(dir.path().join("log"));
    proc.uid(USER).gid(USER).current_dir("/");
    proc.env("TMPDIR", dir.path());
    let lines = run(&mut proc).expect_status(0).by_rank();
    assert_eq!(lines[1], "rank 0: a file: SUCCESS (0)");
}

/// Place with an audit trail, whose key is beside it.
fn place_with_trail() -> Place {
    let place = place("");
    let config = fs::read_to_string(place.path("peal.toml")).unwrap();
    let trail = place.path("audit.db");
    place.configure(&format!(
        "{config}[audit]\npath = {trail:?}\non_failure = \"deny\"\nrefusal_interval_ms = 100\n"
    ));
    place
}

/// Number of the last record in the database.
fn last_record(place: &Place) -> u64 {
    let trail = TrailSource::open(&place.path("audit.db")).unwrap();
    let last = trail.last(&Filter::default(), 1).unwrap();
    last.last().map_or(0, |row| row.seq)
}

/// Records of a kind, as `peal audit list` prints them.
fn records(place: &Place, kind: &str) -> String {
    let trail = place.path("audit.db");
    let mut list = peal(["audit", "list", "--kind", kind, "--from"]);
    run(list.arg(trail)).expect_status(0).stdout
}

fn verify(place: &Place) -> String {
    let trail = place.path("audit.db");
    let mut verify = peal(["audit", "verify", "--from"]);
    verify
        .arg(trail)
        .arg("--key")
        .arg(place.path("audit.db.key.pub"));
    run(&mut verify).expect_status(0).stdout
}

#[needs(prepared, root, libpmix)]
#[test]
fn refusal_of_the_helper_is_in_the_trail() {
    let place = place_with_trail();
    let daemon = place.start();
    daemon.tell(&["job", "register", "roots", "-n", "1"]);
    let mut proc = daemon.proc("roots", 0, &c_program("monitor"));
    proc.arg("look").arg(place.path("peal.toml"));
    run(&mut proc);
    daemon.tell(&["stop"]);
    daemon.ends();
    let denied = records(&place, "denied");
    assert!(
        denied.contains("opening of a file: nothing is done as root for a server of another user"),
        "{denied}"
    );
    verify(&place);
}

#[needs(prepared, root)]
#[test]
fn only_the_signer_has_the_key_of_the_trail() {
    let place = place_with_trail();
    let daemon = place.start();
    let signer = child(&daemon, "audit-signer");
    let key = place.path("audit.db.key");
    let found = fs::metadata(&key).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o777), (0, 0o600));
    // Root's user, and nothing of what root may do.
    assert_eq!(uid(signer), Some(0));
    for kind in ["CapPrm", "CapEff", "CapInh", "CapAmb", "CapBnd"] {
        assert_eq!(status(signer, kind).unwrap(), "0000000000000000", "{kind}");
    }
    assert_eq!(status(signer, "Seccomp").as_deref(), Some("2"));
    assert_eq!(status(signer, "NoNewPrivs").as_deref(), Some("1"));
    let text = fs::read_to_string(&key).unwrap();
    let (_, secret) = text.trim_end().split_once(':').unwrap();
    let secret = STANDARD.decode(secret).unwrap();
    assert!(memory_has(signer, &secret), "the search finds nothing");
    for verb in ["serve", "helper"] {
        let process = child(&daemon, verb);
        assert!(!memory_has(process, &secret), "{verb} has the key");
    }
    // The key of a server's user from before is refused with its remedy.
    daemon.tell(&["stop"]);
    daemon.ends();
    chown(&key, Some(SERVER_UID), Some(SERVER_UID)).unwrap();
    let (mut serve, _states) = place.serve("notify");
    let refused = finish(serve.stdin(Stdio::null()).spawn().unwrap())
        .expect_status(125)
        .stderr;
    assert!(
        refused.contains(&format!("chown root {}", key.display())),
        "{refused}"
    );
    verify(&place);
}

/// Returns true if the writable memory of a process has these bytes.
fn memory_has(pid: u32, wanted: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut searched = 0;
    let found = maps.lines().any(|line| {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next().unwrap(), words.next().unwrap());
        let (from, to) = range.split_once('-').unwrap();
        let [from, to] = [from, to].map(|end| u64::from_str_radix(end, 16).unwrap());
        // The sandbox reserves large ranges that hold nothing.
        if !rights.starts_with("rw") || to - from > 1 << 28 {
            return false;
        }
        let mut bytes = vec![0; (to - from) as usize];
        let count = memory.read_at(&mut bytes, from).unwrap_or(0);
        searched += count;
        bytes[..count]
            .windows(wanted.len())
            .any(|window| window == wanted)
    });
    assert!(searched > 0, "the memory cannot be read");
    found
}

#[needs(prepared, root)]
#[test]
fn lost_signer_is_replaced_and_the_trail_verifies() {
    let place = place_with_trail();
    let daemon = place.start();
    register(&daemon, "theirs");
    let uri = daemon
        .environment("theirs", 0)
        .into_iter()
        .find_map(|(_, value)| value.split_once("tcp4://").map(|(_, at)| at.to_owned()));
    let address = uri.unwrap();
    for _ in 0..5 {
        let before = last_record(&place);
        let signer = child(&daemon, "audit-signer");
        kill(signer);
        // A refused connection is a record, which another signer seals.
        let mut client = TcpStream::connect(address.as_str()).unwrap();
        client.write_all(&[0xff; 64]).unwrap();
        until("a record is sealed", || last_record(&place) > before);
        assert_ne!(daemon.child("audit-signer"), Some(signer));
    }
    // The trail is written again a moment after the signer is there.
    until("the trail is written again", || {
        let status = daemon.ask(&["status"]);
        status.status == Some(0) && !status.stdout.contains("audit")
    });
    daemon.tell(&["stop"]);
    daemon.ends();
    verify(&place);
}

#[needs(prepared, root)]
#[test]
fn all_processes_end_with_the_server_or_the_supervisor() {
    for victim in ["server", "supervisor"] {
        let place = place("");
        let daemon = place.start();
        let processes = daemon.children();
        let server = child(&daemon, "serve");
        kill(if victim == "server" {
            server
        } else {
            daemon.pid()
        });
        for process in processes {
            until("the process ends", || !is_running(process));
        }
        if victim == "server" {
            let done = daemon.ends();
            assert!(
                done.stderr.contains("the server ended by signal: 9"),
                "{}",
                done.stderr
            );
            assert_eq!(done.status, Some(125));
        }
    }
}

#[needs(prepared, root)]
#[test]
fn directory_of_another_user_is_named_with_its_remedy() {
    let place = Place::new();
    let store = place.path("store.db");
    fs::create_dir(place.path("run")).unwrap();
    chown(place.path("run"), Some(SERVER_UID), Some(SERVER_UID)).unwrap();
    fs::set_permissions(place.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    place.configure(&format!(
        "[server]\nuser = {SERVER_USER:?}\n[store]\npath = {store:?}\n"
    ));
    let (mut serve, _states) = place.serve("notify");
    let refused = finish(serve.stdin(Stdio::null()).spawn().unwrap())
        .expect_status(125)
        .stderr;
    let dir = store.parent().unwrap().display().to_string();
    for part in [
        "store.path",
        "user daemon cannot write",
        &format!("chown -R daemon {dir}"),
        "server.user = \"root\" keeps a server of root",
    ] {
        assert!(refused.contains(part), "{part:?} is missing in {refused}");
    }
    place.configure("[server]\nuser = \"nobody-of-that-name\"\n");
    let (mut serve, _states) = place.serve("notify2");
    let refused = finish(serve.stdin(Stdio::null()).spawn().unwrap())
        .expect_status(125)
        .stderr;
    assert!(
        refused.contains("there is no user \"nobody-of-that-name\" here"),
        "{refused}"
    );
}

#[needs(prepared, root)]
#[test]
fn only_root_changes_to_the_servers_user() {
    let place = place("");
    let config = place.path("peal.toml");
    let mut serve = peal(["serve", "--config"]);
    serve.arg(config).uid(USER).gid(USER).current_dir("/");
    let refused = run(&mut serve).expect_status(125).stderr;
    assert!(
        refused.contains("only a server that root starts can change"),
        "{refused}"
    );
}
