//! Spawn without a policy, by unmodified `libpmix` programs: all directives that the embedded host
//! environment supports.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{
    c_program,
    daemon::Place,
    finish, guest,
    launchers::Launcher,
    libpmix::Release,
    run,
    shell_job::ShellJob,
    spawn::{DONE, sides, spawned, unpoliced},
};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    ffi::CString,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

#[needs(prepared, libpmix)]
#[test]
fn two_applications_are_one_job_with_own_environments() {
    let words = "notify set=ALL=1 -- 2 set=OWN=a env=PLAIN=b cwd=/usr @ child ALL OWN PLAIN -- 1 wdir=/var @ child ALL OWN PLAIN";
    let done = spawned(&unpoliced(), words);
    let done = done.expect_status(0);
    let (parent, children) = sides(&done);
    assert_eq!(parent, DONE);
    let of = |rank: u32, application: u32, rest: [&str; 4]| {
        let known = [
            "job: uint32 3".to_owned(),
            format!("application: uint32 {application}"),
            "parent: other:0".to_owned(),
        ];
        let rest = rest.map(str::to_owned);
        known
            .into_iter()
            .chain(rest)
            .map(|line| format!("rank {rank}: child's {line}"))
            .collect::<Vec<_>>()
    };
    let first = ["directory: /usr", "ALL: 1", "OWN: a", "PLAIN: b"];
    let second = [
        "directory: /var",
        "ALL: 1",
        "OWN: not set",
        "PLAIN: not set",
    ];
    assert_eq!(
        children,
        [of(0, 0, first), of(1, 0, first), of(2, 1, second)].concat()
    );
}

#[needs(prepared, libpmix)]
#[test]
fn variables_are_set_added_to_and_taken_away() {
    let words = "notify set=WAY=x prepend=WAY=a append=WAY=z add=WAY=no add=NEW=yes unset=HOME -- 1 @ child WAY NEW HOME";
    let done = spawned(&unpoliced(), words);
    let said = [
        "child's WAY: a:x:z",
        "child's NEW: yes",
        "child's HOME: not set",
    ];
    for line in said {
        assert!(done.stdout.contains(line), "{line} in {}", done.stdout);
    }
}

#[needs(prepared, libpmix)]
#[test]
fn spawning_proc_receives_end_of_job() {
    // Otherwise the end of the spawned job would end the parent.
    let place = Place::new();
    place.configure("[run]\non_abort = \"continue\"\n");
    for (child, status, code) in [
        ("exit=3", "NON-ZERO TERMINATION (-187)", 3),
        ("die", "ABORTED BY SIGNAL (-184)", 134),
    ] {
        let done = spawned(&place, &format!("notify -- 2 @ child {child}"));
        let done = done.expect_status(code);
        let heard = format!("rank 0: it ended: {status}, exit code {code}");
        assert_eq!(sides(&done).0, [DONE[0], DONE[1], &heard]);
    }
}

#[needs(prepared, libpmix)]
#[test]
fn impossible_spawn_returns_its_status() {
    for (words, status) in [
        ("-- 1 /no/such/program", "EXECUTABLE NOT FOUND (-190)"),
        ("-- 1 /etc/passwd", "APPLICATION NOT EXECUTABLE (-177)"),
        ("-- 0 @ child", "BAD-PARAM (-27)"),
        ("-- 70000 @ child", "INSUFFICIENT RESOURCES (-234)"),
        (
            "wdir=/no/such/directory -- 1 @ child",
            "WORKING DIRECTORY NOT FOUND (-233)",
        ),
        ("unknown -- 1 @ child", "NOT-SUPPORTED (-47)"),
    ] {
        let done = spawned(&unpoliced(), words);
        let done = done.expect_status(0);
        assert_eq!(
            sides(&done).0,
            [format!("rank 0: spawn: {status}")],
            "{words}"
        );
    }
}

#[needs(prepared, libpmix, hwloc)]
#[test]
fn spawned_procs_are_bound_as_the_request_says() {
    const ALLOWED: [&str; 3] = ["grep", "Cpus_allowed_list:", "/proc/self/status"];
    let child = |options: &[&str], directives: &str| {
        let words = format!("{directives} -- 1 {}", ALLOWED.join(" "));
        let program = c_program("spawn").to_string_lossy().into_owned();
        let words = words.split_whitespace();
        let command: Vec<&str> = [program.as_str()].into_iter().chain(words).collect();
        let done = run(&mut Launcher::Peal.job(1, options, &command)).expect_status(0);
        let allowed = done
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix(ALLOWED[1]));
        allowed.map(str::to_owned).unwrap_or(done.stdout)
    };
    let places = |options: &[&str]| {
        let done = run(&mut Launcher::Peal.job(2, options, ALLOWED)).expect_status(0);
        let lines = done
            .stdout
            .lines()
            .filter_map(|line| line.strip_prefix(ALLOWED[1]));
        lines.map(str::to_owned).collect::<BTreeSet<String>>()
    };
    let cores = places(&["--bind-to", "core"]);
    let all = child(&[], "");
    assert!(cores.len() > 1 && !cores.contains(&all), "{cores:?}, {all}");
    // The place after that of the parent.
    let next = cores.last().unwrap();
    assert_eq!(&child(&[], "bind=core"), next);
    assert_eq!(
        &child(&[], "must-bind=core:overload-allowed map=core"),
        next
    );
    assert_eq!(&child(&["--bind-to", "core"], ""), next);
    for (options, directives) in [
        (&["--bind-to", "core"][..], "bind=none"),
        (&[], "bind=board"),
        (&[], "map=core"),
    ] {
        assert_eq!(child(options, directives), all, "{directives}");
    }
    for (words, status) in [
        ("must-bind=board -- 1 true", "NOT-SUPPORTED (-47)"),
        ("must-map=core -- 1 true", "NOT-SUPPORTED (-47)"),
        ("-- 1 must-bind=core true", "NOT-SUPPORTED (-47)"),
        (
            "must-bind=core -- 4096 true",
            "INSUFFICIENT RESOURCES (-234)",
        ),
    ] {
        let done = spawned(&unpoliced(), words).expect_status(0);
        let said = [format!("rank 0: spawn: {status}")];
        assert_eq!(sides(&done).0, said, "{words}");
    }
}

#[needs(prepared, libpmix)]
#[test]
fn pushed_input_is_read_and_output_can_be_tagged_and_kept() {
    let done = spawned(&unpoliced(), "notify input -- 1 @ child read");
    let done = done.expect_status(0);
    for line in [
        "rank 0: child reads: hello",
        "rank 0: child reads then: nothing",
    ] {
        assert!(
            done.stdout.lines().any(|printed| printed == line),
            "{line} in {}",
            done.stdout
        );
    }
    let place = unpoliced();
    let kept = place.path("kept");
    let done = spawned(
        &place,
        &format!("notify tag to={} -- 2 @ child", kept.display()),
    )
    .expect_status(0);
    for rank in 0..2 {
        let line = format!("rank {rank}: child's job: uint32 2");
        assert!(
            done.stdout
                .lines()
                .any(|printed| printed == format!("[{rank}] {line}")),
            "{}",
            done.stdout
        );
        let file = fs::read_to_string(kept.join(format!("rank.{rank}/stdout"))).unwrap();
        assert!(file.lines().any(|written| written == line), "{file}");
    }
}

#[needs(prepared, libpmix)]
#[test]
fn pushed_input_reaches_procs_named_in_request() {
    for (target, readers) in [("1", &[1][..]), ("all", &[0, 1, 2])] {
        let done = spawned(
            &unpoliced(),
            &format!("notify target={target} -- 3 @ child read"),
        );
        let done = done.expect_status(0);
        for rank in 0..3 {
            let read = if readers.contains(&rank) {
                "hello"
            } else {
                "nothing"
            };
            let line = format!("rank {rank}: child reads: {read}");
            assert!(
                done.stdout.lines().any(|printed| printed == line),
                "{target}: {line} in {}",
                done.stdout
            );
        }
    }
}

#[needs(prepared, libpmix)]
#[test]
fn applications_can_be_process_sets() {
    let words = "notify -- 2 pset=first @ child set=first -- 1 pset=second @ child set=second";
    let done = spawned(&unpoliced(), words);
    let done = done.expect_status(0);
    for line in [
        "rank 0: child's sets: \"first,second\"",
        "rank 1: child's first: [own:0, own:1]",
        "rank 2: child's second: [own:2]",
    ] {
        assert!(
            done.stdout.lines().any(|printed| printed == line),
            "{line} in {}",
            done.stdout
        );
    }
}

#[needs(prepared, libpmix)]
#[test]
fn spawned_job_logs_events_as_requested() {
    let place = Place::new();
    place.configure(&format!(
        "[log]\norder = \"stdout\"\n[run]\non_abort = \"continue\"\n[[module]]\nname = \"stdio\"\npath = {:?}\n\
         channels = [\"stdout\"]\ngrants = [\"sink\"]\nsinks = [\"stdout\"]\n",
        guest("stdio")
    ));
    let starts = "of 2 procs starts";
    let ends = "ended with exit status 3";
    let well = "exited with status 0";
    let badly = "exited with status 3";
    let all = [starts, well, badly, ends];
    for (asked, logged) in [
        ("log=job", &[starts, ends][..]),
        ("log=completion", &[ends]),
        ("log=procs", &[well, badly]),
        ("log=failures", &[badly]),
        ("log=job log=procs", &all),
        ("notify", &[]),
    ] {
        let words = format!("notify {asked} -- 1 /bin/true -- 1 @ child exit=3");
        let done = spawned(&place, &words);
        let is_there = |text: &&str| {
            done.stdout
                .lines()
                .any(|line| line.contains("@2") && line.contains(text))
        };
        let found: Vec<&str> = all.into_iter().filter(|text| is_there(text)).collect();
        assert_eq!(found, logged, "{asked}: {}", done.stdout);
    }
}

fn pipe(path: &Path) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RWXU,
        0,
    )
    .unwrap();
}

/// Returns the next line that the parent has not printed.
fn of_child(running: &mut ShellJob) -> String {
    loop {
        let line = running.line();
        if !line.starts_with("rank 0: ") {
            return line;
        }
    }
}

/// Expected state of a job whose parent ends.
enum Child {
    GoesOn,
    Ends,
}

#[needs(prepared, libpmix)]
#[test]
fn spawned_job_outlives_its_parent_or_ends_with_it() {
    let program = c_program("spawn");
    for (words, child, status) in [
        ("", Child::GoesOn, 0),
        ("together", Child::Ends, 0),
        ("apart", Child::GoesOn, 0),
        ("die", Child::Ends, 134),
        ("together die", Child::Ends, 134),
        ("apart die", Child::GoesOn, 134),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let to_parent = dir.path().join("parent");
        let to_child = dir.path().join("child");
        pipe(&to_parent);
        pipe(&to_child);
        // If it is not notified, it gives up after a time, and the test fails.
        let waits = format!(
            "trap 'echo told; exit 0' TERM; echo up; timeout 20 head -n 1 <>{} >&2 & wait $!; echo goes on",
            to_child.display()
        );
        fs::write(dir.path().join("waits"), waits).unwrap();
        let spawn = format!(
            "{} {words} until={}",
            program.display(),
            to_parent.display()
        );
        let script = format!(
            "echo ready; exec {spawn} -- 1 /bin/sh {}",
            dir.path().join("waits").display()
        );
        let mut running = ShellJob::start(1, &[], &script);
        assert_eq!(of_child(&mut running), "up");
        fs::write(&to_parent, "end\n").unwrap();
        match child {
            Child::Ends => assert_eq!(of_child(&mut running), "told", "{words}"),
            Child::GoesOn => {
                // By the time when the parent's job is gone, all procs that end with it have been
                // notified.
                let is_alone = || {
                    let told = running.ask(&["ps", "-o", "json"]).expect_status(0).stdout;
                    serde_json::from_str::<Value>(&told)
                        .unwrap()
                        .as_array()
                        .unwrap()
                        .len()
                        == 1
                };
                assert!(
                    (0..1000).any(|_| is_alone()),
                    "{words}: the parent does not end"
                );
                fs::write(&to_child, "go on\n").unwrap();
                assert_eq!(of_child(&mut running), "goes on", "{words}");
            }
        }
        let done = running.ends();
        assert_eq!(done.status, Some(status), "{words}: {}", done.stderr);
    }
}

#[needs(prepared, libpmix)]
#[test]
fn failed_child_ends_parent_unless_separated() {
    for (words, goes_on) in [("", 0), ("together ", 0), ("apart ", 1)] {
        let place = unpoliced();
        let to_parent = place.path("parent");
        pipe(&to_parent);
        if goes_on > 0 {
            // The write waits for a reader.
            let to_parent = to_parent.clone();
            std::thread::spawn(move || fs::write(to_parent, "end\n"));
        }
        let words = format!("{words}until={} -- 1 @ child exit=3", to_parent.display());
        let done = spawned(&place, &words);
        assert_eq!(done.status, Some(3), "{words}: {}", done.stderr);
        let finalized = done
            .stdout
            .lines()
            .filter(|line| *line == "rank 0: finalize: SUCCESS (0)")
            .count();
        assert_eq!(finalized, 1 + goes_on, "{words}: {}", done.stdout);
    }
}

/// A tool has as many pulls as the limit allows. A failed start leaves none behind.
#[needs(prepared, libpmix)]
#[test]
fn tool_gets_output_of_its_spawned_job() {
    let program = c_program("spawn");
    let running = ShellJob::asleep(1, &[]);
    let tool = |words: &[&str]| {
        let mut command = Command::new(&program);
        command
            .arg("tool")
            .args(words)
            .env("PMIX_SYSTEM_TMPDIR", running.dir())
            .env_remove("PMIX_SERVER_URI41");
        run(&mut command).expect_status(0)
    };
    let failed = tool(&["times=70", "output", "--", "1", "/no/such/program"]);
    let told = failed
        .stdout
        .lines()
        .filter(|line| *line == "rank 0: spawn: EXECUTABLE NOT FOUND (-190)")
        .count();
    assert_eq!(told, 70, "{}", failed.stdout);
    let done = tool(&["notify", "output", "--", "1", "/bin/echo", "forwarded"]);
    assert!(
        done.stdout.lines().any(|line| line == "forwarded"),
        "{done:?}"
    );
    running.interrupt();
}

/// Returns a tool that pulls, not started yet.
fn puller(running: &ShellJob, program: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(program);
    command
        .arg(running.nspace())
        .args(words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
        .env("PMIX_SYSTEM_TMPDIR", running.dir())
        .env_remove("PMIX_SERVER_URI41");
    command
}

#[needs(prepared, libpmix)]
#[test]
fn late_pull_gets_last_output_first() {
    let program = c_program("pull");
    // One of the procs writes nothing after that.
    let script = "echo ready; [ $PMIX_RANK = 1 ] && exec sleep 1000 >&-; exec sleep 1000";
    let running = ShellJob::start(2, &[], script);
    for library in [Release::system(), Release::peal()] {
        let pull = |words: &[&str]| {
            let mut command = puller(&running, &program, words);
            run(library.of(&mut command)).expect_status(0)
        };
        let done = pull(&["3"]);
        let mut lines: Vec<&str> = done
            .stdout
            .lines()
            .filter(|line| *line != "pulls")
            .collect();
        lines.sort_unstable();
        assert_eq!(lines, ["rank 0: ready", "rank 1: ready", "rank 1: the end"]);
        let done = pull(&["3", "3"]);
        assert!(done.stdout.contains("rank 0: dy\n"), "{}", done.stdout);
    }
    running.interrupt();
}

#[needs(prepared, libpmix)]
#[test]
fn earlier_output_comes_first_unless_site_keeps_none() {
    let program = c_program("pull");
    for (setting, lines) in [
        ("16384", &["rank 0: ready", "rank 0: told"][..]),
        ("0", &["rank 0: told"]),
    ] {
        let script = "trap 'echo told' USR1; echo ready; while :; do sleep 1000 & wait; done";
        let running = ShellJob::start(
            1,
            &["--set", &format!("run.output_backlog_bytes={setting}")],
            script,
        );
        let mut pulling = puller(&running, &program, &[&lines.len().to_string()])
            .spawn()
            .unwrap();
        let mut output = BufReader::new(pulling.stdout.take().unwrap())
            .lines()
            .map(Result::unwrap);
        let begun: Vec<String> = output.by_ref().take(lines.len()).collect();
        running
            .ask(&["ctl", "signal", "USR1", &running.nspace()])
            .expect_status(0);
        let got: Vec<String> = begun
            .into_iter()
            .chain(output)
            .filter(|line| line != "pulls")
            .collect();
        assert_eq!(got, lines, "{setting}");
        finish(pulling).expect_status(0);
        running.interrupt();
    }
}
