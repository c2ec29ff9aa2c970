//! Recorder of what watchers see. It is shared by the parts of the server and never blocks for long.
use super::{
    event_counts::{EventCounts, VisibleEventCounts},
    recent::{ActivityViewer, RecentEntries, RecentPosition, TakenEntries},
};
use crate::{
    admin::{ActivityDenial, EventPassage, PassageStep},
    notice::ChainResults,
};
use peal_core::{owner::Owner, server::Denial};
use peal_model::{Event, Nspace, UserIdentity};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Number of kept denials and passages until the settings are known.
const DEFAULT_CAPACITY: usize = 256;
/// Maximum number of steps of one passage.
const MAX_STEPS: usize = 32;
/// Maximum length of a name or reason, in characters.
const MAX_TEXT: usize = 200;

/// Call of one handler, as far as its result does not say it.
#[derive(Clone, PartialEq, Debug)]
pub struct HandlerRun {
    /// Name of the module.
    pub module: String,
    /// Time of the call.
    pub time: Duration,
    /// Reason of the failure, if the call failed.
    pub failure: Option<String>,
}

impl HandlerRun {
    /// Estimates the memory of the run, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let failure = self.failure.as_ref().map(String::len).unwrap_or_default();
        size_of::<HandlerRun>() + self.module.len() + failure
    }
}

/// Event that has passed the chains.
pub(crate) struct PassedEvent<'a> {
    pub(crate) number: u64,
    pub(crate) event: &'a Event,
    pub(crate) source: Option<UserIdentity>,
    pub(crate) results: &'a [ChainResults],
    /// Time since the event was submitted.
    pub(crate) time: Duration,
    /// Jobs with their users.
    pub(crate) jobs: &'a [(Nspace, UserIdentity)],
}

/// Passage with the users that own its steps.
#[derive(Debug)]
pub(crate) struct RecordedPassage {
    passage: EventPassage,
    /// Users of the owners of the steps; none for the site.
    step_users: Vec<Option<u32>>,
}

impl RecordedPassage {
    /// Returns what a reader may see of it: a user sees the steps of its own handlers.
    pub(crate) fn visible(&self, viewer: ActivityViewer) -> EventPassage {
        let mut passage = self.passage.clone();
        if let ActivityViewer::User(uid) = viewer {
            let mut users = self.step_users.iter();
            passage
                .steps
                .retain(|_| users.next().copied().flatten() == Some(uid));
            // The number would tell of handlers of others.
            passage.further_steps = 0;
        }
        passage
    }
}

/// Recorder of the activity.
#[derive(Debug)]
pub(crate) struct ActivityRecorder {
    watchers: AtomicUsize,
    denials: Mutex<RecentEntries<ActivityDenial>>,
    passages: Mutex<RecentEntries<RecordedPassage>>,
    counts: Mutex<EventCounts>,
}

impl Default for ActivityRecorder {
    fn default() -> Self {
        ActivityRecorder {
            watchers: AtomicUsize::new(0),
            denials: Mutex::new(RecentEntries::new(DEFAULT_CAPACITY)),
            passages: Mutex::new(RecentEntries::new(DEFAULT_CAPACITY)),
            counts: Mutex::default(),
        }
    }
}

/// Watcher of the activity, until it is dropped.
#[derive(Debug)]
pub(crate) struct WatchedActivity(Arc<ActivityRecorder>);

impl Drop for WatchedActivity {
    fn drop(&mut self) {
        if self.0.watchers.fetch_sub(1, Ordering::Relaxed) == 1 {
            // A later watcher must not take these for events of its own time.
            lock(&self.0.passages).clear();
        }
    }
}

impl ActivityRecorder {
    /// Sets the maximum number of kept denials, and of kept passages.
    pub(crate) fn set_capacity(&self, capacity: usize) {
        lock(&self.denials).set_capacity(capacity);
        lock(&self.passages).set_capacity(capacity);
    }

    /// Adds a watcher. Events are recorded from now on.
    pub(crate) fn watch(self: &Arc<ActivityRecorder>) -> WatchedActivity {
        self.watchers.fetch_add(1, Ordering::Relaxed);
        WatchedActivity(self.clone())
    }

    /// Returns true if events are recorded.
    pub(crate) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// Counts an event that enters the chains.
    pub(crate) fn count(&self, event: &Event, source: Option<UserIdentity>) {
        lock(&self.counts).count(source.map(|identity| identity.uid), event.code);
    }

    /// Adds a denial.
    pub(crate) fn denied(&self, denial: &Denial) {
        let uid = denial.identity.map(|identity| identity.uid);
        let entry = ActivityDenial {
            at_ms: now_ms(),
            hook: denial.hook.name().to_owned(),
            requester: denial
                .requester
                .as_ref()
                .map(|proc| short(&proc.to_string())),
            uid,
            targets: denial.targets.iter().map(ToString::to_string).collect(),
            by: short(denial.by.to_string().trim_end_matches(',')),
            status: denial.status.into(),
            reason: short(&peal_audit::reasons(&denial.reasons)),
        };
        lock(&self.denials).add(entry, uid.into_iter().collect());
    }

    /// Adds the passage of an event.
    pub(crate) fn passed(&self, passed: &PassedEvent<'_>) {
        let source = passed.source.map(|identity| identity.uid);
        let steps = passed.results.iter().flat_map(|chain| {
            let uid = user_of(&chain.owner, passed.jobs);
            let runs = chain.runs.iter().map(Some).chain(std::iter::repeat(None));
            let steps = chain.steps.iter().zip(runs);
            steps.map(move |(result, run)| {
                let step = PassageStep {
                    owner: (&chain.owner).into(),
                    handler: short(&result.name),
                    module: run.map(|run| short(&run.module)).unwrap_or_default(),
                    status: result.status.into(),
                    failure: run.and_then(|run| run.failure.as_deref().map(short)),
                    time_us: run.map(|run| micros(run.time)).unwrap_or_default(),
                };
                (step, uid)
            })
        });
        let all: usize = passed.results.iter().map(|chain| chain.steps.len()).sum();
        let (steps, step_users): (Vec<PassageStep>, Vec<Option<u32>>) =
            steps.take(MAX_STEPS).unzip();
        let owners = passed
            .results
            .iter()
            .filter_map(|chain| user_of(&chain.owner, passed.jobs));
        let viewers = owners.chain(source).collect();
        let further = all.saturating_sub(steps.len());
        let passage = EventPassage {
            number: passed.number,
            at_ms: now_ms(),
            code: passed.event.code.into(),
            source: passed
                .event
                .source
                .as_ref()
                .map(|proc| short(&proc.to_string())),
            uid: source,
            range: passed.event.range.name().to_owned(),
            time_us: micros(passed.time),
            steps,
            further_steps: u64::try_from(further).unwrap_or(u64::MAX),
        };
        lock(&self.passages).add(
            RecordedPassage {
                passage,
                step_users,
            },
            viewers,
        );
    }

    /// Takes the denials after a position, and moves it.
    pub(crate) fn take_denials(
        &self,
        position: &mut Option<RecentPosition>,
        viewer: ActivityViewer,
    ) -> TakenEntries<ActivityDenial> {
        lock(&self.denials).take(position, viewer)
    }

    /// Takes the passages after a position, and moves it.
    pub(crate) fn take_passages(
        &self,
        position: &mut Option<RecentPosition>,
        viewer: ActivityViewer,
    ) -> TakenEntries<RecordedPassage> {
        lock(&self.passages).take(position, viewer)
    }

    /// Returns the number of denials so far that a reader may see.
    pub(crate) fn denial_count(&self, viewer: ActivityViewer) -> u64 {
        lock(&self.denials).visible(viewer)
    }

    /// Returns the numbers of events that a reader may see.
    pub(crate) fn event_counts(&self, viewer: ActivityViewer) -> VisibleEventCounts {
        lock(&self.counts).visible(viewer)
    }
}

fn lock<T>(part: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
    part.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the user of an owner; none for the site, or for a job that has ended.
fn user_of(owner: &Owner, jobs: &[(Nspace, UserIdentity)]) -> Option<u32> {
    match owner {
        Owner::Site => None,
        Owner::User(uid) => Some(*uid),
        Owner::Namespace(nspace) => {
            // The jobs are sorted by name.
            let at = jobs.binary_search_by(|job| job.0.cmp(nspace)).ok()?;
            jobs.get(at).map(|job| job.1.uid)
        }
    }
}

fn short(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_model::{ChainResult, Range, Status, code};

    fn identity(uid: u32) -> UserIdentity {
        UserIdentity { uid, gid: uid }
    }

    fn results(owner: Owner, handler: &str) -> ChainResults {
        ChainResults {
            owner,
            steps: vec![ChainResult {
                name: handler.into(),
                status: code::PMIX_EVENT_NO_ACTION_TAKEN,
                infos: Vec::new(),
            }],
            calls: Vec::new(),
            runs: vec![HandlerRun {
                module: "m".to_owned(),
                time: Duration::from_micros(5),
                failure: None,
            }],
        }
    }

    fn handlers(recorder: &ActivityRecorder, viewer: ActivityViewer) -> Vec<Vec<String>> {
        let taken = recorder.take_passages(&mut None, viewer);
        let visible = taken.entries.iter().map(|entry| entry.visible(viewer));
        visible
            .map(|passage| passage.steps.into_iter().map(|step| step.handler).collect())
            .collect()
    }

    #[test]
    fn user_sees_own_events_and_own_steps_only() {
        let recorder = Arc::new(ActivityRecorder::default());
        let _watched = recorder.watch();
        let job = Nspace::new("job").unwrap();
        let event = Event {
            code: Status(-3001),
            source: None,
            range: Range::Session,
            infos: Vec::new(),
        };
        let results = [
            results(Owner::Site, "site"),
            results(Owner::User(7), "seven"),
            results(Owner::Namespace(job.clone()), "eight"),
        ];
        recorder.passed(&PassedEvent {
            number: 1,
            event: &event,
            source: Some(identity(9)),
            results: &results,
            time: Duration::from_micros(20),
            jobs: &[(job, identity(8))],
        });
        let all = vec!["site", "seven", "eight"];
        assert_eq!(handlers(&recorder, ActivityViewer::Admin), [all]);
        assert_eq!(handlers(&recorder, ActivityViewer::User(7)), [["seven"]]);
        assert_eq!(handlers(&recorder, ActivityViewer::User(8)), [["eight"]]);
        assert_eq!(
            handlers(&recorder, ActivityViewer::User(9)),
            [Vec::<String>::new()],
            "the event is user 9's, none of the handlers is"
        );
        assert!(handlers(&recorder, ActivityViewer::User(10)).is_empty());
    }

    #[test]
    fn passages_are_kept_until_the_last_watcher_has_gone() {
        let recorder = Arc::new(ActivityRecorder::default());
        assert!(!recorder.is_watched());
        let first = recorder.watch();
        let second = recorder.watch();
        let event = Event {
            code: Status(-3001),
            source: None,
            range: Range::Session,
            infos: Vec::new(),
        };
        recorder.passed(&PassedEvent {
            number: 1,
            event: &event,
            source: None,
            results: &[],
            time: Duration::ZERO,
            jobs: &[],
        });
        drop(first);
        assert_eq!(handlers(&recorder, ActivityViewer::Admin).len(), 1);
        drop(second);
        assert!(!recorder.is_watched());
        assert!(handlers(&recorder, ActivityViewer::Admin).is_empty());
    }
}
