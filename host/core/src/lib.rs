//! The state machines of PMIx: input and time go in, actions come out. No sockets, no clock, no threads.
//!
//! - [`registration`], [`order`] and [`chain`]: which handlers an event meets, in which order, and how their results are passed on;
//!   used by servers for hosted modules and by clients for their own handlers alike.
//! - [`audience`]: whom an event reaches.
//! - [`server`]: what a server does with the requests of its clients: life cycle, modex, fences, events.

mod allowance;
pub mod audience;
mod cache;
pub mod chain;
mod fence;
pub mod job;
mod modex;
pub mod order;
pub mod owner;
pub mod registration;
pub mod server;
mod time;

pub use time::Time;
