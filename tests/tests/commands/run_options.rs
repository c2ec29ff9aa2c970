//! Options of `peal run` for a job: applications and their environment, standard input of procs,
//! and destinations of their output.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use peal_needs::needs;
use peal_tests::{Done, c_program, finish, peal, run};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, Stdio},
};

/// Returns the lines on standard output in alphabetical order, since the order between procs is not
/// fixed.
fn sorted(done: &Done) -> Vec<&str> {
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    lines.sort_unstable();
    lines
}

/// Runs a job with this standard input.
fn fed(args: &[&str], input: &[u8]) -> Done {
    let mut command = peal(args);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // The input is lost if no proc reads it.
    std::thread::spawn(move || stdin.write_all(&input));
    finish(child)
}

#[needs(prepared)]
#[test]
fn applications_are_one_job_with_an_environment_of_their_own() {
    let elsewhere = tempfile::tempdir().unwrap();
    let dir = elsewhere.path().canonicalize().unwrap();
    let script = "echo $PMIX_RANK of $OMPI_COMM_WORLD_SIZE: $WHAT $GIVEN in $(pwd)";
    let done = run(peal([
        "run",
        "-np",
        "2",
        "-x",
        "WHAT=first",
        "-x",
        "GIVEN",
        "--wdir",
    ])
    .arg(&dir)
    .args([
        "sh",
        "-c",
        script,
        ":",
        "-n",
        "1",
        "-x",
        "WHAT=second",
        "sh",
        "-c",
        script,
    ])
    .env("GIVEN", "given"))
    .expect_status(0);
    let there = dir.display();
    let here = peal_tests::root().canonicalize().unwrap();
    let expected = [
        format!("0 of 3: first given in {there}"),
        format!("1 of 3: first given in {there}"),
        format!("2 of 3: second given in {}", here.display()),
    ];
    assert_eq!(sorted(&done), expected);
}

#[needs(prepared)]
#[test]
fn first_rank_reads_stdin_unless_another_or_all_or_none() {
    let script = "sed \"s/^/$PMIX_RANK reads /\"";
    for (reader, expected) in [
        (None, vec!["0 reads one", "0 reads two"]),
        (Some("2"), vec!["2 reads one", "2 reads two"]),
        (
            Some("all"),
            vec![
                "0 reads one",
                "0 reads two",
                "1 reads one",
                "1 reads two",
                "2 reads one",
                "2 reads two",
            ],
        ),
        (Some("none"), vec![]),
    ] {
        let mut args = vec!["run", "-n", "3"];
        args.extend(reader.iter().flat_map(|reader| ["--stdin", reader]));
        args.extend(["sh", "-c", script]);
        let done = fed(&args, b"one\ntwo\n").expect_status(0);
        assert_eq!(sorted(&done), expected, "--stdin {reader:?}");
    }
}

#[needs(prepared)]
#[test]
fn large_input_is_read_whole_and_non_reader_delays_none() {
    let much = vec![b'x'; 3 << 20];
    let done = fed(&["run", "cat"], &much).expect_status(0);
    assert_eq!(done.stdout.len(), much.len());
    fed(&["run", "-n", "2", "--stdin", "all", "true"], &much).expect_status(0);
}

#[needs(prepared)]
#[test]
fn output_is_kept_in_files_and_shown_unless_disabled() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo out $PMIX_RANK; echo err $PMIX_RANK >&2";
    let kept = |below: &Path| {
        [
            ("rank.0/stdout", "out 0\n"),
            ("rank.1/stdout", "out 1\n"),
            ("rank.0/stderr", "err 0\n"),
        ]
        .iter()
        .all(|(name, text)| fs::read_to_string(below.join(name)).unwrap() == *text)
    };
    let both = dir.path().join("both");
    let done = run(peal(["run", "-n", "2", "--tag-output", "--output"])
        .arg(&both)
        .args(["sh", "-c", script]));
    assert_eq!(
        sorted(&done.expect_status(0)),
        ["[0] out 0", "[1] out 1"],
        "tags are for the screen"
    );
    assert!(kept(&both));

    let only = dir.path().join("only");
    let nocopy = format!("{}:nocopy", only.display());
    let done = run(&mut peal([
        "run", "-n", "2", "--output", &nocopy, "sh", "-c", script,
    ]))
    .expect_status(0);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""));
    assert!(kept(&only));
}

#[needs(prepared)]
#[test]
fn timed_out_job_is_ended_with_all_its_processes() {
    let began = std::time::Instant::now();
    let done = run(&mut peal([
        "run",
        "-n",
        "2",
        "--timeout",
        "300ms",
        "sh",
        "-c",
        "sleep 1000 & sleep 1000",
    ]));
    let done = done.expect_status(124);
    assert!(
        done.stderr.contains("did not end within 300ms"),
        "{}",
        done.stderr
    );
    assert!(began.elapsed().as_secs() < 30);
    run(&mut peal(["run", "--timeout", "1h", "true"])).expect_status(0);
}

#[needs(prepared)]
#[test]
fn invalid_options_are_refused_before_start() {
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("mark");
    let touch = format!("touch {}", mark.display());
    for (args, status, word) in [
        (vec!["--wdir", "/no/such/place"], 125, "/no/such/place"),
        (vec!["--output", "/proc/no"], 125, "/proc/no"),
        (vec!["--timeout", "soon"], 2, "1h30m"),
        (vec!["--stdin", "somebody"], 2, "a rank, all or none"),
        (vec!["-x", "=value"], 2, "-x NAME"),
        (vec!["-n", "0"], 2, "0"),
    ] {
        let done = run(peal(["run"]).args(&args).args(["sh", "-c", &touch])).expect_status(status);
        assert!(done.stderr.contains(word), "{args:?}: {}", done.stderr);
    }
    let done = run(&mut peal(["run", "sh", "-c", &touch, ":"])).expect_status(2);
    assert!(done.stderr.contains("behind `:`"), "{}", done.stderr);
    assert!(!mark.exists(), "something ran");
    let done = run(&mut peal(["run", "-x", "NO_SUCH_VARIABLE", "true"])).expect_status(0);
    assert!(
        done.stderr
            .contains("NO_SUCH_VARIABLE: there is no such variable"),
        "{}",
        done.stderr
    );
}

/// Running job whose output is read line by line.
struct Read {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Read {
    fn start(args: &[&str]) -> Read {
        let mut child = peal(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Read { child, lines }
    }
}

#[needs(prepared)]
#[test]
fn lines_go_back_and_forth_while_both_run() {
    let mut job = Read::start(&[
        "run",
        "sh",
        "-c",
        "while read line; do echo got $line; done; echo end",
    ]);
    let mut input = job.child.stdin.take().unwrap();
    for line in ["one", "two"] {
        writeln!(input, "{line}").unwrap();
        assert_eq!(job.lines.next().unwrap().unwrap(), format!("got {line}"));
    }
    drop(input);
    assert_eq!(job.lines.next().unwrap().unwrap(), "end");
    assert_eq!(job.child.wait().unwrap().code(), Some(0));
}

#[needs(prepared)]
#[test]
fn an_interrupt_ends_all_applications() {
    let script = "trap 'echo ended; exit 3' TERM; echo ready; while :; do sleep 0.05; done";
    let mut job = Read::start(&[
        "run", "sh", "-c", script, ":", "-n", "2", "sh", "-c", script,
    ]);
    for _ in 0..3 {
        assert_eq!(job.lines.next().unwrap().unwrap(), "ready");
    }
    kill_process(Pid::from_child(&job.child), Signal::INT).unwrap();
    for _ in 0..3 {
        assert_eq!(job.lines.next().unwrap().unwrap(), "ended");
    }
    assert_eq!(job.child.wait().unwrap().code(), Some(130));
}

/// A program of the real `libpmix` that pulls, and pushes by callback. Without a callback, 4.2.2
/// never returns.
#[needs(prepared, libpmix)]
#[test]
fn procs_read_and_write_pipes_of_other_programs() {
    let program = c_program("forward");
    // This sends nothing, and no end of input.
    let mut command = peal(["run", "-n", "3", "--stdin", "2"]);
    let mut child = command
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let _open = child.stdin.take();
    let done = finish(child).expect_status(0);
    let expected = [
        "rank 0: deregisters SUCCESS",
        "rank 0: got errors of rank 1",
        "rank 0: got words of rank 1",
        "rank 0: pulls it",
        "rank 0: pulls of nobody: NOT-FOUND",
        "rank 0: pushed SUCCESS",
        "rank 2: read for rank 2",
        "words of rank 1",
    ];
    assert_eq!(sorted(&done), expected, "{}", done.stderr);
}
