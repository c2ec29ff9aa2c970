//! The library as C programs see it: layouts of the headers of libpmix-dev, and programs that are
//! linked with these headers and run on Peal's library.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail their tests")]
mod layout;
mod names;
mod program;
mod values;
mod version;
