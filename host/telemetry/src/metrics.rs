//! Metrics of the server in the form of the SDK: an instrument for each family of the snapshot that
//! `peal stats` and Prometheus get, under the same name.
use opentelemetry::{
    KeyValue,
    metrics::{AsyncInstrument, Meter, MeterProvider},
};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    metrics::{
        Instrument, InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Stream, Temporality,
        data::ResourceMetrics, reader::MetricReader,
    },
};
use peal_server::metrics::{Amount, MetricFamily, MetricKind, Snapshot, Unit};
use std::{
    collections::BTreeSet,
    sync::{Arc, PoisonError, RwLock, Weak},
    time::Duration,
};

/// Maximum number of samples of a family; the SDK adds up further ones in one sample.
const MAX_SAMPLES: usize = 20_000;

/// Snapshot that the callbacks of the instruments read.
type Latest = Arc<RwLock<Snapshot>>;

/// Reader of a server's metrics.
#[derive(Debug)]
pub(crate) struct MetricsReader {
    reader: SharedReader,
    /// Keeps the instruments.
    _provider: SdkMeterProvider,
    meter: Meter,
    latest: Latest,
    known: BTreeSet<String>,
}

impl MetricsReader {
    pub(crate) fn new(resource: Resource) -> MetricsReader {
        let reader = SharedReader(Arc::new(ManualReader::builder().build()));
        let provider = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_reader(reader.clone())
            .with_view(|_: &Instrument| {
                Stream::builder()
                    .with_cardinality_limit(MAX_SAMPLES)
                    .build()
                    .ok()
            })
            .build();
        let meter = provider.meter("peal");
        MetricsReader {
            reader,
            _provider: provider,
            meter,
            latest: Latest::default(),
            known: BTreeSet::new(),
        }
    }

    /// Returns the metrics of a snapshot.
    pub(crate) fn metrics(&mut self, snapshot: Snapshot) -> Option<ResourceMetrics> {
        for family in &snapshot.families {
            // The type of the values is known with the first sample.
            let Some(first) = family.samples.first() else {
                continue;
            };
            if self.known.insert(family.name.clone()) {
                self.add(family, first.value);
            }
        }
        *self.latest.write().unwrap_or_else(PoisonError::into_inner) = snapshot;
        let mut metrics = ResourceMetrics::default();
        self.reader.collect(&mut metrics).ok().map(|()| metrics)
    }

    /// Adds the instrument of a family.
    fn add(&self, family: &MetricFamily, value: Amount) {
        let name = match family.kind {
            MetricKind::Info => format!("{}_info", family.name),
            MetricKind::Counter | MetricKind::Gauge => family.name.clone(),
        };
        let help = family.help.clone();
        let unit = match family.unit {
            Some(Unit::Seconds) => "s",
            Some(Unit::Bytes) => "By",
            None => "",
        };
        let (of, latest) = (family.name.clone(), self.latest.clone());
        let meter = &self.meter;
        // The provider keeps the callbacks, so that the instruments may be dropped.
        match (family.kind, value) {
            (MetricKind::Counter, Amount::Number(_)) => drop(
                meter
                    .u64_observable_counter(name)
                    .with_description(help)
                    .with_unit(unit)
                    .with_callback(move |to| observe(&latest, &of, to, whole))
                    .build(),
            ),
            (MetricKind::Counter, Amount::Real(_)) => drop(
                meter
                    .f64_observable_counter(name)
                    .with_description(help)
                    .with_unit(unit)
                    .with_callback(move |to| observe(&latest, &of, to, real))
                    .build(),
            ),
            (MetricKind::Gauge | MetricKind::Info, Amount::Number(_)) => drop(
                meter
                    .u64_observable_gauge(name)
                    .with_description(help)
                    .with_unit(unit)
                    .with_callback(move |to| observe(&latest, &of, to, whole))
                    .build(),
            ),
            (MetricKind::Gauge | MetricKind::Info, Amount::Real(_)) => drop(
                meter
                    .f64_observable_gauge(name)
                    .with_description(help)
                    .with_unit(unit)
                    .with_callback(move |to| observe(&latest, &of, to, real))
                    .build(),
            ),
        }
    }
}

/// Passes the samples of a family to its instrument.
fn observe<T>(
    latest: &Latest,
    name: &str,
    instrument: &dyn AsyncInstrument<T>,
    convert: fn(Amount) -> T,
) {
    // No code panics while it holds the lock, so the data of a poisoned lock are consistent.
    let snapshot = latest.read().unwrap_or_else(PoisonError::into_inner);
    let families = snapshot.families.iter();
    for sample in families
        .filter(|family| family.name == name)
        .flat_map(|family| &family.samples)
    {
        let labels = sample.labels.iter();
        let attributes: Vec<KeyValue> = labels
            .map(|(key, value)| KeyValue::new(key.clone(), value.clone()))
            .collect();
        instrument.observe(convert(sample.value), &attributes);
    }
}

fn whole(amount: Amount) -> u64 {
    match amount {
        Amount::Number(number) => number,
        // The samples of a family have one type.
        Amount::Real(real) => real as u64,
    }
}

fn real(amount: Amount) -> f64 {
    match amount {
        Amount::Number(number) => number as f64,
        Amount::Real(real) => real,
    }
}

/// Reader that the provider and the exporter share.
#[derive(Clone, Debug)]
struct SharedReader(Arc<ManualReader>);

impl MetricReader for SharedReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}
