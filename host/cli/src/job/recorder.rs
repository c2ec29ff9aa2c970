//! Recorder of jobs: starts and ends of jobs and procs, events that affect them, and actions on
//! them.
use anyhow::{Context, Result};
use peal_model::{Nspace, rank};
use peal_server::{
    Listener, ListenerItem, Notice, Notices, ReachedJobs, RecordedNotice, admin::WatchedEvent,
};
use peal_store::{
    AddedEntries, JobEntryKind, JobRecordEntry, JobStart, Store, StoreError, TraceRateLimit,
};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
};

/// Limit of entries in one write. A handler that logs to a record meanwhile waits for it.
const MAX_ENTRIES_PER_WRITE: usize = 32;
/// Limit of jobs for which missing entries are noted.
const MOST_JOBS: usize = 1024;
/// Minimum interval between two log lines about failed entries.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// Thread that writes the records of jobs.
pub struct JobRecorder {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

/// Function that returns the command of a job, for its record.
pub type RecorderCommand = Box<dyn Fn(&Nspace) -> String + Send>;

impl JobRecorder {
    /// Starts to record the jobs of these notices in this store. Starts and ends are never lost.
    /// Events may be lost if there are more than can be written; the record then holds a gap entry.
    /// The caller must send its notices by the returned `Notices`.
    pub fn start(
        notices: Notices,
        store: Arc<Store>,
        command: RecorderCommand,
    ) -> Result<(JobRecorder, Notices)> {
        let listener = notices.listen(is_of_job);
        let (notices, recorded_notices) = notices.recorded();
        let (stop, stopped) = oneshot::channel();
        // A runtime for one thread of its own, because the store blocks.
        let waiting = runtime::Builder::new_current_thread()
            .build()
            .context("cannot start the recorder of jobs")?;
        let failures = TraceRateLimit::new(BETWEEN_LINES);
        let mut keeping = OpenRecords {
            store,
            command,
            running: BTreeSet::new(),
            failures,
        };
        let work = move || waiting.block_on(keeping.keep(recorded_notices, listener, stopped));
        let thread = thread::Builder::new()
            .name("job records".to_owned())
            .spawn(work);
        Ok((
            JobRecorder {
                stop,
                thread: thread.context("cannot start the recorder of jobs")?,
            },
            notices,
        ))
    }

    /// Writes all pending entries, and ends. Blocks.
    pub fn finish(self) {
        // If the thread has ended, there is nothing left to write.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Returns true for notices that become entries.
fn is_of_job(notice: &Notice) -> bool {
    match notice {
        // Notices that no record may contain must not fill the queue.
        Notice::Passed { event, reached, .. } => reached.include_any(&event.affected()),
        Notice::TerminationRequested { .. }
        | Notice::JobEnding { .. }
        | Notice::Controlled { .. } => true,
        _ => false,
    }
}

struct OpenRecords {
    store: Arc<Store>,
    command: RecorderCommand,
    /// Jobs for which a notice came, and no end.
    running: BTreeSet<Nspace>,
    failures: TraceRateLimit,
}

type Entries = BTreeMap<Nspace, Vec<JobRecordEntry>>;

impl OpenRecords {
    async fn keep(
        &mut self,
        mut recorded_notices: mpsc::UnboundedReceiver<RecordedNotice>,
        mut listener: Listener,
        mut stopped: oneshot::Receiver<()>,
    ) {
        loop {
            // The start of a job must be in its record before other entries.
            let next = tokio::select! {
                biased;
                Some(recorded) = recorded_notices.recv() => {
                    self.record(&recorded.notice);
                    continue;
                }
                Some(next) = listener.recv() => next,
                _ = &mut stopped => break,
            };
            let mut entries = Entries::new();
            self.add(next, &mut entries);
            for _ in 1..MAX_ENTRIES_PER_WRITE {
                let Some(next) = listener.try_recv() else {
                    break;
                };
                self.add(next, &mut entries);
            }
            self.write(entries);
        }
        // Notices from before the stop still belong to the records.
        while let Ok(recorded) = recorded_notices.try_recv() {
            self.record(&recorded.notice);
        }
        let mut entries = Entries::new();
        while let Some(next) = listener.try_recv() {
            self.add(next, &mut entries);
        }
        self.write(entries);
    }

    /// Records the start or end of a job or proc. The store counts and traces failures itself.
    fn record(&mut self, notice: &Notice) {
        let at = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
            .as_secs();
        let _: Result<(), StoreError> = match notice {
            Notice::JobStarted { nspace, uid, size } => {
                self.remember(nspace);
                let command = (self.command)(nspace);
                self.store.job_started(JobStart {
                    nspace,
                    uid: *uid,
                    size: *size,
                    command: &command,
                    at,
                })
            }
            Notice::ProcEnded { proc, end } => {
                self.store
                    .proc_ended(&proc.nspace, proc.rank, &end.to_string())
            }
            Notice::JobEnded {
                nspace,
                exit_status,
            } => {
                self.running.remove(nspace);
                self.store.job_ended(nspace, *exit_status, at)
            }
            _ => Ok(()),
        };
    }

    fn remember(&mut self, nspace: &Nspace) {
        if self.running.len() < MOST_JOBS {
            self.running.insert(nspace.clone());
        }
    }

    fn add(&mut self, item: ListenerItem, entries: &mut Entries) {
        let entry = |kind, rank, body: &serde_json::Value| {
            JobRecordEntry::now(kind, rank, body.to_string())
        };
        match item {
            ListenerItem::Missed(notices) => {
                // The missed notices may have been about any of these jobs.
                for nspace in &self.running {
                    // The store counts and traces failures itself.
                    let _ = self.store.add_missed_notices(nspace, notices);
                }
            }
            ListenerItem::Notice(Notice::Passed { event, reached, .. }) => {
                let body: Arc<str> = json!(WatchedEvent::of(&event)).to_string().into();
                for (nspace, ranks) in reached.ranks_of(event.affected()) {
                    let rank = ranks
                        .first()
                        .copied()
                        .filter(|only| ranks.len() == 1 && *only != rank::PMIX_RANK_WILDCARD);
                    entries.entry(nspace).or_default().push(JobRecordEntry::now(
                        JobEntryKind::Event,
                        rank,
                        body.clone(),
                    ));
                }
            }
            ListenerItem::Notice(Notice::TerminationRequested {
                nspace,
                termination,
            }) => {
                let handler = &*termination.handler;
                let owner = termination.owner.to_string();
                let body = json!({ "request": termination.request.name(), "handler": handler, "owner": owner });
                entries
                    .entry(nspace)
                    .or_default()
                    .push(entry(JobEntryKind::Control, None, &body));
            }
            ListenerItem::Notice(Notice::JobEnding { nspace, because }) => {
                let body = json!({ "action": "end", "because": because.to_string() });
                entries
                    .entry(nspace)
                    .or_default()
                    .push(entry(JobEntryKind::Control, None, &body));
            }
            ListenerItem::Notice(Notice::Controlled {
                requester,
                operation,
                targets,
                status,
            }) => {
                for (nspace, ranks) in ReachedJobs::all().ranks_of(targets) {
                    // A job with procs on other nodes is named whole, beside the ranks of this node.
                    let single = ranks.iter().filter(|rank| rank.is_valid());
                    let body = json!({
                        "action": operation.to_string(), "requester": requester.as_ref().map(ToString::to_string),
                        "ranks": single.map(|rank| rank.0).collect::<Vec<_>>(), "status": status.to_string(),
                    });
                    entries.entry(nspace).or_default().push(entry(
                        JobEntryKind::Control,
                        None,
                        &body,
                    ));
                }
            }
            ListenerItem::Notice(_) => {}
        }
    }

    fn write(&mut self, entries: Entries) {
        for (nspace, entries) in entries {
            match self.store.add_job_entries(&nspace, &entries) {
                // Events may affect jobs of other servers, which have no record here.
                Err(StoreError::UnknownJob { .. }) => {}
                Ok(AddedEntries { left_out: None, .. }) => self.remember(&nspace),
                // The record holds the number of missing entries.
                Ok(AddedEntries {
                    left_out: Some(left_out),
                    ..
                }) => {
                    self.remember(&nspace);
                    self.warn(&nspace, &left_out.limit, left_out.count);
                }
                Err(error) => self.warn(&nspace, &error, entries.len()),
            }
        }
    }

    fn warn(&self, nspace: &Nspace, why: &dyn Display, entries: usize) {
        if let Some(left_out) = self.failures.allow(Instant::now()) {
            tracing::warn!(%nspace, %why, entries, left_out, "job record not complete");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peal_core::{server::EventOrigin, user_scope::UserScope};
    use peal_model::{Event, Info, Proc, Range, Rank, Status, UserIdentity, Value, key};
    use peal_store::StoreSettings;

    #[test]
    fn event_enters_records_of_jobs_that_its_raiser_may_reach() {
        let dir = tempfile::tempdir().unwrap();
        let store =
            Arc::new(Store::open(&dir.path().join("peal.db"), StoreSettings::default()).unwrap());
        let jobs = [("own", 7), ("other", 8)].map(|(name, uid)| (Nspace::new(name).unwrap(), uid));
        for (nspace, uid) in &jobs {
            let start = JobStart {
                nspace,
                uid: *uid,
                size: 1,
                command: "./app",
                at: 1,
            };
            store.job_started(start).unwrap();
        }
        let procs = jobs
            .each_ref()
            .map(|(nspace, _)| Proc::new(nspace.clone(), Rank(0)));
        let affected = Value::procs(procs);
        let infos = vec![Info::new(key::PMIX_EVENT_AFFECTED_PROCS, affected)];
        let event = Arc::new(Event {
            code: Status(-3101),
            source: None,
            range: Range::Global,
            infos,
        });
        let of = |reach| {
            let jobs = jobs
                .iter()
                .map(|(nspace, uid)| {
                    (
                        nspace.clone(),
                        UserIdentity {
                            uid: *uid,
                            gid: *uid,
                        },
                    )
                })
                .collect();
            let reached = ReachedJobs::new(reach, Arc::new(jobs));
            Notice::Passed {
                event: event.clone(),
                results: Arc::default(),
                reached,
                origin: EventOrigin::ThisServer,
                measured: None,
            }
        };
        let failures = TraceRateLimit::new(BETWEEN_LINES);
        let (command, running): (RecorderCommand, _) =
            (Box::new(|_| String::new()), BTreeSet::new());
        let mut keeping = OpenRecords {
            store: store.clone(),
            command,
            running,
            failures,
        };
        let mut tell = |reach| {
            assert!(is_of_job(&of(reach)));
            let mut entries = Entries::new();
            keeping.add(ListenerItem::Notice(of(reach)), &mut entries);
            keeping.write(entries);
            jobs.each_ref()
                .map(|(nspace, _)| store.job_entries(nspace).unwrap().len())
        };
        assert_eq!(tell(UserScope::User(7)), [1, 0]);
        assert_eq!(tell(UserScope::User(8)), [1, 1]);
        assert_eq!(
            tell(UserScope::Everybody),
            [2, 2],
            "of the resource manager, or granted by a policy"
        );
        assert!(!is_of_job(&of(UserScope::User(9))), "it is not even heard");
    }
}
