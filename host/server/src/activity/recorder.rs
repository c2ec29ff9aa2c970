//! Recorder of what watchers see. It is shared by the parts of the server and never blocks for long.
use super::{
    credit::{EntryCredit, UserCredits},
    event_counts::{EventCounts, VisibleEventCounts},
    recent::{ActivityViewer, RecentEntries, RecentPosition, TakenEntries},
};
use crate::{
    admin::{ActivityDenial, EventPassage, PassageStep},
    notice::{ChainResults, MeasuredEvent},
};
use peal_core::{owner::Owner, policy::DecidedBy, server::Denial};
use peal_model::{ChainResult, Event, Nspace, Proc, Size, Status, UserIdentity};
use peal_sandbox::checked_plain;
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Number of kept denials and passages until the settings are known.
const DEFAULT_CAPACITY: usize = 256;
/// Maximum number of steps of one passage in the chains of one user, and in that of the site.
const MAX_STEPS: usize = 32;
/// Maximum length of a name or reason, in bytes.
const MAX_TEXT: usize = 200;
/// Maximum length of a name or reason in a report: the last character may be escaped, and a report escapes
/// backslashes.
const MAX_PLAIN: usize = 2 * (MAX_TEXT + 16);
/// Bounds of the text of a passage, of a step and of a denial in a report, without names and reasons.
const PASSAGE_BYTES: usize = 384;
const STEP_BYTES: usize = 256;
const DENIAL_BYTES: usize = 384;
/// Maximum memory of results that are kept with the infos of the handlers, in bytes.
const MAX_SHARED_BYTES: usize = 16 << 10;
/// Maximum length of a character of a name in a report: a control character becomes `\\u{7f}`.
const MAX_ESCAPE: usize = 7;

/// Passage of an event through the chains. It is made text when it is read: few of the events of a flood are,
/// and to make text of each would delay all.
#[derive(Debug)]
pub(crate) struct RecordedPassage {
    measured: MeasuredEvent,
    code: Status,
    source: Option<Proc>,
    range: &'static str,
    /// Results of the chains, with their calls.
    results: Arc<Vec<ChainResults>>,
    /// User of the owner of each chain; none for the site.
    users: Vec<Option<u32>>,
}

impl RecordedPassage {
    fn new(
        measured: &MeasuredEvent,
        event: &Event,
        results: &Arc<Vec<ChainResults>>,
        jobs: &[(Nspace, UserIdentity)],
    ) -> RecordedPassage {
        let users = results.iter().map(|chain| user_of(&chain.owner, jobs));
        RecordedPassage {
            measured: *measured,
            code: event.code,
            source: event.source.clone(),
            range: event.range.name(),
            users: users.collect(),
            results: kept(results),
        }
    }

    /// Returns what a reader may see of it. A user sees the steps of its own handlers, and the time to the
    /// last of these: the rest would tell of handlers of others.
    pub(crate) fn visible(&self, viewer: ActivityViewer) -> EventPassage {
        let mut steps = Vec::new();
        let mut users: BTreeMap<Option<u32>, UserSteps> = BTreeMap::new();
        for (chain, uid) in self.results.iter().zip(&self.users) {
            if viewer != ActivityViewer::Admin && viewer.only_user() != *uid {
                continue;
            }
            let user = users.entry(*uid).or_default();
            for (result, call) in chain.steps.iter().zip(&chain.calls) {
                let end = call.started.checked_add(call.time);
                let time = end.and_then(|end| end.duration_since(self.measured.submitted).ok());
                user.time = user.time.max(time.unwrap_or_default());
                user.count += 1;
                if user.count <= MAX_STEPS {
                    steps.push(PassageStep {
                        owner: (&chain.owner).into(),
                        handler: plain(&result.name),
                        module: plain(&call.module),
                        status: result.status.into(),
                        failure: call.failure().map(|failure| failure.reason.clone()),
                        time_us: micros(call.time),
                    });
                }
            }
        }
        let time = match viewer {
            ActivityViewer::Admin => self.measured.time,
            ActivityViewer::User(uid) => users
                .get(&Some(uid))
                .map(|user| user.time)
                .unwrap_or_default(),
        };
        let end = self.measured.submitted.checked_add(self.measured.time);
        EventPassage {
            number: self.measured.number,
            at_ms: end.map(unix_ms).unwrap_or_default(),
            code: self.code.into(),
            source: self.source.as_ref().map(plain_proc),
            uid: self.measured.uid,
            range: self.range.to_owned(),
            time_us: micros(time),
            steps,
            further_steps: users.values().map(UserSteps::further).sum(),
        }
    }

    /// Returns an upper bound of the length of the passage in a report, and of its memory, in bytes.
    fn bytes(&self) -> usize {
        let source = self.source.as_ref().map_or(0, |_| MAX_PLAIN);
        let steps = self.results.iter().flat_map(|chain| {
            let owner = match &chain.owner {
                Owner::Namespace(nspace) => nspace.as_str().len(),
                Owner::Site | Owner::User(_) => 0,
            };
            chain
                .steps
                .iter()
                .zip(&chain.calls)
                .map(move |(result, call)| {
                    let failure = call.failure().map_or(0, |failure| failure.reason.len());
                    let names = plain_bytes(&result.name) + plain_bytes(&call.module);
                    STEP_BYTES + names + MAX_ESCAPE * (owner + failure)
                })
        });
        PASSAGE_BYTES + source + steps.sum::<usize>().max(memory(&self.results))
    }
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
    /// Returns the number of steps that are not shown.
    fn further(&self) -> u64 {
        u64::try_from(self.count.saturating_sub(MAX_STEPS)).unwrap_or(u64::MAX)
    }
}

/// Returns the results with what a passage shows. Infos of handlers are shared with the event if they are
/// small, and left out otherwise: handlers could fill the ring by them.
fn kept(results: &Arc<Vec<ChainResults>>) -> Arc<Vec<ChainResults>> {
    if memory(results) <= MAX_SHARED_BYTES {
        return results.clone();
    }
    let without_infos = |chain: &ChainResults| ChainResults {
        owner: chain.owner.clone(),
        calls: chain.calls.clone(),
        steps: chain
            .steps
            .iter()
            .map(|step| ChainResult {
                name: step.name.clone(),
                status: step.status,
                infos: Vec::new(),
            })
            .collect(),
    };
    Arc::new(results.iter().map(without_infos).collect())
}

fn memory(results: &[ChainResults]) -> usize {
    results.iter().map(ChainResults::bytes).sum()
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
    credits: Mutex<UserCredits>,
    began: Instant,
}

impl Default for ActivityRecorder {
    fn default() -> Self {
        ActivityRecorder {
            watchers: AtomicUsize::new(0),
            denials: Mutex::new(RecentEntries::new(DEFAULT_CAPACITY)),
            passages: Mutex::new(RecentEntries::new(DEFAULT_CAPACITY)),
            counts: Mutex::default(),
            credits: Mutex::new(UserCredits::full(DEFAULT_CAPACITY)),
            began: Instant::now(),
        }
    }
}

/// Reader of entries of one kind.
#[derive(Debug)]
pub(crate) struct ActivityReader {
    position: Option<RecentPosition>,
    credit: EntryCredit,
}

impl ActivityReader {
    /// Returns a reader of all entries that are there.
    pub(crate) fn new() -> ActivityReader {
        ActivityReader {
            position: None,
            credit: EntryCredit::full(),
        }
    }

    fn take<T>(
        &mut self,
        entries: &RecentEntries<T>,
        viewer: ActivityViewer,
        now: Duration,
    ) -> TakenEntries<T> {
        let max = self.credit.at(now, entries.capacity());
        let taken = entries.take(&mut self.position, viewer, max);
        self.credit.spend(taken.entries.len());
        taken
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
        lock(&self.credits).set_capacity(capacity);
    }

    /// Adds a watcher. Events are recorded, and counted, from the first one on.
    pub(crate) fn watch(self: &Arc<ActivityRecorder>) -> WatchedActivity {
        if self.watchers.fetch_add(1, Ordering::Relaxed) == 0 {
            // An event that ended after the last watcher had gone is not of this one's time.
            lock(&self.passages).clear();
            *lock(&self.counts) = EventCounts::default();
            lock(&self.credits).refill();
        }
        WatchedActivity(self.clone())
    }

    /// Returns true if events are recorded.
    pub(crate) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    /// Counts an event of a user, or of the site, that enters the chains, while there are watchers. Returns
    /// true if its passage is to be recorded.
    pub(crate) fn event_enters(&self, uid: Option<u32>, code: Status) -> bool {
        if !self.is_watched() {
            return false;
        }
        lock(&self.counts).add(uid, code);
        lock(&self.credits).take(uid, self.began.elapsed())
    }

    /// Adds a denial.
    pub(crate) fn record_denial(&self, denial: Denial) {
        let uid = denial.identity.map(|identity| identity.uid);
        let at_ms = unix_ms(SystemTime::now());
        let recorded = RecordedDenial { at_ms, denial };
        let bytes = recorded.bytes();
        lock(&self.denials).add((recorded, bytes), uid, uid.into_iter().collect());
    }

    /// Adds the passage of an event through the chains, while there are watchers. `jobs` are sorted.
    pub(crate) fn record_passage(
        &self,
        measured: &MeasuredEvent,
        event: &Event,
        results: &Arc<Vec<ChainResults>>,
        jobs: &[(Nspace, UserIdentity)],
    ) {
        if !self.is_watched() {
            return;
        }
        let recorded = RecordedPassage::new(measured, event, results, jobs);
        let bytes = recorded.bytes();
        let owners = recorded.users.iter().copied().flatten();
        let viewers = owners.chain(measured.uid).collect();
        lock(&self.passages).add((recorded, bytes), measured.uid, viewers);
    }

    /// Notes that the passage of an event of a user is not recorded: readers have missed it.
    pub(crate) fn leave_passage_out(
        &self,
        uid: Option<u32>,
        results: &[ChainResults],
        jobs: &[(Nspace, UserIdentity)],
    ) {
        if !self.is_watched() {
            return;
        }
        let owners = results.iter();
        let owners = owners.filter_map(|chain| user_of(&chain.owner, jobs));
        lock(&self.passages).leave_out(owners.chain(uid).collect());
    }

    /// Takes the denials after a reader's position, as far as it has credit for them at this time of the server.
    pub(crate) fn take_denials(
        &self,
        reader: &mut ActivityReader,
        viewer: ActivityViewer,
        now: Duration,
    ) -> TakenEntries<RecordedDenial> {
        reader.take(&lock(&self.denials), viewer, now)
    }

    /// Takes the passages after a reader's position, as far as it has credit for them at this time of the server.
    pub(crate) fn take_passages(
        &self,
        reader: &mut ActivityReader,
        viewer: ActivityViewer,
        now: Duration,
    ) -> TakenEntries<RecordedPassage> {
        reader.take(&lock(&self.passages), viewer, now)
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

/// Returns an upper bound of the length of a name in a report, in bytes.
fn plain_bytes(name: &str) -> usize {
    name.len().saturating_mul(MAX_ESCAPE).min(MAX_PLAIN)
}

fn plain_proc(proc: &Proc) -> String {
    plain(&proc.to_string())
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn unix_ms(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
