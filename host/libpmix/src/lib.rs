//! Peal as the C library: `libpmix.so.2`, with the interface of OpenPMIx 4.2 and what 5.0, 6.1 and
//! 7.0 add to it.
//!
//! The crate is a translation between C and Rust, without semantics of its own: C values to
//! `peal_model` and back, C callbacks to handlers of `peal_client` and back. It does not depend on
//! the WebAssembly engine. It alone in the workspace has unsafe code; each block says why it is sound.
//!
//! | module | contents |
//! |---|---|
//! | [`abi`] | the C types, with their C names in its documentation; sizes are checked by the compiler |

pub mod abi;
