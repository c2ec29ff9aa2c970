//! A flood of events from a C program that raises them without a pause, on Peal's `libpmix.so.2`.
//! `cargo xtask soak` repeats this with a million events.
use crate::retention::flood;
use peal_needs::needs;
use peal_tests::{c_program, libpmix::Release, peal, run_within};
use std::time::Duration;

/// Maximum memory of a receiver in KiB, for any number of events.
const MOST: u64 = 128 << 10;

#[needs(prepared, libpmix)]
#[test]
fn events_raised_without_pause_arrive_in_order() {
    let count = flood();
    let mut command = peal(["run", "-n", "3", "--"]);
    command.arg(c_program("unpaced")).arg(count.to_string());
    let limit = Duration::from_secs(60) + 2 * Duration::from_millis(count.into());
    let done = run_within(limit, Release::peal().of(&mut command)).expect_status(0);
    let (took, heard): (Vec<String>, Vec<String>) = done
        .by_rank()
        .into_iter()
        .partition(|line| line.contains(" took "));
    let received = |rank| format!("rank {rank}: heard {count}, 0 out of order");
    assert_eq!(
        heard,
        [
            format!("rank 0: raised {count}, 0 refused"),
            received(1),
            received(2)
        ]
    );
    println!("{took:?}");
    for rank in [1, 2] {
        let took = took[rank].strip_prefix(&format!("rank {rank}: took "));
        let took = took.and_then(|rest| rest.strip_suffix(" KiB"));
        let took: u64 = took.unwrap().parse().unwrap();
        assert!((1..MOST).contains(&took), "rank {rank} took {took} KiB");
    }
}
