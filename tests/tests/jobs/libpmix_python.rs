//! A client in Python on the C library's own binding (Debian: python3-pmix): it prints the same on
//! Peal's `libpmix.so.2` as on the C library.
#![allow(clippy::unwrap_used, reason = "a test may panic")]
use peal_needs::needs;
use peal_tests::{libpmix::Release, peal, provided, root, run, test_servers};

/// Runs the client on two ranks, and returns what each prints.
#[track_caller]
fn printed(library: &Release) -> Vec<String> {
    let modules = test_servers().join("python-pmix/usr/lib/python3/dist-packages");
    let client = provided(root().join("tests/python/client.py"));
    let mut command = peal(["run", "-n", "2", "--", "python3"]);
    command.arg(client).env("PYTHONPATH", provided(modules));
    let lines = run(library.of(&mut command)).expect_status(0).by_rank();
    // The binding itself prints, too.
    let own = lines.into_iter().filter(|line| line.starts_with("rank "));
    own.collect()
}

#[needs(prepared, libpmix, python_pmix)]
#[test]
fn python_client_prints_the_same_on_both_libraries() {
    let ours = printed(&Release::peal());
    assert_eq!(ours, printed(&Release::system()));
    for line in [
        "rank 0: get peal.text (0, {'value': 'text of 1', 'val_type': 3})",
        "rank 1: lookup 0 [('peal.port', 'here', 0)]",
        "rank 0: heard (-3100, 0, [('peal.word', 'hi')])",
        "rank 1: heard (-3100, 0, [('peal.word', 'hi')])",
        "rank 0: finalize 0",
        "rank 1: finalize 0",
    ] {
        assert!(ours.iter().any(|one| one == line), "{line}: {ours:?}");
    }
}
