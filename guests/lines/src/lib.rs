//! What log channels share: which text a request has, how it is to be written, and lines in which nothing forges anything.
//!
//! No component of its own: `cargo xtask guests` makes components of the crates two directories down, and this is one.
mod dress;
mod name;
mod readable;
mod sinks;
mod texts;
mod time;
mod visible;
mod wishes;

pub use dress::{Dress, lines};
pub use name::channel_name;
pub use readable::readable;
pub use sinks::opened;
pub use texts::{RESERVED, Texts, read};
pub use time::{rfc3339, shown};
pub use visible::{is_plain, visible};
pub use wishes::Wishes;
