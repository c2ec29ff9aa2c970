//! Export of traces and metrics of a server by OTLP, the protocol of OpenTelemetry.
//!
//! ```text
//! TelemetryExporter   thread with a runtime of its own (exporter.rs)
//!   Listener            bounded queue of measured events and decisions, kept by the server
//!   TraceConverter      a trace for each, with a span for each module call (spans.rs)
//!   MetricsReader       the metrics of the server in the form of the SDK (metrics.rs)
//!   CollectorClient     posts what the OTLP exporters encode (client.rs)
//! ```
//!
//! The server measures only what a sampler selects, and never waits: what finds no room in the queue is
//! dropped and counted. While the collector is away, the exporter keeps one batch and tries again, and the
//! queue fills behind it.

mod client;
mod counts;
mod exporter;
mod metrics;
mod settings;
mod spans;

pub use exporter::TelemetryExporter;
pub use settings::{TelemetryError, TelemetrySettings};
