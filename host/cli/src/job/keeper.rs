//! Keeps the records of jobs while they run: how they and their procs start and end, which events affect them, what is done to them.
use anyhow::{Context, Result};
use peal_model::{Nspace, Proc, Rank, rank};
use peal_server::{Heard, Listener, Notice, Notices, admin::SeenEvent};
use peal_store::{JobEntry, JobEntryKind, Store, StoreError, TraceRateLimit};
use serde_json::json;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
};

/// How many entries are written at once.
const AT_ONCE: usize = 256;
/// Of how many jobs it is remembered that something of them may be missing.
const MOST_JOBS: usize = 1024;
/// The least time between two lines on entries that cannot be written.
const BETWEEN_LINES: Duration = Duration::from_secs(60);

/// A thread that keeps records.
pub struct Keeper {
    stop: oneshot::Sender<()>,
    thread: thread::JoinHandle<()>,
}

/// What jobs are started by, as their records have it.
pub type Command = Box<dyn Fn(&Nspace) -> String + Send>;

impl Keeper {
    /// Keeps the records of jobs that these notices are about, in this store. Of what starts and ends nothing is lost; of events
    /// some may be, where there are more than can be written, and then the record says so. Notices go on by what comes back.
    pub fn start(notices: Notices, store: Arc<Store>, command: Command) -> Result<(Keeper, Notices)> {
        let heard = notices.listen(is_of_job);
        let (notices, told) = notices.recorded();
        let (stop, stopped) = oneshot::channel();
        let waiting =
            runtime::Builder::new_current_thread().build().context("cannot start the keeper of job records")?;
        let failures = TraceRateLimit::new(BETWEEN_LINES);
        let mut keeping = Keeping { store, command, running: BTreeSet::new(), failures };
        let work = move || waiting.block_on(keeping.keep(told, heard, stopped));
        let thread = thread::Builder::new().name("job records".to_owned()).spawn(work);
        Ok((Keeper { stop, thread: thread.context("cannot start the keeper of job records")? }, notices))
    }

    /// Writes what was told until now, and ends. Blocks.
    pub fn finish(self) {
        // One that has ended has nothing to write.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// What entries are made of.
fn is_of_job(notice: &Notice) -> bool {
    match notice {
        Notice::Passed { event, .. } => !event.affected().is_empty(),
        Notice::Wished { .. } | Notice::JobEnding { .. } | Notice::Controlled { .. } => true,
        _ => false,
    }
}

struct Keeping {
    store: Arc<Store>,
    command: Command,
    /// Jobs of which something was told, and no end.
    running: BTreeSet<Nspace>,
    failures: TraceRateLimit,
}

type Entries = BTreeMap<Nspace, Vec<JobEntry>>;

impl Keeping {
    async fn keep(
        &mut self,
        mut told: mpsc::UnboundedReceiver<Notice>,
        mut heard: Listener,
        mut stopped: oneshot::Receiver<()>,
    ) {
        loop {
            // A job must have begun before anything is said of it.
            let next = tokio::select! {
                biased;
                Some(notice) = told.recv() => {
                    self.record(&notice);
                    continue;
                }
                Some(next) = heard.recv() => next,
                _ = &mut stopped => break,
            };
            let mut entries = Entries::new();
            self.add(next, &mut entries);
            for _ in 1..AT_ONCE {
                let Some(next) = heard.try_recv() else { break };
                self.add(next, &mut entries);
            }
            self.write(entries);
        }
        while let Ok(notice) = told.try_recv() {
            self.record(&notice);
        }
        let mut entries = Entries::new();
        while let Some(next) = heard.try_recv() {
            self.add(next, &mut entries);
        }
        self.write(entries);
    }

    /// What cannot be written the store counts and traces itself.
    fn record(&mut self, notice: &Notice) {
        let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let _: Result<(), StoreError> = match notice {
            Notice::JobStarted { nspace, size } => {
                self.remember(nspace);
                self.store.job_started(nspace, *size, &(self.command)(nspace), at)
            }
            Notice::ProcEnded { proc, end } => self.store.proc_ended(&proc.nspace, proc.rank, &end.to_string()),
            Notice::JobEnded { nspace, exit_status } => {
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

    fn add(&mut self, heard: Heard, entries: &mut Entries) {
        let entry = |kind, rank, body: &serde_json::Value| JobEntry::now(kind, rank, body.to_string());
        match heard {
            Heard::Missed(notices) => {
                for nspace in &self.running {
                    let gap = entry(JobEntryKind::Gap, None, &json!({ "notices": notices }));
                    entries.entry(nspace.clone()).or_default().push(gap);
                }
            }
            Heard::Notice(Notice::Passed { event, .. }) => {
                let body = json!(SeenEvent::of(&event));
                for (nspace, ranks) in by_job(event.affected()) {
                    let rank =
                        ranks.first().copied().filter(|only| ranks.len() == 1 && *only != rank::PMIX_RANK_WILDCARD);
                    entries.entry(nspace).or_default().push(entry(JobEntryKind::Event, rank, &body));
                }
            }
            Heard::Notice(Notice::Wished { nspace, wished }) => {
                let (handler, owner) = (&*wished.handler, wished.owner.to_string());
                let body = json!({ "wish": wished.wish.name(), "handler": handler, "owner": owner });
                entries.entry(nspace).or_default().push(entry(JobEntryKind::Control, None, &body));
            }
            Heard::Notice(Notice::JobEnding { nspace, because }) => {
                let body = json!({ "action": "end", "because": because.to_string() });
                entries.entry(nspace).or_default().push(entry(JobEntryKind::Control, None, &body));
            }
            Heard::Notice(Notice::Controlled { requester, operation, targets, status }) => {
                for (nspace, ranks) in by_job(targets) {
                    let body = json!({
                        "action": operation.to_string(), "requester": requester.as_ref().map(ToString::to_string),
                        "ranks": ranks.iter().map(|rank| rank.0).collect::<Vec<_>>(), "status": status.to_string(),
                    });
                    entries.entry(nspace).or_default().push(entry(JobEntryKind::Control, None, &body));
                }
            }
            Heard::Notice(_) => {}
        }
    }

    fn write(&mut self, entries: Entries) {
        for (nspace, entries) in entries {
            match self.store.add_job_entries(&nspace, &entries) {
                // Events may affect jobs of other servers, and such as were never recorded.
                Err(StoreError::UnknownJob { .. }) => {}
                Ok(()) => self.remember(&nspace),
                Err(error) => {
                    if let Some(left_out) = self.failures.allow(Instant::now()) {
                        tracing::warn!(%error, entries = entries.len(), left_out, "a job's record is not complete");
                    }
                }
            }
        }
    }
}

fn by_job(procs: Vec<Proc>) -> BTreeMap<Nspace, Vec<Rank>> {
    let mut jobs: BTreeMap<Nspace, Vec<Rank>> = BTreeMap::new();
    for Proc { nspace, rank } in procs {
        jobs.entry(nspace).or_default().push(rank);
    }
    jobs
}
