//! Messages between servers as a network carries them, and states as a process hands them to the next one: as
//! bytes. A message or state that its encoding changes would make the simulations differ from servers of one
//! process.
#![allow(dead_code, reason = "no file of tests uses all of it")]
use peal_core::{group::Groups, server::ServerState};
use peal_handover::{decode_groups, decode_state, encode_groups, encode_state};
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Returns a message as its receiver decodes it.
pub fn carried<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T) -> T {
    let bytes = rmp_serde::to_vec_named(message).unwrap();
    let decoded: T = rmp_serde::from_slice(&bytes).unwrap();
    assert_eq!(decoded, *message);
    decoded
}

/// Puts in the place of a state the one that another process reads from its bytes.
pub fn take_over(state: &mut ServerState) {
    let bytes = encode_state(state).unwrap();
    let read = decode_state(&bytes).unwrap();
    // A state in which a value is missing would still be read if all of that value is usual.
    assert!(encode_state(&read).unwrap() == bytes);
    *state = read.continued(state.settings().clone());
}

/// Returns groups as another process reads them from their bytes.
pub fn groups_continued(groups: &Groups) -> Groups {
    let bytes = encode_groups(groups).unwrap();
    let read = decode_groups(&bytes).unwrap();
    assert!(encode_groups(&read).unwrap() == bytes);
    read
}
