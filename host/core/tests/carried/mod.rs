//! Messages between servers as a network carries them: as bytes. A message that its encoding changes
//! would make the simulations differ from servers of one process.
use serde::{Serialize, de::DeserializeOwned};
use std::fmt::Debug;

/// Returns a message as its receiver decodes it.
pub fn carried<T: Serialize + DeserializeOwned + PartialEq + Debug>(message: &T) -> T {
    let bytes = rmp_serde::to_vec_named(message).unwrap();
    let decoded: T = rmp_serde::from_slice(&bytes).unwrap();
    assert_eq!(decoded, *message);
    decoded
}
