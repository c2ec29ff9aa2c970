//! A user with incomplete messages uses at most a share of memory, for a limited time.
use super::{
    VICTIM, address, attack_beside,
    beside::{Attacker, attackers, connected, is_undisturbed, memory, stat},
};
use peal_needs::needs;
use peal_tests::{daemon::Place, run, until};

const MIB: u64 = 1 << 20;

#[needs(prepared, root)]
#[test]
fn unfinished_messages_take_share_of_memory_for_a_time() {
    let place = Place::new();
    // The share is twice that.
    place.configure("[server]\nmax_message_bytes = 16777216\nframe_timeout_ms = 20000\n");
    let daemon = place.start();
    let address = address(&daemon);
    let before = connected(VICTIM, &address, 100);
    let memory_before = memory(&daemon);
    let mut attacker =
        Attacker::start(&["partial-frames", &address, "16", &(16 * MIB).to_string()]);
    assert_eq!(attacker.line(), "stalled");
    let taken = memory(&daemon).saturating_sub(memory_before);
    // A growing buffer takes twice its size while it is moved. Without the bound, all 256 MiB were
    // used.
    assert!(taken < 100 * MIB, "{} MiB", taken / MIB);
    assert_eq!(attackers(&daemon, "partial_frame_bytes"), 32 * MIB);
    let during = [VICTIM, 0].map(|uid| connected(uid, &address, 100));
    assert!(
        during.iter().all(|times| is_undisturbed(*times, before)),
        "{before:?} {during:?}"
    );
    assert_eq!(attacker.line(), "16", "connections that the server closed");
    assert!(stat(&daemon, "peal_frames_unfinished", &[]) >= 2);
    until("the share is given back", || {
        attackers(&daemon, "partial_frame_bytes") == 0
    });
}

#[needs(prepared, root)]
#[test]
fn long_messages_beyond_share_wait_and_are_all_answered() {
    let place = Place::new();
    // The share is twice that, a fourth of the bytes that the tools send at once.
    place.configure("[server]\nmax_message_bytes = 16777216\n");
    let daemon = place.start();
    let address = address(&daemon);
    let mut tools = attack_beside(
        VICTIM,
        &["long-messages", &address, "16", &(8 * MIB).to_string()],
    );
    assert_eq!(run(&mut tools).expect_status(0).stdout.trim(), "16");
    assert_eq!(stat(&daemon, "peal_frames_over_share", &[]), 0);
}
