//! `peal serve` from its start to its end: readiness, jobs that others start, reload, drain, and
//! sudden death.
use peal_model::{Nspace, Proc, Rank, code};
use peal_needs::needs;
use peal_tests::{
    Done, c_program,
    daemon::{Daemon, Place},
    finish,
    in_process::{listener, next},
    peal, program, run,
};
use rustix::process::Signal;
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
};

/// Starts all ranks of a registered job and waits for their ends.
fn run_job(daemon: &Daemon, job: &str, size: u32, program: &std::path::Path) -> Vec<Done> {
    let procs: Vec<Child> = (0..size)
        .map(|rank| daemon.proc(job, rank, program).spawn().unwrap())
        .collect();
    procs
        .into_iter()
        .map(|proc| finish(proc).expect_status(0))
        .collect()
}

/// Starts a connected proc, which finalizes when its input is closed.
fn connected(daemon: &Daemon, job: &str, rank: u32) -> Child {
    let mut child = daemon
        .proc(job, rank, &program("peal-test-identity"))
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line, format!("admitted as rank {rank}\n"));
    child
}

fn lets_go(mut child: Child) {
    drop(child.stdin.take());
    finish(child).expect_status(0);
}

#[needs(prepared)]
#[test]
fn jobs_that_others_start_are_served_and_forgotten() {
    let place = Place::new();
    let daemon = place.start();
    let printed = daemon.tell(&["job", "register", "demo", "-n", "3"]);
    assert!(
        printed.starts_with("# rank 0\n") && printed.contains("\n# rank 2\n"),
        "{printed}"
    );
    assert_eq!(printed.matches("PMIX_NAMESPACE=demo\n").count(), 3);
    assert!(printed.contains("PMIX_RANK=2\n"), "{printed}");
    let again = daemon
        .ask(&["job", "register", "demo", "-n", "3"])
        .expect_status(125);
    assert!(
        again
            .stderr
            .contains("a job \"demo\" is registered already"),
        "{}",
        again.stderr
    );
    let listed = daemon.tell(&["job", "list"]);
    let line: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        (line[0], &line[line.len() - 5..]),
        ("demo", &["3", "3", "0", "0", "0"][..]),
        "{listed}"
    );

    let done = run_job(&daemon, "demo", 3, &program("peal-example"));
    assert!(
        done[1]
            .stdout
            .contains("rank 1 of 3: my neighbour says \"hello from rank 2\""),
        "{done:?}"
    );
    let jobs: serde_json::Value =
        serde_json::from_str(&daemon.tell(&["job", "list", "-o", "json"])).unwrap();
    assert_eq!(
        (&jobs[0]["nspace"], &jobs[0]["finalized"]),
        (&"demo".into(), &3.into())
    );

    daemon.tell(&["job", "deregister", "demo"]);
    assert_eq!(daemon.tell(&["job", "list"]).lines().count(), 1);
    let gone = daemon
        .ask(&["job", "deregister", "demo"])
        .expect_status(125);
    assert!(
        gone.stderr.contains("no job \"demo\" was registered here"),
        "{}",
        gone.stderr
    );
    // The name is free again.
    daemon.tell(&["job", "register", "demo", "-n", "1"]);
    run_job(&daemon, "demo", 1, &program("peal-example"));
    daemon.tell(&["stop", "--wait"]);
    daemon.ends().expect_status(0);
}

#[needs(prepared, libpmix)]
#[test]
fn libpmix_programs_are_served_and_receive_server_death() {
    let hello = c_program("hello");
    let stays = c_program("stays");
    let place = Place::new();
    let mut daemon = place.start();
    daemon.tell(&["job", "register", "hello", "-n", "2"]);
    run_job(&daemon, "hello", 2, &hello);
    daemon.tell(&["job", "register", "stays", "-n", "2"]);
    let mut procs: Vec<Child> = (0..2)
        .map(|rank| daemon.proc("stays", rank, &stays).spawn().unwrap())
        .collect();
    for proc in &mut procs {
        let mut line = [0; 6];
        proc.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
        assert_eq!(&line, b"ready\n");
    }
    daemon.signal(Signal::KILL);
    for proc in procs {
        assert_eq!(
            finish(proc).expect_status(0).stdout,
            format!("lost: {}\n", code::PMIX_ERR_LOST_CONNECTION.0)
        );
    }
    assert_eq!(daemon.ends().status, None);
    // The files that a server left behind do not prevent a new start.
    assert!(place.socket().exists());
    daemon = place.start();
    daemon.tell(&["job", "register", "hello", "-n", "2"]);
    run_job(&daemon, "hello", 2, &hello);
}

#[needs(prepared)]
#[tokio::test]
async fn client_receives_server_death_and_next_one_starts_clean() {
    let place = Place::new();
    place.configure("[store]\npath = \"peal.db\"\n");
    for _ in 0..3 {
        let daemon = place.start();
        daemon.tell(&["job", "register", "job", "-n", "1"]);
        let client = daemon.client("job", 0).await;
        assert_eq!(client.me().nspace, Nspace::new("job").unwrap());
        let (handler, mut heard) = listener();
        client
            .register(&[code::PMIX_ERR_LOST_CONNECTION_TO_SERVER], &[], handler)
            .await
            .unwrap();
        daemon.signal(Signal::KILL);
        assert_eq!(
            next(&mut heard).await.code,
            code::PMIX_ERR_LOST_CONNECTION_TO_SERVER
        );
        daemon.ends();
    }
    let store =
        peal_store::Store::open(&place.path("peal.db"), peal_store::StoreSettings::default())
            .unwrap();
    let verbs = store
        .admin_calls(100)
        .unwrap()
        .into_iter()
        .filter(|record| record.call.verb.starts_with("register"));
    assert_eq!(verbs.count(), 3);
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn death_of_a_registered_proc_reaches_its_peers() {
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "job", "-n", "4"]);
    let client = daemon.client("job", 0).await;
    let (handler, mut heard) = listener();
    client.register(&[], &[], handler).await.unwrap();
    // A proc that finalizes is not reported, and neither is the later end of its process.
    lets_go(connected(&daemon, "job", 1));
    for rank in [2, 3] {
        let mut child = connected(&daemon, "job", rank);
        child.kill().unwrap();
        child.wait().unwrap();
        let event = next(&mut heard).await;
        assert_eq!(
            (event.code, &event.source),
            (code::PMIX_ERR_PROC_TERM_WO_SYNC, &None)
        );
        assert_eq!(
            event.affected(),
            [Proc::new(Nspace::new("job").unwrap(), Rank(rank))]
        );
    }
    let listed: serde_json::Value =
        serde_json::from_str(&daemon.tell(&["job", "list", "-o", "json"])).unwrap();
    assert_eq!(
        (&listed[0]["finalized"], &listed[0]["lost"]),
        (&1.into(), &2.into())
    );
}

#[needs(prepared)]
#[tokio::test(flavor = "multi_thread")]
async fn registered_proc_may_be_another_process_after_finalize() {
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "job", "-n", "2"]);
    let client = daemon.client("job", 0).await;
    let (handler, mut heard) = listener();
    client.register(&[], &[], handler).await.unwrap();
    for _ in 0..5 {
        lets_go(connected(&daemon, "job", 1));
    }
    let mut last = connected(&daemon, "job", 1);
    last.kill().unwrap();
    last.wait().unwrap();
    let event = next(&mut heard).await;
    assert_eq!(event.code, code::PMIX_ERR_PROC_TERM_WO_SYNC);
    client.finalize().await.unwrap();
    assert_eq!(heard.recv().await, None, "the others have left in order");
}

#[needs(prepared)]
#[test]
fn registered_job_is_recorded_from_registration_to_end() {
    let place = Place::new();
    place.configure("[store]\npath = \"peal.db\"\n");
    let daemon = place.start();
    daemon.tell(&["job", "register", "demo", "-n", "2"]);
    let recorded = || {
        let store =
            peal_store::Store::open(&place.path("peal.db"), peal_store::StoreSettings::default())
                .unwrap();
        store.job(&Nspace::new("demo").unwrap()).unwrap().unwrap()
    };
    let begun = recorded();
    assert_eq!((begun.size, begun.ended), (2, None));
    assert_eq!(
        begun.command,
        format!(
            "(registered for user {})",
            rustix::process::geteuid().as_raw()
        )
    );
    run_job(&daemon, "demo", 2, &program("peal-example"));
    daemon.tell(&["job", "deregister", "demo"]);
    let ended = recorded().ended.unwrap();
    assert!(ended.0 >= begun.started && ended.1 == 0, "{ended:?}");
    // A reused name is another job. A proc that did not finalize stays on record.
    daemon.tell(&["job", "register", "demo", "-n", "1"]);
    let mut proc = connected(&daemon, "demo", 0);
    proc.kill().unwrap();
    proc.wait().unwrap();
    while daemon.ask(&["job", "deregister", "demo"]).status != Some(0) {}
    assert_eq!(recorded().ended.map(|end| end.1), Some(1));
}

#[needs(prepared)]
#[test]
fn second_server_on_socket_is_refused_without_harm() {
    let place = Place::new();
    let daemon = place.start();
    let (mut second, states) = place.serve("second");
    let done = run(&mut second).expect_status(125);
    let wanted = format!(
        "a server is running on the admin socket {:?} (process {})",
        place.socket(),
        daemon.pid()
    );
    assert!(done.stderr.contains(&wanted), "{}", done.stderr);
    states.set_nonblocking(true).unwrap();
    assert!(
        states.recv(&mut [0; 64]).is_err(),
        "the server reported that it was ready"
    );
    assert!(
        daemon
            .tell(&["status"])
            .contains(&format!("process      {}\n", daemon.pid()))
    );
}

#[needs(prepared)]
#[test]
fn errors_are_reported_before_serving() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("[metrics]\nlisten = \"{}\"\n", taken.local_addr().unwrap());
    std::fs::write(
        place.path("text.db"),
        "this is no database, although it is long enough to be looked at as one",
    )
    .unwrap();
    std::fs::write(place.path("text.wasm"), "this is no component").unwrap();
    for (config, wanted) in [
        (
            "[server]\nmax_outbx_messages = 1\n",
            "did you mean `max_outbox_messages`?",
        ),
        (
            "[admin]\ngroup = \"no-such-group\"\n",
            "admin.group: there is no group \"no-such-group\" here",
        ),
        (
            "[store]\npath = \"text.db\"\n",
            "text.db\" should be a store of Peal's and is not a database of SQLite",
        ),
        (
            "[store]\npath = \"no/such/place.db\"\n",
            "no/such/place.db\" could not be created: No such file or directory",
        ),
        (
            "[[module]]\nname = \"m\"\npath = \"text.wasm\"\n",
            "peal.toml:3:1: module m: not WebAssembly",
        ),
        (&taken, "cannot serve metrics on 127.0.0.1:"),
    ] {
        place.configure(config);
        let (mut command, states) = place.serve("states");
        // The text of the others is right, so that the next start may succeed.
        let is_in_text = wanted.starts_with("did you mean");
        let done = run(&mut command).expect_status(if is_in_text { 78 } else { 125 });
        assert!(done.stderr.contains(wanted), "{config}: {}", done.stderr);
        states.set_nonblocking(true).unwrap();
        assert!(
            states.recv(&mut [0; 64]).is_err(),
            "{config}: the server reported that it was ready"
        );
        std::fs::remove_file(place.path("states")).unwrap();
        assert!(!place.socket().exists());
    }
    place.configure("");
    place.start();
}

#[needs(prepared)]
#[test]
fn draining_server_waits_for_clients_and_refuses_new_ones() {
    let place = Place::new();
    let mut daemon = place.start();
    daemon.tell(&["job", "register", "job", "-n", "2"]);
    let proc = connected(&daemon, "job", 0);
    let busy = daemon.ask(&["job", "deregister", "job"]).expect_status(125);
    assert!(
        busy.stderr.contains("job \"job\" has 1 proc connected"),
        "{}",
        busy.stderr
    );
    let waits = daemon
        .verb(&["drain", "--wait"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(daemon.state().contains("STATUS=draining"));
    assert!(daemon.tell(&["status"]).contains("phase        draining\n"));
    let refused = daemon.ask(&["job", "register", "more"]).expect_status(125);
    assert!(
        refused
            .stderr
            .contains("the server is draining: it takes no more jobs"),
        "{}",
        refused.stderr
    );
    let late = finish(
        daemon
            .proc("job", 1, &program("peal-test-identity"))
            .spawn()
            .unwrap(),
    );
    assert!(late.stdout.starts_with("refused: "), "{late:?}");
    // The server still serves it, and ends after it.
    lets_go(proc);
    assert!(daemon.state().contains("STOPPING=1"));
    finish(waits).expect_status(0);
    daemon.ends().expect_status(0);
    assert!(!place.socket().exists());
}

#[needs(prepared)]
#[test]
fn a_signal_lets_clients_finish_and_a_second_one_does_not() {
    let place = Place::new();
    // Without connected clients, one signal is enough.
    for signal in [Signal::TERM, Signal::INT] {
        let daemon = place.start();
        daemon.signal(signal);
        daemon.ends().expect_status(0);
    }
    let mut daemon = place.start();
    daemon.tell(&["job", "register", "job", "-n", "1"]);
    let mut proc = connected(&daemon, "job", 0);
    daemon.signal(Signal::TERM);
    assert!(daemon.state().contains("STATUS=draining"));
    assert!(daemon.tell(&["status"]).contains("connections  1\n"));
    daemon.signal(Signal::TERM);
    assert!(daemon.state().contains("STOPPING=1"));
    daemon.ends().expect_status(0);
    drop(proc.stdin.take());
    assert!(
        finish(proc).expect_status(1).stderr.contains("is lost"),
        "its server has not waited for it"
    );
}

/// Reads the messages that a server sends to its manager during a reload.
fn reloads(daemon: &mut Daemon) {
    let told = daemon.state();
    assert!(
        told.contains("RELOADING=1") && told.contains("MONOTONIC_USEC="),
        "{told}"
    );
    assert!(daemon.state().contains("READY=1"));
}

#[needs(prepared)]
#[test]
fn a_configuration_that_is_read_again_holds_as_far_as_it_can() {
    let place = Place::new();
    // A watched file would be read again at times of its own, and the manager told of that, too.
    let unwatched = "[deploy]\nwatch = false\n";
    place.configure(unwatched);
    let mut daemon = place.start();
    daemon.tell(&["job", "register", "job", "-n", "2"]);
    assert_eq!(daemon.tell(&["reload"]), "nothing has changed\n");
    reloads(&mut daemon);
    // The port is free now.
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let outbox = "[server]\nmax_outbox_messages = 10\n";
    let filter = "[trace]\nfilter = \"info\"\n";
    let metrics = format!("[metrics]\nlisten = \"{address}\"\n");
    place.configure(&format!(
        "{unwatched}{outbox}{filter}{metrics}[policy.connection]\ndefault = \"deny\"\n"
    ));
    let told = daemon.tell(&["reload"]);
    reloads(&mut daemon);
    let lines: Vec<&str> = told.lines().collect();
    let changed = [
        "trace.filter has changed",
        "policy.connection.default has changed",
        "metrics.listen has changed",
    ];
    assert_eq!(
        (&lines[..3], &lines[3..]),
        (
            &changed[..],
            &["server.max_outbox_messages will change at the next start"][..]
        )
    );
    let denied = finish(
        daemon
            .proc("job", 0, &program("peal-test-identity"))
            .spawn()
            .unwrap(),
    );
    assert!(denied.stdout.starts_with("refused: "), "{denied:?}");
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(
        answer.contains("\npeal_connections_refused_total 1\n"),
        "{answer}"
    );
    // An invalid configuration changes nothing.
    place.configure(&format!(
        "{unwatched}[metrics]\nlissten = \"127.0.0.1:1\"\n"
    ));
    let refused = daemon.ask(&["reload"]).expect_status(125);
    reloads(&mut daemon);
    let wanted = ["peal.toml:4:1", "did you mean `listen`?"];
    assert!(
        wanted.iter().all(|wanted| refused.stderr.contains(wanted)),
        "{}",
        refused.stderr
    );
    TcpStream::connect(address).unwrap();
    // A reload by signal has the same effect. Settings already in force are not reported again;
    // settings not yet in force are.
    place.configure(&format!(
        "{unwatched}{outbox}{filter}[[module]]\nname = \"m\"\npath = \"none.wasm\"\n"
    ));
    daemon.signal(Signal::HUP);
    reloads(&mut daemon);
    TcpStream::connect(address).unwrap();
    place.configure(&format!("{unwatched}{outbox}{filter}"));
    daemon.signal(Signal::HUP);
    reloads(&mut daemon);
    assert!(
        TcpStream::connect(address).is_err(),
        "metrics are still served"
    );
    lets_go(connected(&daemon, "job", 1));
    daemon.tell(&["stop"]);
    let done = daemon.ends().expect_status(0);
    for wanted in [
        "the configuration is not taken, the old one holds:",
        "none.wasm",
        "changed: policy.connection.default, metrics.listen; at the next start: server.max_outbox_messages\n",
        // Calls of administrators are traced from the moment when the filter is in force.
        "admin request answered",
    ] {
        assert!(done.stderr.contains(wanted), "{wanted}: {}", done.stderr);
    }
}

#[needs(prepared)]
#[test]
fn verbs_name_the_places_without_a_server() {
    let place = Place::new();
    for verb in [
        &["status"][..],
        &["stats"],
        &["job", "list"],
        &["drain"],
        &["stop"],
        &["reload"],
    ] {
        let done = run(peal(verb).arg("--socket").arg(place.socket())).expect_status(125);
        let wanted = format!(
            "no server answers on {:?}: No such file or directory",
            place.socket()
        );
        assert!(done.stderr.contains(&wanted), "{verb:?}: {}", done.stderr);
    }
}
