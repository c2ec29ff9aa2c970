//! Watchers of the activity. A watcher has no queue: it takes what is in the rings when it writes, of a flood a
//! part. While one
//! does not read, the server holds the report that it writes and the sections that the watcher has, which
//! administrators share with each other.
use super::{
    report::{ACTIVITY_VERSION, ActivityCodeCount, ActivityCounts, ActivityMissed, ActivityReport},
    sample::{ActivitySample, ActivitySections},
};
use crate::{
    activity::{ActivityReader, ActivityRecorder, ActivityViewer, WatchedActivity},
    admin::{
        protocol::{AdminReply, MAX_REPLY},
        watch::encoded,
        watcher_shares::WatcherPermit,
    },
};
use peal_model::Status;
use std::{sync::Arc, time::Duration};

/// Maximum time between two reports.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);

/// Watcher of the activity.
#[derive(Debug)]
pub(crate) struct ActivityWatcher {
    recorder: Arc<ActivityRecorder>,
    viewer: ActivityViewer,
    interval: Duration,
    number: u64,
    /// Sections that the reader has.
    known: Option<ActivitySections>,
    denials: ActivityReader,
    passages: ActivityReader,
    /// Number of passages so far that the reader may see.
    seen: u64,
    _watched: WatchedActivity,
    _permit: WatcherPermit,
}

impl ActivityWatcher {
    pub(crate) fn new(
        recorder: &Arc<ActivityRecorder>,
        viewer: ActivityViewer,
        interval_ms: u32,
        permit: WatcherPermit,
    ) -> ActivityWatcher {
        let interval = Duration::from_millis(interval_ms.into());
        ActivityWatcher {
            recorder: recorder.clone(),
            viewer,
            interval: interval.clamp(viewer.least_interval(), LONGEST_INTERVAL),
            number: 0,
            known: None,
            denials: ActivityReader::new(),
            passages: ActivityReader::new(),
            seen: 0,
            _watched: recorder.watch(),
            _permit: permit,
        }
    }

    /// Returns the time between two reports.
    pub(crate) fn interval(&self) -> Duration {
        self.interval
    }

    /// Returns the reader.
    pub(crate) fn viewer(&self) -> ActivityViewer {
        self.viewer
    }

    /// Returns the next report as a line; none if it cannot be sent. This may take long.
    pub(crate) fn line(&mut self, sample: &ActivitySample) -> Option<Vec<u8>> {
        let line = encoded(&AdminReply::Activity(Box::new(self.report(sample))))?;
        // The sections and the rings are bounded.
        let fits = line.len() <= MAX_REPLY;
        if !fits {
            tracing::error!(
                bytes = line.len(),
                "activity report too long; watcher ended"
            );
        }
        fits.then_some(line)
    }

    /// Returns the next report: the changes since the previous one.
    fn report(&mut self, sample: &ActivitySample) -> ActivityReport {
        let viewer = self.viewer;
        let now = sample.visible(viewer);
        let time = sample.uptime();
        let recorder = &self.recorder;
        let denials = recorder.take_denials(&mut self.denials, viewer, time);
        let passages = recorder.take_passages(&mut self.passages, viewer, time);
        self.number = self.number.saturating_add(1);
        self.seen = self.seen.saturating_add(passages.missed);
        let passed = passages.entries.iter().map(|passage| {
            self.seen = self.seen.saturating_add(1);
            let mut passage = passage.visible(viewer);
            if let ActivityViewer::User(_) = viewer {
                passage.number = self.seen;
            }
            passage
        });
        let passed = passed.collect();
        let known = self.known.as_ref();
        let report = ActivityReport {
            version: ACTIVITY_VERSION,
            number: self.number,
            uptime_ms: millis(sample.uptime()),
            only_user: viewer.only_user(),
            server: changed(&now.server, known.map(|known| &known.server)),
            counts: Some(self.counts(sample)),
            jobs: changed(&now.jobs, known.map(|known| &known.jobs)),
            chains: changed(&now.chains, known.map(|known| &known.chains)),
            modules: changed(&now.modules, known.map(|known| &known.modules)),
            sinks: changed(&now.sinks, known.map(|known| &known.sinks)),
            users: changed(&now.users, known.map(|known| &known.users)),
            further: changed(&now.further, known.map(|known| &known.further)),
            denials: denials
                .entries
                .iter()
                .map(|denial| denial.visible(viewer))
                .collect(),
            passages: passed,
            missed: ActivityMissed {
                denials: denials.missed,
                passages: passages.missed,
            },
        };
        self.known = Some(now);
        report
    }

    fn counts(&self, sample: &ActivitySample) -> ActivityCounts {
        let at_ms = millis(sample.uptime_now());
        let events = self.recorder.event_counts(self.viewer);
        let count = |(code, count): (i32, u64)| ActivityCodeCount {
            code: Status(code).into(),
            count,
        };
        ActivityCounts {
            at_ms,
            events: events.codes.into_iter().map(count).collect(),
            further_events: events.further,
            uncounted: events.is_beyond,
            denials: self.recorder.denial_count(self.viewer),
        }
    }
}

/// Returns a section if the reader has another one.
fn changed<T: Clone + Eq>(now: &Arc<T>, known: Option<&Arc<T>>) -> Option<T> {
    (known != Some(now)).then(|| (**now).clone())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
