//! The tools that ship with the C library, against `peal run` and `peal serve`: their search for a
//! server, and their output.
//!
//! `pquery` and `plookup` of release 4.2.2 crash under any server: with SIGFPE before they connect,
//! and with SIGSEGV after the handshake. Under PRRTE of Open MPI 5.0.11 `pattrs` crashes, too;
//! `pps` prints the same.
//!
//! These tools use internals of the C library, so that they do not run on Peal's `libpmix.so.2`. A
//! program that makes their calls by the public interface (`tests/c/tool_calls.c`) does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{
    Done, c_program,
    comparison::{PermittedDifference, compare_lines},
    daemon::Place,
    finish,
    libpmix::Release,
    program, provided, run,
    shell_job::ShellJob,
};
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
    tool_on(&Release::system(), program, dir, args)
}

/// Runs a tool on this library.
fn tool_on(library: &Release, program: &Path, dir: &Path, args: &[&str]) -> Done {
    let mut command = Command::new(program);
    command
        .args(args)
        .env("PMIX_SYSTEM_TMPDIR", dir)
        .env_remove("PMIX_SERVER_URI41");
    run(library.of(&mut command))
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

/// Two servers whose rendezvous files are in the directory of the first. A tool that does not find the
/// requested server uses the only other one.
struct TwoServers {
    servers: [ShellJob; 2],
    /// Options of a tool that name the second server, and their values.
    ways: [[String; 2]; 4],
}

impl TwoServers {
    fn start() -> TwoServers {
        let servers = [ShellJob::asleep(1, &[]), ShellJob::asleep(1, &[])];
        let [first, second] = &servers;
        let job = second.nspace();
        let files = rendezvous(second.dir());
        let there = rendezvous(first.dir());
        for file in &files {
            fs::copy(file, there[0].with_file_name(file.file_name().unwrap())).unwrap();
        }
        let uri = fs::read_to_string(&files[0]).unwrap();
        let file = format!("file:{}", files[0].display());
        let ways = [
            ["--pid", &second.pid().to_string()],
            ["--namespace", job.strip_suffix("@1").unwrap()],
            ["--uri", uri.lines().next().unwrap()],
            ["--uri", &file],
        ];
        TwoServers {
            ways: ways.map(|way| way.map(str::to_owned)),
            servers,
        }
    }

    fn dir(&self) -> &Path {
        self.servers[0].dir()
    }
}

/// Options that name no server, or one that does not exist.
const WRONG_WAYS: [&[&str]; 3] = [&[], &["--pid", "1"], &["--namespace", "nobody"]];

/// `pps` of this release connects to any server, regardless of its options.
#[needs(prepared, libpmix_bin)]
#[test]
fn pattrs_finds_one_of_two_servers_by_process_namespace_and_uri() {
    let pattrs = installed("pattrs");
    let two = TwoServers::start();
    for [option, value] in &two.ways {
        tool(&pattrs, two.dir(), &[option, value, "--host-fns"]).expect_status(0);
    }
    for wrong in WRONG_WAYS {
        let done = tool(&pattrs, two.dir(), &[wrong, &["--host-fns"]].concat());
        assert_ne!(done.status, Some(0), "{wrong:?}: {done:?}");
    }
}

#[needs(prepared, libpmix)]
#[test]
fn tools_on_peals_library_find_servers_as_c_tools_do() {
    let calls = c_program("tool_calls");
    let two = TwoServers::start();
    for library in [Release::peal(), Release::system()] {
        for [option, value] in &two.ways {
            let done = tool_on(&library, &calls, two.dir(), &[option, value]).expect_status(0);
            // The directives of the tool name the second server.
            let job = format!("of job {}", two.servers[1].nspace());
            assert!(done.stderr.contains(&job), "{option} {value}: {done:?}");
        }
        for wrong in WRONG_WAYS {
            let done = tool_on(&library, &calls, two.dir(), wrong);
            assert_eq!(done.stdout, "init: UNREACHABLE\n", "{wrong:?}: {done:?}");
        }
        let place = Place::new();
        place.configure("[tools]\nsystem_server = true\n");
        let daemon = place.start();
        daemon.tell(&["job", "register", "solver", "-n", "1"]);
        for way in ["--system-server", "--system-server-first"] {
            tool_on(&library, &calls, &place.path(""), &[way]).expect_status(0);
        }
    }
}

/// Compares the output of the calls of the tools on both libraries.
#[track_caller]
fn compare_calls(server: &str, dir: &Path) {
    let calls = c_program("tool_calls");
    let printed = |library| {
        let done = tool_on(&library, &calls, dir, &[]).expect_status(0);
        done.stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    // The C library reads as signed what it writes as unsigned.
    let types = [
        ("pmix.collect, type 65535", "pmix.collect, type 1"),
        ("pmix.timeout, type 3", "pmix.timeout, type 6"),
        ("pmix.evrange, type 65516", "pmix.evrange, type 39"),
        ("pmix.persist, type 15", "pmix.persist, type 30"),
        ("pmix.range, type 65519", "pmix.range, type 33"),
    ];
    let types = types.map(|(libpmix, peal)| PermittedDifference { libpmix, peal });
    let ours = printed(Release::peal());
    assert!(ours.len() > 20, "{server}: {ours:?}");
    compare_lines(server, &ours, &printed(Release::system()), &types);
}

#[needs(prepared, libpmix)]
#[test]
fn calls_of_tools_print_the_same_on_both_libraries() {
    let running = ShellJob::asleep(2, &[]);
    compare_calls("peal run", running.dir());
    let place = Place::new();
    let daemon = place.start();
    daemon.tell(&["job", "register", "solver", "-n", "1"]);
    compare_calls("peal serve", &place.path(""));
}

/// Tools of libpmix-bin, each with an internal of the C library that it uses.
const TOOLS: [(&str, &str); 7] = [
    ("pattrs", "pmix_cmd_line_parse"),
    ("pevent", "pmix_cmd_line_parse"),
    ("plookup", "pmix_cmd_line_parse"),
    ("pmix_info", "pmix_mca_base_open"),
    ("pmixcc", "pmix_mca_base_open"),
    ("pps", "pmix_cmd_line_parse"),
    ("pquery", "pmix_attributes_lookup"),
];

#[needs(prepared, libpmix_bin)]
#[test]
fn tools_of_libpmix_do_not_start_without_its_internals() {
    for (name, internal) in TOOLS {
        let program = installed(name);
        // Names of symbols are in the file as they are.
        let bytes = fs::read(&program).unwrap();
        assert!(
            bytes
                .windows(internal.len())
                .any(|part| part == internal.as_bytes()),
            "{name} does not use {internal}"
        );
        let mut command = Command::new(program);
        let done = run(Release::peal().of(&mut command)).expect_status(127);
        assert!(
            done.stderr.contains("undefined symbol: pmix_"),
            "{name}: {done:?}"
        );
    }
}

#[needs(prepared, libpmix_bin)]
#[test]
fn pevent_raises_an_event_that_a_handler_receives() {
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
