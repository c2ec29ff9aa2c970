//! Activity of a server on the admin socket: the reports, the samples that they are made of, and their watchers.
mod report;
mod sample;
mod watcher;

pub use report::{
    ACTIVITY_VERSION, ActivityCodeCount, ActivityCounts, ActivityDenial, ActivityFurther,
    ActivityJob, ActivityJobs, ActivityMissed, ActivityModule, ActivityModules, ActivityProc,
    ActivityProcState, ActivityReport, ActivityServer, ActivitySink, EventPassage, PassageStep,
};
pub(super) use sample::ActivitySampler;
pub(super) use watcher::ActivityWatcher;
