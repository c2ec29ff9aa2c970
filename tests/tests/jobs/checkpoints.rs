//! Checkpoints of unmodified `libpmix` programs under `peal run`: the notification of procs, and
//! the result of the request.
use peal_needs::needs;
use peal_tests::{Done, c_program, peal, run};
use std::collections::BTreeSet;

/// Runs the program with this argument as a job of three procs.
fn checkpoint(how: &str) -> Vec<String> {
    let program = c_program("checkpoint");
    let done: Done = run(peal(["run", "-n", "3", "--"]).arg(program).arg(how)).expect_status(0);
    done.by_rank()
}

#[needs(prepared, libpmix)]
#[test]
fn all_procs_checkpoint_on_signals_and_events() {
    for how in ["both", "older", "example"] {
        let lines = checkpoint(how);
        let expected: BTreeSet<&str> = [
            "rank 0: checkpoint: SUCCESS (0)",
            "rank 0: made its checkpoint well",
            "rank 0: it is over: SUCCESS (0)",
            "rank 0: checkpoint \"mycheckpoint.1\", done",
            "rank 1: made its checkpoint well",
            "rank 2: made its checkpoint well",
        ]
        .into();
        assert_eq!(
            lines.iter().map(String::as_str).collect::<BTreeSet<_>>(),
            expected,
            "{how}"
        );
    }
}

#[needs(prepared, libpmix)]
#[test]
fn late_or_failed_proc_is_reported_and_cancelling_ends_wait() {
    for (how, over, state) in [
        ("late", "PARTIAL SUCCESS (-52)", "failed"),
        ("failed", "PARTIAL SUCCESS (-52)", "failed"),
        ("cancel", "JOB CANCELED (-180)", "cancelled"),
    ] {
        let lines = checkpoint(how);
        let has = |words: &str| lines.iter().any(|line| line.contains(words));
        assert!(
            has(&format!("rank 0: checkpoint \"mycheckpoint.1\", {state}")),
            "{how}: {lines:#?}"
        );
        assert!(
            has(&format!("rank 0: it is over: {over}")),
            "{how}: {lines:#?}"
        );
    }
}

#[needs(prepared, libpmix)]
#[test]
fn checkpoint_of_procs_without_method_is_an_error() {
    let lines = checkpoint("nobody");
    assert_eq!(lines, ["rank 0: checkpoint: NOT-SUPPORTED (-47)"]);
}
