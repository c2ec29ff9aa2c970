//! Watchers of the activity. A watcher has no queue: it takes what is in the ring when it writes, so that
//! one that does not read costs the server nothing.
use super::{
    activity::{
        ACTIVITY_VERSION, ActivityCodeCount, ActivityCounts, ActivityMissed, ActivityReport,
    },
    activity_sample::{ActivitySample, ActivitySections},
    watcher_shares::WatcherPermit,
};
use crate::activity::{ActivityRecorder, ActivityViewer, RecentPosition, WatchedActivity};
use peal_model::Status;
use std::{sync::Arc, time::Duration};

/// Bounds of the time between two reports.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// Watcher of the activity.
#[derive(Debug)]
pub(super) struct ActivityWatcher {
    recorder: Arc<ActivityRecorder>,
    viewer: ActivityViewer,
    interval: Duration,
    number: u64,
    /// Sections and counts that the reader has.
    known: Option<(ActivitySections, ActivityCounts)>,
    denials: Option<RecentPosition>,
    passages: Option<RecentPosition>,
    _watched: WatchedActivity,
    _permit: WatcherPermit,
}

impl ActivityWatcher {
    pub(super) fn new(
        recorder: &Arc<ActivityRecorder>,
        viewer: ActivityViewer,
        interval_ms: u32,
        permit: WatcherPermit,
    ) -> ActivityWatcher {
        let interval = Duration::from_millis(interval_ms.into());
        ActivityWatcher {
            recorder: recorder.clone(),
            viewer,
            interval: interval.clamp(LEAST_INTERVAL, LONGEST_INTERVAL),
            number: 0,
            known: None,
            denials: None,
            passages: None,
            _watched: recorder.watch(),
            _permit: permit,
        }
    }

    /// Returns the time between two reports.
    pub(super) fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the next report: the changes since the previous one.
    pub(super) fn report(&mut self, sample: &ActivitySample) -> ActivityReport {
        let viewer = self.viewer;
        let sections = sample.visible(viewer);
        let counts = self.counts();
        let denials = self.recorder.take_denials(&mut self.denials, viewer);
        let passages = self.recorder.take_passages(&mut self.passages, viewer);
        self.number = self.number.saturating_add(1);
        let known = self.known.as_ref();
        let known_sections = known.map(|known| &known.0);
        let report = ActivityReport {
            version: ACTIVITY_VERSION,
            number: self.number,
            uptime_ms: sections.uptime_ms,
            only_user: match viewer {
                ActivityViewer::Admin => None,
                ActivityViewer::User(uid) => Some(uid),
            },
            server: changed(&sections.server, known_sections.map(|known| &known.server)),
            counts: changed(&counts, known.map(|known| &known.1)),
            jobs: changed(&sections.jobs, known_sections.map(|known| &known.jobs)),
            chains: changed(&sections.chains, known_sections.map(|known| &known.chains)),
            modules: changed(
                &sections.modules,
                known_sections.map(|known| &known.modules),
            ),
            sinks: changed(&sections.sinks, known_sections.map(|known| &known.sinks)),
            users: changed(&sections.users, known_sections.map(|known| &known.users)),
            denials: denials
                .entries
                .iter()
                .map(|denial| (**denial).clone())
                .collect(),
            passages: passages
                .entries
                .iter()
                .map(|passage| passage.visible(viewer))
                .collect(),
            missed: ActivityMissed {
                denials: denials.missed,
                passages: passages.missed,
            },
        };
        self.known = Some((sections, counts));
        report
    }

    fn counts(&self) -> ActivityCounts {
        let events = self.recorder.event_counts(self.viewer);
        let count = |(code, count): (i32, u64)| ActivityCodeCount {
            code: Status(code).into(),
            count,
        };
        ActivityCounts {
            events: events.codes.into_iter().map(count).collect(),
            further_events: events.further,
            denials: self.recorder.denial_count(self.viewer),
        }
    }
}

/// Returns a section if the reader has another one.
fn changed<T: Clone + PartialEq>(now: &T, known: Option<&T>) -> Option<T> {
    (known != Some(now)).then(|| now.clone())
}
