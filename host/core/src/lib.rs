//! The state machines of PMIx: input and time go in, actions come out. No sockets, no clock, no threads.
//!
//! - [`registration`], [`order`] and [`chain`]: which handlers an event meets, in which order, and how their results are passed on;
//!   used by servers for hosted modules and by clients for their own handlers alike.
//! - [`class`], [`audience`] and [`reach`]: what an event is about, and whom it reaches.
//! - [`termination`]: what its handlers wish to become of a job.
//! - [`policy`] and [`defaults`]: who may do what, by the site's policies and where these say nothing.
//! - [`job_control`] and [`log`]: what a job-control request asks for, and where a log request goes.
//! - [`monitor`]: what a request to be watched asks for, and when it is told that somebody is silent.
//! - [`published`]: what procs publish for others to look up, and who waits for it.
//! - [`psets`]: process sets, which the host defines.
//! - [`supported`]: which attributes are honoured, for whoever asks.
//! - [`server`]: what a server does with the requests of its clients: life cycle, modex, fences, events and
//!   what of them is kept for those who cannot hear them yet.

/// The harness of the tests calls this crate by its name, as the tests outside of it do.
#[cfg(test)]
extern crate self as peal_core;

mod assemblage;
pub mod audience;
pub mod chain;
pub mod class;
mod deadlines;
pub mod defaults;
mod directives;
mod event_budget;
mod fence;
pub mod group;
pub mod job;
pub mod job_control;
mod job_data;
pub mod log;
mod modex;
pub mod monitor;
pub mod order;
pub mod owner;
pub mod pattern;
pub mod policy;
pub mod psets;
pub mod published;
mod put_values;
pub mod registration;
mod retained;
pub mod server;
pub mod supported;
pub mod targets;
pub mod termination;
mod time;
mod user_bytes;
pub mod user_scope;

pub use time::MonotonicTime;
