//! The audit trail as seen by the code that records.
use crate::{
    AdmissionDenial, AuditEntry, AuditError, AuditHealth, AuditSettings, CommitResult,
    DecisionEntry, GapReason, SealPublicKey, WriteFailure,
    entry::kind,
    hash_chain::{ChainHead, FIRST},
    journal::{Journal, JournalFault, JournalFiles, LastRun, RecoveredJournal, boot},
    key::CodeKey,
    now,
    pending::{Done, PendingEntry},
    queue::{CommitThread, EntryQueue, EntryQueueFull},
    refusals::DenialTreatment,
    secret::Scrubber,
    shared_trail::SharedTrail,
    trail_budget::TrailUse,
    trail_database::TrailDatabase,
    writer::{TrailWriter, locked},
    writer_thread::run_writer,
};
use peal_store::{DatabaseDurability, Filter, SealKind, Trail, TrailRow, TrailSettings};
use std::{
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError, TryLockError, atomic::Ordering},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// An open audit trail. Cheap to clone. When the last clone is dropped, the queued entries and an
/// `Ended` entry are written.
#[derive(Clone)]
pub struct AuditTrail(Arc<Inner>);

struct Inner {
    queue: Arc<EntryQueue>,
    scrubber: Scrubber,
    writer: Arc<Mutex<TrailWriter>>,
    shared: Arc<SharedTrail>,
    used: Arc<TrailUse>,
    thread: Mutex<Option<JoinHandle<()>>>,
    durability: DatabaseDurability,
    public: SealPublicKey,
}

impl AuditTrail {
    /// Opens a trail and begins a run in it.
    ///
    /// # Errors
    ///
    /// A trail that was truncated is refused, and so is a journal that was changed.
    pub fn open(settings: AuditSettings) -> Result<AuditTrail, AuditError> {
        let AuditSettings {
            max_bytes,
            durability,
            ..
        } = settings;
        let kept = TrailSettings {
            max_bytes,
            durability,
            lasting: &kind::LASTING,
        };
        let trail = Trail::open(&settings.path, kept)?;
        // Locked before the trail is read: a process that is about to end may write until then, and no
        // other process does from here on.
        let journal_files = JournalFiles::open(trail.path(), durability)?;
        let seal = trail.seal(SealKind::Head)?;
        let last = trail.last_rows(&Filter::default(), 1)?.pop();
        let found = (
            last.as_ref().map_or(0, |row| row.seq),
            last.as_ref().map_or(FIRST, |row| row.hash),
        );
        let head = seal
            .as_ref()
            .map_or((0, FIRST), |head| (head.seq, head.hash));
        if found != head {
            return Err(AuditError::Broken {
                path: settings.path,
                left: head.0,
                found: found.0,
            });
        }
        let database_head = head;
        let last_run = LastRun::of(&trail)?;
        let (signer, keys) =
            settings
                .signer
                .clone()
                .open(seal, last_run.id, settings.retention.signer_rules())?;
        let journal = Journal::new(journal_files, kept, keys.journal);
        let boot = boot();
        let rows = JournalRecovery {
            trail: &trail,
            head,
            key: &keys.previous_journal,
            durability: settings.durability,
            is_of_other_boot: last_run.is_of_other_boot(boot.as_deref()),
        }
        .rows()?;
        let head = rows.last().map_or(head, |row| (row.seq, row.hash));
        let crashed = rows
            .last()
            .or(last.as_ref())
            // A run that ended in good order wrote this kind last.
            .filter(|row| row.kind != kind::ENDED)
            .map(|_| AuditEntry::Gap {
                calls: None,
                reason: GapReason::Crash,
            });
        let server = settings.server.clone();
        let key = keys.public.to_string();
        let began = AuditEntry::Began {
            server,
            key,
            handlers: settings.handlers,
            boot,
            run: Some(keys.run.to_string()),
        };
        // A run has the number of its `Began` record, which a `Gap` may precede.
        let run = head.0 + 1 + u64::from(crashed.is_some());
        let shared = Arc::new(SharedTrail::new(run, &settings));
        let scrubber = Scrubber::new(settings.secrets.clone(), keys.digests);
        let ledger = TrailDatabase::new(trail, signer, database_head, rows);
        let ledger = Arc::new(Mutex::new(ledger));
        let mut writer =
            TrailWriter::new(&settings, shared.clone(), (journal, ledger.clone()), head);
        // The entries recovered from the journal precede these.
        // Before the thread starts: a trail that cannot be written fails the open.
        writer.group(
            crashed
                .into_iter()
                .chain([began])
                .map(PendingEntry::new)
                .collect(),
        )?;
        let used = writer.used();
        let writer = Arc::new(Mutex::new(writer));
        let queue = Arc::new(EntryQueue::new(settings.queue.max(1)));
        let writer_parts = (writer.clone(), ledger, queue.clone());
        let patience = settings.checkpoint_time;
        let started = thread::Builder::new()
            .name("peal-audit".into())
            .spawn(move || run_writer(&writer_parts.0, &writer_parts.1, &writer_parts.2, patience));
        let thread = Mutex::new(Some(started.map_err(AuditError::Thread)?));
        Ok(AuditTrail(Arc::new(Inner {
            queue,
            scrubber,
            writer,
            shared,
            used,
            thread,
            durability,
            public: keys.public,
        })))
    }

    /// Returns the number of the record at which this run began.
    pub fn run(&self) -> u64 {
        self.0.shared.run
    }

    /// Returns the key that verifies the seals of this trail.
    pub fn public_key(&self) -> SealPublicKey {
        self.0.public
    }

    /// Returns n where one of n instances of a handler is recorded.
    pub(crate) fn handlers(&self) -> NonZeroU32 {
        self.0.shared.handlers
    }

    /// Returns the bytes of the records about each user.
    pub fn used(&self) -> &TrailUse {
        &self.0.used
    }

    /// Returns the state of the recording.
    pub fn health(&self) -> AuditHealth {
        let health = *self.0.shared.health();
        AuditHealth {
            // Entries for which the queue was full are counted apart, without a lock.
            lost: health.lost + self.0.shared.left_out.load(Ordering::Relaxed),
            ..health
        }
    }

    /// Returns the failure that prevents writes; `None` while the trail can be written.
    pub fn failure(&self) -> Option<WriteFailure> {
        let is_failing = self.0.shared.health().is_failing;
        self.0
            .shared
            .last_failure()
            .filter(|_| is_failing)
            .map(|last| self.0.shared.failure(last))
    }

    /// Returns the last write failure if it happened less than `time` before `now`, even if later
    /// writes succeeded. A full disk still takes small records between larger ones that fail.
    pub fn failure_within(&self, time: Duration, now: Instant) -> Option<WriteFailure> {
        let last = self.0.shared.last_failure()?;
        (now.saturating_duration_since(last.at) < time).then(|| self.0.shared.failure(last))
    }

    /// Writes what is queued, and makes a trail checkpoint if there are records since the last one.
    /// Blocks.
    pub fn seal(&self) {
        let mut writer = locked(&self.0.writer);
        writer.drain(&self.0.queue);
        writer.seal();
    }

    /// Records an entry that is not a call. Waits for room in the queue, not for the write.
    pub fn note(&self, entry: AuditEntry) {
        self.record_blocking(self.pending(entry));
    }

    /// Records an entry that is not a call, or leaves it out if the queue is full.
    pub fn mention(&self, entry: AuditEntry) {
        self.offer(self.pending(entry));
    }

    /// Records a denied request or a refused connection. Repeated denials are counted and recorded
    /// in groups.
    pub fn refuse(&self, denial: AdmissionDenial) {
        let denial = denial.bounded();
        if !self.count_denial(&denial) {
            self.mention(AuditEntry::Denied(denial));
        }
    }

    /// Counts a denial. Returns true if the denial is not to be recorded by itself.
    pub(crate) fn count_denial(&self, denial: &AdmissionDenial) -> bool {
        self.0.shared.refusals.note(denial, now(), Instant::now()) == DenialTreatment::Counted
    }

    /// Prepares an entry for the queue. Secrets are removed on the caller's thread, so that the
    /// writer does not wait for it.
    pub(crate) fn pending(&self, entry: AuditEntry) -> PendingEntry {
        PendingEntry {
            encoded: self.0.scrubber.scrubbed(&entry),
            ..PendingEntry::new(entry)
        }
    }

    /// Records a decision and calls `done` once the decision is committed or has failed. A grant is
    /// carried out only after its record is written. The caller's thread writes if no other thread is
    /// writing, and if `by` allows it or writes do not wait for the disk; otherwise the writer thread
    /// does.
    pub fn decide(
        &self,
        decision: DecisionEntry,
        by: CommitThread,
        done: impl FnOnce(CommitResult) + Send + 'static,
    ) {
        if decision
            .refused_connection()
            .is_some_and(|denial| self.count_denial(&denial.bounded()))
        {
            // The denial is counted and recorded in a group. It grants nothing that would have to
            // wait for that.
            return done(CommitResult::Yes);
        }
        let done: Option<Done> = Some(Box::new(done));
        let Inner { queue, writer, .. } = &*self.0;
        let by = match self.0.durability {
            // A write that does not wait for the disk takes less time than a hand-over.
            DatabaseDurability::Process => CommitThread::Caller,
            DatabaseDurability::Machine => by,
        };
        queue.push_blocking(
            PendingEntry {
                done,
                ..self.pending(AuditEntry::Decision(decision))
            },
            by,
        );
        // Check again after each unlock: another caller may have queued an entry while this thread
        // held the writer, and left it to this thread.
        while queue.is_left_to_caller(by) {
            match writer.try_lock() {
                Ok(mut writer) => writer.drain(queue),
                Err(TryLockError::Poisoned(writer)) => writer.into_inner().drain(queue),
                Err(TryLockError::WouldBlock) => return,
            }
        }
    }

    /// Queues an entry; waits for room.
    pub(crate) fn record_blocking(&self, pending: PendingEntry) {
        self.0.queue.push_blocking(pending, CommitThread::Thread);
    }

    /// Queues an entry; leaves it out if the queue is full.
    pub(crate) fn offer(&self, pending: PendingEntry) {
        if let Err(EntryQueueFull) = self.0.queue.offer(pending) {
            self.0.shared.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Inner {
    /// Writes the queued entries and the `Ended` entry.
    fn drop(&mut self) {
        // First, so that the thread writes what is queued and ends.
        self.queue.close();
        if let Some(thread) = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
        {
            // A panic of the thread was already reported by its own failure handling.
            drop(thread.join());
        }
    }
}

/// Journal that a killed server may have left.
struct JournalRecovery<'a> {
    trail: &'a Trail,
    /// Last record in the database.
    head: ChainHead,
    /// Key of that server's journal.
    key: &'a CodeKey,
    durability: DatabaseDurability,
    /// True if the machine was restarted since.
    is_of_other_boot: bool,
}

impl JournalRecovery<'_> {
    /// Returns the records in the journal. After a crash of the machine the last writes may be
    /// missing in the database or in the journal, unless writes wait for the disk. Frames that do
    /// not fit are then left out; the `Gap` entry that follows records this.
    fn rows(&self) -> Result<Vec<TrailRow>, AuditError> {
        let RecoveredJournal { rows, fault } =
            RecoveredJournal::read(self.trail, self.head, self.key)?;
        let Some(JournalFault { path, frame, fault }) = fault else {
            return Ok(rows);
        };
        // Without a crash of the machine, or if writes wait for the disk, nothing may be missing.
        if self.durability == DatabaseDurability::Machine || !self.is_of_other_boot {
            return Err(AuditError::Journal { path, frame, fault });
        }
        tracing::warn!(
            journal = %path.display(), frame, %fault,
            "audit journal incomplete after a machine crash, last decisions are missing"
        );
        Ok(rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Keys, Statement, hash_chain::hash_of, journal::FrameError};
    use peal_store::{JournalFile, JournalPart};

    fn row((before, hash): ChainHead, entry: &AuditEntry) -> TrailRow {
        let body = crate::entry::to_cbor(entry).unwrap();
        let row = TrailRow {
            seq: before + 1,
            at: 0,
            kind: entry.kind().to_owned(),
            module: None,
            job: None,
            uid: None,
            outcome: None,
            body,
            hash,
        };
        TrailRow {
            hash: hash_of(&hash, &row),
            ..row
        }
    }

    #[test]
    fn journal_loses_earlier_records_only_after_machine_crash() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.db");
        let keys = Keys::of(&[7; 32]);
        let key = || CodeKey::new(&[8; 32]);
        let settings = TrailSettings {
            max_bytes: 1 << 30,
            durability: DatabaseDurability::Process,
            lasting: &[],
        };
        let trail = Trail::open(&path, settings).unwrap();
        let handlers = NonZeroU32::MIN;
        let began = AuditEntry::Began {
            server: "test".into(),
            key: String::new(),
            handlers,
            boot: Some("then".into()),
            run: None,
        };
        let first = row((0, FIRST), &began);
        let head = (1, first.hash);
        trail
            .append(
                [&first],
                &[],
                &Statement::sealed(SealKind::Head, head, 0, &keys),
                None,
            )
            .unwrap();
        // Of record 2 the disk knew nothing yet.
        let files = JournalFiles::open(&path, settings.durability).unwrap();
        let mut journal = Journal::new(files, settings, key());
        journal.clear();
        journal
            .add((2, [2; 32]), vec![row((2, [2; 32]), &AuditEntry::Ended)])
            .unwrap();
        let last_run = LastRun::of(&trail).unwrap();
        let left = |durability, boot| {
            let recovery = JournalRecovery {
                trail: &trail,
                head,
                key: &key(),
                durability,
                is_of_other_boot: last_run.is_of_other_boot(boot),
            };
            recovery.rows()
        };
        assert_eq!(left(DatabaseDurability::Process, Some("now")).unwrap(), []);
        for (durability, boot) in [
            (DatabaseDurability::Process, Some("then")),
            (DatabaseDurability::Process, None),
            (DatabaseDurability::Machine, Some("now")),
        ] {
            let error = left(durability, boot).unwrap_err();
            let wanted = FrameError::Elsewhere { last: 1, found: 2 };
            assert!(
                matches!(&error, AuditError::Journal { frame: 1, fault, .. } if *fault == wanted),
                "{error}"
            );
            assert!(
                error.to_string().contains("should follow record 1"),
                "{error}"
            );
        }
        assert!(
            JournalFile::read(&path, JournalPart::First, 1)
                .unwrap()
                .len()
                == 1,
            "it is left as it is"
        );
    }
}
