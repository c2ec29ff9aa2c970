//! All that is counted and measured, at one moment: for people and scripts as JSON, for Prometheus as text.
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text},
    metrics::MetricType,
    registry::{self, Registry},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt};

/// What tells the samples of one family apart.
pub type Labels = BTreeMap<String, String>;

/// All numbers at one moment.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// What there is, each under one name.
    pub families: Vec<MetricFamily>,
}

/// What has one name.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MetricFamily {
    /// The name, which ends in the unit where there is one.
    pub name: String,
    /// What it means.
    pub help: String,
    /// How its numbers move.
    pub kind: MetricKind,
    /// What they are numbers of, unless the name says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<Unit>,
    /// The numbers.
    pub samples: Vec<MetricSample>,
}

/// How numbers of a family move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// They only grow.
    Counter,
    /// They go up and down.
    Gauge,
    /// There are none: the labels say it all.
    Info,
}

/// What something is measured in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// A number.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MetricSample {
    /// Which one of its family; empty where there is only one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: Labels,
    /// How much.
    pub value: Amount,
}

/// How much.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Amount {
    /// So many.
    Number(u64),
    /// So much.
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
    /// A family of one number.
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

    /// The same, in a unit.
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
        // The encoder writes the unit behind the name.
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
    /// The type of [`Snapshot::text`], as HTTP names it.
    pub const TEXT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

    /// The text that Prometheus and others of OpenMetrics read.
    pub fn text(&self) -> Result<String, fmt::Error> {
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
    fn the_text_is_that_of_openmetrics_and_json_comes_back_the_same() {
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
