//! A user that opens sockets and sends nothing does not keep other users out.
use super::{
    VICTIM, address,
    beside::{Attacker, attackers, connected, is_undisturbed, stat},
};
use peal_needs::needs;
use peal_tests::daemon::Place;

#[needs(prepared, root)]
#[test]
fn silent_sockets_of_one_user_keep_no_one_else_out() {
    let place = Place::new();
    let daemon = place.start();
    let address = address(&daemon);
    let before = connected(VICTIM, &address, 100);
    let mut attacker = Attacker::start(&["silent-sockets", &address, "4096"]);
    assert_eq!(attacker.line(), "ready");
    let during = [VICTIM, 0].map(|uid| connected(uid, &address, 100));
    assert!(
        during.iter().all(|times| is_undisturbed(*times, before)),
        "{before:?} {during:?}"
    );
    let limit = stat(&daemon, "peal_user_limit", &[("resource", "connections")]);
    assert!(
        limit == 1024
            && attackers(&daemon, "connections") <= limit
            && attackers(&daemon, "handshakes") <= 64
    );
    assert!(stat(&daemon, "peal_connections_over_share", &[]) > 0);
}
