//! Seeded random calls: no panic, no leak, the same in every run.
use super::calls;
use crate::{border, memory::counter};

/// Inputs of a run.
const INPUTS: u64 = 3000;
/// Bytes of an input.
const LEN: usize = 256;

/// Returns the bytes of a seed (SplitMix64).
fn bytes(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut word = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)).to_le_bytes()
    };
    (0..LEN / 8).flat_map(|_| word()).collect()
}

#[test]
fn random_calls_neither_panic_nor_leak() {
    for seed in 0..INPUTS {
        let (live, panics) = (counter::live(), border::panics::count());
        // SAFETY: a mistake of the functions is what this looks for.
        unsafe { calls(&bytes(seed)) };
        assert_eq!(border::panics::count(), panics, "panic with seed {seed}");
        assert_eq!(counter::live(), live, "leak with seed {seed}");
    }
}
