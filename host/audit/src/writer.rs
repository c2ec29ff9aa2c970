//! Writes the trail: entries in groups, so that many wait for one write. A thread does that, or, where that is idle, whoever
//! cannot go on before a decision is written: to hand it over and be told takes longer than to write it.
//!
//! A group for which somebody waits goes to the journal (`journal`), everything else to the database (`ledger`), with what the
//! journal has before it. Whoever holds the writer may take the ledger as well, never the other way round; so the thread can
//! move what is journalled while the writer takes decisions.
use crate::{
    AuditError, AuditSettings, Entry, GapReason, Keys, OnFailure, Retention, Safe, Statement,
    audit::{Pending, Shared},
    chain::{Link, hash_of},
    checkpoint::Destinations,
    journal::Journal,
    ledger::{Ledger, Settled},
    now,
    queue::{Queue, Ready},
    recorder::Held,
    retention::{Dropped, Need},
    secret::Scrubber,
};
use peal_sandbox::Subject;
use peal_store::{Blob, Seal, SealKind, StoreError, TraceRateLimit, TrailRow};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

/// For how many records more than they are known to be needed the components and facts of modules are kept: then not each
/// record has to say anew until when.
const KEEP_AHEAD: u64 = 4096;
/// How many entries are written at once.
const GROUP: usize = 512;
/// After how many records it is seen whether old ones are to go.
const BETWEEN_DROPS: u64 = 512;
/// The least time between two lines of the trace that say the same of failures. On a disk that is full small writes succeed and
/// others fail, in turns.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// What records refer to, by digest.
type HeldFor<'a> = BTreeMap<[u8; 32], &'a [u8]>;

pub(crate) struct Writer {
    journal: Journal,
    ledger: Arc<Mutex<Ledger>>,
    keys: Arc<Keys>,
    on_failure: OnFailure,
    retention: Retention,
    scrubber: Scrubber,
    destinations: Destinations,
    /// After how many records and how long it is sealed ...
    every: (u64, Duration),
    /// ... and at which record and when it was.
    sealed: (u64, Instant),
    /// The last record.
    head: Link,
    /// What records refer to and is known to be there, and for which records it is kept at least.
    known: BTreeMap<[u8; 32], u64>,
    /// Calls that could not be written since that was last said ...
    not_written: u64,
    /// ... and whether some of them were of policies, so that what follows from them is not on record as it should be.
    unproved: bool,
    /// At which record it was last seen whether old ones are to go.
    dropped_at: u64,
    failures: TraceRateLimit,
    recoveries: TraceRateLimit,
    shared: Arc<Shared>,
}

/// An entry, when it was made, and what it refers to.
type Timed = (u64, Entry, Option<Arc<Held>>);

/// Whether somebody waits for a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Awaited,
    Unhurried,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread does, until there is nothing more to come.
pub(crate) fn keep_writing(writer: &Mutex<Writer>, ledger: &Mutex<Ledger>, queue: &Queue, patience: Duration) {
    loop {
        match queue.wait(patience, GROUP) {
            Ready::Entries => locked(writer).drain(queue),
            Ready::Journal => settle(writer, ledger, queue),
            // What has long been written is sealed.
            Ready::Nothing => locked(writer).seal(),
            Ready::Closed => break,
        }
    }
    let mut writer = locked(writer);
    // It is counted if that fails.
    let _ = writer.group(vec![Pending::new(Entry::Ended)]);
    writer.seal();
}

/// Moves what is journalled into the database. Nobody who decides waits for that.
fn settle(writer: &Mutex<Writer>, ledger: &Mutex<Ledger>, queue: &Queue) {
    {
        let mut writer = locked(writer);
        let fresh = writer.journal.take();
        locked(ledger).owe(fresh);
    }
    // Those who found the writer taken.
    while queue.is_awaited() {
        locked(writer).drain(queue);
    }
    let settled = locked(ledger).settle();
    let mut writer = locked(writer);
    writer.settled(settled);
    writer.have_looked_after(queue);
}

impl Writer {
    pub(crate) fn new(
        settings: &AuditSettings,
        keys: Arc<Keys>,
        shared: Arc<Shared>,
        (journal, ledger): (Journal, Arc<Mutex<Ledger>>),
        head: Link,
    ) -> Writer {
        Writer {
            journal,
            ledger,
            keys,
            on_failure: settings.on_failure,
            retention: settings.retention,
            scrubber: Scrubber::new(settings.secrets.clone()),
            destinations: settings.checkpoints.clone(),
            every: (settings.checkpoint_records.max(1), settings.checkpoint_time),
            sealed: (head.0, Instant::now()),
            head,
            known: BTreeMap::new(),
            not_written: 0,
            unproved: false,
            dropped_at: head.0,
            failures: TraceRateLimit::new(BETWEEN_LINES),
            recoveries: TraceRateLimit::new(BETWEEN_LINES),
            shared,
        }
    }

    /// Writes what waits.
    pub(crate) fn drain(&mut self, queue: &Queue) {
        loop {
            let group = queue.take(GROUP);
            if group.is_empty() {
                return self.have_looked_after(queue);
            }
            // Whoever waits was told, and the rest is counted.
            let _ = self.group(group);
        }
    }

    /// Says when the journal wants the thread, if there is something in it.
    fn have_looked_after(&self, queue: &Queue) {
        if let Some(within) = self.journal.rests() {
            queue.remind(within);
        }
    }

    /// Writes entries, and tells who waits for them.
    pub(crate) fn group(&mut self, group: Vec<Pending>) -> Result<(), AuditError> {
        let (mut dones, mut entries) = (Vec::new(), Vec::new());
        let withdraws = self.unproved && self.on_failure == OnFailure::Deny;
        for Pending { at, mut entry, held, done } in group {
            if let (true, Entry::Decision(decision)) = (withdraws, &mut entry) {
                decision.withdraw();
            }
            dones.extend(done);
            entries.push((at, entry, held));
        }
        let urgency = if dones.is_empty() { Urgency::Unhurried } else { Urgency::Awaited };
        let written = match self.write(&entries, urgency) {
            Err(AuditError::Store(StoreError::Full { .. })) if self.drop_old(Need::Room) == Dropped::Some => {
                self.write(&entries, urgency)
            }
            written => written,
        };
        match &written {
            Ok(()) => {
                // What followed from those calls was a decision.
                self.unproved &= dones.is_empty();
                self.recovered();
            }
            Err(error) => self.failed(&entries, dones.len(), error),
        }
        let is_safe = written.is_ok() && !withdraws || self.on_failure == OnFailure::Continue;
        let safe = if is_safe { Safe::Yes } else { Safe::No };
        dones.into_iter().for_each(|done| done(safe));
        written
    }

    fn write(&mut self, entries: &[Timed], urgency: Urgency) -> Result<(), AuditError> {
        let left_out = self.shared.left_out.swap(0, Ordering::Relaxed);
        let gap = |calls: u64, reason| (calls > 0).then(|| (now(), Entry::Gap { calls: Some(calls), reason }, None));
        let gaps: Vec<Timed> = gap(left_out, GapReason::Overload)
            .into_iter()
            .chain(gap(self.not_written, GapReason::NotWritten))
            .collect();
        let entries = || gaps.iter().chain(entries);
        let rows = entries().map(|(at, entry, held)| (*at, entry, held.as_deref()));
        let held = entries().filter_map(|(_, _, held)| held.as_deref()).flat_map(Held::blobs).collect();
        let before = self.head.0;
        let written = self.rows(rows).and_then(|rows| self.keep(rows, &held, urgency));
        let mut health = self.shared.health();
        match written {
            Ok(()) => {
                self.not_written = 0;
                health.written += self.head.0 - before;
                health.lost += left_out;
            }
            Err(_) => drop(self.shared.left_out.fetch_add(left_out, Ordering::Relaxed)),
        }
        written
    }

    /// Entries as they are kept, behind the last record.
    fn rows<'a>(
        &mut self,
        entries: impl Iterator<Item = (u64, &'a Entry, Option<&'a Held>)>,
    ) -> Result<Vec<TrailRow>, AuditError> {
        let (mut seq, mut hash) = self.head;
        entries
            .map(|(at, entry, held)| {
                let columns = entry.columns(held.map(|held| held.name.as_str()));
                seq += 1;
                let row = TrailRow {
                    seq,
                    at,
                    kind: entry.kind().to_owned(),
                    module: columns.module,
                    job: columns.job,
                    uid: columns.uid,
                    outcome: columns.outcome,
                    body: self.scrubber.body(entry, &self.keys)?,
                    hash,
                };
                hash = hash_of(&hash, &row);
                Ok(TrailRow { hash, ..row })
            })
            .collect()
    }

    /// Puts records behind the last one: into the journal where somebody waits for them and they are all there is to write.
    fn keep(&mut self, rows: Vec<TrailRow>, held: &HeldFor<'_>, urgency: Urgency) -> Result<(), AuditError> {
        let head = rows.last().map_or(self.head, |row| (row.seq, row.hash));
        let blobs = self.due(held, head.0);
        let is_due = head.0 - self.sealed.0 >= self.every.0 || self.sealed.1.elapsed() >= self.every.1;
        let is_short = urgency == Urgency::Awaited && blobs.is_empty() && !is_due;
        let rows = match if is_short { self.journal.add(self.head, rows) } else { Err(rows) } {
            Ok(()) => {
                self.head = head;
                return Ok(());
            }
            Err(rows) => rows,
        };
        let checkpoint = is_due.then(|| Statement::sealed(SealKind::Checkpoint, head, now(), &self.keys));
        self.write_through(&rows, &blobs, head, checkpoint)?;
        self.head = head;
        self.known.extend(blobs.iter().map(|blob| (blob.digest, blob.until)));
        self.drop_at_times();
        Ok(())
    }

    /// Puts records into the database, behind what the journal has.
    fn write_through(
        &mut self,
        rows: &[TrailRow],
        blobs: &[Blob<'_>],
        head: Link,
        checkpoint: Option<Seal>,
    ) -> Result<(), StoreError> {
        let written = {
            let mut ledger = locked(&self.ledger);
            ledger.owe(self.journal.take());
            ledger.write(rows, blobs, head, checkpoint.as_ref())
        };
        // Where the last write failed, none is short of it.
        written.inspect_err(|_| self.journal.shut())?;
        self.journal.clear();
        if let Some(checkpoint) = checkpoint {
            self.sealed = (head.0, Instant::now());
            self.destinations.send(&Statement::of(SealKind::Checkpoint, checkpoint));
        }
        Ok(())
    }

    /// What was journalled has been moved, or not.
    fn settled(&mut self, settled: Result<Settled, StoreError>) {
        match settled {
            Ok(settled) => {
                if settled == Settled::Moved {
                    self.recovered();
                }
                // Decisions may have come meanwhile, or what they were written with may have failed.
                if self.journal.is_taken() && !locked(&self.ledger).owes() {
                    self.journal.clear();
                }
                self.drop_at_times();
            }
            Err(_) => {
                self.journal.shut();
                // As for whatever is written: there may be room to be made, and it is told if there is none.
                let _ = self.group(Vec::new());
            }
        }
    }

    /// What these records refer to and is not kept for long enough.
    fn due<'a>(&self, held: &HeldFor<'a>, seq: u64) -> Vec<Blob<'a>> {
        let until = seq + KEEP_AHEAD;
        let blob = |(digest, bytes): (&[u8; 32], &&'a [u8])| match self.known.get(digest) {
            Some(kept) if *kept >= seq => None,
            known => Some(Blob { digest: *digest, bytes: known.is_none().then_some(*bytes), until }),
        };
        held.iter().filter_map(blob).collect()
    }

    /// Counts what could not be written, and says so the first time.
    fn failed(&mut self, entries: &[Timed], decisions: usize, error: &AuditError) {
        let calls = entries.iter().filter(|(_, entry, _)| matches!(entry, Entry::Call(_))).count() as u64;
        self.not_written += calls;
        let is_of_policy = |(_, entry, _): &Timed| matches!(entry, Entry::Call(call) if matches!(call.record.subject, Subject::Policy(_)));
        self.unproved |= entries.iter().any(is_of_policy);
        let at = Instant::now();
        // Whoever sees that it fails finds out why.
        self.shared.fails(error.to_string(), at);
        let mut health = self.shared.health();
        health.lost += calls;
        health.undone += decisions as u64;
        health.is_failing = true;
        drop(health);
        if let Some(left_out) = self.failures.allow(at) {
            let follows = self.on_failure.consequence();
            tracing::error!(%error, left_out, "the audit trail cannot be written: {follows}");
        }
    }

    /// Takes note of a write that succeeded, and says so after some that failed.
    fn recovered(&mut self) {
        let mut health = self.shared.health();
        if !std::mem::replace(&mut health.is_failing, false) {
            return;
        }
        let (lost, undone) = (health.lost, health.undone);
        drop(health);
        if let Some(left_out) = self.recoveries.allow(Instant::now()) {
            tracing::warn!(lost, undone, left_out, "the audit trail can be written again");
        }
    }

    /// Seals what was written since, if that was not done.
    fn seal(&mut self) {
        if self.head.0 == self.sealed.0 {
            return;
        }
        let checkpoint = Statement::sealed(SealKind::Checkpoint, self.head, now(), &self.keys);
        if let Err(error) = self.write_through(&[], &[], self.head, Some(checkpoint)) {
            tracing::error!(%error, "the audit trail cannot be sealed");
        }
    }

    fn drop_at_times(&mut self) {
        if self.head.0 - self.dropped_at >= BETWEEN_DROPS {
            self.dropped_at = self.head.0;
            self.drop_old(Need::Usual);
        }
    }

    fn drop_old(&mut self, need: Need) -> Dropped {
        let dropped = locked(&self.ledger).drop_old(self.retention, need);
        if dropped == Dropped::Some {
            self.known.clear();
        }
        dropped
    }
}
