//! State machines of PMIx: input and time go in, actions come out. The crate has no sockets, clocks
//! or threads.
//!
//! - [`registration`], [`order`], [`chain`]: the handlers of an event, their order and results.
//!   Servers use them for hosted modules, and clients for their own handlers.
//! - [`class`], [`audience`], [`user_scope`]: the class of an event and its recipients.
//! - [`termination`]: termination requests of handlers for a job.
//! - [`choice`]: choices of a site.
//! - [`policy`], [`defaults`], [`decision_limits`]: decisions by policies and by the built-in rules.
//! - [`job_control`], [`log`]: parsing of job-control requests, routing of log requests.
//! - [`monitor`]: monitors of procs and their alerts.
//! - [`published`]: published data and lookups.
//! - [`psets`]: process sets.
//! - [`quota`], [`fair_queue`]: resources that are charged to users, and turns of users.
//! - [`supported`]: supported attributes.
//! - [`group`]: groups across servers.
//! - [`server_fences`]: fences of procs that several servers have.
//! - [`server`]: requests of clients: life cycle, modex, fences, events and retained events.

/// The harness of the tests calls this crate by its name, as the tests outside of it do.
#[cfg(test)]
extern crate self as peal_core;

mod assemblage;
pub mod audience;
pub mod chain;
pub mod choice;
pub mod class;
mod deadlines;
pub mod decision_limits;
pub mod defaults;
mod directives;
mod event_budget;
mod event_targets;
pub mod fair_queue;
mod fence;
pub mod group;
pub mod job;
pub mod job_control;
mod job_data;
pub mod job_registration;
mod job_values;
pub mod log;
mod message_refusal;
mod missed_events;
mod modex;
pub mod monitor;
pub mod order;
pub mod owner;
pub mod pattern;
pub mod policy;
mod proc_phases;
pub mod psets;
pub mod published;
mod put_values;
pub mod quota;
pub mod rank_ranges;
pub mod registration;
mod request_id;
mod retained;
pub mod server;
pub mod server_fences;
mod server_message;
pub mod supported;
pub mod targets;
pub mod termination;
mod time;
mod user_bytes;
pub mod user_scope;

pub use time::MonotonicTime;
