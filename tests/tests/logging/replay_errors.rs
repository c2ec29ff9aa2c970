//! `peal audit replay` of calls that do not exist: the error lists those that do.
use peal_needs::needs;
use peal_tests::{Done, guest, peal, program, run};
use std::{fs, path::Path};
use tempfile::TempDir;

/// Returns the trail of a job with a handler.
fn trail() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("peal.toml");
    fs::write(
        &config,
        format!(
            "[audit]\npath = {:?}\non_failure = \"deny\"\n",
            dir.path().join("audit.db")
        ),
    )
    .unwrap();
    let mut command = peal(["run", "--config"]);
    command
        .arg(&config)
        .arg("--handler")
        .arg(guest("echo"))
        .arg("--")
        .arg(program("peal-example"));
    run(&mut command).expect_status(0);
    dir
}

fn replay(trail: &Path, args: &[&str]) -> Done {
    run(peal(["audit", "replay", "--config"])
        .arg(trail.join("peal.toml"))
        .args(args))
}

#[needs(prepared)]
#[test]
fn replay_of_no_call_lists_existing_calls() {
    let dir = trail();
    let all = replay(dir.path(), &[]).expect_status(0).stdout;
    assert!(
        all.contains("0 differ") && !all.starts_with("0 calls"),
        "{all}"
    );
    for (args, says) in [
        (
            &["999999"][..],
            "no call is replayed: none fits; records 1 to ",
        ),
        (
            &["--module", "nosuch"],
            "are there, with calls of these modules: echo",
        ),
        (&["1"], "no call is replayed: that record is of kind "),
    ] {
        let done = replay(dir.path(), args).expect_status(125);
        assert!(done.stderr.contains(says), "{args:?}: {}", done.stderr);
        assert_eq!(done.stdout, "", "{args:?}");
    }
    replay(dir.path(), &["soon"]).expect_status(2);
}
