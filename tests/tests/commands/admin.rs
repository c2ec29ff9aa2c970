//! The admin socket: permitted callers, accepted requests, audit records, and the metrics as users
//! and Prometheus see them.
use peal_needs::needs;
use peal_tests::{
    daemon::{Daemon, Place},
    peal, program, run,
};
use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::{fs::PermissionsExt, net::UnixStream, process::CommandExt},
    path::Path,
    process::{Command, Stdio},
};

/// User without a name or a permission.
const STRANGER: u32 = 65_533;
const NOBODY: u32 = 65_534;

/// Gives all users access to the directory of the socket, so that only the caller's identity decides.
fn open_to_all(place: &Place) {
    for path in [place.path(""), place.path("run")] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
}

/// Returns a command that runs as another user.
fn as_user(daemon: &Daemon, uid: u32, args: &[&str]) -> Command {
    let mut command = daemon.verb(args);
    command.uid(uid).gid(uid).current_dir("/");
    command
}

/// Sends bytes to the socket, and returns the answer.
fn say(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    // The server may refuse before it has read everything.
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    reply
}

#[needs(prepared, root)]
#[test]
fn other_users_are_refused_and_counted() {
    let place = Place::new();
    place.configure("[store]\npath = \"peal.db\"\n");
    let daemon = place.start();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.socket()), 0o666);
    open_to_all(&place);
    for args in [
        &["status"][..],
        &["stats"],
        &["job", "register", "mine"],
        &["stop"],
        &["reload"],
    ] {
        for user in [STRANGER, NOBODY] {
            let done = run(&mut as_user(&daemon, user, args)).expect_status(125);
            let wanted = format!(
                "the server refuses: user {user} may not administer this server: root, user 0 may; admin.group in its"
            );
            assert!(done.stderr.contains(&wanted), "{args:?}: {}", done.stderr);
        }
    }
    let stats = daemon.tell(&["stats"]);
    let counted = stats
        .lines()
        .find(|line| line.contains(" admin_callers_refused "))
        .unwrap();
    assert!(counted.trim_start().starts_with("10 "), "{counted}");
    // None of the requests was carried out or recorded, so these callers cannot fill a disk.
    assert_eq!(daemon.tell(&["job", "list"]).lines().count(), 1);
    daemon.tell(&["stop", "--wait"]);
    daemon.ends().expect_status(0);
    let store =
        peal_store::Store::open(&place.path("peal.db"), peal_store::StoreSettings::default())
            .unwrap();
    assert!(
        store
            .admin_calls(100)
            .unwrap()
            .iter()
            .all(|record| record.call.uid == 0)
    );
}

#[needs(prepared, root)]
#[test]
fn other_users_see_their_own_resources_only() {
    let place = Place::new();
    place.configure("[store]\npath = \"peal.db\"\n");
    let daemon = place.start();
    open_to_all(&place);
    for (job, uid) in [("one", STRANGER), ("other", NOBODY)] {
        let uid = uid.to_string();
        daemon.tell(&[
            "job", "register", job, "-n", "2", "--uid", &uid, "--gid", &uid,
        ]);
    }
    let users = |printed: &str| -> Vec<(u64, bool)> {
        let quotas: serde_json::Value = serde_json::from_str(printed).unwrap();
        let has_sums = quotas["resources"][0]["held"].is_u64();
        let users = quotas["users"].as_array().unwrap();
        users
            .iter()
            .map(|user| (user["uid"].as_u64().unwrap(), has_sums))
            .collect()
    };
    let by_user = ["stats", "--by-user", "-o", "json"];
    let all = daemon.tell(&by_user);
    assert!(users(&all).iter().all(|(_, has_sums)| *has_sums), "{all}");
    for uid in [STRANGER, NOBODY] {
        let own = run(&mut as_user(&daemon, uid, &by_user))
            .expect_status(0)
            .stdout;
        let wanted = u64::from(uid);
        assert!(
            users(&own)
                .iter()
                .all(|(user, has_sums)| *user == wanted && !has_sums),
            "{own}"
        );
    }
    // Calls of one user that send nothing are bounded, and delay neither root nor other users.
    let socket = place.socket().display().to_string();
    let mut attack = Command::new(program("peal-attack"));
    attack
        .args(["silent-calls", &socket, "40"])
        .current_dir("/");
    attack.uid(STRANGER).gid(STRANGER).stdout(Stdio::piped());
    let mut attack = attack.spawn().unwrap();
    let refusal = BufReader::new(attack.stdout.take().unwrap())
        .lines()
        .next()
        .unwrap()
        .unwrap();
    let wanted = format!("user {STRANGER} has 8 open calls");
    assert!(refusal.contains(&wanted), "{refusal}");
    run(&mut as_user(&daemon, NOBODY, &by_user)).expect_status(0);
    daemon.tell(&["stats"]);
    attack.kill().unwrap();
    attack.wait().unwrap();
}

#[needs(prepared, root, nogroup)]
#[test]
fn admin_group_members_may_register_own_jobs_only() {
    let group = group_of(NOBODY).expect("the group has a name, as `#[needs(nogroup)]` requires");
    let place = Place::new();
    place.configure(&format!(
        "[admin]\ngroup = {group:?}\n[store]\npath = \"peal.db\"\n"
    ));
    let daemon = place.start();
    let found = fs::metadata(place.socket()).unwrap();
    assert_eq!(
        (
            found.permissions().mode() & 0o777,
            std::os::unix::fs::MetadataExt::gid(&found)
        ),
        (0o666, NOBODY)
    );
    open_to_all(&place);
    run(&mut as_user(&daemon, NOBODY, &["status"])).expect_status(0);
    // The connections of all clients would go to that user.
    let thief = run(&mut as_user(&daemon, NOBODY, &["serve", "--continue"])).expect_status(125);
    assert!(
        thief
            .stderr
            .contains("only a process of the server's user can go on with the server"),
        "{}",
        thief.stderr
    );
    let stranger = run(&mut as_user(&daemon, STRANGER, &["status"])).expect_status(125);
    assert!(
        stranger.stderr.contains("may not administer this server"),
        "{}",
        stranger.stderr
    );
    let nobody = run(peal(["status", "--socket"]).arg(place.path("none.sock")))
        .expect_status(125)
        .stderr;
    assert!(
        nobody.contains("none.sock") && nobody.contains("`peal serve` starts a server"),
        "{nobody}"
    );
    run(&mut as_user(
        &daemon,
        NOBODY,
        &["job", "register", "theirs", "-n", "2"],
    ))
    .expect_status(0);
    for more in [["--uid", "0"], ["--gid", "0"]] {
        let args = [&["job", "register", "other"][..], &more].concat();
        let done = run(&mut as_user(&daemon, NOBODY, &args)).expect_status(125);
        assert!(
            done.stderr
                .contains("user 65534 may register jobs of their own only"),
            "{}",
            done.stderr
        );
    }
    // Root may register jobs for any user.
    daemon.tell(&["job", "register", "for-nobody", "--uid", "65534"]);
    daemon.tell(&[
        "job",
        "register",
        "for-stranger",
        "--uid",
        "65533",
        "--gid",
        "7",
    ]);
    let unknown = daemon
        .ask(&["job", "register", "for-whom", "--uid", "65533"])
        .expect_status(125);
    assert!(
        unknown
            .stderr
            .contains("user 65533 is unknown on this node"),
        "{}",
        unknown.stderr
    );
    let jobs: serde_json::Value =
        serde_json::from_str(&daemon.tell(&["job", "list", "-o", "json"])).unwrap();
    let owners: Vec<(&str, u64, u64)> = jobs
        .as_array()
        .unwrap()
        .iter()
        .map(|job| {
            (
                job["nspace"].as_str().unwrap(),
                job["uid"].as_u64().unwrap(),
                job["gid"].as_u64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        owners,
        [
            ("for-nobody", 65_534, 65_534),
            ("for-stranger", 65_533, 7),
            ("theirs", 65_534, 65_534)
        ]
    );
    daemon.tell(&["stop", "--wait"]);
    let store =
        peal_store::Store::open(&place.path("peal.db"), peal_store::StoreSettings::default())
            .unwrap();
    let calls = store.admin_calls(100).unwrap();
    let call = |verb: &str| {
        calls
            .iter()
            .map(|record| &record.call)
            .find(|call| call.verb == verb)
            .unwrap()
    };
    let theirs = call("register \"theirs\" with 2 procs");
    assert_eq!((theirs.uid, theirs.outcome.as_str()), (NOBODY, "done"));
    assert!(theirs.pid.is_some_and(|pid| pid > 0));
    let refused = &call("register \"for-whom\" with 1 proc").outcome;
    assert!(
        refused.starts_with("refused: user 65533 is unknown"),
        "{refused}"
    );
    assert_eq!(call("stop").outcome, "done");
}

/// Returns the name of a group.
fn group_of(gid: u32) -> Option<String> {
    let groups = fs::read_to_string("/etc/group").unwrap();
    let mut lines = groups
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    lines
        .find(|fields| fields.get(2) == Some(&gid.to_string().as_str()))
        .map(|fields| fields[0].to_owned())
}

#[needs(prepared)]
#[test]
fn invalid_requests_are_refused_and_server_continues() {
    let place = Place::new();
    place.configure("[store]\npath = \"peal.db\"\n");
    let daemon = place.start();
    let long = [
        b"{\"peal\": 1, \"call\": {\"verb\": \"".to_vec(),
        vec![b'x'; 1 << 20],
    ]
    .concat();
    let deep = [vec![b'['; 10_000], b"\n".to_vec()].concat();
    let nspace = format!(
        "{{\"peal\":1,\"call\":{{\"verb\":\"register\",\"nspace\":\"{}\",\"size\":1}}}}\n",
        "n".repeat(300)
    );
    for (bytes, wanted) in [
        (
            &b"hello\n"[..],
            "the request is invalid: expected value at line 1 column 1",
        ),
        (
            b"{\"peal\": 2, \"call\": {\"verb\": \"fly\"}}\n",
            "protocol version 2; this server supports version 1",
        ),
        (
            b"{\"peal\": 1, \"call\": {\"verb\": \"fly\"}}\n",
            "unknown variant `fly`",
        ),
        (
            b"{\"peal\": 1, \"call\": {\"verb\": \"status\"}}",
            "the request is cut off",
        ),
        (b"{", "the request is cut off"),
        (b"\xff\xfe\n", "the request is invalid"),
        (
            b"{\"peal\":1,\"call\":{\"verb\":\"register\",\"nspace\":\"a\",\"size\":0}}\n",
            "the size must be 1 to 65535",
        ),
        (
            b"{\"peal\":1,\"call\":{\"verb\":\"register\",\"nspace\":\"a\",\"size\":99999999}}\n",
            "the size must be 1 to 65535",
        ),
        (
            b"{\"peal\":1,\"call\":{\"verb\":\"register\",\"nspace\":\"\",\"size\":1}}\n",
            "refused",
        ),
        (&long, "the request is longer than 16384 bytes"),
        (&deep, "the request is invalid"),
        (nspace.as_bytes(), "refused"),
    ] {
        let reply = say(&place.socket(), bytes);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]);
        assert!(
            reply.starts_with("{\"reply\":\"refused\"") && reply.contains(wanted),
            "{shown}: {reply}"
        );
    }
    // Silent callers do not occupy the connections for ever, and a caller may leave at any time.
    let silent: Vec<UnixStream> = (0..15)
        .map(|_| UnixStream::connect(place.socket()).unwrap())
        .collect();
    daemon.tell(&["status"]);
    drop(silent);
    let status: serde_json::Value =
        serde_json::from_str(&daemon.tell(&["status", "-o", "json"])).unwrap();
    assert_eq!(
        (&status["phase"], &status["jobs"]),
        (&"serving".into(), &0.into())
    );
    daemon.tell(&["stop", "--wait"]);
    let store =
        peal_store::Store::open(&place.path("peal.db"), peal_store::StoreSettings::default())
            .unwrap();
    let calls = store.admin_calls(100).unwrap();
    assert!(
        calls
            .iter()
            .any(|record| record.call.verb == "(not understood)"),
        "{calls:?}"
    );
}

/// Metrics with the names that Prometheus gives to those of any process.
const PROCESS_METRICS: [&str; 2] = [
    "process_resident_memory_bytes",
    "process_start_time_seconds",
];

/// Metrics with samples only for limits that calls have hit, and for users that are limited. Neither
/// occurs in the test.
const SPARSE_METRICS: [&str; 3] = [
    "peal_module_limit_hits",
    "peal_user_refusals",
    "peal_user_usage",
];

/// Parses the text for Prometheus strictly: help, type and unit of each family precede its samples,
/// and no name occurs twice.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut samples = BTreeMap::new();
    let mut families: BTreeMap<&str, (&str, Option<&str>)> = BTreeMap::new();
    let mut current = "";
    let mut lines = text
        .strip_suffix("# EOF\n")
        .expect("the end is marked")
        .lines()
        .peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(!help.trim().is_empty() && help.trim() == help, "{line:?}");
            assert!(
                (name.starts_with("peal") || PROCESS_METRICS.contains(&name))
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_lowercase() || byte == b'_'),
                "{name}"
            );
            let kind = lines
                .next()
                .unwrap()
                .strip_prefix(&format!("# TYPE {name} "))
                .unwrap();
            let unit = lines.next_if(|line| line.starts_with("# UNIT "));
            let unit = unit.map(|line| line.strip_prefix(&format!("# UNIT {name} ")).unwrap());
            assert!(
                unit.is_none_or(|unit| name.ends_with(&format!("_{unit}"))),
                "{name} {unit:?}"
            );
            assert!(
                families.insert(name, (kind, unit)).is_none(),
                "{name} is there twice"
            );
            current = name;
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = sample
            .split_once('{')
            .map_or((sample, None), |(name, rest)| (name, Some(rest)));
        let suffix = match families[current].0 {
            "counter" => "_total",
            "info" => "_info",
            "gauge" => "",
            other => panic!("{current} has type {other}"),
        };
        assert_eq!(name, format!("{current}{suffix}"), "{line}");
        assert!(
            labels.is_none_or(|labels| labels.ends_with("\"}")),
            "{line}"
        );
        assert!(
            samples
                .insert(sample.to_owned(), value.parse().unwrap())
                .is_none(),
            "{sample} is there twice"
        );
    }
    samples
}

fn scrape(address: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[needs(prepared)]
#[test]
fn people_scripts_and_prometheus_see_the_same_numbers() {
    let place = Place::new();
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let report = peal_tests::guest("report");
    place.configure(&format!(
        "[metrics]\nlisten = \"{address}\"\n[store]\npath = \"peal.db\"\n\
         [[module]]\nname = \"say \\\"hi\\\"\"\npath = {report:?}\ngrants = [\"logging\", \"clock\"]\n"
    ));
    let daemon = place.start();
    daemon.tell(&["job", "register", "job", "-n", "2"]);
    let procs: Vec<_> = (0..2)
        .map(|rank| {
            daemon
                .proc("job", rank, &program("peal-example"))
                .spawn()
                .unwrap()
        })
        .collect();
    for proc in procs {
        peal_tests::finish(proc).expect_status(0);
    }
    let stats: serde_json::Value =
        serde_json::from_str(&daemon.tell(&["stats", "-o", "json"])).unwrap();
    let samples = parse(&scrape(address));
    let value = |name: &str| {
        samples
            .get(name)
            .copied()
            .unwrap_or_else(|| panic!("no {name}: {samples:?}"))
    };
    assert_eq!(
        (
            value("peal_connections_accepted_total"),
            value("peal_jobs"),
            value("peal_admin_calls_total")
        ),
        (2.0, 1.0, 4.0)
    );
    assert_eq!(value("peal_connections_refused_total"), 0.0);
    assert!(
        value("process_resident_memory_bytes") > 1e6 && value("process_start_time_seconds") > 1.7e9
    );
    assert!(
        value("peal_store_writes_total") >= 4.0 && value("peal_store_writes_failed_total") == 0.0
    );
    let labels = "{module=\"say \\\"hi\\\"\",owner=\"site\",role=\"event-handler\"}";
    assert!(value(&format!("peal_module_calls_total{labels}")) >= 1.0);
    assert_eq!(value(&format!("peal_module_failures_total{labels}")), 0.0);
    assert!(value(&format!("peal_module_call_seconds_total{labels}")) > 0.0);
    // JSON has the same families under the same names.
    let families = stats["families"].as_array().unwrap();
    for family in families {
        let name = family["name"].as_str().unwrap();
        let kind = family["kind"].as_str().unwrap();
        let suffix = if kind == "counter" {
            "_total"
        } else if kind == "info" {
            "_info"
        } else {
            ""
        };
        let is_empty = SPARSE_METRICS.contains(&name)
            && family["samples"].as_array().is_some_and(Vec::is_empty);
        assert!(
            is_empty
                || samples
                    .keys()
                    .any(|sample| sample.split('{').next() == Some(&format!("{name}{suffix}"))),
            "{family}"
        );
    }
    let connections = families
        .iter()
        .find(|family| family["name"] == "peal_connections_accepted")
        .unwrap();
    assert_eq!(connections["samples"][0]["value"], 2);
    let printed = daemon.tell(&["stats"]);
    let line = printed
        .lines()
        .find(|line| line.contains("Connections accepted by the listener."))
        .unwrap_or_else(|| panic!("{printed}"));
    assert!(
        line.trim_start().starts_with("2  connections_accepted")
            && line.ends_with("Connections accepted by the listener."),
        "{line}"
    );
}

#[needs(prepared, root)]
#[test]
fn a_server_of_any_user_is_found_where_it_usually_is() {
    let place = Place::new();
    std::os::unix::fs::chown(place.path(""), Some(NOBODY), Some(NOBODY)).unwrap();
    let (mut command, states) = place.serve("states");
    drop(command);
    command = peal(["serve"]);
    let theirs = |command: &mut Command| {
        command
            .env("XDG_RUNTIME_DIR", place.path(""))
            .env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .uid(NOBODY)
            .gid(NOBODY);
        command
            .env("NOTIFY_SOCKET", place.path("states"))
            .env_remove("PMIX_SERVER_TMPDIR")
            .current_dir("/");
    };
    fs::set_permissions(place.path("states"), Permissions::from_mode(0o666)).unwrap();
    theirs(&mut command);
    let server = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut told = [0; 64];
    let count = states.recv(&mut told).unwrap();
    assert!(String::from_utf8_lossy(&told[..count]).contains("READY=1"));
    let socket = place.path("peal/admin.sock");
    assert!(socket.exists());
    let mut verb = peal(["stop", "--wait"]);
    theirs(&mut verb);
    // Root finds the socket if its path is given, and may use it.
    assert!(
        run(peal(["status"]).arg("--socket").arg(&socket))
            .expect_status(0)
            .stdout
            .contains("serving")
    );
    run(&mut verb).expect_status(0);
    peal_tests::finish(server).expect_status(0);
}
