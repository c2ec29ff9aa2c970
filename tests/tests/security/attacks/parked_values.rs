//! The size of the values that procs of one user put is bounded. The values are removed with the
//! procs.
use super::{
    ATTACKER, address,
    beside::{Attacker, memory, stat},
};
use peal_needs::needs;
use peal_tests::{daemon::Place, until};

const MIB: u64 = 1 << 20;

#[needs(prepared, root)]
#[test]
fn values_of_one_user_take_share_of_memory_and_go_with_procs() {
    let place = Place::new();
    // The share is twice that; 16 ranks would put 256 MiB.
    place.configure("[server]\nmax_put_bytes = 16777216\n");
    // The values are blocks that go back to the system when they are freed. By default glibc makes room for later ones
    // in its heap once such a block was freed, and may keep more than the bound below.
    let daemon = place.start_under(|mut command| {
        command.env("GLIBC_TUNABLES", "glibc.malloc.mmap_threshold=131072");
        command
    });
    let address = address(&daemon);
    let before = memory(&daemon);
    let mut attacker = Attacker::start(&[
        "parked-values",
        &address,
        &format!("job-of-{ATTACKER}"),
        "16",
    ]);
    let taken: u64 = attacker.line().parse().unwrap();
    let limit = stat(&daemon, "peal_user_limit", &[("resource", "put_bytes")]);
    assert_eq!(limit, 32 * MIB);
    assert!((16 * MIB..=limit).contains(&taken), "{} MiB", taken / MIB);
    assert!((taken..=limit).contains(&stat(&daemon, "peal_put_bytes", &[])));
    assert!(stat(&daemon, "peal_puts_refused", &[]) >= 16);
    drop(attacker);
    until("the values are gone", || {
        stat(&daemon, "peal_put_bytes", &[]) == 0
    });
    let left = memory(&daemon).saturating_sub(before);
    assert!(left < 16 * MIB, "{} MiB", left / MIB);
}
