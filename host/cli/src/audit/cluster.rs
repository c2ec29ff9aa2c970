//! `peal audit verify --cluster`: audit trails of all nodes, compared with the seals of their cluster.
use crate::{
    args::{AuditVerify, OutputFormat},
    cluster::{
        NodeReply, NodeRequest, TrailState,
        nodes::{self, SILENT},
    },
    node, output, plain,
    table::{Side, table},
    wait_message::WaitMessage,
};
use anyhow::{Context, Result};
use peal_audit::{SealPublicKey, TrailSource, verify_sealed};
use peal_model::NodeName;
use peal_nats::{ClusterAccess, NatsLink, read_seals, sealed_nodes};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    process::ExitCode,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Message while answers are gathered.
const ASKING: &str = "the nodes verify their audit trails";
/// Message while the seals are read.
const READING: &str = "reading the seals of the cluster";
/// Exit status if the trail of a node was changed.
const CHANGED: u8 = 1;
/// Names of the files of a node's trail in a directory of trails.
const TRAIL_SUFFIXES: [&str; 2] = ["db", "jsonl"];

/// Audit trail of one node.
enum NodeTrail {
    /// The trail was compared.
    Compared(TrailState),
    /// The node has none, and the cluster has no seals of it.
    None,
    /// The trail is not known, for this reason.
    Unknown(String),
}

/// Trails by the names of their nodes, with the numbers of the seals that the cluster has.
type NodeTrails = BTreeMap<NodeName, (u64, NodeTrail)>;

pub(super) fn run(args: AuditVerify) -> Result<ExitCode> {
    let access = nodes::access(args.source.config)?;
    let selection = Selection {
        nodes: args.node.into_iter().collect(),
        since: args.since,
    };
    let trails = match &args.trails {
        Some(directory) => {
            let _waiting = WaitMessage::new(READING);
            node::as_tool(of_directory(&access, &selection, directory))?
        }
        None => {
            let _waiting = WaitMessage::new(ASKING);
            node::as_tool(of_nodes(&access, &selection, args.timeout))?
        }
    };
    output::print(&match args.format.output {
        OutputFormat::Data(form) => form.document(&as_json(&trails))?,
        _ => as_text(&trails),
    })?;
    Ok(exit_status(&trails))
}

/// Nodes and seals that are compared.
struct Selection {
    /// The nodes; empty for all.
    nodes: BTreeSet<NodeName>,
    /// Time of the first seal, in milliseconds since the epoch.
    since: Option<u64>,
}

impl Selection {
    fn has(&self, node: &NodeName) -> bool {
        self.nodes.is_empty() || self.nodes.contains(node)
    }

    fn since(&self) -> Option<SystemTime> {
        self.since
            .map(|since| UNIX_EPOCH + Duration::from_millis(since))
    }
}

/// Has each node verify its own trail.
async fn of_nodes(
    access: &ClusterAccess,
    selection: &Selection,
    limit: Duration,
) -> Result<NodeTrails> {
    let link = NatsLink::connect(access).await?;
    let members = nodes::members(&link).await?;
    let sealed = sealed_nodes(&link).await?;
    let all = members.iter().chain(sealed.keys()).chain(&selection.nodes);
    let wanted: BTreeSet<NodeName> = all.filter(|node| selection.has(node)).cloned().collect();
    let mut trails: NodeTrails = wanted
        .iter()
        .map(|node| {
            let absent = NodeTrail::Unknown("it is not in the cluster".to_owned());
            (node.clone(), (seals_of(&sealed, node), absent))
        })
        .collect();
    let asked = wanted.intersection(&members).cloned().collect();
    let request = NodeRequest::VerifyTrail {
        since: selection.since,
    };
    for (node, reply) in nodes::ask(&link, asked, &request, limit).await? {
        let seals = seals_of(&sealed, &node);
        let trail = match reply {
            Ok(NodeReply::Trail(trail)) => NodeTrail::Compared(trail),
            Ok(NodeReply::NoTrail) if seals == 0 => NodeTrail::None,
            Ok(NodeReply::NoTrail) => NodeTrail::Compared(without_trail()),
            Ok(_) => NodeTrail::Unknown(nodes::OTHER_REPLY.to_owned()),
            Err(reason) => NodeTrail::Unknown(reason),
        };
        let trail = match trail {
            NodeTrail::Compared(trail) if selection.since.is_none() => {
                NodeTrail::Compared(complete(trail, seals))
            }
            trail => trail,
        };
        trails.insert(node, (seals, trail));
    }
    Ok(trails)
}

/// Returns the state of a node that has no audit trail any more.
fn without_trail() -> TrailState {
    TrailState {
        records: 0,
        first: None,
        last: None,
        seals: 0,
        contradictions: vec!["the node has no audit trail any more".to_owned()],
    }
}

/// Adds a contradiction if a node has compared fewer seals than there were before it was asked.
fn complete(mut trail: TrailState, seals: u64) -> TrailState {
    if trail.seals < seals && trail.contradictions.is_empty() {
        let compared = trail.seals;
        let told = format!("the node has compared {compared} of its {seals} stored seals");
        trail.contradictions.push(told);
    }
    trail
}

/// Verifies copies of trails in a directory.
async fn of_directory(
    access: &ClusterAccess,
    selection: &Selection,
    directory: &Path,
) -> Result<NodeTrails> {
    let link = NatsLink::connect(access).await?;
    let sealed = sealed_nodes(&link).await?;
    let mut wanted: BTreeSet<NodeName> = sealed.keys().cloned().collect();
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let suffix = path.extension().and_then(|suffix| suffix.to_str());
        let is_trail = suffix.is_some_and(|suffix| TRAIL_SUFFIXES.contains(&suffix));
        let node = path
            .file_stem()
            .and_then(|name| name.to_str()?.parse().ok());
        wanted.extend(node.filter(|_| is_trail));
    }
    let all = wanted.into_iter().chain(selection.nodes.iter().cloned());
    let mut trails = NodeTrails::new();
    for node in all.filter(|node| selection.has(node)) {
        let lines = read_seals(&link, &node, selection.since()).await?;
        let compare = || -> Result<TrailState> {
            let (source, key) = open(directory, &node)?;
            let lines = lines.iter().map(|seal| &seal.line);
            Ok(TrailState::from(&verify_sealed(&source, &key, lines)?))
        };
        let trail = match compare() {
            Ok(trail) => NodeTrail::Compared(trail),
            Err(error) => NodeTrail::Unknown(crate::error_text(&error)),
        };
        trails.insert(node.clone(), (seals_of(&sealed, &node), trail));
    }
    Ok(trails)
}

/// Opens the trail of a node in a directory, with its public key.
fn open(directory: &Path, node: &NodeName) -> Result<(TrailSource, SealPublicKey)> {
    let named = |suffix: &str| directory.join(format!("{node}.{suffix}"));
    let trail = TRAIL_SUFFIXES
        .map(named)
        .into_iter()
        .find(|path| path.exists());
    let trail = trail.with_context(|| {
        format!(
            "neither {node}.db nor {node}.jsonl is in {}",
            directory.display()
        )
    })?;
    let key = named("pub");
    let key = fs::read_to_string(&key)
        .with_context(|| format!("the public key {}", key.display()))?
        .parse()?;
    Ok((TrailSource::open(&trail)?, key))
}

fn seals_of(sealed: &BTreeMap<NodeName, u64>, node: &NodeName) -> u64 {
    sealed.get(node).copied().unwrap_or_default()
}

fn exit_status(trails: &NodeTrails) -> ExitCode {
    let is_changed = |trail: &NodeTrail| matches!(trail, NodeTrail::Compared(state) if !state.contradictions.is_empty());
    let is_unknown = |trail: &NodeTrail| matches!(trail, NodeTrail::Unknown(_));
    let any = |is: &dyn Fn(&NodeTrail) -> bool| trails.values().any(|(_, trail)| is(trail));
    if any(&is_changed) {
        ExitCode::from(CHANGED)
    } else if any(&is_unknown) {
        ExitCode::from(SILENT)
    } else {
        ExitCode::SUCCESS
    }
}

/// Formats a line for each node, and one more for each further contradiction.
fn as_text(trails: &NodeTrails) -> String {
    let number =
        |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let mut rows = Vec::new();
    for (node, (seals, trail)) in trails {
        let (records, last, lines) = match trail {
            NodeTrail::Compared(state) => {
                let changed = state.contradictions.iter();
                let changed: Vec<String> = changed
                    .map(|line| format!("CHANGED: {}", plain(line)))
                    .collect();
                let lines = if changed.is_empty() {
                    vec!["as it was written".to_owned()]
                } else {
                    changed
                };
                (Some(state.records), state.last, lines)
            }
            NodeTrail::None => (None, None, vec!["the node has no audit trail".to_owned()]),
            NodeTrail::Unknown(reason) => {
                let line = format!("NOT VERIFIED: {}", plain(reason));
                (None, None, vec![line])
            }
        };
        for (place, line) in lines.into_iter().enumerate() {
            rows.push(if place == 0 {
                [
                    node.to_string(),
                    number(records),
                    number(last),
                    seals.to_string(),
                    line,
                ]
            } else {
                [
                    node.to_string(),
                    String::new(),
                    String::new(),
                    String::new(),
                    line,
                ]
            });
        }
    }
    let head = [
        ("node", Side::Left),
        ("records", Side::Right),
        ("last", Side::Right),
        ("seals", Side::Right),
        ("trail", Side::Left),
    ];
    table(head, &rows)
}

fn as_json(trails: &NodeTrails) -> Value {
    let nodes = trails.iter().map(|(node, (seals, trail))| {
        let (state, reason, trail) = match trail {
            NodeTrail::Compared(state) if state.contradictions.is_empty() => ("intact", None, Some(state)),
            NodeTrail::Compared(state) => ("changed", None, Some(state)),
            NodeTrail::None => ("none", None, None),
            NodeTrail::Unknown(reason) => ("unknown", Some(reason), None),
        };
        json!({ "node": node.to_string(), "seals": seals, "state": state, "reason": reason, "trail": trail })
    });
    json!({ "nodes": nodes.collect::<Vec<Value>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(seals: u64, contradictions: &[&str]) -> TrailState {
        TrailState {
            records: 5,
            first: Some(1),
            last: Some(5),
            seals,
            contradictions: contradictions.iter().map(ToString::to_string).collect(),
        }
    }

    fn trails(trails: Vec<NodeTrail>) -> NodeTrails {
        let named = trails.into_iter().enumerate();
        named
            .map(|(place, trail)| (format!("n{place}").parse().unwrap(), (3, trail)))
            .collect()
    }

    #[test]
    fn node_that_compared_too_few_seals_is_not_intact() {
        assert_eq!(complete(state(3, &[]), 3), state(3, &[]));
        // Seals may come while it compares.
        assert_eq!(complete(state(4, &[]), 3), state(4, &[]));
        let told = "the node has compared 2 of its 3 stored seals";
        assert_eq!(complete(state(2, &[]), 3), state(2, &[told]));
    }

    #[test]
    fn changed_trail_precedes_silent_node_in_exit_status() {
        let intact = || NodeTrail::Compared(state(3, &[]));
        let changed = || NodeTrail::Compared(state(3, &["record 2 was removed"]));
        let unknown = || NodeTrail::Unknown("no answer\u{1b}".to_owned());
        for (all, status) in [
            (vec![intact(), NodeTrail::None], ExitCode::SUCCESS),
            (vec![intact(), unknown()], ExitCode::from(SILENT)),
            (vec![unknown(), changed()], ExitCode::from(CHANGED)),
        ] {
            assert_eq!(exit_status(&trails(all)), status);
        }
        let text = as_text(&trails(vec![changed(), unknown(), NodeTrail::None]));
        let expected = "\
node  records  last  seals  trail
n0          5     5      3  CHANGED: record 2 was removed
n1          -     -      3  NOT VERIFIED: no answer\\u{1b}
n2          -     -      3  the node has no audit trail
";
        assert_eq!(text, expected);
    }
}
