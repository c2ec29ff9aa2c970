//! The same unmodified C program under Peal and under a host on the C library's own server: what both print is compared.
use peal_tests::{c_program, peal, root, run};
use serde::Deserialize;
use std::process::Command;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Differences {
    difference: Vec<Difference>,
}

/// A difference that is allowed, and why.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Difference {
    libpmix: String,
    peal: String,
    reason: String,
}

fn allowed() -> Vec<Difference> {
    let text = std::fs::read_to_string(root().join("tests/c/differences.toml")).unwrap();
    let all: Differences = toml::from_str(&text).unwrap();
    assert!(all.difference.iter().all(|difference| difference.reason.len() > 40), "each difference needs a reason");
    all.difference
}

/// Runs the job both ways, and returns which of the allowed differences were seen.
fn compare(args: &[&str], exit_status: i32) -> Vec<usize> {
    let (Some(job), Some(host)) = (c_program("job"), c_program("host")) else { return (0..allowed().len()).collect() };
    let job = job.to_str().unwrap();
    let start = ["run", "-n", "4", "--on-abort", "continue", "--", job];
    let ours = run(peal(start).args(args)).expect_status(exit_status).by_rank();
    let theirs = run(Command::new(host).args(["4", job]).args(args)).expect_status(exit_status).by_rank();
    let differences = allowed();
    let mut seen = Vec::new();
    let expected: Vec<String> = theirs
        .into_iter()
        .map(|line| {
            differences.iter().enumerate().fold(line, |line, (at, difference)| {
                if line.contains(&difference.libpmix) {
                    seen.push(at);
                }
                line.replace(&difference.libpmix, &difference.peal)
            })
        })
        .collect();
    for (ours, expected) in ours.iter().zip(&expected) {
        assert_eq!(ours, expected, "job {args:?}: a difference that tests/c/differences.toml does not allow");
    }
    assert_eq!(ours.len(), expected.len(), "job {args:?}: one of them printed more");
    assert!(ours.len() >= 40, "job {args:?} printed next to nothing: {ours:?}");
    seen
}

#[test]
fn four_procs_print_the_same_under_both_servers() {
    assert!(compare(&[], 0).is_empty() || c_program("job").is_none(), "the plain run needs no allowance");
    compare(&["--status", "5"], 5);
}

#[test]
fn an_abort_ends_both_with_its_status() {
    compare(&["--abort", "1"], 7);
}

#[test]
fn a_death_is_told_by_both_and_every_allowed_difference_is_seen() {
    let seen = compare(&["--die", "2"], 137);
    for (at, difference) in allowed().iter().enumerate() {
        assert!(seen.contains(&at), "nobody needs this difference any more: {}", difference.libpmix);
    }
}
