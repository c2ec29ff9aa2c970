//! Counters of the export, which are metrics of the server.
use peal_server::{
    TraceSampler,
    metrics::{Counter, MetricFamily, MetricKind},
};
use std::sync::Arc;

/// Counters of the export.
#[derive(Debug, Default)]
pub(crate) struct TelemetryCounts {
    /// Traces that the collector took.
    pub(crate) exported: Counter,
    /// Traces that were dropped.
    pub(crate) dropped: Counter,
    /// Failed posts.
    pub(crate) failures: Counter,
}

/// Returns the counters as metrics.
pub(crate) fn families(
    counts: &Arc<TelemetryCounts>,
    sampler: &Arc<TraceSampler>,
) -> Vec<MetricFamily> {
    let counter =
        |name, help, number| MetricFamily::single(name, help, MetricKind::Counter, number);
    vec![
        counter(
            "peal_telemetry_traces_exported",
            "Traces that the collector took.",
            counts.exported.get(),
        ),
        counter(
            "peal_telemetry_traces_dropped",
            "Traces dropped because too many waited for the collector, or because it refused them.",
            counts.dropped.get(),
        ),
        counter(
            "peal_telemetry_traces_skipped",
            "Sampled events and decisions without a trace because of the limit for a second.",
            sampler.skipped(),
        ),
        counter(
            "peal_telemetry_export_failures",
            "Posts of traces or metrics that the collector did not take.",
            counts.failures.get(),
        ),
    ]
}
