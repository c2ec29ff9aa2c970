//! Sinks that modules write to: the outputs of jobs, job records, and the sinks that the admin
//! opened.
use peal_config::{ModuleEntry, Problem, SinkName};
use peal_core::quota::{Quota, QuotaReport};
use peal_model::{LogRequest, Mail, Proc, Status, code, rank};
use peal_sandbox::Sink;
use peal_server::{
    Metrics,
    admin::ActivitySink,
    metrics::{Amount, MetricFamily, MetricKind, MetricSample, Unit},
};
use peal_sinks::{
    PeerReachability, QueueBounds, SinkHandle, SinkHealth, SinkMessage, SinkWriteError, Sinks,
};
use peal_store::{JobEntryKind, JobRecordEntry, LeftOutEntries, RecordLimit, Store, StoreError};
use peal_tenant::GuestCpuTimes;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// Sinks for the output streams of jobs.
pub struct OutputSinks {
    /// Standard output.
    pub stdout: Arc<dyn Sink>,
    /// Standard error.
    pub stderr: Arc<dyn Sink>,
}

/// All sinks that modules may be given.
pub struct SinkCatalog {
    outputs: OutputSinks,
    opened: Arc<Sinks>,
    store: Option<Arc<Store>>,
}

impl SinkCatalog {
    /// Creates the catalog. Job records are in the store.
    pub fn new(outputs: OutputSinks, opened: Arc<Sinks>, store: Option<Arc<Store>>) -> SinkCatalog {
        SinkCatalog {
            outputs,
            opened,
            store,
        }
    }

    /// Returns the sinks of a module by name.
    pub(crate) fn of(
        &self,
        entry: &ModuleEntry,
    ) -> Result<BTreeMap<String, Arc<dyn Sink>>, Problem> {
        entry
            .settings
            .sinks
            .iter()
            .map(|name| Ok((name.name().to_owned(), self.sink(name, entry)?)))
            .collect()
    }

    fn sink(&self, name: &SinkName, entry: &ModuleEntry) -> Result<Arc<dyn Sink>, Problem> {
        Ok(match name {
            SinkName::Stdout => self.outputs.stdout.clone(),
            SinkName::Stderr => self.outputs.stderr.clone(),
            SinkName::JobRecord => {
                let missing = || {
                    entry.problem(
                        "module.sinks",
                        "\"job-record\" needs a store: set store.path",
                    )
                };
                Arc::new(JobRecords(self.store.clone().ok_or_else(missing)?))
            }
            SinkName::Opened(name) => {
                let message = || {
                    format!(
                        "this server has no sink {name:?}: sinks are opened when the server starts"
                    )
                };
                Arc::new(Opened(
                    self.opened
                        .get(name)
                        .ok_or_else(|| entry.problem("module.sinks", message()))?,
                ))
            }
        })
    }
}

/// A sink that the admin opened.
struct Opened(Arc<SinkHandle>);

impl Opened {
    fn carry(&self, request: &LogRequest, message: SinkMessage) -> Result<(), Status> {
        let uid = request.identity.as_ref().map(|identity| identity.uid);
        self.0
            .submit(uid, message)
            .map_err(|refused: SinkWriteError| {
                let source = request.source.as_ref().map(ToString::to_string);
                tracing::info!(source, %refused, "sink refused message");
                refused.status()
            })
    }
}

impl Sink for Opened {
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        self.carry(request, SinkMessage::Bytes(bytes.to_owned()))
    }

    fn submit(&self, request: &LogRequest, mail: Mail) -> Result<(), Status> {
        self.carry(request, SinkMessage::Mail(mail))
    }
}

/// Job records as a sink: each message is a JSON object for the record of the sender's job.
struct JobRecords(Arc<Store>);

impl Sink for JobRecords {
    fn write(&self, request: &LogRequest, bytes: &[u8]) -> Result<(), Status> {
        let Proc { nspace, rank } = request
            .source
            .as_ref()
            .ok_or(code::PMIX_ERR_NOT_AVAILABLE)?;
        let body = str::from_utf8(bytes)
            .map_err(|_| code::PMIX_ERR_BAD_PARAM)?
            .trim_end()
            .to_owned();
        let rank = (*rank != rank::PMIX_RANK_WILDCARD).then_some(*rank);
        let entry = JobRecordEntry::now(JobEntryKind::Log, rank, body);
        let refused = |why: &dyn std::fmt::Display| tracing::info!(%nspace, %why, "job record refused message");
        let added = self.0.add_job_entries(nspace, &[entry]).map_err(|error| {
            refused(&error);
            match error {
                // A sender that is not a proc of a job has no record.
                StoreError::UnknownJob { .. } => code::PMIX_ERR_NOT_FOUND,
                StoreError::Full { .. } => code::PMIX_ERR_OUT_OF_RESOURCE,
                _ => code::PMIX_ERROR,
            }
        })?;
        let Some(LeftOutEntries { limit, .. }) = added.left_out else {
            return Ok(());
        };
        refused(&limit);
        Err(if limit == RecordLimit::Entry {
            code::PMIX_ERR_BAD_PARAM
        } else {
            code::PMIX_ERR_OUT_OF_RESOURCE
        })
    }
}

/// Adds metrics of the sinks, and what users hold in their queues, to a server.
pub fn show_sinks(metrics: &Metrics, sinks: Arc<Sinks>) {
    let queues = sinks.clone();
    metrics.show_quotas(move |report| show_use(report, &queues));
    let states = sinks.clone();
    metrics.show_sinks(move || states.health().iter().map(activity).collect());
    metrics.show(move || families(&sinks.health()));
}

/// Returns the state of a sink for watchers.
fn activity((name, health): (&String, &SinkHealth)) -> ActivitySink {
    ActivitySink {
        name: name.clone(),
        queued: health.queued,
        queued_bytes: health.queued_bytes,
        delivered: health.delivered,
        refused: health.refused,
        retried: health.retried,
        dropped: health.given_up,
        unreachable: health.link == PeerReachability::Lost,
    }
}

/// Adds the CPU times of users' processes to what a server shows of each user.
pub fn show_guest_cpu(metrics: &Metrics, times: GuestCpuTimes) {
    metrics.show_quotas(move |report| {
        let milliseconds = |time: Duration| usize::try_from(time.as_millis()).unwrap_or(usize::MAX);
        let users = times.by_user().into_iter();
        report.hold(
            Quota::GuestCpu,
            users.map(|(uid, time)| (uid, milliseconds(time))),
        );
    });
}

fn show_use(report: &mut QuotaReport, sinks: &Sinks) {
    let QueueBounds {
        messages,
        bytes,
        user_messages,
        user_bytes,
    } = sinks.bounds();
    if messages > 0 {
        report.limit(Quota::SinkMessages, user_messages, Some(messages));
        report.limit(Quota::SinkBytes, user_bytes, Some(bytes));
    }
    for (uid, held) in sinks.use_by_user() {
        report.hold(Quota::SinkMessages, [(uid, held.messages)]);
        report.hold(Quota::SinkBytes, [(uid, held.bytes)]);
        report.count_refusals(uid, Quota::SinkMessages, held.refused);
    }
}

/// A metric of each sink: name, help, kind and value.
type SinkMetric = (
    &'static str,
    &'static str,
    MetricKind,
    fn(&SinkHealth) -> u64,
);

const METRICS: [SinkMetric; 8] = [
    (
        "peal_sink_queue_messages",
        "Messages in the queue of a sink.",
        MetricKind::Gauge,
        |health| health.queued,
    ),
    (
        "peal_sink_queue_bytes",
        "Size of the messages in the queue of a sink, in bytes.",
        MetricKind::Gauge,
        |health| health.queued_bytes,
    ),
    (
        "peal_sink_delivered",
        "Messages delivered by a sink.",
        MetricKind::Counter,
        |health| health.delivered,
    ),
    (
        "peal_sink_refused",
        "Messages refused by a sink.",
        MetricKind::Counter,
        |health| health.refused,
    ),
    (
        "peal_sink_retried",
        "Failed deliveries of a sink that are retried.",
        MetricKind::Counter,
        |health| health.retried,
    ),
    (
        "peal_sink_messages_dropped",
        "Messages that a sink accepted and dropped undelivered.",
        MetricKind::Counter,
        |health| health.given_up,
    ),
    (
        "peal_sink_recipients_dropped",
        "Recipients of mail permanently refused by the mail server.",
        MetricKind::Counter,
        |health| health.recipients_given_up,
    ),
    (
        "peal_sink_peer_unreachable",
        "Whether the destination was unreachable at the last delivery of a sink.",
        MetricKind::Gauge,
        |health| u64::from(health.link == PeerReachability::Lost),
    ),
];

fn families(health: &BTreeMap<String, SinkHealth>) -> Vec<MetricFamily> {
    // A family without samples says nothing.
    if health.is_empty() {
        return Vec::new();
    }
    let family = |(name, help, kind, number): &SinkMetric| {
        let sample = |(sink, health): (&String, &SinkHealth)| MetricSample {
            labels: [("sink".to_owned(), sink.clone())].into(),
            value: Amount::Number(number(health)),
        };
        let samples = health.iter().map(sample).collect();
        let unit = name.ends_with("_bytes").then_some(Unit::Bytes);
        MetricFamily {
            name: (*name).to_owned(),
            help: (*help).to_owned(),
            kind: *kind,
            unit,
            samples,
        }
    };
    METRICS.iter().map(family).collect()
}
