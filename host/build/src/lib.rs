//! Makes components of sources in Rust, C, Python and JavaScript, each with its language's own tools.
//!
//! ```text
//! Project   a directory with a peal-module.toml (manifest.rs), or one of the guests that ship with Peal
//!   build     its tool is found or installed (rust.rs, c.rs, python.rs, js.rs), run, and what comes out becomes a component
//! carried   the SDKs and the contract, for whoever has the `peal` command and nothing else
//! ```
//!
//! No engine is needed for any of this, so that `cargo xtask` can use it before anything is built.
mod apt;
mod bundled;
mod c;
mod command;
mod encode;
mod error;
mod js;
mod manifest;
mod project;
mod python;
pub mod rust;
mod tools;
mod world;

pub use apt::{install as apt_install, is_available as apt_is_available};
pub use bundled::{capabilities, carried};
pub use encode::encode;
pub use error::BuildError;
pub use manifest::{Language, MANIFEST, Manifest, is_name};
pub use project::Project;
pub use tools::{BuildTools, Install};
pub use world::world;

/// Tells a person what is being done.
pub type Say<'a> = &'a mut dyn FnMut(&str);
