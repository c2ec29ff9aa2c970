//! Settings of the export, and the errors of its start.
use opentelemetry_otlp::ExporterBuildError;
use peal_audit::Secrets;
use peal_server::ListenerBounds;
use peal_sinks::{CredentialError, WebServiceSettings};
use std::{num::NonZeroU32, time::Duration};
use thiserror::Error;

/// Settings of the export.
#[derive(Clone, Debug)]
pub struct TelemetrySettings {
    /// Collector. Paths of OTLP follow the path of its URL.
    pub collector: WebServiceSettings,
    /// Interval between two exports of the metrics.
    pub metrics_interval: Duration,
    /// Number of events and decisions of which about one is a trace.
    pub sampling_interval: NonZeroU32,
    /// Maximum number of traces that start in a second.
    pub max_traces_per_second: u32,
    /// Bounds of the traces that wait for the collector.
    pub queue: ListenerBounds,
    /// Attributes of the server, by name.
    pub resource: Vec<(String, String)>,
    /// Keys of infos with secret values. Texts of modules about them are not exported.
    pub secrets: Secrets,
}

/// Error of the start of the export.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// A secret or a certificate is unusable.
    #[error("telemetry cannot be exported: {0}")]
    Credential(#[from] CredentialError),
    /// The exporter of OTLP refuses its settings.
    #[error("telemetry cannot be exported: {0}")]
    Exporter(#[from] ExporterBuildError),
    /// The thread could not be started.
    #[error("the thread of the telemetry could not be started: {0}")]
    Thread(#[from] std::io::Error),
}
