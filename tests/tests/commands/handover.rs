//! `peal serve --continue`: another process goes on with a server, and nobody is cut off.
use super::cluster::{await_member, state};
use peal_client::{
    CleanupRequest, Client, ConstructOptions, Control, FileSign, MonitorRequest, RequestSelector,
};
use peal_frames::{DescriptorStream, FrameLimit};
use peal_model::{
    Event, Info, Infos, Key, KeyName, Nspace, Proc, Range, Rank, Scope, Status, Value, code, key,
};
use peal_needs::needs;
use peal_server::admin::{self, AdminReply, AdminRequest};
use peal_stub::{HostReply, HostRequest, UpcallKind};
use peal_tests::{
    c_program,
    daemon::{Daemon, Place, put, take_surroundings},
    fake_launcher::FakeLauncher,
    finish,
    in_process::{everything, listener, next},
    launchers::Launcher,
    libpmix::Release,
    nats_site::NatsSite,
    peal, run, until,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::sync_channel,
    time::Duration,
};

const NEWS: Status = Status(-3001);

/// Has another process go on with a server. Returns it when the first one has ended.
#[track_caller]
fn handed_over(place: &Place, old: Daemon) -> Daemon {
    let new = place.start_under(|mut serve| {
        serve.arg("--continue");
        serve
    });
    let ended = old.ends().expect_status(0);
    assert!(
        ended
            .stderr
            .contains("another process goes on with the server"),
        "{}",
        ended.stderr
    );
    // Those that were connecting are admitted here or there.
    assert!(
        !ended.stderr.contains("connection refused"),
        "{}",
        ended.stderr
    );
    new
}

fn proc(rank: u32) -> Proc {
    Proc::new(Nspace::new("job").unwrap(), Rank(rank))
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn clients_go_on_with_another_process() {
    let place = Place::new();
    let mut server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let first = server.client("job", 0).await;
    let second = server.client("job", 1).await;
    let (handler, mut heard) = listener();
    first.register(&[NEWS], &[], handler).await.unwrap();
    for round in 0..5_u32 {
        // Open requests of both kinds: one that waits for a value, one for another proc.
        let name = Key::new(&format!("test.round.{round}")).unwrap();
        let of = proc(1);
        // The machine may be busy.
        let patience = [Info::new(key::PMIX_TIMEOUT, Value::Int32(60))];
        let get = first.get(&of, name.clone(), &patience);
        let fence = first.fence(&[], &[]);
        let meanwhile = async {
            let server = handed_over(&place, server);
            second.put(Scope::Global, name.clone(), Value::Uint32(round));
            second.commit().await.unwrap();
            second.fence(&[], &[]).await.unwrap();
            let infos = vec![Info::new(
                key::PMIX_EVENT_TEXT_MESSAGE,
                Value::string(name.as_str()),
            )];
            second.notify(NEWS, Range::Namespace, infos).await.unwrap();
            server
        };
        let (got, fenced, now) = tokio::join!(get, fence, meanwhile);
        server = now;
        assert_eq!(got.unwrap(), Value::Uint32(round));
        fenced.unwrap();
        let event = next(&mut heard).await;
        assert_eq!(event.code, NEWS);
    }
    let jobs = listed_jobs(&server);
    assert_eq!(jobs[0]["connected"], 2, "{jobs}");
    first.finalize().await.unwrap();
    second.finalize().await.unwrap();
    server.tell(&["job", "deregister", "job"]);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn monitors_cleanups_and_ages_of_jobs_go_on() {
    /// Time of many heartbeats, so that a process that waits for a core is not reported as silent.
    const SILENCE: Duration = Duration::from_secs(2);
    let place = Place::new();
    let (grows, left) = (place.path("grows"), place.path("left"));
    fs::write(&grows, "some").unwrap();
    fs::write(&left, "some").unwrap();
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let beating = server.client("job", 0).await;
    let observer = server.client("job", 1).await;
    let (handler, mut alerts) = listener();
    let codes = [
        code::PMIX_MONITOR_HEARTBEAT_ALERT,
        code::PMIX_MONITOR_FILE_ALERT,
    ];
    observer.register(&codes, &[], handler).await.unwrap();
    let heartbeats = MonitorRequest::heartbeat(SILENCE, 0);
    beating.watch(heartbeats).await.unwrap();
    let heart = beating.heartbeats(Duration::from_millis(50));
    // The file is looked at when the other process has the server.
    let file = MonitorRequest::file(&grows, FileSign::Size, Duration::from_secs(5), 0);
    observer.watch(file).await.unwrap();
    let cleanup = CleanupRequest {
        files: vec![left.clone()],
        ..CleanupRequest::default()
    };
    let cleanup = Control::Cleanup(cleanup);
    beating.control(&[], cleanup).await.unwrap();
    until("the job is some seconds old", || age_of_job(&server) >= 1);

    let server = handed_over(&place, server);
    assert!(age_of_job(&server) >= 1);
    assert!(
        alerts.try_recv().is_err(),
        "the proc beats, and the file was not looked at"
    );
    let alert = next(&mut alerts).await;
    assert_eq!(alert.code, code::PMIX_MONITOR_FILE_ALERT, "{alert:?}");
    drop(heart);
    let alert = next(&mut alerts).await;
    assert_eq!(alert.code, code::PMIX_MONITOR_HEARTBEAT_ALERT, "{alert:?}");
    assert!(left.exists());
    beating.finalize().await.unwrap();
    observer.finalize().await.unwrap();
    server.tell(&["job", "deregister", "job"]);
    until("the file is removed", || !left.exists());
}

/// Returns the time since the registration of the first job, in seconds.
fn age_of_job(server: &Daemon) -> u64 {
    let jobs = listed_jobs(server);
    jobs[0]["elapsed"]
        .as_u64()
        .unwrap_or_else(|| panic!("{jobs}"))
}

/// Returns what the server says of its jobs.
fn listed_jobs(server: &Daemon) -> serde_json::Value {
    serde_json::from_str(&server.tell(&["job", "list", "-o", "json"])).unwrap()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn spilled_events_go_on_with_another_process() {
    const MANY: u32 = 3000;
    const HALF: u32 = MANY / 2;
    const NUMBER: KeyName = KeyName("test.number");
    let place = Place::new();
    place.configure("[events]\nmax_memory_bytes = 65536\nmax_ring_bytes = 0\n");
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "2"]);
    let first = server.client("job", 0).await;
    let second = server.client("job", 1).await;
    let text = "x".repeat(2000);
    let raise = async |numbers: std::ops::Range<u32>| {
        for number in numbers {
            let infos = vec![
                Info::new(NUMBER, Value::Uint32(number)),
                Info::new(key::PMIX_EVENT_TEXT_MESSAGE, Value::string(&text)),
            ];
            first.notify(NEWS, Range::Namespace, infos).await.unwrap();
        }
    };
    raise(0..HALF).await;
    let server = handed_over(&place, server);
    raise(HALF..MANY).await;
    // Of one that was never written to in the second process, too.
    let server = handed_over(&place, server);
    let server = handed_over(&place, server);
    let (handler, mut heard) = listener();
    second.register(&[NEWS], &[], handler).await.unwrap();
    for number in 0..MANY {
        let event = next(&mut heard).await;
        assert_eq!(event.infos.value_of(NUMBER), Some(&Value::Uint32(number)));
        let had = event.infos.value_of(key::PMIX_EVENT_TEXT_MESSAGE);
        assert_eq!(had.and_then(Value::as_str), Some(text.as_str()));
    }
    let stats = server.tell(&["stats"]);
    let lost = stats
        .lines()
        .find(|line| line.starts_with("peal_events_lost"));
    assert!(lost.is_none_or(|line| line.ends_with(" 0")), "{lost:?}");
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn server_whose_successor_dies_goes_on() {
    let place = Place::new();
    let server = place.start();
    server.tell(&["job", "register", "job", "-n", "1"]);
    let client = server.client("job", 0).await;
    // The other end closes before it asks for the state, and after the first part of it.
    for parts in [0, 1] {
        let mut answers = admin::request(&place.socket(), &AdminRequest::HandOver).unwrap();
        let reply = answers.reply().unwrap();
        assert!(matches!(reply, AdminReply::HandingOver), "{reply:?}");
        let mut stream = DescriptorStream::new(answers.into_stream(), FrameLimit(1 << 20));
        for _ in 0..parts {
            stream.send(&"Next", &[]).unwrap();
            let _: serde::de::IgnoredAny = stream.receive().unwrap().message;
        }
        drop(stream);
        // Requests are served again, and further clients admitted.
        client.fence(&[], &[]).await.unwrap();
        let job = format!("job-{parts}");
        server.tell(&["job", "register", &job, "-n", "1"]);
        let other = server.client(&job, 0).await;
        other.fence(&[], &[]).await.unwrap();
    }
}

/// Returns a server of the program in this file, which an upgrade may replace.
#[track_caller]
fn server_of(place: &Place, program: &Path) -> Daemon {
    fs::copy(peal_tests::program("peal"), program).unwrap();
    place.start_under(|serve| {
        let mut command = Command::new(program);
        command
            .args(serve.get_args())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        take_surroundings(&mut command, &serve);
        command
    })
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn upgrade_has_the_installed_program_go_on() {
    let place = Place::new();
    let program = place.path("peal");
    let server = server_of(&place, &program);
    server.tell(&["job", "register", "job", "-n", "1"]);
    let client = server.client("job", 0).await;

    put(&program, "no program");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let failed = server.ask(&["upgrade"]).expect_status(125);
    assert!(failed.stderr.contains("cannot start"), "{}", failed.stderr);
    put(&program, "#!/bin/sh\nexit 7\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let failed = server.ask(&["upgrade"]).expect_status(125);
    let says = "ended before it had the server, which goes on";
    assert!(failed.stderr.contains(says), "{}", failed.stderr);
    client.fence(&[], &[]).await.unwrap();
    let (handler, mut told) = listener();
    let continued = [Status::PEAL_SERVER_CONTINUED];
    client
        .register(&continued, everything(), handler)
        .await
        .unwrap();

    fs::copy(peal_tests::program("peal"), place.path("next")).unwrap();
    fs::rename(place.path("next"), &program).unwrap();
    let would = server.tell(&["upgrade", "--dry-run"]);
    assert!(would.starts_with("would have a new process"), "{would}");
    let printed = server.tell(&["upgrade", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(report["connections"], 1, "{printed}");
    assert_ne!(report["pid"], server.pid(), "{printed}");
    let event = next(&mut told).await;
    let release = event.infos.value_of(KeyName("peal.server.release"));
    let release = release.and_then(Value::as_str);
    assert_eq!(release, Some(env!("CARGO_PKG_VERSION")));
    client.fence(&[], &[]).await.unwrap();
    client.finalize().await.unwrap();
    server.tell(&["stop", "--yes"]);
    // Its output is also that of the process that went on.
    server.ends().expect_status(0);
}

#[needs(prepared, root)]
#[tokio::test(flavor = "multi_thread")]
async fn supervisor_starts_the_process_of_an_upgrade() {
    let place = Place::of_server_user();
    let trail = place.path("audit.db");
    place.configure_supervised(&format!(
        "[audit]\npath = {trail:?}\non_failure = \"deny\"\n"
    ));
    let mut server = place.start();
    server.tell(&["job", "register", "job", "-n", "1"]);
    let client = server.client("job", 0).await;
    // Root itself could not go on with the files and sockets of that user.
    let mut answers = admin::request(&place.socket(), &AdminRequest::HandOver).unwrap();
    let reply = answers.reply().unwrap();
    assert!(matches!(reply, AdminReply::Refused { .. }), "{reply:?}");
    let mut pids = vec![server.pid()];
    for _ in 0..2 {
        let printed = server.tell(&["upgrade"]);
        assert!(printed.contains("1 job and 1 connection"), "{printed}");
        client.fence(&[], &[]).await.unwrap();
        let told = loop {
            let state = server.state();
            // Systemd would stop the service.
            assert!(!state.contains("STOPPING=1"), "{state}");
            if let Some(pid) = state.strip_prefix("MAINPID=") {
                break pid.trim().parse().unwrap();
            }
        };
        assert!(!pids.contains(&told), "the supervisor is another process");
        pids.push(told);
    }
    client.finalize().await.unwrap();
    server.tell(&["stop", "--yes"]);
    server.ends().expect_status(0);
    let config = place.path("peal.toml");
    run(peal(["audit", "verify", "--config"]).arg(&config)).expect_status(0);
}

/// Starts a C program as the first procs of a registered job.
fn started(server: &Daemon, job: &str, procs: u32, program: &str, args: &[&str]) -> Vec<Child> {
    let start = |rank| {
        let mut proc = server.proc(job, rank, &c_program(program));
        proc.args(args).spawn().unwrap()
    };
    (0..procs).map(start).collect()
}

/// Waits for the end of C programs of one job. Returns what each prints.
fn printed_by(procs: Vec<Child>) -> Vec<String> {
    let ended = procs.into_iter().map(|proc| finish(proc).expect_status(0));
    ended.map(|done| done.stdout).collect()
}

/// Checks what a flood has printed.
#[track_caller]
fn check_flood(printed: &str) {
    let all = format!("{FLOOD} of {FLOOD} arrive, in order");
    assert!(printed.contains(&all), "{printed}");
}

/// Number of the events of one flood.
const FLOOD: &str = "2000";

/// `mpirun` with a program, whose server is that of the node at this socket.
fn under_mpirun(hosts: &Path, program: &[&Path]) -> Command {
    let mut command = Launcher::mpirun().job(2, &[], program);
    let libraries = Release::peal().variable().unwrap();
    let (name, value) = libraries.split_once('=').unwrap();
    command
        .env(name, value)
        .env("PEAL_SERVER", "daemon")
        .env("PEAL_HOSTS_SOCKET", hosts);
    command
}

/// Number of handovers in a row (`PEAL_HANDOVERS`).
fn handovers() -> usize {
    std::env::var("PEAL_HANDOVERS").map_or(6, |count| count.parse().unwrap())
}

#[needs(prepared, libpmix, openmpi4)]
#[tokio::test(flavor = "multi_thread")]
async fn handovers_under_load_lose_nothing() {
    let place = Place::new();
    let hosts = place.path("run/hosts.sock");
    let mut server = server_for_launchers(&place);
    server.tell(&["job", "register", "watched", "-n", "1"]);
    let watched = server.client("watched", 0).await;
    let silence = Duration::from_secs(3600);
    let monitor = MonitorRequest::heartbeat(silence, 0).called("long");
    watched.watch(monitor).await.unwrap();
    let mut pauses = Vec::new();
    let server = std::thread::scope(|scope| {
        // Procs of registered jobs and those of another launcher, all beside the handovers.
        let (flood, floods) = sync_channel::<Vec<Child>>(0);
        let floods = scope.spawn(move || {
            floods
                .iter()
                .for_each(|procs| check_flood(&printed_by(procs).concat()))
        });
        let (launch, launches) = sync_channel::<Command>(0);
        let launches = scope.spawn(move || {
            launches
                .iter()
                .for_each(|mut flood| check_flood(&run(&mut flood).expect_status(0).stdout));
        });
        for number in 0..handovers() {
            let [flooded, grouped] = ["flood", "group"].map(|kind| format!("{kind}-{number}"));
            server.tell(&["job", "register", &flooded, "-n", "2"]);
            server.tell(&["job", "register", &grouped, "-n", "3"]);
            flood
                .send(started(&server, &flooded, 2, "flood", &[FLOOD, "heard"]))
                .unwrap();
            let mut flood = under_mpirun(&hosts, &[&c_program("flood")]);
            flood.args([FLOOD, "heard"]);
            launch.send(flood).unwrap();
            let groups = started(&server, &grouped, 3, "group", &["whole"]);
            let mut mpi = under_mpirun(&hosts, &[&c_program("mpi")]);
            let mpi = mpi
                .arg("collectives")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            server = handed_over(&place, server);
            pauses.push(state(&server)["continued"]["paused_ms"].as_u64().unwrap());
            for printed in printed_by(groups) {
                let is_member = printed.contains("its number is that of rank 0: yes");
                assert!(is_member, "{printed}");
            }
            let printed = finish(mpi).expect_status(0).stdout;
            assert!(printed.contains("most 2"), "{printed}");
        }
        drop((flood, launch));
        floods.join().unwrap();
        launches.join().unwrap();
        server
    });
    // The monitor of the first process is there.
    let which = RequestSelector::Named("long".into());
    watched.unwatch(&which).await.unwrap();
    server.tell(&["status"]);
    pauses.sort_unstable();
    println!("{} handovers, requests waited {pauses:?} ms", pauses.len());
}

/// Returns a server for the stubs of other launchers.
#[track_caller]
fn server_for_launchers(place: &Place) -> Daemon {
    let hosts = place.path("run/hosts.sock");
    place.configure(&format!("[hosts]\nsocket = {hosts:?}\n"));
    place.start()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn jobs_of_launchers_over_nodes_go_on() {
    let places = [Place::new(), Place::new()];
    let [first, second] = places.each_ref().map(server_for_launchers);
    let sockets = places.each_ref().map(|place| place.path("run/hosts.sock"));
    let launcher = FakeLauncher::at(&sockets, 1);
    launcher.register();
    let connect = async |rank| Client::connect(&launcher.environment(rank)).await.unwrap();
    let (here, there) = (connect(0).await, connect(1).await);
    let (handler, mut heard) = listener();
    here.register(&[NEWS], &[], handler).await.unwrap();
    // The launcher waits for the fence of the other node, and for the values of this one.
    let of = Proc::new(launcher.nspace().clone(), Rank(0));
    let name = Key::new("test.value").unwrap();
    let patience = [Info::new(key::PMIX_TIMEOUT, Value::Int32(60))];
    let fence = here.fence(&[], &[]);
    let get = there.get(&of, name.clone(), &patience);
    let meanwhile = async {
        let servers = tokio::task::block_in_place(|| {
            until("the launcher is asked", || {
                let asked = launcher.upcalls();
                [UpcallKind::Fence, UpcallKind::DirectModex]
                    .iter()
                    .all(|kind| asked.contains(kind))
            });
            let (mut near, mut far) = (first, second);
            for _ in 0..2 {
                near = handed_over(&places[0], near);
                far = handed_over(&places[1], far);
                // A further launcher finds the socket.
                drop(FakeLauncher::at(&sockets, 1));
            }
            (near, far)
        });
        here.put(Scope::Global, name.clone(), Value::Uint32(7));
        here.commit().await.unwrap();
        there.fence(&[], &[]).await.unwrap();
        servers
    };
    let (fenced, got, servers) = tokio::join!(fence, get, meanwhile);
    let (first, second) = servers;
    fenced.unwrap();
    assert_eq!(got.unwrap(), Value::Uint32(7));
    there
        .notify(NEWS, Range::Namespace, Vec::new())
        .await
        .unwrap();
    assert_eq!(next(&mut heard).await.code, NEWS);
    assert_eq!(jobs(&first), 1);
    here.finalize().await.unwrap();
    there.finalize().await.unwrap();
    drop(launcher);
    for server in [&first, &second] {
        until("the job has ended with its launcher", || jobs(server) == 0);
    }
}

/// Returns the number of jobs.
fn jobs(server: &Daemon) -> usize {
    listed_jobs(server).as_array().unwrap().len()
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn launchers_go_on_with_a_server_whose_successor_dies() {
    let place = Place::new();
    let server = server_for_launchers(&place);
    let sockets = [place.path("run/hosts.sock")];
    let launcher = FakeLauncher::at(&sockets, 2);
    launcher.register();
    let client = Client::connect(&launcher.environment(0)).await.unwrap();
    let mut answers = admin::request(&place.socket(), &AdminRequest::HandOver).unwrap();
    answers.reply().unwrap();
    let mut stream = DescriptorStream::new(answers.into_stream(), FrameLimit(1 << 20));
    stream.send(&"Next", &[]).unwrap();
    let _: serde::de::IgnoredAny = stream.receive().unwrap().message;
    drop(stream);
    let (handler, mut heard) = listener();
    client
        .register(&[NEWS], everything(), handler)
        .await
        .unwrap();
    let event = Event {
        code: NEWS,
        source: Some(Proc::new(launcher.nspace().clone(), Rank(1))),
        range: Range::Namespace,
        infos: Vec::new(),
    };
    let done = launcher.request(0, HostRequest::Notify { event });
    assert_eq!(done, Ok(HostReply::Done));
    assert_eq!(next(&mut heard).await.code, NEWS);
    FakeLauncher::at(&sockets, 1);
    client.finalize().await.unwrap();
    drop(launcher);
    until("the job has ended with its launcher", || jobs(&server) == 0);
}

/// Waits until a server is a member of a cluster of two. Returns its number.
fn member_of_two(server: &Daemon) -> serde_json::Value {
    await_member(server, 2);
    state(server)["cluster"]["id"].clone()
}

#[needs(prepared, nats)]
#[tokio::test(flavor = "multi_thread")]
async fn servers_of_a_cluster_go_on_with_their_places() {
    const NUMBER: KeyName = KeyName("test.number");
    let site = NatsSite::start(&["n1", "n2"]);
    let places = ["n1", "n2"].map(|node| site.place(node));
    let [mut near, mut far] = places.each_ref().map(Place::start);
    let ids = [&near, &far].map(member_of_two);
    near.tell(&["job", "register", "near", "-n", "1"]);
    far.tell(&["job", "register", "far", "-n", "1"]);
    let (here, there) = (near.client("near", 0).await, far.client("far", 0).await);
    let procs = [here.me().clone(), there.me().clone()];
    let (handler, mut heard) = listener();
    there
        .register(&[NEWS], everything(), handler)
        .await
        .unwrap();
    let mut sent = 0;
    for round in 0..4 {
        // A group that waits for the other node, and events that are on their way, while one server is
        // another process.
        let name = format!("group-{round}");
        let join = |client: &'_ Client| {
            let construct = ConstructOptions::of(&procs);
            let (client, name) = (client.clone(), name.clone());
            async move { client.group_construct(&name, construct).await }
        };
        let joined = tokio::spawn(join(&here));
        let raised = tokio::spawn({
            let (here, numbers) = (here.clone(), sent..sent + 200_u32);
            async move {
                for number in numbers {
                    let infos = vec![Info::new(NUMBER, Value::Uint32(number))];
                    here.notify(NEWS, Range::Session, infos).await.unwrap();
                }
            }
        });
        (near, far) = tokio::task::block_in_place(|| match round % 2 {
            0 => (handed_over(&places[0], near), far),
            _ => (near, handed_over(&places[1], far)),
        });
        let group = join(&there).await.unwrap();
        assert_eq!(joined.await.unwrap().unwrap().members, group.members);
        raised.await.unwrap();
        for number in sent..sent + 200 {
            let event = next(&mut heard).await;
            assert_eq!(event.infos.value_of(NUMBER), Some(&Value::Uint32(number)));
        }
        sent += 200;
    }
    assert_eq!([&near, &far].map(member_of_two), ids, "nobody joined again");
}

#[needs(prepared, nats)]
#[test]
fn server_of_a_cluster_is_not_continued_outside_of_it() {
    let site = NatsSite::start(&["n1"]);
    let place = site.place("n1");
    let server = place.start();
    place.configure("");
    let (mut serve, _states) = place.serve("other");
    let failed = run(serve.arg("--continue")).expect_status(125);
    let says = "the running server is in a cluster, and the configuration names none";
    assert!(failed.stderr.contains(says), "{}", failed.stderr);
    server.tell(&["status"]);
}

#[needs(prepared)]
#[test]
fn nothing_to_continue_is_an_error() {
    let place = Place::new();
    let (mut serve, _states) = place.serve("notify");
    let failed = run(serve.arg("--continue")).expect_status(125);
    assert!(
        failed.stderr.contains("cannot continue the server at"),
        "{}",
        failed.stderr
    );
}
