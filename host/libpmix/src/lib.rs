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
//! | [`convert`] | C values to the model and back, bounded and copied |
//! | [`destruct`] | destructors of the C structures |
//! | [`heap_array`] | arrays in the C heap that free themselves unless a caller gets them |
//! | [`memory`] | `malloc`, `free` and copies in the C heap |
//! | `hwloc` | hwloc's library, loaded when a cpuset or topology needs it |

pub mod abi;
pub mod convert;
pub mod destruct;
pub mod heap_array;
mod hwloc;
pub mod memory;
