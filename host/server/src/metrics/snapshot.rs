//! Snapshot of all metrics: as JSON for people and scripts, as text for Prometheus.
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{self, Registry},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// Labels that distinguish the samples of one family.
pub type Labels = BTreeMap<String, String>;

/// All metrics at one moment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// Families, each with a unique name.
    pub families: Vec<MetricFamily>,
}

/// Samples with a common name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MetricFamily {
    /// Name, which ends with the unit if there is one.
    pub name: String,
    /// Help text.
    pub help: String,
    /// Kind of the metric.
    pub kind: MetricKind,
    /// Unit, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// Samples.
    pub samples: Vec<MetricSample>,
}

/// Kind of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// Number that only grows.
    Counter,
    /// Number that goes up and down.
    Gauge,
    /// Labels without a number.
    Info,
}

/// Unit of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// Sample.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MetricSample {
    /// Labels; empty for the only sample of a family.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// Value.
    pub value: Amount,
}

/// Value of a sample.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// Integer.
    Number(u64),
    /// Real number.
    Real(f64),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Number(number) => write!(f, "{number}"),
            Amount::Real(real) => write!(f, "{real:.6}"),
        }
    }
}

impl MetricFamily {
    /// Returns a family with one sample.
    pub fn single(name: &str, help: &str, kind: MetricKind, number: u64) -> MetricFamily {
        let sample = MetricSample {
            labels: Labels::new(),
            value: Amount::Number(number),
        };
        MetricFamily {
            name: name.to_owned(),
            help: help.trim().to_owned(),
            kind,
            unit: None,
            samples: vec![sample],
        }
    }

    /// Sets the unit.
    pub fn in_unit(self, unit: Unit) -> MetricFamily {
        MetricFamily {
            unit: Some(unit),
            ..self
        }
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match self.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Info => MetricType::Info,
        };
        let (unit, suffix) = match self.unit {
            Some(Unit::Seconds) => (Some(registry::Unit::Seconds), "_seconds"),
            Some(Unit::Bytes) => (Some(registry::Unit::Bytes), "_bytes"),
            None => (None, ""),
        };
        // The encoder appends the unit to the name.
        let name = self.name.strip_suffix(suffix).unwrap_or(&self.name);
        let mut family = encoder.encode_descriptor(name, &self.help, unit.as_ref(), kind)?;
        for sample in &self.samples {
            let labels: Vec<_> = sample
                .labels
                .iter()
                .map(|(key, value)| (key.as_str(), value.as_str()))
                .collect();
            match self.kind {
                MetricKind::Info => family.encode_info(&labels)?,
                _ if labels.is_empty() => sample.value.encode(self.kind, &mut family)?,
                _ => sample
                    .value
                    .encode(self.kind, &mut family.encode_family(&labels)?)?,
            }
        }
        Ok(())
    }
}

impl Amount {
    fn encode(self, kind: MetricKind, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        match (kind, self) {
            (MetricKind::Counter, Amount::Number(number)) => {
                encoder.encode_counter::<NoLabelSet, _, f64>(&number, None)
            }
            (MetricKind::Counter, Amount::Real(real)) => {
                encoder.encode_counter::<NoLabelSet, _, f64>(&real, None)
            }
            (MetricKind::Gauge | MetricKind::Info, Amount::Number(number)) => {
                encoder.encode_gauge(&number)
            }
            (MetricKind::Gauge | MetricKind::Info, Amount::Real(real)) => {
                encoder.encode_gauge(&real)
            }
        }
    }
}

impl Snapshot {
    /// Media type of [`Snapshot::text`].
    pub const TEXT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// Returns the text in the OpenMetrics format.
    pub fn text(&self) -> Result<String, fmt::Error> {
        // The encoder takes a registry, so each snapshot has one of its own.
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.families
            .iter()
            .try_for_each(|family| family.encode(&mut encoder))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_openmetrics_and_json_round_trips() {
        let sample = |value, labels: &[(&str, &str)]| {
            let labels = labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            MetricSample { labels, value }
        };
        let seconds = MetricFamily {
            name: "peal_module_call_seconds".into(),
            help: "Time.".into(),
            kind: MetricKind::Counter,
            unit: Some(Unit::Seconds),
            samples: vec![sample(
                Amount::Real(0.25),
                &[("module", "say \"a\\b\"\n"), ("owner", "site")],
            )],
        };
        let info = MetricFamily {
            name: "peal".into(),
            help: "Which.".into(),
            kind: MetricKind::Info,
            unit: None,
            samples: vec![sample(Amount::Number(1), &[("version", "1.2")])],
        };
        let snapshot = Snapshot {
            families: vec![
                MetricFamily::single(
                    "peal_connections_accepted",
                    " Accepted.",
                    MetricKind::Counter,
                    3,
                ),
                MetricFamily::single("peal_memory_bytes", "Taken.", MetricKind::Gauge, 4096)
                    .in_unit(Unit::Bytes),
                seconds,
                info,
            ],
        };
        let wanted = "# HELP peal_connections_accepted Accepted.\n\
                      # TYPE peal_connections_accepted counter\n\
                      peal_connections_accepted_total 3\n\
                      # HELP peal_memory_bytes Taken.\n\
                      # TYPE peal_memory_bytes gauge\n\
                      # UNIT peal_memory_bytes bytes\n\
                      peal_memory_bytes 4096\n\
                      # HELP peal_module_call_seconds Time.\n\
                      # TYPE peal_module_call_seconds counter\n\
                      # UNIT peal_module_call_seconds seconds\n\
                      peal_module_call_seconds_total{module=\"say \\\"a\\\\b\\\"\\n\",owner=\"site\"} 0.25\n\
                      # HELP peal Which.\n\
                      # TYPE peal info\n\
                      peal_info{version=\"1.2\"} 1\n\
                      # EOF\n";
        assert_eq!(snapshot.text().unwrap(), wanted);
        let json = serde_json::to_string(&snapshot).unwrap();
        assert_eq!(serde_json::from_str::<Snapshot>(&json).unwrap(), snapshot);
    }
}
