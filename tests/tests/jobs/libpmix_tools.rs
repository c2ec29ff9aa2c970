//! The tools that ship with the C library, against `peal run` and `peal serve`: their search for a
//! server, and their output.
//!
//! `pquery` and `plookup` of release 4.2.2 crash under any server: with SIGFPE before they connect,
//! and with SIGSEGV after the handshake. Under PRRTE of Open MPI 5.0.11 `pattrs` crashes, too;
//! `pps` prints the same.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{Done, daemon::Place, finish, program, provided, run, shell_job::ShellJob};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the path of an installed tool.
#[track_caller]
fn installed(name: &str) -> PathBuf {
    provided(Path::new("/usr/bin").join(name))
}

/// Runs a tool that finds servers by the files in this directory alone.
fn tool(program: &Path, dir: &Path, args: &[&str]) -> Done {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("PMIX_SYSTEM_TMPDIR", dir)
        .env_remove("PMIX_SERVER_URI41");
    run(&mut command)
}

/// Returns the rendezvous files below a directory.
fn rendezvous(dir: &Path) -> Vec<PathBuf> {
    let session = dir.join(format!("peal-{}", rustix::process::geteuid().as_raw()));
    let files = session
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    files
        .filter(|path| {
            path.file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with("pmix.")
        })
        .collect()
}

#[needs(prepared, libpmix_bin)]
#[test]
fn pps_lists_the_jobs_of_a_server() {
    let pps = installed("pps");
    for system_server in ["true", "false"] {
        let running = ShellJob::asleep(
            2,
            &["--set", &format!("tools.system_server={system_server}")],
        );
        let line = format!("Active nspaces: {}\n", running.nspace());
        for way in [
            &[][..],
            &["--system-server"],
            &["--system-server-first"],
            &["--nodes"],
        ] {
            let done = tool(&pps, running.dir(), way).expect_status(0);
            assert!(done.stderr.contains(&line), "{way:?}: {done:?}");
        }
    }
}

/// `pps` of this release connects to any server, regardless of its options.
#[needs(prepared, libpmix_bin)]
#[test]
fn pattrs_finds_one_of_two_servers_by_process_namespace_and_uri() {
    let pattrs = installed("pattrs");
    let servers = [ShellJob::asleep(1, &[]), ShellJob::asleep(1, &[])];
    let [first, second] = &servers;
    let pid = second.pid().to_string();
    let job = second.nspace();
    let files = rendezvous(second.dir());
    let there = rendezvous(first.dir());
    // A tool that does not find the requested server uses the only other one.
    for file in &files {
        fs::copy(file, there[0].with_file_name(file.file_name().unwrap())).unwrap();
    }
    let uri = fs::read_to_string(&files[0]).unwrap();
    let file = format!("file:{}", files[0].display());
    let ways = [
        ["--pid", &pid],
        ["--namespace", job.strip_suffix("@1").unwrap()],
        ["--uri", uri.lines().next().unwrap()],
        ["--uri", &file],
    ];
    for way in ways {
        tool(&pattrs, first.dir(), &[&way[..], &["--host-fns"]].concat()).expect_status(0);
    }
    for wrong in [&[][..], &["--pid", "1"], &["--namespace", "nobody"]] {
        let done = tool(&pattrs, first.dir(), &[wrong, &["--host-fns"]].concat());
        assert_ne!(done.status, Some(0), "{wrong:?}: {done:?}");
    }
}

#[needs(prepared, libpmix_bin)]
#[test]
fn pevent_raises_an_event_that_a_handler_of_the_job_hears() {
    let pevent = installed("pevent");
    let listen = program("peal-listen");
    let mut running = ShellJob::start(1, &[], &format!("exec {} -3100", listen.display()));
    // Range 5 is the session.
    tool(&pevent, running.dir(), &["--event=-3100", "--range", "5"]).expect_status(0);
    let heard = running.line();
    let from = format!("from peal-{}-", running.pid());
    assert!(
        heard.contains("-3100") && heard.contains(&from) && heard.contains("-tool-1:0"),
        "{heard}"
    );
    running.ends().expect_status(0);
}

#[needs(prepared, libpmix_bin)]
#[test]
fn pattrs_prints_which_attributes_are_honoured_in_which_calls() {
    let pattrs = installed("pattrs");
    let running = ShellJob::asleep(1, &[]);
    let done = tool(&pattrs, running.dir(), &["--host-fns"]).expect_status(0);
    let calls: Vec<&str> = done.stderr.lines().map(str::trim).collect();
    assert_eq!(
        calls.first(),
        Some(&"HOST SUPPORTED FUNCTIONS:"),
        "{done:?}"
    );
    assert!(
        calls.contains(&"PMIx_Fence") && calls.contains(&"PMIx_Publish"),
        "{done:?}"
    );

    let done = tool(
        &pattrs,
        running.dir(),
        &["--host", "PMIx_Publish,PMIx_Fence"],
    )
    .expect_status(0);
    // This release prints some types with other values than it received: it reads as signed what it
    // writes as unsigned.
    let told = done.stderr.lines().filter(|line| line.starts_with("PMI"));
    let told: Vec<Vec<&str>> = told.map(|line| line.split_whitespace().collect()).collect();
    let told: Vec<(&str, &str)> = told
        .iter()
        .map(|words| (words[0], *words.last().unwrap()))
        .collect();
    let expected = [
        ("PMIx_Fence:", "PMIx_Fence:"),
        ("PMIX_COLLECT_DATA", "bool"),
        ("PMIX_TIMEOUT", "int"),
        ("PMIx_Publish:", "PMIx_Publish:"),
        ("PMIX_EVENT_CUSTOM_RANGE", "pmix_data_array_t*"),
        ("PMIX_PERSISTENCE", "pmix_persistence_t"),
        ("PMIX_RANGE", "pmix_data_range_t"),
    ];
    assert_eq!(told, expected, "{done:?}");
    let all = tool(&pattrs, running.dir(), &["--host", "all"]).expect_status(0);
    assert!(all.stderr.contains("PMIX_QUERY_PROC_TABLE"), "{all:?}");
    let none = tool(&pattrs, running.dir(), &["--host", "PMIx_Nothing"]);
    assert!(
        none.stderr.contains("PMIx_Query_info returned: NOT-FOUND"),
        "{none:?}"
    );
}

#[needs(prepared, libpmix_bin)]
#[test]
fn libpmix_tools_find_and_use_peal_serve() {
    let pps = installed("pps");
    let pevent = installed("pevent");
    let pattrs = installed("pattrs");
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "solver", "-n", "1"]);
    let dir = place.path("");
    let done = tool(&pps, &dir, &[]).expect_status(0);
    assert!(done.stderr.contains("Active nspaces: solver"), "{done:?}");

    let mut listening = daemon
        .proc("solver", 0, &program("peal-listen"))
        .args(["-3100"])
        .spawn()
        .unwrap();
    let mut output = BufReader::new(listening.stdout.take().unwrap()).lines();
    assert_eq!(output.next().unwrap().unwrap(), "ready");
    tool(&pevent, &dir, &["--event=-3100", "--range", "5"]).expect_status(0);
    let heard = output.next().unwrap().unwrap();
    assert!(
        heard.contains("-3100") && heard.contains("-tool-2:0"),
        "{heard}"
    );
    finish(listening).expect_status(0);

    let done = tool(&pattrs, &dir, &["--host-fns"]).expect_status(0);
    assert!(done.stderr.contains("PMIx_Lookup"), "{done:?}");
}
