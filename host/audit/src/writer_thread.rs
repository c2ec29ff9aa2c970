//! The thread that writes the trail and moves journalled records into the database.
use crate::{
    AuditEntry,
    pending::PendingEntry,
    queue::{EntryQueue, WriterWork},
    refusals::GroupedDenials,
    trail_database::TrailDatabase,
    writer::{TrailWriter, locked},
};
use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

/// Runs the thread until the queue is closed and empty.
pub(crate) fn run_writer(
    writer: &Mutex<TrailWriter>,
    ledger: &Mutex<TrailDatabase>,
    queue: &EntryQueue,
    patience: Duration,
) {
    let shared = locked(writer).shared.clone();
    loop {
        write_refusals(writer, &shared.refusals);
        let until_due = shared
            .refusals
            .due_within(Instant::now())
            .unwrap_or(patience);
        match queue.wait(patience.min(until_due)) {
            WriterWork::Entries => locked(writer).drain(queue),
            WriterWork::Journal => move_journal(writer, ledger, queue),
            WriterWork::Nothing => locked(writer).seal_after(patience),
            WriterWork::Closed => break,
        }
    }
    let mut writer = locked(writer);
    // The last `Dropped` entry is written without delay, and no more records are dropped after it.
    (writer.drops_recorded_at, writer.dropped_at) = (None, None);
    let last = shared
        .refusals
        .rest()
        .into_iter()
        .chain([AuditEntry::Ended]);
    // A failure is counted and logged by `group`.
    let _ = writer.group(last.map(PendingEntry::new).collect());
    writer.seal();
}

/// Writes the groups of denials that are due.
fn write_refusals(writer: &Mutex<TrailWriter>, refusals: &GroupedDenials) {
    let due = refusals.due(Instant::now());
    if !due.is_empty() {
        // A failure is counted and logged by `group`.
        let _ = locked(writer).group(due.into_iter().map(PendingEntry::new).collect());
    }
}

/// Moves journalled records into the database. Decisions are not delayed by it.
fn move_journal(writer: &Mutex<TrailWriter>, ledger: &Mutex<TrailDatabase>, queue: &EntryQueue) {
    {
        let mut writer = locked(writer);
        let fresh = writer.journal.begin_move();
        locked(ledger).add_journalled(fresh);
    }
    // Callers that found the writer locked left their entries to this thread.
    while queue.is_awaited() {
        locked(writer).drain(queue);
    }
    // Only the database is locked meanwhile, so that decisions can go into the journal.
    let settled = locked(ledger).write_journalled();
    let mut writer = locked(writer);
    writer.handle_journal_move(settled);
    writer.schedule_journal(queue);
}
