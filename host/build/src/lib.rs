//! Builds components from sources in Rust, C, C++, Go, Python, JavaScript and TypeScript, each with its
//! language's own tools.
//!
//! ```text
//! Project    a directory with a peal-module.toml (manifest.rs), or a guest of Peal's repository
//!   build      finds or installs the tool (rust.rs, c.rs, go.rs, python.rs, js.rs, ts.rs), runs it, encodes the result,
//!              and adds the declaration of the manifest
//!   debug_info separates what names lines of the sources, which is not shipped
//! bundled    the SDKs and the contract, for projects outside of the repository
//! ```
//!
//! No engine is needed, so that `cargo xtask` can build guests before anything else is built.
mod apt;
mod bundled;
mod c;
mod command;
mod debug_info;
mod encode;
mod error;
mod go;
mod js;
mod manifest;
mod project;
mod python;
pub mod rust;
mod tools;
mod ts;
mod world;

pub use apt::{install as apt_install, is_available as apt_is_available};
pub use bundled::{capabilities, carried};
pub use debug_info::with_debug_info;
pub use encode::{declare, encode};
pub use error::BuildError;
pub use manifest::{Language, MANIFEST, Manifest, is_name};
pub use project::Project;
pub use tools::{BuildTools, Install, on_path};
pub use world::world;

/// Callback for progress messages to the user.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(&str);
