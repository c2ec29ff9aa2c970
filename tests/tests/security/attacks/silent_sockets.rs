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

#[needs(prepared, root)]
#[test]
fn often_refused_sockets_are_closed_after_a_delay() {
    const SOCKETS: u64 = 256;
    const SHARE: u64 = 8;
    const EACH_SECOND: u64 = 32;
    let place = Place::new();
    place.configure(&format!(
        "[server]\nmax_connections_per_user = {SHARE}\nmax_refusal_delay_ms = 60000\n"
    ));
    let daemon = place.start();
    let address = address(&daemon);
    let start = std::time::Instant::now();
    let mut attacker = Attacker::start(&["silent-sockets", &address, &SOCKETS.to_string()]);
    assert_eq!(attacker.line(), "ready");
    // The attacker opens each socket again as soon as it is closed.
    connected(VICTIM, &address, 500);
    let refused = stat(&daemon, "peal_connections_over_share", &[]);
    let seconds = start.elapsed().as_secs() + 2;
    let most = SOCKETS + EACH_SECOND * seconds;
    assert!(
        (SOCKETS - SHARE..=most).contains(&refused),
        "{refused} of {most}"
    );
}
