//! Modules of users in processes of their own, under a server that root starts: the rights of a process,
//! and what its end costs whom.
use peal_needs::needs;
use peal_server::admin::ModuleState;
use peal_tests::{
    daemon::{Daemon, Place, SERVER_UID},
    guest, peal,
    processes::{is_running, nice, signal, status},
    program, run, until,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::{Command, Stdio},
};

/// Users with modules. The jobs that the events are about are theirs.
const USERS: [u32; 2] = [54_321, 54_322];

/// Server with modules of users.
struct TenantServer {
    daemon: Daemon,
    place: Place,
}

impl TenantServer {
    fn start(settings: &str, modules: [&str; 2]) -> TenantServer {
        TenantServer::start_with(settings, modules, &[])
    }

    /// Starts a server with further settings in its environment.
    fn start_with(
        settings: &str,
        modules: [&str; 2],
        environment: &[(&str, &str)],
    ) -> TenantServer {
        let place = Place::of_server_user();
        let below = place.path("users");
        fs::create_dir(&below).unwrap();
        for (uid, module) in USERS.into_iter().zip(modules) {
            let own = below.join(uid.to_string());
            fs::create_dir(&own).unwrap();
            fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
            chown(&own, Some(uid), None).unwrap();
            put_as(uid, &own.join("own.wasm"), fs::read(guest(module)).unwrap());
            let text = format!("name = {module:?}\npath = \"own.wasm\"\ngrants = [\"logging\"]\n");
            put_as(uid, &own.join("own.toml"), text);
        }
        place.configure_supervised(&format!(
            "[deploy]\nuser_modules_dir = {below:?}\n{settings}"
        ));
        let daemon = place.start_under(|mut serve| {
            serve.envs(environment.iter().copied());
            serve
        });
        for uid in USERS {
            let user = uid.to_string();
            daemon.tell(&[
                "job",
                "register",
                &job(uid),
                "-n",
                "1",
                "--uid",
                &user,
                "--gid",
                &user,
            ]);
        }
        until("the modules of both users run", || {
            let modules = place.modules().modules;
            modules.len() == 2
                && modules
                    .iter()
                    .all(|module| module.state == ModuleState::Active)
        });
        TenantServer { daemon, place }
    }

    /// Raises an event about the job of a user, as that user.
    fn raise(&self, uid: u32) -> Command {
        let listed = self.daemon.tell(&["status", "-o", "json"]);
        let status: Value = serde_json::from_str(&listed).unwrap();
        let uri = status["uri"].as_str().unwrap().to_owned();
        let about = format!("PMIX_EVENT_AFFECTED_PROC={}:0", job(uid));
        let mut notify = peal(["event", "notify", "-3001", "--info", &about, "--uri", &uri]);
        notify.uid(uid).gid(uid).current_dir("/");
        notify
    }

    /// Watches events. Returns their chains one by one.
    fn watch(&self) -> impl Iterator<Item = Value> + use<> {
        let mut watching = self
            .daemon
            .verb(&["event", "watch", "-o", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(watching.stdout.take().unwrap()).lines();
        lines.map(move |line| {
            let _until_dropped = &mut watching;
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            event["chains"].clone()
        })
    }
}

/// Writes a file of a user.
fn put_as(uid: u32, path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    chown(path, Some(uid), None).unwrap();
}

fn job(uid: u32) -> String {
    format!("job-{uid}")
}

/// Process of this server that runs the modules of a user.
fn process(daemon: &Daemon, uid: u32) -> Option<u32> {
    let of_user =
        |pid: &u32| status(*pid, "Uid").is_some_and(|line| line.contains(&uid.to_string()));
    let found = daemon.children().into_iter().filter(of_user);
    found.filter(|pid| is_running(*pid)).max()
}

#[needs(prepared, root)]
#[test]
fn modules_of_a_user_run_as_that_user_without_rights() {
    let server = TenantServer::start("", ["report", "echo"]);
    for uid in USERS {
        let pid = process(&server.daemon, uid).unwrap();
        assert_eq!(
            status(pid, "Uid").unwrap(),
            format!("{uid} {uid} {uid} {uid}")
        );
        // The group may read the code that was compiled for the user.
        assert_eq!(status(pid, "Gid").unwrap(), "1 1 1 1");
        assert_eq!(status(pid, "Groups").unwrap(), "");
        for kind in ["CapPrm", "CapEff", "CapInh", "CapAmb"] {
            assert_eq!(status(pid, kind).unwrap(), "0000000000000000", "{kind}");
        }
        assert_eq!(status(pid, "Seccomp").unwrap(), "2");
        assert_eq!(nice(pid), Some(0), "the server has a higher priority");
        assert_eq!(status(pid, "NoNewPrivs").unwrap(), "1");
        // Nor can other processes of the user look into it.
        let mut look = Command::new("cat");
        look.arg(format!("/proc/{pid}/environ")).uid(uid).gid(uid);
        let told = run(&mut look).expect_status(1).stderr;
        assert!(told.contains("Permission denied"), "{told}");
        // The code is the server's: the user can neither read nor change it.
        let code = server.place.path("code-for-users").join(uid.to_string());
        let found = fs::metadata(&code).unwrap();
        assert_eq!((found.uid(), found.mode() & 0o777), (SERVER_UID, 0o750));
        let mut list = Command::new("ls");
        list.arg(&code).uid(uid).gid(uid).current_dir("/");
        run(&mut list).expect_status(2);
    }
}

#[needs(prepared, root)]
#[test]
fn ended_process_costs_its_user_one_call() {
    let server = TenantServer::start("", ["report", "echo"]);
    let mut chains = server.watch();
    let mut next = || {
        let chains = chains.next().unwrap();
        let result = &chains[0]["results"][0]["status"]["name"];
        let uid = chains[0]["owner"]["user"].as_u64().unwrap();
        (uid, result.as_str().unwrap().to_owned())
    };
    let raise = |uid: u32| drop(run(&mut server.raise(uid)).expect_status(0));
    let handled = "PMIX_EVENT_NO_ACTION_TAKEN".to_owned();
    let [first, second] = USERS;
    let [of_first, of_second] = USERS.map(u64::from);
    raise(first);
    assert_eq!(next(), (of_first, handled.clone()));
    raise(second);
    assert_eq!(next(), (of_second, handled.clone()));
    let others = process(&server.daemon, second).unwrap();
    for end in [Signal::KILL, Signal::ABORT] {
        let pid = process(&server.daemon, first).unwrap();
        // It takes no event any more, so that its end falls into a call.
        signal(pid, Signal::STOP);
        raise(first);
        raise(second);
        assert_eq!(
            next(),
            (of_second, handled.clone()),
            "the other user does not wait"
        );
        signal(pid, end);
        // SIGKILL ends also a stopped process, which may have gone by now.
        if end != Signal::KILL {
            signal(pid, Signal::CONT);
        }
        let lost = "PEAL_ERR_MODULE_UNAVAILABLE".to_owned();
        assert_eq!(next(), (of_first, lost));
        // A process that ended several times is started again after a pause.
        until("the next process takes calls", || {
            raise(first);
            next() == (of_first, handled.clone())
        });
    }
    assert_eq!(
        process(&server.daemon, second),
        Some(others),
        "the other user's process goes on"
    );
    let left = USERS.map(|uid| process(&server.daemon, uid).unwrap());
    server.daemon.tell(&["stop", "--wait"]);
    for pid in left {
        until("the processes end with the server", || !is_running(pid));
    }
}

#[needs(prepared, root)]
#[test]
fn supervisor_waits_for_ended_process_before_the_next_order() {
    let server = TenantServer::start("", ["report", "echo"]);
    let pid = process(&server.daemon, USERS[0]).unwrap();
    signal(pid, Signal::KILL);
    until("the process is no zombie", || {
        status(pid, "State").is_none()
    });
}

#[needs(prepared, root)]
#[test]
fn calls_in_process_of_a_user_are_recorded_and_replay() {
    let trail = tempfile::tempdir().unwrap();
    chown(trail.path(), Some(SERVER_UID), Some(SERVER_UID)).unwrap();
    let path = trail.path().join("trail.db");
    let audit = format!("[audit]\npath = {path:?}\non_failure = \"deny\"\n");
    let server = TenantServer::start(&audit, ["report", "echo"]);
    let mut chains = server.watch();
    for uid in [USERS[0], USERS[1], USERS[0]] {
        run(&mut server.raise(uid)).expect_status(0);
        let chains = chains.next().unwrap();
        assert_eq!(chains[0]["owner"]["user"], uid, "{chains}");
    }
    server.daemon.tell(&["stop", "--wait"]);
    // Root cannot take code from the server's cache, and compiles anew.
    let mut replay = peal(["audit", "replay", "--config"]);
    let told = run(replay.arg(server.place.path("peal.toml"))).expect_status(0);
    // The starts of three instances or more, and three events.
    assert!(told.stdout.contains(" 0 differ"), "{}", told.stdout);
    let user = USERS[0].to_string();
    let list = [
        "audit", "list", "--kind", "call", "--user", &user, "--config",
    ];
    let listed = run(peal(list).arg(server.place.path("peal.toml"))).expect_status(0);
    assert_eq!(
        listed.stdout.matches("event -3001").count(),
        2,
        "{}",
        listed.stdout
    );
}

#[needs(prepared, root)]
#[test]
fn processor_time_and_records_are_shown_for_each_user() {
    let trail = tempfile::tempdir().unwrap();
    chown(trail.path(), Some(SERVER_UID), Some(SERVER_UID)).unwrap();
    let path = trail.path().join("trail.db");
    let audit = format!("[audit]\npath = {path:?}\non_failure = \"deny\"\n");
    let server = TenantServer::start(&audit, ["loop-forever", "echo"]);
    let held = |caller: u32, uid: u32, resource: &str| -> Option<u64> {
        let mut stats = server.daemon.verb(&["stats", "--by-user", "-o", "json"]);
        let printed = run(stats.uid(caller).gid(caller).current_dir("/"))
            .expect_status(0)
            .stdout;
        let told: Value = serde_json::from_str(&printed).unwrap();
        let users = told["users"].as_array().unwrap();
        let user = users.iter().find(|user| user["uid"] == uid)?;
        let mut resources = user["resources"].as_array().unwrap().iter();
        let found = resources.find(|held| held["resource"] == resource)?;
        found["held"].as_u64()
    };
    let time = |caller, uid| held(caller, uid, "guest_cpu_ms");
    let mut chains = server.watch();
    let [first, second] = USERS;
    let before = time(0, first).unwrap_or_default();
    run(&mut server.raise(first)).expect_status(0);
    chains.next().unwrap();
    // The handler runs until its time limit.
    let after = time(0, first).unwrap();
    assert!(after > before, "{before} {after}");
    assert!(time(first, first) >= Some(after));
    assert_eq!(time(second, first), None, "another user does not see it");
    until("its call is in the trail", || {
        held(0, first, "audit_call_bytes") > Some(0)
    });
    assert_eq!(held(second, first, "audit_call_bytes"), None);
}

#[needs(prepared, root)]
#[test]
fn events_beyond_share_of_one_user_delay_no_other() {
    let share = [("PEAL_SERVER_MAX_CHAIN_QUEUE_BYTES_PER_USER", "65536")];
    let server = TenantServer::start_with("", ["loop-forever", "echo"], &share);
    let daemon = &server.daemon;
    let mut chains = server.watch();
    let [first, second] = USERS;
    let environment = daemon.environment(&job(first), 0);
    let uri = environment
        .iter()
        .find(|(name, _)| name == "PMIX_SERVER_URI41")
        .unwrap();
    let address = uri.1.split_once("tcp4://").unwrap().1;
    // While the first event is handled, those after it need more than the share.
    let mut flood = Command::new(program("peal-attack"));
    flood.args(["raise-about", address, &job(first), "64", "16384"]);
    flood.uid(first).gid(first).current_dir("/");
    run(&mut flood).expect_status(0);
    let listed = daemon.tell(&["stats", "--by-user", "-o", "json"]);
    let told: Value = serde_json::from_str(&listed).unwrap();
    let refused = |uid: u32| {
        let users = told["users"].as_array().unwrap().iter();
        let mut resources = users
            .filter(|user| user["uid"] == uid)
            .flat_map(|user| user["resources"].as_array().unwrap());
        resources
            .find(|held| held["resource"] == "chain_queue_bytes")
            .map_or(0, |held| held["refused"].as_u64().unwrap())
    };
    assert!(refused(first) > 0, "{listed}");
    assert_eq!(refused(second), 0, "{listed}");
    run(&mut server.raise(second)).expect_status(0);
    let of_second = chains
        .find(|chains| chains[0]["owner"]["user"] == second)
        .unwrap();
    let status = &of_second[0]["results"][0]["status"]["name"];
    assert_eq!(*status, "PMIX_EVENT_NO_ACTION_TAKEN");
}
