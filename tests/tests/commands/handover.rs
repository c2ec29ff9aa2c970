//! `peal serve --take-over`: another process goes on with a server, and nobody is cut off.
use peal_client::{CleanupRequest, Control, FileSign, MonitorRequest};
use peal_frames::{DescriptorStream, FrameLimit};
use peal_model::{
    Info, Infos, Key, KeyName, Nspace, Proc, Range, Rank, Scope, Status, Value, code, key,
};
use peal_needs::needs;
use peal_server::admin::{self, AdminReply, AdminRequest};
use peal_tests::{
    c_program,
    daemon::{Daemon, Place, put, take_surroundings},
    finish,
    in_process::{listener, next},
    peal, run, until,
};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const NEWS: Status = Status(-3001);

/// Has another process go on with a server. Returns it when the first one has ended.
#[track_caller]
fn taken_over(place: &Place, old: Daemon) -> Daemon {
    let new = place.start_under(|mut serve| {
        serve.arg("--take-over");
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
            let server = taken_over(&place, server);
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
    let listed = server.tell(&["job", "list", "-o", "json"]);
    let jobs: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(jobs[0]["connected"], 2, "{listed}");
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

    let server = taken_over(&place, server);
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
    let listed = server.tell(&["job", "list", "-o", "json"]);
    let jobs: serde_json::Value = serde_json::from_str(&listed).unwrap();
    jobs[0]["elapsed"]
        .as_u64()
        .unwrap_or_else(|| panic!("{listed}"))
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
    let server = taken_over(&place, server);
    raise(HALF..MANY).await;
    // Of one that was never written to in the second process, too.
    let server = taken_over(&place, server);
    let server = taken_over(&place, server);
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

    fs::copy(peal_tests::program("peal"), place.path("next")).unwrap();
    fs::rename(place.path("next"), &program).unwrap();
    let would = server.tell(&["upgrade", "--dry-run"]);
    assert!(would.starts_with("would have a new process"), "{would}");
    let printed = server.tell(&["upgrade", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(report["connections"], 1, "{printed}");
    assert_ne!(report["pid"], server.pid(), "{printed}");
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

/// Runs C programs of one job until they have ended. Returns what they print.
fn printed_by(procs: Vec<std::process::Child>) -> Vec<String> {
    let ended = procs.into_iter().map(|proc| finish(proc).expect_status(0));
    ended.map(|done| done.stdout).collect()
}

#[needs(libpmix)]
#[test]
fn handovers_under_a_flood_lose_nothing() {
    let events: u32 = std::env::var("PEAL_FLOOD").map_or(20_000, |count| count.parse().unwrap());
    let place = Place::new();
    let mut server = place.start();
    server.tell(&["job", "register", "flood", "-n", "2"]);
    let flood = |rank| {
        let mut proc = server.proc("flood", rank, &c_program("flood"));
        proc.args([&events.to_string(), "heard"]).spawn().unwrap()
    };
    let flood = vec![flood(0), flood(1)];
    let flood = std::thread::spawn(move || printed_by(flood));
    let mut pauses = Vec::new();
    while !flood.is_finished() {
        let job = format!("groups-{}", pauses.len());
        server.tell(&["job", "register", &job, "-n", "3"]);
        let group = |rank| {
            let mut proc = server.proc(&job, rank, &c_program("group"));
            proc.arg("whole").spawn().unwrap()
        };
        let groups: Vec<_> = (0..3).map(group).collect();
        server = taken_over(&place, server);
        let status = server.tell(&["status", "-o", "json"]);
        let status: serde_json::Value = serde_json::from_str(&status).unwrap();
        pauses.push(status["continued"]["paused_ms"].as_u64().unwrap());
        for printed in printed_by(groups) {
            assert!(
                printed.contains("its number is that of rank 0: yes"),
                "{printed}"
            );
        }
    }
    let printed = flood.join().unwrap().concat();
    let all = format!("{events} of {events} arrive, in order");
    assert!(printed.contains(&all), "{printed}");
    pauses.sort_unstable();
    println!("{} handovers, requests waited {pauses:?} ms", pauses.len());
}

#[needs(prepared)]
#[test]
fn nothing_to_take_over_is_an_error() {
    let place = Place::new();
    let (mut serve, _states) = place.serve("notify");
    let failed = run(serve.arg("--take-over")).expect_status(125);
    assert!(
        failed.stderr.contains("cannot take over the server at"),
        "{}",
        failed.stderr
    );
}
