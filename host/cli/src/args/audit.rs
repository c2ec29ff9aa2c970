//! Command line of `peal audit`.
use super::{
    ConfigArgs, FactFormats, OutputArgs, RecordFormats, SortArgs, StreamFormats,
    cluster::{node_name, seconds},
    number::whole,
};
use crate::audit::RecordSummary;
use clap::{Args as ClapArgs, Subcommand};
use peal_audit::{OUTCOMES, kind};
use peal_config::{nearest, words};
use peal_model::NodeName;
use peal_sandbox::LimitKind;
use std::{path::PathBuf, time::Duration};

/// `peal audit`.
#[derive(Subcommand)]
pub enum AuditCommand {
    /// List records, the latest last
    #[command(after_help = LIST_EXAMPLES)]
    List(AuditList),
    /// Show all data of one record
    Show(AuditShow),
    /// Export records as lines of JSON, for verification and replay on another machine
    ///
    /// The export contains the exact bytes of each record (CBOR, RFC 8949), and the components and
    /// grants that records refer to. Replay works with a part of a trail, verification with the
    /// whole trail.
    Export(AuditExport),
    /// Detect changes to the trail
    ///
    /// The hash of a record covers its content and the hash of the previous record. A key seals the
    /// last hash and some earlier ones. Exit status: 0 if the trail is unchanged, 1 if it was
    /// changed, 3 if --cluster found no change and not all nodes answered, 125 if verification is
    /// impossible.
    #[command(after_help = VERIFY_NOTES)]
    Verify(AuditVerify),
    /// Count records by module, user and outcome
    Stats(AuditStats),
    /// Repeat recorded calls of components and compare the results
    ///
    /// Repeats all calls of each instance with the recorded results of its host calls, without
    /// access to anything else. With --with, another component replaces the recorded ones. Exit
    /// status: 0 without differences, 1 with differences, 125 if nothing can be replayed.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(AuditReplay),
    /// Write an HTML report of the records: modules and their capabilities, decisions, denials,
    /// failures
    ///
    /// The report is one HTML file without scripts or external resources. All content of records is
    /// escaped.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(AuditReport),
}

const LIST_EXAMPLES: &str = "\
Examples:
  peal audit list --kind decision --outcome denied --since 1h
  peal audit list --module quota --user alice -o json
  peal audit list --from trail.jsonl --job job-7@node1";

const VERIFY_NOTES: &str = "\
A user who can write the database and read the key (root) can forge a trail that verifies. Checkpoints on another machine
(audit.checkpoint_file, audit.checkpoint_syslog) detect this: pass them with --checkpoints, in files that may contain other lines.
Records in the journal that are not in the database yet are not sealed; only their number is printed.

A server in a cluster sends seals of its trail to NATS servers, where nobody may delete them. --cluster reads [cluster] of the
configuration and connects with the key of this node, as `peal cluster status` does. It asks the server of each node to verify its
trail and to compare it with the seals that the cluster has of it. It names nodes whose trail was cut, replaced by another or an
older one, or is not there any more, and nodes that did not answer. A server that was taken over may lie: verify a copy of its trail
with --trails. A copy must be later than the seals: stop the server, or export.

Examples:
  peal audit verify --config /etc/peal/peal.toml
  peal audit verify --from trail.jsonl --key audit.key.pub --checkpoints /mnt/log/peal.checkpoints
  peal audit verify --cluster -o json | jq -r '.nodes[] | select(.state != \"intact\").node'
  peal audit verify --cluster --trails /mnt/trails --node n1 --node n2";

const REPLAY_EXAMPLES: &str = "\
Examples:
  peal audit replay 4711
  peal audit replay 4000..5000 --module quota
  peal audit replay --module quota --with quota-2.wasm --since 1d";

const REPORT_EXAMPLES: &str = "\
Examples:
  peal audit report --html report.html --since 7d
  peal audit report --html - --from trail.jsonl --job job-7@node1 > report.html";

/// Options that select the source of records.
#[derive(ClapArgs, Clone)]
pub struct AuditSource {
    /// Read records from FILE, a database (which may be in use) or an export; default: audit.path
    /// of the configuration
    #[arg(long = "from", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub from: Option<PathBuf>,
    /// Source of the configuration.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Options that select records.
#[derive(ClapArgs, Clone, Default)]
pub struct AuditFilter {
    /// Select records since TIME: an age (30s, 10m, 2h, 7d) or a time (2026-11-22T10:00:00Z)
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<u64>,
    /// Select records until TIME, as for --since
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<u64>,
    /// Select records about requests and events of the job NAMESPACE
    #[arg(long, value_name = "NAMESPACE")]
    pub job: Option<String>,
    /// Select records of USER, by name or number
    #[arg(long, value_name = "USER", value_parser = crate::users::find)]
    pub user: Option<u32>,
    /// Select records about the module NAME
    #[arg(long, value_name = "NAME")]
    pub module: Option<String>,
    /// Select records with OUTCOME: granted or denied for a request; pass, grant or deny for a
    /// policy; status, done, init or failed for another call; with optional detail, as in
    /// `denied:PMIX_ERR_NO_PERMISSIONS` or `failed:fuel`
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    pub outcome: Option<String>,
}

/// `peal audit list`.
#[derive(ClapArgs)]
pub struct AuditList {
    /// Source of the records.
    #[command(flatten)]
    pub source: AuditSource,
    /// Selection of the records.
    #[command(flatten)]
    pub filter: AuditFilter,
    /// Select records of KIND
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(kind::ALL))]
    pub kind: Vec<String>,
    /// List the latest N records at most; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole(0..=u32::MAX))]
    pub most: u32,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<RecordFormats>,
    /// Order of the records.
    #[command(flatten)]
    pub order: SortArgs<RecordSummary>,
}

/// `peal audit show`.
#[derive(ClapArgs)]
pub struct AuditShow {
    /// Number of the record
    #[arg(value_name = "NUMBER", value_parser = whole(1..=u64::MAX))]
    pub seq: u64,
    /// Source of the records.
    #[command(flatten)]
    pub source: AuditSource,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// `peal audit export`.
#[derive(ClapArgs)]
pub struct AuditExport {
    /// Source of the records.
    #[command(flatten)]
    pub source: AuditSource,
    /// Selection of the records.
    #[command(flatten)]
    pub filter: AuditFilter,
    /// Write to FILE, which must not exist; default: standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub file: Option<PathBuf>,
}

/// `peal audit verify`.
#[derive(ClapArgs)]
pub struct AuditVerify {
    /// Source of the records.
    #[command(flatten)]
    pub source: AuditSource,
    /// Verify with the public KEY, or the file that contains it; default: the public key beside
    /// audit.key
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Compare with the published checkpoints in FILE
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub checkpoints: Vec<PathBuf>,
    /// Verify the trails of all nodes of the cluster, and compare them with the seals that the cluster
    /// has stored
    #[arg(long, conflicts_with_all = ["from", "key", "checkpoints"])]
    pub cluster: bool,
    /// Verify copies of the trails here: DIR/NODE.db or DIR/NODE.jsonl, with the key in DIR/NODE.pub;
    /// default: each node verifies its own
    #[arg(long, value_name = "DIR", requires = "cluster", value_hint = clap::ValueHint::DirPath)]
    pub trails: Option<PathBuf>,
    /// Verify NODE only; may be repeated
    #[arg(long, value_name = "NODE", requires = "cluster", value_parser = node_name)]
    pub node: Vec<NodeName>,
    /// Compare with the seals since TIME only, such as that of a new trail on a node: an age (30s, 10m,
    /// 2h, 7d) or a time (2026-11-22T10:00:00Z)
    #[arg(long, value_name = "TIME", requires = "cluster", value_parser = time)]
    pub since: Option<u64>,
    /// Wait for answers of nodes for SECONDS at most
    #[arg(long, value_name = "SECONDS", requires = "cluster", default_value = "60", value_parser = seconds)]
    pub timeout: Duration,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// `peal audit stats`.
#[derive(ClapArgs)]
pub struct AuditStats {
    /// Source of the records.
    #[command(flatten)]
    pub source: AuditSource,
    /// Selection of the records.
    #[command(flatten)]
    pub filter: AuditFilter,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<FactFormats>,
}

/// `peal audit replay`.
#[derive(ClapArgs)]
pub struct AuditReplay {
    /// Record number, or a range as in 100..200; default: all
    #[arg(value_name = "NUMBER|RANGE", value_parser = range)]
    pub range: Option<(u64, u64)>,
    /// Source of the records.
    #[command(flatten)]
    pub source: AuditSource,
    /// Selection of the records.
    #[command(flatten)]
    pub filter: AuditFilter,
    /// Call the component FILE.wasm in place of the recorded ones
    #[arg(long, value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub with: Option<PathBuf>,
    /// Show N differences at most; all are counted
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = whole(0..=u64::MAX))]
    pub most: u64,
    /// Format of the output.
    #[command(flatten)]
    pub format: OutputArgs<StreamFormats>,
}

/// `peal audit report`.
#[derive(ClapArgs)]
pub struct AuditReport {
    /// Write the report to FILE, which must not exist; - for standard output
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub html: PathBuf,
    /// Source of the records.
    #[command(flatten)]
    pub source: AuditSource,
    /// Selection of the records.
    #[command(flatten)]
    pub filter: AuditFilter,
}

fn range(text: &str) -> Result<(u64, u64), String> {
    let number = |text: &str| {
        text.parse()
            .map_err(|_| format!("{text:?} is not the number of a record"))
    };
    match text.split_once("..") {
        None => number(text).map(|seq| (seq, seq)),
        Some((from, to)) => match (number(from)?, number(to)?) {
            // An empty range would look like a trail without records.
            (from, to) if from <= to => Ok((from, to)),
            (from, to) => Err(format!(
                "a range goes from the smaller to the larger number, not from {from} to {to}"
            )),
        },
    }
}

/// Parses an outcome to its recorded form.
fn outcome(text: &str) -> Result<String, String> {
    let (word, detail) = text
        .split_once(':')
        .map_or((text, None), |(word, detail)| (word, Some(detail)));
    if !OUTCOMES.contains(&word) {
        return Err(match nearest(word, OUTCOMES) {
            Some(near) => format!("there is no outcome {word:?}; did you mean `{near}`?"),
            None => format!(
                "there is no outcome {word:?}; there are {}",
                OUTCOMES.join(", ")
            ),
        });
    }
    // Lists of records print a status as its name and its number in parentheses.
    let Some(detail) = detail.and_then(|detail| detail.split(" (").next()) else {
        return Ok(word.to_owned());
    };
    let limits = LimitKind::ALL.map(LimitKind::name);
    let detail = match word {
        "failed" if limits.contains(&detail) => detail.to_owned(),
        "failed" | "denied" | "deny" | "status" => words::status(detail)
            .map(|status| status.to_string())
            .map_err(|error| {
                let near = nearest(detail, limits).filter(|_| word == "failed");
                near.map_or(error.to_string(), |near| {
                    format!("no limit is called {detail:?}; did you mean `{near}`?")
                })
            })?,
        "init" if detail == "refused" => detail.to_owned(),
        _ => {
            return Err(format!(
                "outcome {word} has no detail: leave out {:?}",
                format!(":{detail}")
            ));
        }
    };
    Ok(format!("{word}:{detail}"))
}

/// Parses a time to milliseconds since the epoch.
fn time(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is neither as long ago as 30s, 10m, 2h or 7d, nor a time such as 2026-11-22T10:00:00Z"
        )
    };
    let of = |time: std::time::SystemTime| {
        // Records have no times before the epoch.
        let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    };
    let ago = humantime::parse_duration(text)
        .ok()
        .and_then(|ago| std::time::SystemTime::now().checked_sub(ago));
    ago.or_else(|| humantime::parse_rfc3339_weak(text).ok())
        .and_then(of)
        .ok_or_else(wrong)
}
