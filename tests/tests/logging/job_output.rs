//! Destinations of the lines that a job logs to stdout and stderr: the same as for the output of
//! its procs. There is no module: the host environment itself provides these channels.
use peal_needs::needs;
use peal_tests::{c_program, finish, peal, run, shell_job::ShellJob};
use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

const ANSWERS: [&str; 3] = [
    "payload: SUCCESS (0)",
    "stdout: SUCCESS (0)",
    "stderr: SUCCESS (0)",
];
const TO_STDOUT: [&str; 2] = ["app.progress: 5", "logged to stdout"];
const TO_STDERR: [&str; 2] = ["app.progress: 5", "logged to stderr"];

fn sorted<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut lines: Vec<&str> = lines.into_iter().collect();
    lines.sort_unstable();
    lines
}

#[needs(prepared, libpmix)]
#[test]
fn payload_without_channel_is_logged_to_stdout_and_stderr() {
    let program = c_program("payload");
    let done = run(peal(["run", "--"]).arg(program)).expect_status(0);
    assert_eq!(
        sorted(done.stdout.lines()),
        sorted(ANSWERS.into_iter().chain(TO_STDOUT))
    );
    assert_eq!(done.stderr.lines().collect::<Vec<_>>(), TO_STDERR);
}

#[needs(prepared, libpmix)]
#[test]
fn logged_lines_are_kept_in_output_files() {
    let program = c_program("payload");
    for (suffix, is_shown) in [("", true), (":nocopy", false)] {
        let dir = tempfile::tempdir().unwrap();
        let output = format!("{}{suffix}", dir.path().display());
        let done = run(peal(["run", "--tag-output", "--output", &output, "--"]).arg(&program))
            .expect_status(0);
        let file = |name: &str| fs::read_to_string(dir.path().join("rank.0").join(name)).unwrap();
        assert_eq!(
            sorted(file("stdout").lines()),
            sorted(ANSWERS.into_iter().chain(TO_STDOUT)),
            "{suffix}"
        );
        assert_eq!(
            file("stderr").lines().collect::<Vec<_>>(),
            TO_STDERR,
            "{suffix}"
        );
        let shown: Vec<String> = TO_STDERR
            .iter()
            .map(|line| format!("[0] {line}"))
            .filter(|_| is_shown)
            .collect();
        assert_eq!(done.stderr.lines().collect::<Vec<_>>(), shown, "{suffix}");
        assert_eq!(
            done.stdout.lines().count(),
            if is_shown { 5 } else { 0 },
            "{suffix}: {}",
            done.stdout
        );
    }
}

#[needs(prepared, libpmix)]
#[test]
fn logged_lines_reach_tools_that_pull_stdout() {
    let program = c_program("payload");
    let pull = c_program("pull");
    let script = format!(
        "trap '{} >&2' USR1; echo ready; while :; do sleep 1000 & wait; done",
        program.display()
    );
    let running = ShellJob::start(1, &[], &script);
    let puller = |pieces: &str| {
        let mut command = Command::new(&pull);
        command
            .args([&*running.nspace(), pieces])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
            .env("PMIX_SYSTEM_TMPDIR", running.dir())
            .env_remove("PMIX_SERVER_URI41");
        command
    };
    let mut pulling = puller("3").spawn().unwrap();
    let mut lines = BufReader::new(pulling.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap);
    assert_eq!(
        sorted([&*lines.next().unwrap(), &*lines.next().unwrap()]),
        ["pulls", "rank 0: ready"]
    );
    running
        .ask(&["ctl", "signal", "USR1", &running.nspace()])
        .expect_status(0);
    assert_eq!(
        lines.collect::<Vec<_>>(),
        ["rank 0: app.progress: 5", "rank 0: logged to stdout"]
    );
    finish(pulling).expect_status(0);
    // A later pull gets the lines, too.
    let late = run(&mut puller("1")).expect_status(0).stdout;
    assert!(
        late.contains("rank 0: ready\napp.progress: 5\nlogged to stdout\n"),
        "{late}"
    );
    running.interrupt();
}
