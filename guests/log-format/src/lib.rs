//! Common parts of log channels: the text of a request, its formatting, and lines that cannot be
//! forged by the data.
//!
//! This crate is no component: `cargo xtask guests` makes components of the crates two directories
//! down.
mod directives;
mod json;
mod line_prefix;
mod name;
mod readable;
mod sinks;
mod texts;
mod time;
mod visible;

pub use directives::LogDirectives;
pub use json::json_line;
pub use line_prefix::{LinePrefix, lines};
pub use name::channel_name;
pub use readable::readable;
pub use sinks::opened;
pub use texts::{RESERVED, Texts, read};
pub use time::{rfc3339, shown};
pub use visible::{is_plain, visible};
