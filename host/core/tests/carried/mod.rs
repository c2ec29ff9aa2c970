//! Messages between servers as a network carries them, and states as a process hands them to the next one: as
//! bytes. A message or state that its encoding changes would make the simulations differ from servers of one
//! process.
#![allow(dead_code, reason = "no file of tests uses all of it")]
use peal_core::server::ServerState;
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
    let settings = state.settings().clone();
    *state = read_again(&*state).taken_over(settings);
}

/// Returns a state as another process reads it from its bytes.
pub fn read_again<T: Serialize + DeserializeOwned>(state: &T) -> T {
    let bytes = rmp_serde::to_vec_named(state).unwrap();
    let read = rmp_serde::from_slice(&bytes).unwrap();
    // A state in which a value is missing would still be read if all of that value is usual.
    assert!(rmp_serde::to_vec_named(&read).unwrap() == bytes);
    read
}
