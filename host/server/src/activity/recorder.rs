//! Recorder of what watchers see. It is shared by the parts of the server and never blocks for long.
use super::{
    event_counts::{EventCounts, VisibleEventCounts},
    recent::{ActivityViewer, RecentEntries, RecentPosition, TakenEntries},
};
use crate::{
    admin::{ActivityDenial, ChainOwner, EventPassage, PassageStep},
    notice::{ChainResults, MeasuredEvent},
};
use peal_core::{owner::Owner, policy::DecidedBy, server::Denial};
use peal_model::{Event, Nspace, Proc, Size, Status, UserIdentity};
use peal_sandbox::checked_plain;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Number of kept denials and passages until the settings are known.
const DEFAULT_CAPACITY: usize = 256;
/// Maximum number of steps of one passage in the chains of one user, and in that of the site.
const MAX_STEPS: usize = 32;
/// Maximum length of a name or reason, in bytes.
const MAX_TEXT: usize = 200;
/// Bounds of the text of a passage, of a step and of a denial in a report, without names and reasons.
const PASSAGE_BYTES: usize = 384;
const STEP_BYTES: usize = 256;
const DENIAL_BYTES: usize = 384;
/// Maximum length of a character of a name in a report: a control character becomes `\u0000`.
const MAX_ESCAPE: usize = 6;

/// Passage of an event through the chains, with the users that own its steps.
#[derive(Debug)]
pub(crate) struct RecordedPassage {
    /// Passage without steps.
    passage: EventPassage,
    /// Steps with the users of their owners; none for the site.
    steps: Vec<(Option<u32>, PassageStep)>,
    /// Summaries of the steps of each user.
    users: BTreeMap<Option<u32>, UserSteps>,
}

/// Summary of the steps of one user.
#[derive(Debug, Default)]
struct UserSteps {
    /// Number of all steps.
    count: usize,
    /// Time from the submission of the event to the end of the last step.
    time: Duration,
}

impl UserSteps {
    /// Returns the number of steps that were not kept.
    fn further(&self) -> u64 {
        u64::try_from(self.count.saturating_sub(MAX_STEPS)).unwrap_or(u64::MAX)
    }
}

impl RecordedPassage {
    fn new(
        measured: &MeasuredEvent,
        event: &Event,
        results: &[ChainResults],
        jobs: &[(Nspace, UserIdentity)],
    ) -> RecordedPassage {
        let mut steps = Vec::new();
        let mut users: BTreeMap<Option<u32>, UserSteps> = BTreeMap::new();
        for chain in results {
            let uid = user_of(&chain.owner, jobs);
            let user = users.entry(uid).or_default();
            for (result, call) in chain.steps.iter().zip(&chain.calls) {
                let end = call.started.checked_add(call.time);
                let time = end.and_then(|end| end.duration_since(measured.submitted).ok());
                user.time = user.time.max(time.unwrap_or_default());
                user.count += 1;
                if user.count > MAX_STEPS {
                    continue;
                }
                let step = PassageStep {
                    owner: (&chain.owner).into(),
                    handler: plain(&result.name),
                    module: plain(&call.module),
                    status: result.status.into(),
                    failure: call.failure().map(|failure| failure.reason.clone()),
                    time_us: micros(call.time),
                };
                steps.push((uid, step));
            }
        }
        let passage = EventPassage {
            number: measured.number,
            at_ms: now_ms(),
            code: event.code.into(),
            source: event.source.as_ref().map(plain_proc),
            uid: measured.uid,
            range: event.range.name().to_owned(),
            time_us: micros(measured.time),
            steps: Vec::new(),
            further_steps: 0,
        };
        RecordedPassage {
            passage,
            steps,
            users,
        }
    }

    /// Returns what a reader may see of it. A user sees the steps of its own handlers, and the time to the
    /// last of these: the rest would tell of handlers of others.
    pub(crate) fn visible(&self, viewer: ActivityViewer) -> EventPassage {
        let mut passage = self.passage.clone();
        let sees =
            |uid: &Option<u32>| viewer == ActivityViewer::Admin || viewer.only_user() == *uid;
        let steps = self.steps.iter().filter(|(uid, _)| sees(uid));
        passage.steps = steps.map(|(_, step)| step.clone()).collect();
        let users = self.users.iter().filter(|(uid, _)| sees(uid));
        passage.further_steps = users.map(|(_, user)| user.further()).sum();
        if let ActivityViewer::User(uid) = viewer {
            let user = self.users.get(&Some(uid));
            passage.time_us = user.map(|user| micros(user.time)).unwrap_or_default();
        }
        passage
    }

    /// Returns an upper bound of the length of the passage in a report, in bytes.
    fn bytes(&self) -> usize {
        let source = self.passage.source.as_ref().map_or(0, String::len);
        let steps = self.steps.iter().map(|(_, step)| {
            let failure = step.failure.as_ref().map_or(0, String::len);
            let owner = match &step.owner {
                ChainOwner::Namespace(nspace) => nspace.len(),
                ChainOwner::Site | ChainOwner::User(_) => 0,
            };
            STEP_BYTES + MAX_ESCAPE * (owner + step.handler.len() + step.module.len() + failure)
        });
        PASSAGE_BYTES + MAX_ESCAPE * source + steps.sum::<usize>()
    }
}

/// Denial with its time. It is made text when it is read.
#[derive(Debug)]
pub(crate) struct RecordedDenial {
    at_ms: u64,
    denial: Denial,
}

impl RecordedDenial {
    /// Returns what a reader may see of it. A user does not see the names of the site's policies.
    pub(crate) fn visible(&self, viewer: ActivityViewer) -> ActivityDenial {
        let denial = &self.denial;
        let by = match (&denial.by, viewer) {
            (DecidedBy::Policy(_), ActivityViewer::User(_)) => "a policy".to_owned(),
            (by, _) => plain(by.to_string().trim_end_matches(',')),
        };
        ActivityDenial {
            at_ms: self.at_ms,
            hook: denial.hook.name().to_owned(),
            requester: denial.requester.as_ref().map(plain_proc),
            uid: denial.identity.map(|identity| identity.uid),
            targets: denial.targets.iter().map(plain_proc).collect(),
            by,
            status: denial.status.into(),
            reason: plain(&peal_audit::reasons(&denial.reasons)),
        }
    }

    /// Returns an upper bound of the length of the denial in a report, and of its memory, in bytes.
    fn bytes(&self) -> usize {
        // Of the requester, the targets, the policy and the reasons.
        let texts = self.denial.targets.len().saturating_add(3);
        let reasons = self.denial.reasons.iter().map(Size::of_info);
        reasons.fold(
            DENIAL_BYTES + texts.saturating_mul(MAX_ESCAPE * MAX_TEXT),
            |sum, reason| sum.saturating_add(reason.bytes),
        )
    }
}

/// Recorder of the activity.
#[derive(Debug)]
pub(crate) struct ActivityRecorder {
    watchers: AtomicUsize,
    denials: Mutex<RecentEntries<RecordedDenial>>,
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

    /// Adds a watcher. Events are recorded, and counted, from the first one on.
    pub(crate) fn watch(self: &Arc<ActivityRecorder>) -> WatchedActivity {
        if self.watchers.fetch_add(1, Ordering::Relaxed) == 0 {
            // An event that ended after the last watcher had gone is not of this one's time.
            lock(&self.passages).clear();
            *lock(&self.counts) = EventCounts::default();
        }
        WatchedActivity(self.clone())
    }

    /// Returns true if events are recorded.
    pub(crate) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// Counts an event of a user, or of the site, that enters the chains.
    pub(crate) fn count_event(&self, uid: Option<u32>, code: Status) {
        lock(&self.counts).add(uid, code);
    }

    /// Adds a denial.
    pub(crate) fn record_denial(&self, denial: Denial) {
        let uid = denial.identity.map(|identity| identity.uid);
        let at_ms = now_ms();
        let recorded = RecordedDenial { at_ms, denial };
        let bytes = recorded.bytes();
        lock(&self.denials).add((recorded, bytes), uid, uid.into_iter().collect());
    }

    /// Adds the passage of an event through the chains, while there are watchers. `jobs` are sorted.
    pub(crate) fn record_passage(
        &self,
        measured: &MeasuredEvent,
        event: &Event,
        results: &[ChainResults],
        jobs: &[(Nspace, UserIdentity)],
    ) {
        if !self.is_watched() {
            return;
        }
        let recorded = RecordedPassage::new(measured, event, results, jobs);
        let bytes = recorded.bytes();
        let owners = recorded.users.keys().copied().flatten();
        let viewers = owners.chain(measured.uid).collect();
        lock(&self.passages).add((recorded, bytes), measured.uid, viewers);
    }

    /// Takes the denials after a position, and moves it.
    pub(crate) fn take_denials(
        &self,
        position: &mut Option<RecentPosition>,
        viewer: ActivityViewer,
    ) -> TakenEntries<RecordedDenial> {
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

fn plain(text: &str) -> String {
    checked_plain(text, MAX_TEXT)
}

fn plain_proc(proc: &Proc) -> String {
    plain(&proc.to_string())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
