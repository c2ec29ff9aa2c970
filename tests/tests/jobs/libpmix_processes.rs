//! Processes on Peal's `libpmix.so.2` that use many threads, fork, become another program or are killed
//! in a call: no call hangs, and nothing of them is left.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{
    Done, c_program, comparison::ComparedServer, comparison::ProgramComparison, daemon::Place,
    finish, libpmix::Release, peal, run,
};

/// Returns what each rank prints, for ranks that print the same.
fn of_both(lines: &[&str]) -> Vec<String> {
    let of = |rank: u32| lines.iter().map(move |line| format!("rank {rank}: {line}"));
    (0..2).flat_map(of).collect()
}

fn on_peal(words: &[&str], exit_status: i32) -> Done {
    let (program, words) = words.split_first().unwrap();
    let mut command = peal(["run", "-n", "2", "--on-abort", "continue", "--"]);
    command.arg(c_program(program)).args(words);
    run(Release::peal().of(&mut command)).expect_status(exit_status)
}

/// Each of 64 threads makes 13 calls eight times, while the process forks 30 children.
#[needs(prepared, libpmix)]
#[test]
fn threads_call_at_once_while_the_process_forks() {
    let calls = [
        "put",
        "commit",
        "get",
        "publish",
        "lookup",
        "unpublish",
        "register",
        "notify",
        "deregister",
        "job control",
        "construct",
        "destruct",
        "query",
    ];
    let counts = calls.map(|call| format!("{call}: 0 of 512 failed"));
    let before = [
        "init: SUCCESS (0)",
        "put: SUCCESS (0)",
        "0 of 30 children failed",
    ];
    let after = ["fence: SUCCESS (0)", "finalize: SUCCESS (0)"];
    let counts = counts.each_ref().map(String::as_str);
    let expected = of_both(&[&before[..], &counts, &after].concat());
    let run = ProgramComparison::new("threads", "2", 0, 0);
    assert_eq!(run.on(&Release::peal(), ComparedServer::Peal), expected);
}

/// The exec closes the connection of the proc, which so ends without a finalize: its server admits it
/// no more. The C library's connection stays open in the new program, which is why that one is
/// admitted; its job fails all the same.
#[needs(prepared, libpmix)]
#[test]
fn proc_that_becomes_another_program_has_ended_for_its_job() {
    let before = ["before: init: SUCCESS (0)", "before: fence: SUCCESS (0)"];
    let again = on_peal(&["execs", "self"], 1);
    let refused = ["again: init: UNREACHABLE (-25)"];
    assert_eq!(again.by_rank(), of_both(&[&before[..], &refused].concat()));
    let other = on_peal(&["execs", "other"], 1);
    assert_eq!(other.by_rank(), of_both(&before));
    let reason = "exited with status 0 without having finalized";
    assert!(other.stderr.contains(reason), "{}", other.stderr);
}

/// The child has the identity of its parent, and a connection of its own.
#[needs(prepared, libpmix)]
#[test]
fn forked_child_that_becomes_a_program_of_its_own_is_served() {
    let done = on_peal(&["execs", "child"], 0);
    let expected = [
        "before: init: SUCCESS (0)",
        "before: fence: SUCCESS (0)",
        "again: init: SUCCESS (0)",
        "again: fence: SUCCESS (0)",
        "again: finalize: SUCCESS (0)",
        "the child ends with 0",
        "after: fence: SUCCESS (0)",
        "after: finalize: SUCCESS (0)",
    ];
    assert_eq!(done.by_rank(), of_both(&expected));
}

/// Calls in which `killed` is killed. Under `peal run` there are two more, init and spawn.
const CALLS: [&str; 17] = [
    "fence",
    "data-fence",
    "get",
    "lookup",
    "publish",
    "connect",
    "construct",
    "destruct",
    "invite",
    "notify",
    "register",
    "log",
    "query",
    "control",
    "monitor",
    "abort",
    "finalize",
];

/// Lines of the other proc, which receives the death and is served as before.
const WITNESS: [&str; 5] = [
    "rank 0: the other has died",
    "rank 0: construct: SUCCESS (0)",
    "rank 0: destruct alone: SUCCESS (0)",
    "rank 0: fence: SUCCESS (0)",
    "rank 0: finalize: SUCCESS (0)",
];

/// Returns the lines of the other proc. The death of a proc in its finalize may come after it, and then
/// concerns nobody.
fn witnessed(call: &str) -> &'static [&'static str] {
    match call {
        "finalize" => WITNESS.split_first().unwrap().1,
        _ => &WITNESS,
    }
}

/// `peal run` returns when the whole tree of jobs has ended.
#[needs(prepared, libpmix)]
#[test]
fn proc_killed_in_any_call_hangs_nothing_of_its_job() {
    for call in CALLS.iter().chain(&["init", "spawn"]) {
        let done = on_peal(&["killed", call], 137);
        assert_eq!(done.by_rank(), witnessed(call), "{call}: {}", done.stderr);
        assert!(
            done.stderr.contains("rank 1 was ended by signal 9"),
            "{call}: {}",
            done.stderr
        );
    }
}

/// One server has a job for each call, and then one that needs everything.
#[needs(prepared, libpmix)]
#[test]
fn procs_killed_in_their_calls_leave_nothing_in_the_server() {
    let program = c_program("killed");
    let library = Release::peal();
    let place = Place::new();
    let daemon = place.start();
    for call in CALLS {
        daemon.tell(&["job", "register", call, "-n", "2"]);
        let procs = [0, 1].map(|rank| {
            let mut proc = daemon.proc(call, rank, &program);
            library.of(proc.arg(call)).spawn().unwrap()
        });
        let [witness, killed] = procs.map(finish);
        assert_eq!(witness.by_rank(), witnessed(call), "{call}: {witness:?}");
        assert_eq!(witness.status, Some(0), "{call}: {witness:?}");
        assert_eq!(killed.status, None, "{call}: {}", killed.stderr);
        // The server refuses this for a job of which a proc is connected.
        daemon.tell(&["job", "deregister", call]);
    }
    let listed = daemon.tell(&["job", "list"]);
    // The first line is the heading.
    assert_eq!(listed.lines().skip(1).count(), 0, "{listed}");
    daemon.ask(&["status"]).expect_status(0);
    daemon.tell(&["job", "register", "later", "-n", "2"]);
    let hello = c_program("hello");
    let procs = [0, 1].map(|rank| {
        let mut proc = daemon.proc("later", rank, &hello);
        library.of(&mut proc).spawn().unwrap()
    });
    for done in procs.map(finish) {
        assert!(
            done.expect_status(0)
                .stdout
                .contains("heard good news from rank 0")
        );
    }
}
