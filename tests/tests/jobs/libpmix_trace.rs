//! Trace of Peal's `libpmix.so.2` on the standard error of its program, by `PEAL_LOG`.
use peal_needs::needs;
use peal_tests::{Done, c_program, libpmix::Release, peal, run};

/// Line of a call that blocks in a callback, which `misuse` makes.
const BLOCKED: &str = "blocking function called from a callback function=\"PMIx_Fence\"";

/// Runs `misuse` with this filter.
#[track_caller]
fn traced(filter: &str) -> Done {
    let mut command = peal(["run", "-n", "1", "-x", &format!("PEAL_LOG={filter}"), "--"]);
    command.arg(c_program("misuse"));
    run(Release::peal().of(&mut command)).expect_status(0)
}

#[needs(prepared, libpmix)]
#[test]
fn library_traces_only_what_its_environment_selects() {
    let lines = |filter| {
        let error = traced(filter).stderr;
        let blocked = error.lines().filter(|line| line.contains(BLOCKED)).count();
        let failed = error.contains("call failed");
        (blocked, failed)
    };
    assert_eq!(lines(""), (0, false));
    assert_eq!(lines("off"), (0, false));
    assert_eq!(lines("error"), (1, false));
    assert_eq!(lines("error,peal_libpmix=debug"), (1, true));
}

#[needs(prepared, libpmix)]
#[test]
fn wrong_filter_is_reported_and_traces_nothing() {
    let error = traced("peal=loud").stderr;
    let reported = "libpmix: PEAL_LOG is \"peal=loud\"; it should be levels and their targets";
    assert_eq!(error.matches(reported).count(), 1, "{error}");
    assert!(!error.contains(BLOCKED), "{error}");
}
