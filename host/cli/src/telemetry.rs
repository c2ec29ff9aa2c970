//! Export of telemetry by `peal serve`: its settings, and its end.
use anyhow::{Context, Result};
use peal_config::{Problem, Problems, Resolved};
use peal_server::{ListenerBounds, Metrics, Notices, TraceSampler};
use peal_sinks::WebServiceSettings;
use peal_telemetry::{TelemetryExporter, TelemetrySettings};
use std::sync::Arc;

/// Export that is configured and has not started.
pub struct PreparedTelemetry {
    settings: TelemetrySettings,
    sampler: Arc<TraceSampler>,
}

/// Returns the collector of a configuration; `None` without an export.
pub fn collector(resolved: &Resolved) -> Result<Option<WebServiceSettings>, Problem> {
    let telemetry = &resolved.config.telemetry;
    let Some(url) = telemetry.endpoint.clone() else {
        return Ok(None);
    };
    // Without TLS the files have no effect, and the connection would be taken for a protected one.
    let files = [
        ("telemetry.headers_file", &telemetry.headers_file),
        ("telemetry.ca", &telemetry.ca),
    ];
    for (key, file) in files {
        if file.is_some() && !url.is_https() {
            let message = format!(
                "{key} is for a collector with TLS, and telemetry.endpoint is {:?}; it should begin with https://",
                url.origin()
            );
            return Err(Problem::new(resolved.origin(key).clone(), message));
        }
    }
    Ok(Some(WebServiceSettings {
        url,
        headers_file: telemetry.headers_file.clone(),
        ca: telemetry.ca.clone(),
        timeout: telemetry.timeout,
    }))
}

/// Prepares the export of the server with this name; `None` if none is configured.
///
/// # Errors
///
/// Fails if the settings do not go together.
pub fn prepare(resolved: &Resolved, server: &str) -> Result<Option<PreparedTelemetry>> {
    let collector = collector(resolved).map_err(|problem| Problems(vec![problem]))?;
    let Some(collector) = collector else {
        return Ok(None);
    };
    let telemetry = &resolved.config.telemetry;
    let own = [
        ("service.name", "peal".to_owned()),
        ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
        ("service.instance.id", server.to_owned()),
        ("host.name", peal_system::hostname()),
    ];
    let own = own.map(|(name, value)| (name.to_owned(), value));
    let node = resolved.config.cluster.node.as_ref();
    let node = node.map(|node| ("peal.node".to_owned(), node.to_string()));
    let configured = telemetry
        .resource_attributes
        .iter()
        .filter_map(|attribute| attribute.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let secrets = resolved.config.audit.secret_keys.iter().cloned().collect();
    let settings = TelemetrySettings {
        collector,
        metrics_interval: telemetry.metrics_interval,
        sampling_interval: telemetry.sampling_interval,
        max_traces_per_second: telemetry.max_traces_per_second,
        queue: ListenerBounds {
            notices: telemetry.max_queue_traces.get(),
            bytes: telemetry.max_queue_bytes,
        },
        // Later attributes replace earlier ones of the same name.
        resource: own.into_iter().chain(node).chain(configured).collect(),
        secrets,
    };
    let sampler = TelemetryExporter::sampler(&settings);
    Ok(Some(PreparedTelemetry { settings, sampler }))
}

impl PreparedTelemetry {
    /// Returns the collector.
    pub fn collector(&self) -> &WebServiceSettings {
        &self.settings.collector
    }

    /// Makes the server of these notices measure what is exported.
    pub fn measure(&self, notices: Notices) -> Notices {
        notices.measured(self.sampler.clone())
    }

    /// Starts the export.
    ///
    /// # Errors
    ///
    /// Fails if a file of the settings is unusable.
    pub fn start(self, notices: &Notices, metrics: Arc<Metrics>) -> Result<TelemetryExporter> {
        TelemetryExporter::start(self.settings, self.sampler, notices, metrics)
            .context("cannot start the export of telemetry")
    }
}

/// Exports what waits, for a bounded time, and ends the export.
pub async fn finish(exporter: Option<TelemetryExporter>) {
    let Some(exporter) = exporter else { return };
    if let Err(error) = tokio::task::spawn_blocking(move || exporter.stop()).await {
        tracing::error!(%error, "export of telemetry not ended");
    }
}
