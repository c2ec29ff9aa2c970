//! Thread that exports traces and metrics. Nothing waits for it but the end of the server, for a bounded
//! time.
use crate::{
    client::{CollectorClient, PostFailure},
    counts::{self, TelemetryCounts},
    metrics::MetricsReader,
    settings::{TelemetryError, TelemetrySettings},
    spans::TraceConverter,
};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{
    MetricExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{Temporality, exporter::PushMetricExporter},
    trace::{SpanData, SpanExporter as _},
};
use peal_server::{Listener, ListenerItem, Metrics, Notice, Notices, TraceSampler};
use peal_sinks::WebService;
use peal_store::TraceRateLimit;
use std::{
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tokio::{
    sync::oneshot,
    time::{self, MissedTickBehavior},
};

/// Number of spans from which a batch is sent at once.
const BATCH_SPANS: usize = 512;

/// Time after which a smaller batch is sent.
const BATCH_TIME: Duration = Duration::from_millis(500);

/// Pauses before a batch is tried again: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Minimum interval between two log lines about a collector that takes nothing.
const BETWEEN_FAILURES: Duration = Duration::from_secs(60);

/// Export of a server's traces and metrics.
#[derive(Debug)]
pub struct TelemetryExporter {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl TelemetryExporter {
    /// Returns the sampler that the notices of the server need.
    pub fn sampler(settings: &TelemetrySettings) -> Arc<TraceSampler> {
        Arc::new(TraceSampler::new(
            settings.sampling_interval,
            settings.max_traces_per_second,
        ))
    }

    /// Starts the export of the notices and metrics of a server, which measures what the sampler selects.
    ///
    /// # Errors
    ///
    /// Fails if a file of the settings is unusable. A collector that is away is no error.
    pub fn start(
        settings: TelemetrySettings,
        sampler: Arc<TraceSampler>,
        notices: &Notices,
        metrics: Arc<Metrics>,
    ) -> Result<TelemetryExporter, TelemetryError> {
        let client = CollectorClient::new(WebService::open(&settings.collector)?);
        let base = settings.collector.url.path();
        let endpoint = |signal: &str| {
            // The client takes the path alone.
            format!("{}{base}/v1/{signal}", settings.collector.url.origin())
        };
        let resource = Resource::builder_empty()
            .with_attributes(
                settings
                    .resource
                    .iter()
                    .map(|(name, value)| KeyValue::new(name.clone(), value.clone())),
            )
            .build();
        let mut spans = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint("traces"))
            .with_timeout(settings.collector.timeout)
            .with_http_client(client.clone())
            // The exporter itself tries again, with longer pauses.
            .with_retry_policy(RetryPolicy::disabled())
            .build()?;
        spans.set_resource(&resource);
        let samples = MetricExporter::builder()
            .with_temporality(Temporality::Cumulative)
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint("metrics"))
            .with_timeout(settings.collector.timeout)
            .with_http_client(client.clone())
            .with_retry_policy(RetryPolicy::disabled())
            .build()?;
        let counts: Arc<TelemetryCounts> = Arc::default();
        let shown = counts.clone();
        metrics.show(move || counts::families(&shown, &sampler));
        let task = ExportTask {
            listener: notices.listen_within(settings.queue, Notice::is_measured),
            converter: TraceConverter::new(settings.secrets),
            spans,
            samples,
            client,
            reader: MetricsReader::new(resource),
            metrics,
            counts,
            collector: settings.collector.url.origin(),
            failures: TraceRateLimit::new(BETWEEN_FAILURES),
            batch: TraceBatch::default(),
            retry: None,
            is_away: false,
        };
        let (stop, stopping) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let interval = settings.metrics_interval;
        let end = settings.collector.timeout.saturating_mul(2);
        let thread = thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || runtime.block_on(task.run(interval, end, stopping)))?;
        Ok(TelemetryExporter {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Exports what waits, and stops. Blocks for the timeout of three posts at most.
    pub fn stop(mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported.
            let _ = thread.join();
        }
    }
}

/// Spans for the next post.
#[derive(Debug, Default)]
struct TraceBatch {
    spans: Vec<SpanData>,
    traces: usize,
}

/// Pause before a batch is tried again.
#[derive(Clone, Copy, Debug)]
struct RetryPause {
    pause: Duration,
    until: Instant,
}

struct ExportTask {
    listener: Listener,
    converter: TraceConverter,
    spans: SpanExporter,
    samples: MetricExporter,
    client: CollectorClient,
    reader: MetricsReader,
    metrics: Arc<Metrics>,
    counts: Arc<TelemetryCounts>,
    /// Scheme, host and port of the collector.
    collector: String,
    failures: TraceRateLimit,
    batch: TraceBatch,
    retry: Option<RetryPause>,
    is_away: bool,
}

impl ExportTask {
    /// Exports until the sender is dropped, and then what waits for the time `end`.
    async fn run(
        mut self,
        metrics_interval: Duration,
        end: Duration,
        mut stopping: oneshot::Receiver<()>,
    ) {
        let mut metrics_due = time::interval(metrics_interval);
        metrics_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut batch_due = time::interval(BATCH_TIME);
        batch_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut is_open = true;
        loop {
            // While a batch waits to be tried again, the queue fills and drops what finds no room.
            let is_reading = is_open && self.batch.spans.len() < BATCH_SPANS;
            tokio::select! {
                biased;
                _ = &mut stopping => break,
                _ = metrics_due.tick() => self.export_metrics().await,
                _ = batch_due.tick() => self.export_traces().await,
                item = self.listener.recv(), if is_reading => match item {
                    Some(item) => self.add(item),
                    None => is_open = false,
                },
            }
            if self.batch.spans.len() >= BATCH_SPANS {
                self.export_traces().await;
            }
        }
        if time::timeout(end, self.finish()).await.is_err() {
            tracing::warn!("telemetry not exported before the end of the server");
        }
    }

    /// Exports what waits, once.
    async fn finish(mut self) {
        self.retry = None;
        while let Some(item) = self.listener.try_recv() {
            self.add(item);
            if self.batch.spans.len() >= BATCH_SPANS {
                self.export_traces().await;
                if self.retry.is_some() {
                    break;
                }
            }
        }
        if self.retry.is_none() {
            self.export_traces().await;
        }
        if self.retry.is_none() {
            self.export_metrics().await;
        }
    }

    fn add(&mut self, item: ListenerItem) {
        match item {
            ListenerItem::Notice(notice) => {
                self.batch.spans.extend(self.converter.spans(&notice));
                self.batch.traces += 1;
            }
            ListenerItem::Missed(traces) => {
                self.counts
                    .dropped
                    .add(usize::try_from(traces).unwrap_or(usize::MAX));
            }
        }
    }

    /// Posts the batch, unless it is too early to try again.
    async fn export_traces(&mut self) {
        let now = Instant::now();
        if self.batch.spans.is_empty() || self.retry.is_some_and(|retry| now < retry.until) {
            return;
        }
        let spans = self.batch.spans.clone();
        let posted = self.spans.export(spans).await;
        let failure = self.failure(posted.err().map(|error| error.to_string()));
        match failure {
            None => {
                let rejected = self.client.rejected_spans();
                let traces = std::mem::take(&mut self.batch).traces;
                // A collector rejects spans: at least so many traces are incomplete.
                let dropped = rejected.min(traces);
                self.counts.dropped.add(dropped);
                self.counts.exported.add(traces - dropped);
                self.retry = None;
                self.reached();
            }
            Some(PostFailure::Refused(reason)) => {
                let traces = std::mem::take(&mut self.batch).traces;
                self.counts.dropped.add(traces);
                self.retry = None;
                self.missed(&reason);
            }
            Some(PostFailure::Later(reason)) => {
                let pause = self
                    .retry
                    .map_or(FIRST_PAUSE, |retry| retry.pause.saturating_mul(2))
                    .min(LONGEST_PAUSE);
                // The post itself may have taken longer than the pause.
                let now = Instant::now();
                let until = now.checked_add(pause).unwrap_or(now);
                self.retry = Some(RetryPause { pause, until });
                self.missed(&reason);
            }
        }
    }

    /// Posts the metrics. After a failure the next interval brings newer ones.
    async fn export_metrics(&mut self) {
        let Some(metrics) = self.reader.metrics(self.metrics.snapshot()) else {
            return;
        };
        let posted = self.samples.export(&metrics).await;
        match self.failure(posted.err().map(|error| error.to_string())) {
            None => self.reached(),
            Some(PostFailure::Later(reason) | PostFailure::Refused(reason)) => {
                self.missed(&reason);
            }
        }
    }

    /// Returns the failure of a post: what the client knows of it, else the error of the exporter, which
    /// did not post.
    fn failure(&self, error: Option<String>) -> Option<PostFailure> {
        let error = error?;
        Some(
            self.client
                .take_failure()
                .unwrap_or(PostFailure::Refused(error)),
        )
    }

    fn reached(&mut self) {
        if std::mem::take(&mut self.is_away) {
            tracing::info!(collector = %self.collector, "telemetry exported again");
        }
    }

    fn missed(&mut self, reason: &str) {
        self.is_away = true;
        self.counts.failures.count();
        if let Some(left_out) = self.failures.allow(Instant::now()) {
            let waiting = self.batch.traces;
            tracing::warn!(collector = %self.collector, reason, left_out, waiting, "telemetry not exported");
        }
    }
}
