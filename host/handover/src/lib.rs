//! State of a server as bytes, for the process that continues it.
//!
//! The functions have no type parameters and a crate of their own. The code for all parts of a state is long:
//! in peal-core it would be optimized, which takes minutes, and compiled for each of its test programs.
use peal_core::{group::Groups, server::ServerState};
use thiserror::Error;

/// Reason for which a state cannot be encoded.
#[derive(Debug, Error)]
#[error("the state of the server cannot be encoded: {0}")]
pub struct StateEncodeError(#[from] rmp_serde::encode::Error);

/// Reason for which bytes are no state.
#[derive(Debug, Error)]
#[error("the state of the server cannot be read: {0}")]
pub struct StateDecodeError(#[from] rmp_serde::decode::Error);

/// Encodes a state as MessagePack with the names of the fields. Settings are left out.
///
/// # Errors
///
/// Fails if a value cannot be encoded.
pub fn encode_state(state: &ServerState) -> Result<Vec<u8>, StateEncodeError> {
    Ok(rmp_serde::to_vec_named(state)?)
}

/// Decodes a state that another process of the server had. It has the usual settings until
/// [`ServerState::continued`].
///
/// # Errors
///
/// Fails if the bytes are no state.
pub fn decode_state(bytes: &[u8]) -> Result<ServerState, StateDecodeError> {
    Ok(rmp_serde::from_slice(bytes)?)
}

/// Encodes groups, as in [`encode_state`].
///
/// # Errors
///
/// Fails if a value cannot be encoded.
pub fn encode_groups(groups: &Groups) -> Result<Vec<u8>, StateEncodeError> {
    Ok(rmp_serde::to_vec_named(groups)?)
}

/// Decodes groups, as in [`decode_state`].
///
/// # Errors
///
/// Fails if the bytes are no groups.
pub fn decode_groups(bytes: &[u8]) -> Result<Groups, StateDecodeError> {
    Ok(rmp_serde::from_slice(bytes)?)
}
