//! `peal ctl` with requests that take time: procs save their state and can be preempted. The
//! command prints the progress until the request has ended.
use peal_needs::needs;
use peal_tests::{program, shell_job::ShellJob};
use serde_json::Value;

/// Starts two procs that save their state on request.
fn savers(more: &[&str]) -> ShellJob {
    let script = format!(
        "exec {} {}",
        program("peal-test-checkpoint").display(),
        more.join(" ")
    );
    ShellJob::start(2, &[], &script)
}

fn status(job: &ShellJob, id: &str) -> Value {
    let told = job
        .ask(&["ctl", "status", id, "-o", "json"])
        .expect_status(0)
        .stdout;
    serde_json::from_str::<Value>(&told).unwrap()[0].clone()
}

#[needs(prepared)]
#[test]
fn a_checkpoint_is_done_when_all_have_saved() {
    let mut job = savers(&[]);
    let name = job.nspace();
    let told = job
        .ask(&[
            "ctl",
            "checkpoint",
            "n.1",
            &name,
            "--id",
            "night",
            "--wait",
            "-o",
            "json",
        ])
        .expect_status(0);
    let told: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!(
        (&told["id"], &told["end"]),
        (&"night".into(), &"done".into())
    );
    assert_eq!([job.line(), job.line()], ["saved", "saved"]);
    let status = status(&job, "night");
    assert_eq!(
        (&status["id"], &status["state"]),
        (&"night".into(), &"done".into())
    );
    assert!(
        status["action"].as_str().unwrap().contains("n.1"),
        "{status}"
    );
    let table = job.ask(&["ctl", "status"]).expect_status(0).stdout;
    assert!(
        table.starts_with("request  state  action") && table.contains("night    done   "),
        "{table}"
    );
    // A request without a checkpoint name gets one.
    let accepted = job
        .ask(&["ctl", "checkpoint", "n.2", &name])
        .expect_status(0)
        .stdout;
    let id = accepted.strip_suffix(" accepted\n").unwrap();
    job.ask(&["ctl", "status", id, "--wait"]).expect_status(0);
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn checkpoint_not_made_in_time_has_failed() {
    let job = savers(&["never"]);
    let failed = job
        .ask(&[
            "ctl",
            "checkpoint",
            "n.1",
            &job.nspace(),
            "--completion-timeout",
            "1s",
            "--wait",
            "--id",
            "x",
        ])
        .expect_status(1);
    assert_eq!(failed.stdout, "x failed\n");
    assert!(
        failed.stderr.contains("checkpoint ended as failed"),
        "{}",
        failed.stderr
    );
    assert_eq!(status(&job, "x")["procs"].as_array().map(Vec::len), Some(2));
    // The program `sleep` cannot save its state.
    let sleeps = ShellJob::asleep(1, &[]);
    let refused = sleeps
        .ask(&["ctl", "checkpoint", "n.1", &sleeps.nspace()])
        .expect_status(1);
    assert!(
        refused.stderr.starts_with("peal: checkpoint is refused: "),
        "{}",
        refused.stderr
    );
    sleeps.interrupt();
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn pending_requests_are_cancelled_by_name_or_all_at_once() {
    let job = savers(&["never"]);
    let name = job.nspace();
    for id in ["a", "b", "c"] {
        let told = job
            .ask(&[
                "ctl",
                "checkpoint",
                id,
                &name,
                "--id",
                id,
                "--completion-timeout",
                "1h",
            ])
            .expect_status(0);
        assert_eq!(told.stdout, format!("{id} accepted\n"));
    }
    let dry = job.ask(&["ctl", "cancel", "--all", "--dry-run"]);
    assert_eq!(dry.expect_status(0).stdout, "would cancel a, b, c\n");
    let taken = ["ctl", "checkpoint", "d", &name, "--id", "a", "--dry-run"];
    let taken = job.ask(&taken).expect_status(1);
    assert!(taken.stderr.contains("\"a\""), "{taken:?}");
    job.ask(&["ctl", "cancel", "a"]).expect_status(0);
    assert_eq!(
        (&status(&job, "a")["state"], &status(&job, "b")["state"]),
        (&"cancelled".into(), &"running".into())
    );
    let unknown = job.ask(&["ctl", "cancel", "z"]).expect_status(1);
    assert!(
        unknown.stderr.starts_with("peal: cancel is refused: "),
        "{}",
        unknown.stderr
    );
    job.ask(&["ctl", "cancel", "--all"]).expect_status(0);
    job.ask(&["ctl", "status", "--wait"]).expect_status(1);
    assert_eq!(status(&job, "c")["state"], "cancelled");
    job.interrupt();
}

#[needs(prepared)]
#[test]
fn preempted_proc_is_alerted_first() {
    let mut job = savers(&[]);
    let target = format!("{}:0", job.nspace());
    let told = job.ask(&[
        "ctl", "preempt", &target, "--action", "kill", "--grace", "1s", "--wait", "--id", "p",
    ]);
    assert_eq!(
        (told.expect_status(0).stdout.as_str(), job.line().as_str()),
        ("p done\n", "alerted")
    );
    assert_eq!(job.states(), ["killed", "running"]);
    let sleeps = ShellJob::asleep(1, &[]);
    let refused = sleeps
        .ask(&["ctl", "preempt", &sleeps.nspace()])
        .expect_status(1);
    assert!(
        refused.stderr.starts_with("peal: preempt is refused: "),
        "{}",
        refused.stderr
    );
    sleeps.interrupt();
    job.interrupt();
}
