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
//! | [`border`] | runs the body of every exported function: panics and results become statuses |
//! | [`convert`] | C values to the model and back, bounded and copied |
//! | [`destruct`] | destructors of the C structures |
//! | [`duplicate`] | copies of C structures with all that they own |
//! | `fuzz` | random calls, for tests and the fuzz target |
//! | [`heap_array`] | arrays in the C heap that free themselves unless a caller gets them |
//! | [`memory`] | `malloc`, `free` and copies in the C heap |
//! | `hwloc` | hwloc's library, loaded when a cpuset or topology needs it |
//! | `trace` | lines on standard error for `PEAL_LOG` |
//! | [`version`] | `PMIx_Get_version` |
//! | [`values`] | functions that need no server |
//! | [`client`] | functions of clients and tools |
//! | [`server`] | functions of host environments |
//!
//! # An exported function
//!
//! ```
//! # use peal_libpmix::{abi::{CInfo, CStatus}, border, convert::read_array};
//! # use peal_model::Info;
//! /// `PMIx_Example`: says what it does.
//! ///
//! /// # Safety
//! ///
//! /// `info` is null or begins an array of `ninfo` infos.
//! #[unsafe(export_name = "PMIx_Example")]
//! pub unsafe extern "C" fn example(info: *const CInfo, ninfo: usize) -> CStatus {
//!     border::status("PMIx_Example", || {
//!         // SAFETY: the caller guarantees `ninfo` infos.
//!         let infos: Vec<Info> = unsafe { read_array(info, ninfo, "infos") }?;
//!         # drop(infos);
//!         Ok(())
//!     })
//! }
//! ```
//!
//! - The Rust name is the C name without `PMIx_`, in snake case.
//! - Everything that the caller passes is copied before the function returns.
//! - The caller's memory comes from [`memory`] or [`heap_array::HeapArray::into_raw`]; what the C
//!   program gives away is freed by [`destruct`].
//! - What is passed to a callback of the program and stays ours is a `HeapArray` that is dropped
//!   after the callback.

pub mod abi;
pub mod border;
pub mod client;
pub mod convert;
pub mod destruct;
pub mod duplicate;
#[cfg(any(test, feature = "fuzz"))]
pub mod fuzz;
pub mod heap_array;
mod hwloc;
pub mod memory;
pub mod server;
mod trace;
pub mod values;
pub mod version;
