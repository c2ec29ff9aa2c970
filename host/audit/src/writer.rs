//! Writer of the trail. It writes entries in groups, so that many share one write. The writer
//! thread (`writer_thread`) does this. If it is idle, a caller that waits for a decision writes
//! itself, since a hand-over between threads takes longer than the write.
//!
//! Entries go to the journal (`journal`). Those that do not fit there, and those that need blobs or
//! a checkpoint, go to the database (`trail_database`), after the journalled records. A thread that
//! holds the writer may also lock the database, never the other way round. So the writer thread can
//! move journalled records while the writer takes decisions.
use crate::{
    AdmissionDenial, AuditEntry, AuditError, AuditSettings, CommitResult, DropSummary, GapReason,
    TrailRetention,
    checkpoint::Destinations,
    entry::kind,
    hash_chain::{ChainHead, hash_of},
    journal::Journal,
    module_record::ModuleRecord,
    pending::PendingEntry,
    queue::EntryQueue,
    retention::DropReason,
    shared_trail::SharedTrail,
    signer::message::WantedSeals,
    trail_budget::{TrailBudget, TrailUse},
    trail_database::{JournalMove, TrailDatabase},
};
use peal_core::choice::RecordFailurePolicy;
use peal_sandbox::CallSubject;
use peal_store::{Blob, RowClass, StoreError, TraceRateLimit, TrailRow};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError, atomic::Ordering},
    time::{Duration, Instant},
};

/// Number of records beyond the current one for which blobs are kept, so that not each record has
/// to extend the period.
const KEEP_AHEAD: u64 = 4096;
/// Maximum number of entries in one write.
const MAX_GROUP_ENTRIES: usize = 512;
/// Number of records after which the writer checks for records to drop.
const BETWEEN_DROPS: u64 = 512;
/// The check is also due when the maximum size divided by this number was written.
const BYTES_BETWEEN_DROPS: u64 = 50;
/// Minimum time between log lines about the same kind of failure. On a full disk small writes
/// succeed and others fail in turns.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// Blobs that records refer to, by digest.
type HeldFor<'a> = BTreeMap<[u8; 32], &'a [u8]>;

pub(crate) struct TrailWriter {
    pub(crate) journal: Journal,
    ledger: Arc<Mutex<TrailDatabase>>,
    on_failure: RecordFailurePolicy,
    retention: TrailRetention,
    /// The shares of the users.
    budget: TrailBudget,
    destinations: Destinations,
    /// Number of records and time after which a trail checkpoint is due.
    every: (u64, Duration),
    /// Record and time of the last trail checkpoint.
    sealed: (u64, Instant),
    /// The last record.
    head: ChainHead,
    /// Blobs known to be in the database, with the last record for which they are kept.
    known: BTreeMap<[u8; 32], u64>,
    /// Calls that could not be written since the last `Gap` entry.
    not_written: u64,
    /// True if some of these were calls of policies, so that the decisions based on them lack
    /// records.
    unproved: bool,
    /// Record of the last check for records to drop; `None` at the end, when no more are dropped.
    pub(crate) dropped_at: Option<u64>,
    /// Bytes written since that check.
    since_drop: u64,
    /// Bytes after which the next check is due.
    between_drops: u64,
    /// Dropped records without a `Dropped` entry so far.
    unrecorded_drops: Option<DropSummary>,
    /// Time of the last `Dropped` entry.
    pub(crate) drops_recorded_at: Option<Instant>,
    failures: TraceRateLimit,
    recoveries: TraceRateLimit,
    pub(crate) shared: Arc<SharedTrail>,
}

/// Minimum time between two `Dropped` entries.
const BETWEEN_GONE: Duration = Duration::from_secs(60);
/// Maximum number of attempts to make room for one group.
const ROOM_MADE: usize = 16;
/// Cause of a denial for lack of space.
const NO_ROOM: &str = "no room in the audit trail for more decisions about this user";

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TrailWriter {
    pub(crate) fn new(
        settings: &AuditSettings,
        shared: Arc<SharedTrail>,
        (journal, ledger): (Journal, Arc<Mutex<TrailDatabase>>),
        head: ChainHead,
    ) -> TrailWriter {
        let mut budget = TrailBudget::new(settings.retention, settings.max_bytes);
        locked(&ledger).measure(settings.retention, &mut budget);
        TrailWriter {
            journal,
            ledger,
            on_failure: settings.on_failure,
            retention: settings.retention,
            budget,
            destinations: settings.checkpoints.clone(),
            every: (settings.checkpoint_records.max(1), settings.checkpoint_time),
            sealed: (head.0, Instant::now()),
            head,
            known: BTreeMap::new(),
            not_written: 0,
            unproved: false,
            dropped_at: Some(head.0),
            since_drop: 0,
            between_drops: settings.max_bytes / BYTES_BETWEEN_DROPS,
            unrecorded_drops: None,
            drops_recorded_at: None,
            failures: TraceRateLimit::new(BETWEEN_LINES),
            recoveries: TraceRateLimit::new(BETWEEN_LINES),
            shared,
        }
    }

    /// Returns the bytes of the records about each user.
    pub(crate) fn used(&self) -> Arc<TrailUse> {
        self.budget.used()
    }

    /// Writes the queued entries until no caller waits for one.
    pub(crate) fn drain(&mut self, queue: &EntryQueue) {
        loop {
            let group = queue.take(MAX_GROUP_ENTRIES);
            // Without entries a group would make room. Another thread may have taken them.
            if !group.is_empty() {
                // Waiting callers have received the result, and lost entries are counted.
                let _ = self.group(group);
            }
            // The others are gathered: each group costs as much as several entries.
            if !queue.is_awaited() {
                return self.schedule_journal(queue);
            }
        }
    }

    /// Schedules a move of the journal if it has records.
    pub(crate) fn schedule_journal(&self, queue: &EntryQueue) {
        if let Some(within) = self.journal.next_move_in() {
            queue.schedule_journal(within);
        }
    }

    /// Writes entries and reports the result to waiting callers. Returns the first error.
    pub(crate) fn group(&mut self, group: Vec<PendingEntry>) -> Result<(), AuditError> {
        let mut bytes = 0;
        let mut part = Vec::with_capacity(group.len());
        let mut done = Ok(());
        for mut pending in group {
            let size = pending.encode();
            // The check for room is due after as many bytes. More at once could fill the trail
            // before it is seen that it is full.
            if bytes + size > self.between_drops && !part.is_empty() {
                done = done.and(self.write_part(std::mem::take(&mut part)));
                bytes = 0;
            }
            bytes += size;
            part.push(pending);
        }
        done.and(self.write_part(part))
    }

    /// Writes entries of limited size. Without any, makes room for the journalled ones.
    fn write_part(&mut self, group: Vec<PendingEntry>) -> Result<(), AuditError> {
        // Calls of policies were lost, and these decisions may rely on them.
        let withdraws = self.unproved && self.on_failure == RecordFailurePolicy::Deny;
        // Only a group that was empty from the beginning is to make room.
        let makes_room = group.is_empty();
        let mut entries = self.admitted(group);
        if entries.is_empty() && !makes_room {
            return Ok(());
        }
        if withdraws {
            entries.iter_mut().for_each(PendingEntry::withdraw);
        }
        let mut written = self.write_with_room(&entries);
        if let Err(AuditError::NothingToDrop { .. }) = written {
            let count = entries.len();
            // What each user has was measured again, so that it may be the fault of one of them.
            entries = self.admitted(entries);
            if entries.is_empty() && count > 0 {
                return Ok(());
            }
            if entries.len() < count {
                written = self.write_with_room(&entries);
            }
        }
        let decisions = entries
            .iter()
            .filter(|pending| pending.is_awaited())
            .count();
        match &written {
            Ok(()) => {
                // A decision is among the entries; it was withdrawn if it relied on lost calls.
                self.unproved &= decisions == 0;
                self.recovered();
            }
            Err(error) => self.failed(&entries, decisions, error),
        }
        let is_safe =
            written.is_ok() && !withdraws || self.on_failure == RecordFailurePolicy::Continue;
        let safe = if is_safe {
            CommitResult::Yes
        } else {
            CommitResult::No
        };
        entries
            .into_iter()
            .filter_map(|pending| pending.done)
            .for_each(|done| done(safe));
        written
    }

    /// Returns the entries that may be recorded, and leaves the others out.
    fn admitted(&mut self, group: Vec<PendingEntry>) -> Vec<PendingEntry> {
        let mut admitted = Vec::with_capacity(group.len());
        // One after another: a call that is left out refuses the decision after it.
        for pending in group {
            if self.budget.admits(&pending.entry) {
                admitted.push(pending);
            } else {
                self.refuse(pending);
            }
        }
        admitted
    }

    /// Leaves an entry out, because its user has used their share of the space. A decision is denied
    /// without a record.
    fn refuse(&mut self, pending: PendingEntry) {
        let decision = match pending.entry {
            AuditEntry::Decision(decision) => decision,
            AuditEntry::Denied(denial) => {
                return self
                    .shared
                    .refusals
                    .count(&denial, pending.at, Instant::now());
            }
            AuditEntry::Call(call) => {
                if let CallSubject::Policy(_) = call.record.subject {
                    self.budget.left_out(&call);
                }
                self.shared.left_out.fetch_add(1, Ordering::Relaxed);
                return;
            }
            _ => return,
        };
        self.budget.refused(&decision);
        // Even the first denial is only counted: recording it would take the space that is missing.
        let denial = AdmissionDenial {
            cause: Some(NO_ROOM.to_owned()),
            ..decision.as_denial()
        };
        self.shared
            .refusals
            .count(&denial, pending.at, Instant::now());
        self.shared.health().undone += 1;
        let safe = if self.on_failure == RecordFailurePolicy::Continue {
            CommitResult::Yes
        } else {
            CommitResult::No
        };
        pending.done.into_iter().for_each(|done| done(safe));
    }

    /// Writes entries. If the trail is full, makes room and tries again.
    fn write_with_room(&mut self, entries: &[PendingEntry]) -> Result<(), AuditError> {
        for _ in 0..ROOM_MADE {
            match self.write(entries) {
                Err(AuditError::Store(full @ StoreError::Full { .. })) => {
                    if self.drop_old(DropReason::Room) == Dropped::Nothing {
                        return Err(AuditError::NothingToDrop {
                            database_error: Box::new(full),
                            age: self.retention.decision_age,
                            call_age: self.retention.call_age,
                        });
                    }
                }
                written => return written,
            }
        }
        // The last attempt may have made room, too.
        self.write(entries)
    }

    fn write(&mut self, entries: &[PendingEntry]) -> Result<(), AuditError> {
        // Taken before the write, and put back if it fails.
        let left_out = self.shared.left_out.swap(0, Ordering::Relaxed);
        let gap = |calls: u64, reason| {
            (calls > 0).then_some(AuditEntry::Gap {
                calls: Some(calls),
                reason,
            })
        };
        // Each of these entries takes room itself, so they come at intervals.
        let is_reported = self
            .drops_recorded_at
            .is_none_or(|at| at.elapsed() >= BETWEEN_GONE);
        let gone = if is_reported {
            self.unrecorded_drops.take()
        } else {
            None
        };
        // The missing calls came before these entries.
        let first: Vec<PendingEntry> = gap(left_out, GapReason::Overload)
            .into_iter()
            .chain(gap(self.not_written, GapReason::NotWritten))
            .chain(gone.clone().map(AuditEntry::Dropped))
            .map(PendingEntry::new)
            .collect();
        let all = || first.iter().chain(entries);
        let needed_modules = all()
            .filter_map(|pending| pending.module_record.as_deref())
            .flat_map(ModuleRecord::blobs)
            .collect();
        let before = self.head.0;
        let written = self
            .rows(all())
            .and_then(|rows| self.keep(rows, &needed_modules));
        // Locked after the write, so that readers of the state do not wait for it.
        let mut health = self.shared.health();
        match written {
            Ok(()) => {
                self.not_written = 0;
                if gone.is_some() {
                    self.drops_recorded_at = Some(Instant::now());
                }
                health.written += self.head.0 - before;
                health.lost += left_out;
            }
            Err(_) => {
                self.shared.left_out.fetch_add(left_out, Ordering::Relaxed);
                self.unrecorded_drops = DropSummary::both(gone, self.unrecorded_drops.take());
            }
        }
        written
    }

    /// Builds the rows of entries that follow the last record.
    fn rows<'a>(
        &self,
        entries: impl Iterator<Item = &'a PendingEntry>,
    ) -> Result<Vec<TrailRow>, AuditError> {
        let (mut seq, mut hash) = self.head;
        entries
            .map(|pending| {
                let columns = pending.entry.columns(
                    pending
                        .module_record
                        .as_ref()
                        .map(|module| module.name.as_str()),
                );
                seq += 1;
                let row = TrailRow {
                    seq,
                    at: pending.at,
                    kind: pending.entry.kind().to_owned(),
                    module: columns.module,
                    job: columns.job,
                    uid: columns.uid,
                    outcome: columns.outcome,
                    body: pending.body()?,
                    hash,
                };
                hash = hash_of(&hash, &row);
                Ok(TrailRow { hash, ..row })
            })
            .collect()
    }

    /// Writes records and counts their bytes.
    fn keep(
        &mut self,
        rows: Vec<TrailRow>,
        needed_modules: &HeldFor<'_>,
    ) -> Result<(), AuditError> {
        let head = rows.last().map_or(self.head, |row| (row.seq, row.hash));
        self.since_drop += rows.iter().map(|row| row.body.len() as u64).sum::<u64>();
        // Taken before the rows are moved, and counted only after they are written.
        let bytes: Vec<(RowClass, Option<u32>, u64)> = rows
            .iter()
            .map(|row| (kind::class(&row.kind), row.uid, row.body.len() as u64))
            .collect();
        self.put(rows, needed_modules, head)?;
        bytes
            .into_iter()
            .for_each(|(class, uid, bytes)| self.budget.add(class, uid, bytes));
        Ok(())
    }

    /// Writes records to the journal if nothing else is to be written, otherwise to the database.
    fn put(
        &mut self,
        rows: Vec<TrailRow>,
        needed_modules: &HeldFor<'_>,
        head: ChainHead,
    ) -> Result<(), AuditError> {
        let blobs = self.unwritten_blobs(needed_modules, head.0);
        let is_due =
            head.0 - self.sealed.0 >= self.every.0 || self.sealed.1.elapsed() >= self.every.1;
        // The journal holds rows only, neither blobs nor seals.
        let is_short = !rows.is_empty() && blobs.is_empty() && !is_due;
        let rows = match if is_short {
            self.journal.add(self.head, rows)
        } else {
            Err(rows)
        } {
            Ok(()) => {
                self.head = head;
                return Ok(());
            }
            Err(rows) => rows,
        };
        let wanted = if is_due {
            WantedSeals::HeadAndCheckpoint
        } else {
            WantedSeals::Head
        };
        self.write_through(&rows, &blobs, head, wanted)?;
        self.head = head;
        // Only now are the blobs certainly in the database.
        self.known
            .extend(blobs.iter().map(|blob| (blob.digest, blob.until)));
        self.drop_at_times();
        Ok(())
    }

    /// Writes records to the database, after the journalled ones.
    fn write_through(
        &mut self,
        rows: &[TrailRow],
        blobs: &[Blob<'_>],
        head: ChainHead,
        wanted: WantedSeals,
    ) -> Result<(), AuditError> {
        let written = {
            let mut ledger = locked(&self.ledger);
            ledger.add_journalled(self.journal.take());
            ledger.write(rows, blobs, wanted)
        };
        // After a failure decisions must not succeed in the journal, or the failure would stay
        // hidden.
        let checkpoint = written.inspect_err(|_| self.journal.shut())?;
        self.journal.clear();
        if let Some(checkpoint) = checkpoint {
            self.sealed = (head.0, Instant::now());
            self.destinations.send(&checkpoint);
        }
        Ok(())
    }

    /// Handles the result of moving journalled records.
    pub(crate) fn handle_journal_move(&mut self, settled: Result<JournalMove, AuditError>) {
        match settled {
            Ok(settled) => {
                if settled == JournalMove::Moved {
                    self.recovered();
                }
                // A write with these records may have failed meanwhile.
                if !locked(&self.ledger).has_journalled() {
                    self.journal.end_move();
                }
                self.drop_at_times();
            }
            Err(_) => {
                self.journal.shut();
                // An empty group makes room where possible, and reports the failure otherwise.
                let _ = self.group(Vec::new());
            }
        }
    }

    /// Returns the blobs to write or to keep longer for these records.
    fn unwritten_blobs<'a>(&self, needed_modules: &HeldFor<'a>, seq: u64) -> Vec<Blob<'a>> {
        let until = seq + KEEP_AHEAD;
        let blob = |(digest, bytes): (&[u8; 32], &&'a [u8])| match self.known.get(digest) {
            Some(kept) if *kept >= seq => None,
            known => Some(Blob {
                digest: *digest,
                bytes: known.is_none().then_some(*bytes),
                until,
            }),
        };
        needed_modules.iter().filter_map(blob).collect()
    }

    /// Counts entries that could not be written, and logs the failure if the rate limit allows.
    fn failed(&mut self, entries: &[PendingEntry], decisions: usize, error: &AuditError) {
        let calls = entries
            .iter()
            .filter(|pending| matches!(pending.entry, AuditEntry::Call(_)))
            .count() as u64;
        self.not_written += calls;
        let is_of_policy = |pending: &PendingEntry| matches!(&pending.entry, AuditEntry::Call(call) if matches!(call.record.subject, CallSubject::Policy(_)));
        self.unproved |= entries.iter().any(is_of_policy);
        let at = Instant::now();
        // Store the error before `is_failing`: a reader of the state then finds the error.
        self.shared.set_last_failure(error.to_string(), at);
        let mut health = self.shared.health();
        health.lost += calls;
        health.undone += decisions as u64;
        health.is_failing = true;
        drop(health);
        if let Some(left_out) = self.failures.allow(at) {
            let consequence = crate::settings::consequence(self.on_failure);
            tracing::error!(%error, left_out, consequence, "audit trail not written");
        }
    }

    /// Registers a successful write, and logs it after failures.
    fn recovered(&mut self) {
        let mut health = self.shared.health();
        if !std::mem::replace(&mut health.is_failing, false) {
            return;
        }
        let lost = health.lost;
        let undone = health.undone;
        drop(health);
        if let Some(left_out) = self.recoveries.allow(Instant::now()) {
            tracing::warn!(lost, undone, left_out, "audit trail writable again");
        }
    }

    /// Makes a trail checkpoint if the last one is old enough.
    pub(crate) fn seal_after(&mut self, patience: Duration) {
        if self.sealed.1.elapsed() >= patience {
            self.seal();
        }
    }

    /// Makes a trail checkpoint if there are records since the last one.
    pub(crate) fn seal(&mut self) {
        if self.head.0 == self.sealed.0 {
            return;
        }
        if let Err(error) = self.write_through(&[], &[], self.head, WantedSeals::HeadAndCheckpoint)
        {
            tracing::error!(%error, "audit trail not sealed");
        }
    }

    fn drop_at_times(&mut self) {
        let Some(dropped_at) = self.dropped_at else {
            return;
        };
        if self.head.0 - dropped_at >= BETWEEN_DROPS || self.since_drop >= self.between_drops {
            (self.dropped_at, self.since_drop) = (Some(self.head.0), 0);
            self.drop_old(DropReason::Usual);
        }
    }

    fn drop_old(&mut self, need: DropReason) -> Dropped {
        let ledger = locked(&self.ledger);
        let gone = ledger.drop_old(self.retention, need);
        ledger.measure(self.retention, &mut self.budget);
        drop(ledger);
        let Some(gone) = gone else {
            return Dropped::Nothing;
        };
        // Blobs may have been dropped with their records, so each must be offered again.
        self.known.clear();
        self.unrecorded_drops = DropSummary::both(self.unrecorded_drops.take(), Some(gone));
        Dropped::Some
    }
}

/// Result of making room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Dropped {
    /// No records were dropped.
    Nothing,
    /// Records were dropped, perhaps with blobs that they referred to.
    Some,
}
