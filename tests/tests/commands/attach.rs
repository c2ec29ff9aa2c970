//! `peal attach`: programs run under any launcher as before, with handlers in between that see the
//! events.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{
    Done, c_program,
    daemon::Place,
    guest,
    launchers::{Launcher, attach},
    peal, program, run,
};
use std::{
    ffi::OsString,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Command, Stdio},
};

/// Configuration of `peal attach` whose handler logs and kills procs without heartbeats.
const WATCHDOG: &str = "[[module]]\nname = \"watchdog\"\npath = \"FILE\"\n\
                        grants = [\"logging\", \"clock\", \"job-control\", \"log-request\", \"resource-usage\"]\n\
                        config = { action = \"kill\", log = \"stderr\" }\n";

fn words(text: &[&str]) -> Vec<OsString> {
    text.iter().map(OsString::from).collect()
}

/// Returns the lines of the procs in a fixed order.
fn sorted(done: &Done) -> Vec<String> {
    let mut lines: Vec<String> = done.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Returns the launchers that accept an event of a job from procs. `mpirun` of Open MPI 4.1 stops
/// answering after one.
fn launchers() -> [Launcher; 3] {
    [Launcher::Peal, Launcher::c_server(), Launcher::prterun()]
}

#[needs(prepared, libpmix, openmpi5)]
#[test]
fn programs_run_as_without_it() {
    let example: Vec<OsString> = vec![program("peal-example").into()];
    let c: Vec<OsString> = vec![c_program("hello").into()];
    for launcher in launchers() {
        for program in [&example, &c] {
            let plain = run(&mut launcher.job(3, &[], program)).expect_status(0);
            let attached = attach(&["report"], &["--events"], program);
            let attached = run(&mut launcher.job(3, &[], attached)).expect_status(0);
            assert_eq!(
                sorted(&attached),
                sorted(&plain),
                "{launcher:?}, {program:?}: {}",
                attached.stderr
            );
            // Each proc but the source receives one event.
            assert_eq!(
                attached.stderr.matches("report answers").count(),
                2,
                "{launcher:?}: {}",
                attached.stderr
            );
        }
    }
}

#[needs(prepared, openmpi4, openmpi5)]
#[test]
fn mpi_programs_run_as_without_it() {
    let mpi = c_program("mpi");
    for launcher in [Launcher::mpirun(), Launcher::prterun()] {
        for what in ["ring", "collectives"] {
            let program: Vec<OsString> = vec![mpi.clone().into(), what.into()];
            let plain = run(&mut launcher.job(4, &[], &program)).expect_status(0);
            let attached =
                run(&mut launcher.job(4, &[], attach(&["report"], &[], &program))).expect_status(0);
            assert_eq!(sorted(&attached), sorted(&plain), "{launcher:?}");
            assert!(!attached.stdout.is_empty(), "the output is not empty");
        }
    }
}

/// Runs procs of which the last ends in this way, with this handler attached. Returns the events
/// that the procs received.
fn heard(launcher: &Launcher, options: &[&str], end: &str, handler: &str) -> Done {
    let program = vec![program("peal-foreign").into(), "hears".into(), end.into()];
    let done = run(&mut launcher.job(3, options, attach(&[handler], &["--events"], &program)));
    assert_eq!(
        done.stdout.matches("nothing more").count(),
        if end == "silent" { 3 } else { 2 },
        "{done:?}"
    );
    done
}

/// Checks an event for two procs. A handler receives it before each proc. The proc gets it with the
/// handler's result, or not at all if the handler completes the event.
fn is_handled(launcher: &Launcher, options: &[&str], end: &str, event: &str) {
    let seen = heard(launcher, options, end, "report");
    assert_eq!(
        seen.stderr.matches(event).count(),
        2,
        "{launcher:?}: {}",
        seen.stderr
    );
    assert_eq!(
        seen.stderr
            .matches("report answers PMIX_EVENT_NO_ACTION_TAKEN")
            .count(),
        2,
        "{}",
        seen.stderr
    );
    let heard_of: Vec<&str> = seen
        .stdout
        .lines()
        .filter(|line| line.contains(event))
        .collect();
    // Each proc has two handlers for the event, one of which is registered for every code.
    assert_eq!(heard_of.len(), 4, "{}", seen.stdout);
    assert!(
        heard_of.iter().all(|line| line.contains("\"report\"")),
        "with the handler's results: {heard_of:?}"
    );

    let stopped = heard(launcher, options, end, "complete");
    assert_eq!(
        stopped
            .stderr
            .matches("complete answers PMIX_EVENT_ACTION_COMPLETE")
            .count(),
        2,
        "{}",
        stopped.stderr
    );
    assert!(!stopped.stdout.contains(event), "{}", stopped.stdout);
}

#[needs(prepared, openmpi4)]
#[test]
fn handlers_see_events_raised_by_mpirun() {
    let mpirun = Launcher::mpirun();
    is_handled(&mpirun, &[], "silent", "PMIX_MONITOR_HEARTBEAT_ALERT");
}

#[needs(prepared, openmpi5)]
#[test]
fn handlers_see_that_prterun_lost_a_rank() {
    let prterun = Launcher::prterun();
    is_handled(
        &prterun,
        &["--rtos", "continuous,notifyerrors"],
        "killed",
        "PMIX_ERR_PROC_ABORTED_BY_SIG",
    );
}

#[needs(prepared)]
#[test]
fn handlers_see_that_peal_lost_a_rank() {
    is_handled(
        &Launcher::Peal,
        &["--on-abort", "continue"],
        "killed",
        "PMIX_ERR_PROC_ABORTED",
    );
}

#[needs(prepared, libpmix)]
#[test]
fn events_raised_by_handlers_reach_the_program() {
    let server = Launcher::c_server();
    let program = vec![
        program("peal-foreign").into(),
        "hears".into(),
        "silent".into(),
    ];
    let done =
        run(&mut server.job(2, &[], attach(&["event-echo"], &[], &program))).expect_status(0);
    // Rank 0 receives the alert, and raises another event with itself as the source.
    let raised: Vec<&str> = done
        .stdout
        .lines()
        .filter(|line| line.contains("-3102 from job:0"))
        .collect();
    assert_eq!(
        raised,
        ["rank 0: -3102 from job:0, PMIX_RANGE_LOCAL, [], affected []"],
        "{done:?}"
    );
}

#[needs(prepared)]
#[test]
fn handler_logs_and_control_pass_channels_and_policies() {
    let place = Place::new();
    place.configure(&format!(
        "[[sink]]\nname = \"board\"\nfile.path = \"{board}\"\n\
         [[module]]\nname = \"file\"\npath = \"{file}\"\nchannels = [\"stderr\"]\nsinks = [\"board\"]\n\
         grants = [\"sink\", \"clock\"]\n[module.config]\nsink = \"board\"\n",
        board = place.path("board").display(),
        file = guest("file").display(),
    ));
    let site = place.path("peal.toml").display().to_string();
    let own = place.path("attached.toml");
    std::fs::write(
        &own,
        WATCHDOG.replace("FILE", &guest("watchdog").display().to_string()),
    )
    .unwrap();
    let program = vec![
        program("peal-foreign").into(),
        "hears".into(),
        "silent".into(),
    ];
    let attached = attach(&[], &["--config", own.to_str().unwrap()], &program);
    // A proc that other procs ended is no failure of the job.
    let done = run(&mut Launcher::Peal.job(3, &["--config", &site], attached)).expect_status(0);
    assert_eq!(
        done.stdout.matches("nothing more").count(),
        2,
        "the silent one is ended: {}",
        done.stdout
    );
    assert!(
        !done.stderr.contains("sends no heartbeat"),
        "the site writes that elsewhere: {}",
        done.stderr
    );
    let board = std::fs::read_to_string(place.path("board")).unwrap();
    // Each proc has handlers of its own, also the silent one, and they act as that proc. The silent
    // proc may be ended before its handler writes.
    for rank in 0..3 {
        let by = format!(",{rank}] ");
        let lines = board.lines().filter(|line| {
            line.contains(&by) && line.ends_with(":2 sends no heartbeat, action: kill")
        });
        let lines = lines.count();
        assert!(
            lines == 1 || (rank == 2 && lines == 0),
            "rank {rank}: {board}"
        );
    }
}

/// Returns a command in a PMIx environment without a server, which is enough for a program that
/// sends no request.
fn lonely(arguments: &[OsString]) -> Command {
    let mut command = peal(arguments.get(1..).unwrap());
    command
        .env("PMIX_SERVER_URI41", "nobody.0;tcp4://127.0.0.1:1")
        .env("PMIX_NAMESPACE", "job")
        .env("PMIX_RANK", "0");
    command
}

#[needs(prepared)]
#[test]
fn the_end_of_the_program_is_its_own() {
    let status = |script| {
        run(&mut lonely(&attach(
            &[],
            &[],
            &words(&["sh", "-c", script]),
        )))
        .status
    };
    assert_eq!(status("exit 0"), Some(0));
    assert_eq!(status("exit 3"), Some(3));
    assert_eq!(status("kill -KILL $$"), None, "by a signal, too");
    assert_eq!(status("kill -TERM $$"), Some(128 + 15));
    let missing = run(&mut lonely(&attach(&[], &[], &words(&["/nowhere/app"])))).expect_status(127);
    assert!(
        missing
            .stderr
            .contains("cannot start /nowhere/app: No such file"),
        "{}",
        missing.stderr
    );
    run(&mut lonely(&attach(&[], &[], &words(&["/etc/passwd"])))).expect_status(126);
}

#[needs(prepared)]
#[test]
fn signals_are_passed_on() {
    let script = "trap 'echo heard; kill $!; exit 9' TERM; echo ready; while :; do sleep 1000 & wait $!; done";
    let mut attached = lonely(&attach(&[], &[], &words(&["sh", "-c", script])));
    let mut child = attached.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "ready");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "heard");
    assert_eq!(child.wait().unwrap().code(), Some(9));
}

#[needs(prepared)]
#[test]
fn errors_are_reported_before_start() {
    let started = words(&["echo", "started"]);
    let refused = |command: &mut Command, why: &str| {
        let done = run(command).expect_status(125);
        assert!(done.stderr.contains(why), "{}", done.stderr);
        assert_eq!(done.stdout, "");
    };
    let mut nowhere = lonely(&attach(&["report"], &[], &started));
    nowhere.env_remove("PMIX_SERVER_URI41");
    refused(
        &mut nowhere,
        "PMIX_SERVER_URI41 is not set: no PMIx server has started this process",
    );
    let handler = |path: &str| {
        let mut command = attach(&[], &["--handler", path], &started);
        command.dedup();
        lonely(&command)
    };
    refused(&mut handler("/etc/passwd"), "/etc/passwd");
    refused(&mut handler("/nowhere.wasm"), "/nowhere.wasm");
}

#[needs(prepared)]
#[test]
fn other_processes_are_refused() {
    let script = "echo $PMIX_SERVER_URI41; read line";
    let mut attached = lonely(&attach(&[], &[], &words(&["sh", "-c", script])));
    let mut child = attached
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let uri = BufReader::new(child.stdout.take().unwrap())
        .lines()
        .next()
        .unwrap()
        .unwrap();
    let (name, address) = uri.split_once(";tcp4://").unwrap();
    assert_eq!(name, "nobody.0", "its name is the server's");
    let mut stream = TcpStream::connect(address).unwrap();
    let closed = stream.read(&mut [0; 16]);
    assert!(matches!(closed, Ok(0) | Err(_)), "{closed:?}");
    child.stdin.take().unwrap().write_all(b"enough\n").unwrap();
    let done = peal_tests::finish(child).expect_status(0);
    assert!(
        done.stderr
            .contains("connection refused: not from the program"),
        "{}",
        done.stderr
    );
}
