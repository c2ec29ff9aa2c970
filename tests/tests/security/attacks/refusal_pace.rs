//! A user with repeated refusals has to wait, so that refusals take little of the server's time.
use super::{ATTACKER, VICTIM, address, attack_beside};
use peal_needs::needs;
use peal_tests::{daemon::Place, run};
use std::time::{Duration, Instant};

/// Number of handshakes above the number that is refused without delay: 32 in a second, by 8
/// connections at a time.
const JUNK: &str = "100";

#[needs(prepared, root)]
#[test]
fn refused_handshakes_of_one_user_are_read_at_bounded_pace() {
    let place = Place::new();
    let daemon = place.start();
    let address = address(&daemon);
    let junk = |uid: u32| {
        let start = Instant::now();
        run(&mut attack_beside(uid, &["junk", &address, JUNK])).expect_status(0);
        start.elapsed()
    };
    let delayed = junk(ATTACKER);
    assert!(delayed > Duration::from_secs(1), "{delayed:?}");
    // Another user is not delayed, and may have as many refusals.
    run(&mut attack_beside(VICTIM, &["connect", &address, "20"])).expect_status(0);
    let root = junk(0);
    assert!(
        root < delayed,
        "root waited {root:?}, the attacker {delayed:?}"
    );
}
