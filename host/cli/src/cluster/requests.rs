//! Requests of a node to others, and their replies. Both are JSON, so that an administrator can read them in
//! a trace; unknown fields are ignored.
use crate::{job::RecordedJob, ps::GatheredJob};
use peal_audit::SealedTrail;
use peal_model::Nspace;
use peal_nats::NodeAnswer;
use peal_server::{admin::WatchedEvent, metrics::Snapshot};
use serde::{Deserialize, Serialize};

/// Request of a node.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "kebab-case")]
pub enum NodeRequest {
    /// Verifies the audit trail of the node, and compares it with the seals that the cluster has of it.
    VerifyTrail {
        /// Time since which seals are compared, in milliseconds since the epoch; all by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
    },
    /// Returns jobs with their procs.
    Procs {
        /// Names of the jobs; empty for all.
        #[serde(default)]
        jobs: Vec<Nspace>,
    },
    /// Returns all metrics.
    Stats,
    /// Waits a moment for events that handlers have got.
    Events {
        /// Position after which events are wanted; none to get the present one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<EventPosition>,
        /// Codes of the events; empty for all.
        #[serde(default)]
        codes: Vec<i32>,
    },
    /// Returns the record of a job.
    JobRecord {
        /// Name of the job.
        nspace: Nspace,
    },
}

/// Reply of a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum NodeReply {
    /// State of its audit trail.
    Trail(TrailState),
    /// There is no audit trail.
    NoTrail,
    /// Jobs with their procs.
    Procs {
        /// The jobs.
        jobs: Vec<GatheredJob>,
    },
    /// Events after a position.
    Events {
        /// Position after them.
        position: EventPosition,
        /// The events.
        events: Vec<WatchedEvent>,
        /// Number of those that were not kept.
        missed: u64,
    },
    /// All metrics.
    Stats(Snapshot),
    /// Record of the job; `None` if there is none.
    JobRecord {
        /// The record.
        record: Option<RecordedJob>,
    },
}

/// Position in the events of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EventPosition {
    /// Number of the run: positions of another one mean nothing.
    pub run: u64,
    /// Number of the next event.
    pub next: u64,
}

/// Audit trail of a node, as it was compared with the seals of the cluster.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TrailState {
    /// Number of records.
    pub records: u64,
    /// First record.
    pub first: Option<u64>,
    /// Last record.
    pub last: Option<u64>,
    /// Number of seals of the cluster that were compared.
    pub seals: u64,
    /// Contradictions, each a line of text.
    pub contradictions: Vec<String>,
}

impl From<&SealedTrail> for TrailState {
    fn from(trail: &SealedTrail) -> TrailState {
        let other = trail.of_other_keys.map_or(0, |other| other.seals);
        TrailState {
            records: trail.verified.records,
            first: trail.verified.first,
            last: trail.verified.last,
            seals: trail.own + other + trail.unreadable,
            contradictions: trail.contradictions(),
        }
    }
}

impl NodeRequest {
    /// Returns the bytes of the request.
    pub fn encode(&self) -> serde_json::Result<Vec<u8>> {
        serde_json::to_vec(self)
    }

    /// Parses a request. The error is for the node that asks.
    pub fn parse(bytes: &[u8]) -> Result<NodeRequest, String> {
        serde_json::from_slice(bytes).map_err(|error| {
            format!(
                "peal {} does not know the request: {error}",
                env!("CARGO_PKG_VERSION")
            )
        })
    }
}

impl NodeReply {
    /// Returns the reply of a node, or the reason for which there is none.
    pub fn of(answer: NodeAnswer) -> Result<NodeReply, String> {
        let bytes = answer.answer.map_err(|failure| failure.to_string())?;
        serde_json::from_slice(&bytes).map_err(|error| format!("its answer is invalid: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_again_and_unknown_ones_refused() {
        for request in [
            NodeRequest::VerifyTrail { since: None },
            NodeRequest::VerifyTrail { since: Some(5) },
            NodeRequest::Procs {
                jobs: vec![Nspace::new("solver").unwrap()],
            },
            NodeRequest::Stats,
            NodeRequest::Events {
                after: Some(EventPosition {
                    run: u64::MAX,
                    next: 3,
                }),
                codes: vec![-3001],
            },
        ] {
            let bytes = request.encode().unwrap();
            assert_eq!(NodeRequest::parse(&bytes), Ok(request));
        }
        let later = br#"{"ask": "verify-trail", "since": 7, "until": 9}"#;
        let known = NodeRequest::VerifyTrail { since: Some(7) };
        assert_eq!(NodeRequest::parse(later), Ok(known));
        for bytes in [&br#"{"ask": "delete-trail"}"#[..], b"", b"7", b"\xff"] {
            let error = NodeRequest::parse(bytes).unwrap_err();
            assert!(error.contains("does not know the request"), "{error}");
        }
    }
}
