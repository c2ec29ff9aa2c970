//! Activity of a server for watchers: denials, events with their passage through the chains, and numbers
//! of events by code.
//!
//! Denials are always kept, since they are few and watchers want the ones before them. Events are recorded
//! only while a watcher is there: without one an event costs one load of an atomic.

mod credit;
mod event_counts;
mod recent;
mod recorder;

pub(crate) use recent::{ActivityViewer, MAX_RING_BYTES};
pub(crate) use recorder::{ActivityReader, ActivityRecorder, WatchedActivity};
