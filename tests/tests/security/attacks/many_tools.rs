//! A user that attaches many tools leaves room for those of other users.
use super::{
    VICTIM, address,
    beside::{Attacker, connected, is_undisturbed, stat},
};
use peal_needs::needs;
use peal_tests::daemon::Place;

#[needs(prepared, root)]
#[test]
fn tools_of_one_user_leave_room_for_those_of_others() {
    let place = Place::new();
    let daemon = place.start();
    let address = address(&daemon);
    let before = connected(VICTIM, &address, 50);
    let mut attacker = Attacker::start(&["many-tools", &address, "256"]);
    let limit = stat(&daemon, "peal_user_limit", &[("resource", "tools")]);
    assert_eq!((attacker.line().as_str(), limit), ("64", 64));
    let during = [VICTIM, 0].map(|uid| connected(uid, &address, 50));
    assert!(
        during.iter().all(|times| is_undisturbed(*times, before)),
        "{before:?} {during:?}"
    );
    assert_eq!(stat(&daemon, "peal_tools_over_share", &[]), 256 - 64);
}
