//! Modules that sites ask for, under a real server: redaction of logs, drained nodes, fair shares, and
//! reports about abnormal ends.
use peal_needs::needs;
use peal_tests::{
    daemon::Place,
    guest, peal, run,
    spawn::{sides, spawned},
};
use serde_json::Value;
use std::{fs, process::Stdio};

/// Configures a server with a store and these modules.
fn configure(place: &Place, modules: &str) {
    let store = place.path("store.db");
    place.configure(&format!("store.path = {store:?}\n{modules}"));
}

/// Returns the `[[module]]` of the channel that writes the records of jobs.
fn record() -> String {
    format!(
        "[[module]]\nname = \"record\"\npath = {:?}\nchannels = [\"job_record\"]\nsinks = [\"job-record\"]\n\
         grants = [\"sink\", \"clock\"]\n",
        guest("record")
    )
}

#[needs(prepared, go_tools)]
#[test]
fn secrets_are_redacted_before_any_log_channel() {
    let place = Place::new();
    let board = place.path("board.log");
    configure(
        &place,
        &format!(
            "[[sink]]\nname = \"file\"\nfile.path = {board:?}\n\
             [[module]]\nname = \"board\"\npath = {:?}\nchannels = [\"site.log.board\"]\nsinks = [\"file\"]\ngrants = [\"sink\", \"clock\"]\n\
             [[module]]\nname = \"redact\"\npath = {:?}\nplacement = \"prepend\"\nlimits.call_time_ms = 60000\n\
             config = {{ patterns = \"employee-([0-9]+)\" }}\n",
            guest("file"),
            guest("redact"),
        ),
    );
    let daemon = place.start();
    let log = |text: &str| {
        let mut command = daemon.verb(&["log", "--channel", "site.log.board", text]);
        command
            .env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .env_remove("PMIX_SERVER_URI");
        run(&mut command).expect_status(0)
    };
    log("DB_PASSWORD=hunter2 of employee-17");
    log("step 3 of 9");
    let written = fs::read_to_string(&board).unwrap();
    assert!(
        written.contains("DB_PASSWORD=(redacted) of employee-(redacted)\n"),
        "{written}"
    );
    assert!(written.contains("step 3 of 9\n"), "{written}");
    assert!(
        !written.contains("hunter2") && !written.contains("17\n"),
        "{written}"
    );
}

#[needs(prepared, go_tools)]
#[test]
fn pattern_that_does_not_compile_stops_the_server_start() {
    let place = Place::new();
    let module = format!(
        "[[module]]\nname = \"redact\"\npath = {:?}\n",
        guest("redact")
    );
    configure(
        &place,
        &format!("{module}config = {{ patterns = \"(\" }}\n"),
    );
    let (mut serve, _states) = place.serve("states");
    let stderr = run(&mut serve).expect_status(125).stderr;
    assert!(stderr.contains("is no regular expression"), "{stderr}");
}

#[needs(prepared, libpmix)]
#[test]
fn node_with_repeated_event_is_drained_until_released() {
    let place = Place::new();
    configure(
        &place,
        &format!(
            "[[module]]\nname = \"drain-node\"\npath = {:?}\ngrants = [\"clock\", \"notify\", \"state\"]\n\
             config = {{ codes = -3001, into = -3200, release = -3201, count = 2, seconds = 86400 }}\n",
            guest("drain-node"),
        ),
    );
    let daemon = place.start();
    let event = |args: &[&str]| {
        let mut command = daemon.verb(&[&["event"], args].concat());
        command
            .env("PMIX_SYSTEM_TMPDIR", place.path(""))
            .env_remove("PMIX_SERVER_URI");
        command
    };
    let mut watch = event(&["watch", "-3200", "-o", "json", "--count", "1"]);
    let mut watch = watch
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The watcher may not be connected yet. Then a node that is released can be drained again.
    peal_tests::until("a repeated event drains the node", || {
        for code in ["-3001", "-3001", "-3201"] {
            run(&mut event(&["notify", code])).expect_status(0);
        }
        watch.try_wait().unwrap().is_some()
    });
    let seen = peal_tests::finish(watch).expect_status(0).stdout;
    let seen: Value = serde_json::from_str(&seen).unwrap();
    let infos = seen["infos"].as_array().unwrap();
    let info = infos
        .iter()
        .find(|info| info["key"] == "peal.drain.nodes")
        .unwrap();
    assert_eq!(info["value"], "localhost", "{seen}");
    // The state outlives the server, and another one denies spawns.
    for _ in 0..2 {
        run(&mut event(&["notify", "-3001"])).expect_status(0);
    }
    daemon.tell(&["stop", "--wait"]);
    drop(daemon);
    let denied = spawned(&place, "-- 1 /bin/true").expect_status(0);
    assert_eq!(
        sides(&denied).0,
        ["rank 0: spawn: NOT_AVAILABLE (-64)"],
        "{}",
        denied.stderr
    );
    assert!(
        denied
            .stderr
            .contains("node localhost is drained because of event -3001"),
        "{}",
        denied.stderr
    );
}

#[needs(prepared, libpmix)]
#[test]
fn group_beyond_its_share_of_spawns_is_denied() {
    let place = Place::new();
    configure(
        &place,
        &format!(
            "[[module]]\nname = \"fair-share\"\npath = {:?}\ngrants = [\"clock\", \"state\"]\n\
             config = {{ shares = \"no-such-group=1\", procs = 4, lend = 0, half_life = 31536000, exempt = \"\" }}\n",
            guest("fair-share"),
        ),
    );
    // The user is in no group with a share: the others have half of four.
    for (words, status) in [
        ("-- 3 /bin/true", "rank 0: spawn: RESOURCE_BUSY"),
        ("-- 2 /bin/true", "rank 0: spawn: SUCCESS (0)"),
        ("-- 1 /bin/true", "rank 0: spawn: RESOURCE_BUSY"),
    ] {
        let done = spawned(&place, words).expect_status(0);
        let said = sides(&done).0.join("\n").replace([' ', '-'], "_");
        let wanted = status.replace([' ', '-'], "_");
        assert!(said.contains(&wanted), "{words}: {said}\n{}", done.stderr);
    }
}

#[needs(prepared, ts_tools)]
#[test]
fn report_about_abnormal_end_is_in_the_job_record() {
    let place = Place::new();
    let out = place.path("out");
    fs::create_dir(&out).unwrap();
    configure(
        &place,
        &format!(
            "{}[[module]]\nname = \"abort-report\"\npath = {:?}\n\
             grants = [\"clock\", \"files\", \"log-request\", \"resource-usage\"]\n\
             files = [{{ name = \"output\", path = {out:?}, mode = \"read\" }}]\n\
             config = {{ output = \"rank.{{rank}}/stderr\", lines = 1 }}\n",
            record(),
            guest("abort-report"),
        ),
    );
    let config = place.path("peal.toml");
    // The job ends with its only proc, and the server of `peal run` with the job: the report is among
    // the last requests of handlers.
    let script = "echo $PMIX_NAMESPACE; echo first >&2; echo 'disk is full' >&2; \
                  \"$PEAL\" event notify -3001 --info PMIX_EVENT_TEXT_MESSAGE='a link is lost' >/dev/null; exit 3";
    let mut job = peal(["run", "-n", "1", "--config"]);
    job.arg(&config).arg("--output").arg(&out);
    job.env("PEAL", peal_tests::program("peal"));
    let done = run(job.args(["--", "sh", "-c", script])).expect_status(3);
    let name = done.stdout.lines().next().unwrap();
    let record = run(peal(["job", "record", name, "--config"]).arg(&config))
        .expect_status(0)
        .stdout;
    let line = record
        .lines()
        .find(|line| line.contains("has ended abnormally"));
    let line = line.unwrap_or_else(|| panic!("{record}\n{}", done.stderr));
    for words in [
        "(code -404, exit status 3); 1 events before",
        "last 1 lines of output",
        "event -3001 from",
        ": a link is lost",
        "disk is full",
    ] {
        assert!(line.contains(words), "{words} should be in {line}");
    }
    assert!(!line.contains("first"), "{line}");
}
