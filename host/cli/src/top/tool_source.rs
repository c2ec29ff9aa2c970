//! Reports of a server that has no admin socket, from what a tool may query and receive: jobs, procs and
//! events, without chains, denials, sinks and users.
use super::source::SourceItem;
use crate::{
    ps::{GatheredJob, gather_without_usage},
    tool,
};
use anyhow::Result;
use peal_client::{Tool, ToolSettings};
use peal_model::{Event, ProcState, Status};
use peal_server::admin::{
    ACTIVITY_VERSION, ActivityCodeCount, ActivityCounts, ActivityJob, ActivityJobs, ActivityMissed,
    ActivityProc, ActivityProcState, ActivityReport, EventPassage, JobStatus, UNKNOWN_ID,
};
use std::{
    collections::{BTreeMap, VecDeque},
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval},
};

/// Minimum time between two reports.
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of codes that are counted apart.
const MAX_CODES: usize = 256;
/// Maximum number of events that wait for the next report.
const MAX_WAITING_EVENTS: usize = 512;

/// Events that the tool has received.
#[derive(Debug, Default)]
struct ReceivedEvents {
    codes: BTreeMap<i32, u64>,
    further: u64,
    total: u64,
    waiting: VecDeque<EventPassage>,
    missed: u64,
}

impl ReceivedEvents {
    fn add(&mut self, event: &Event) {
        self.total += 1;
        let code = event.code.0;
        if self.codes.len() < MAX_CODES || self.codes.contains_key(&code) {
            *self.codes.entry(code).or_default() += 1;
        } else {
            self.further += 1;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let passage = EventPassage {
            number: self.total,
            at_ms: u64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(u64::MAX),
            code: event.code.into(),
            source: event.source.as_ref().map(ToString::to_string),
            uid: None,
            range: event.range.name().to_owned(),
            time_us: 0,
            steps: Vec::new(),
            further_steps: 0,
        };
        self.waiting.push_back(passage);
        if self.waiting.len() > MAX_WAITING_EVENTS {
            self.waiting.pop_front();
            self.missed += 1;
        }
    }

    /// Adds what was received to a report.
    fn report(&mut self, report: &mut ActivityReport) {
        let count = |(code, count): (&i32, &u64)| ActivityCodeCount {
            code: Status(*code).into(),
            count: *count,
        };
        report.counts = Some(ActivityCounts {
            at_ms: report.uptime_ms,
            events: self.codes.iter().map(count).collect(),
            further_events: self.further,
            uncounted: false,
            denials: 0,
        });
        report.passages = mem::take(&mut self.waiting).into();
        report.missed.passages = mem::take(&mut self.missed);
    }
}

/// Attaches to a server, and sends reports until the receiver or the server is gone.
pub async fn open(
    settings: ToolSettings,
    every: Duration,
    sender: mpsc::Sender<SourceItem>,
) -> Result<Arc<Tool>> {
    let tool = Arc::new(tool::attach(settings).await?);
    let received: Arc<Mutex<ReceivedEvents>> = Arc::default();
    let (events, lost) = (received.clone(), sender.clone());
    let listening = tool::listen(
        &tool,
        &[],
        move |event| lock(&events).add(event),
        move || {
            // The receiver may be gone.
            let _ = lost.blocking_send(SourceItem::Over("the server has ended".to_owned()));
        },
    );
    if let Err(error) = listening.await {
        tool::leave(&tool).await;
        return Err(error.into());
    }
    let asking = tool.clone();
    tokio::spawn(async move {
        let began = Instant::now();
        let mut turns = interval(every.max(LEAST_INTERVAL));
        // After a slow answer the server must not get the missed queries at once.
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for number in 1.. {
            turns.tick().await;
            let jobs = match gather_without_usage(&**asking, &[]).await {
                Ok(jobs) => jobs,
                Err(error) => {
                    let reason = crate::error_text(&error);
                    let _ = sender.send(SourceItem::Over(reason)).await;
                    return;
                }
            };
            let mut report = report(number, began.elapsed(), jobs);
            lock(&received).report(&mut report);
            if sender
                .send(SourceItem::Report(Box::new(report)))
                .await
                .is_err()
            {
                return;
            }
        }
    });
    Ok(tool)
}

fn lock(received: &Mutex<ReceivedEvents>) -> MutexGuard<'_, ReceivedEvents> {
    // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
    received.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(number: u64, uptime: Duration, jobs: Vec<GatheredJob>) -> ActivityReport {
    ActivityReport {
        version: ACTIVITY_VERSION,
        number,
        uptime_ms: u64::try_from(uptime.as_millis()).unwrap_or(u64::MAX),
        only_user: None,
        server: None,
        counts: None,
        jobs: Some(ActivityJobs {
            jobs: jobs.into_iter().map(job).collect(),
            further: 0,
        }),
        chains: None,
        modules: None,
        sinks: None,
        users: None,
        further: None,
        denials: Vec::new(),
        passages: Vec::new(),
        missed: ActivityMissed::default(),
    }
}

fn job(job: GatheredJob) -> ActivityJob {
    let procs = job.procs.iter().map(|listed| ActivityProc {
        rank: listed.info.proc.rank.0,
        state: match listed.info.state {
            // Whether it is connected the server does not tell.
            ProcState::RUNNING => ActivityProcState::Running,
            ProcState::TERMINATED => ActivityProcState::Ended,
            ProcState::UNDEF => ActivityProcState::Expected,
            _ => ActivityProcState::Lost,
        },
        // A server reports 0 for a proc without a process.
        pid: Some(listed.info.pid).filter(|pid| *pid > 0),
    });
    let procs: Vec<ActivityProc> = procs.collect();
    let count = |state: ActivityProcState| {
        let found = procs.iter().filter(|proc| proc.state == state).count();
        u32::try_from(found).unwrap_or(u32::MAX)
    };
    let size = job.size.map_or(procs.len(), |size| {
        usize::try_from(size).unwrap_or(usize::MAX)
    });
    let uid = job.uid.unwrap_or(UNKNOWN_ID);
    ActivityJob {
        status: JobStatus {
            nspace: job.nspace.to_string(),
            size: u32::try_from(size).unwrap_or(u32::MAX),
            uid,
            gid: UNKNOWN_ID,
            expected: count(ActivityProcState::Expected),
            connected: count(ActivityProcState::Running),
            finalized: count(ActivityProcState::Ended),
            lost: count(ActivityProcState::Lost),
            elapsed: job.elapsed,
        },
        procs,
        further_procs: 0,
    }
}
