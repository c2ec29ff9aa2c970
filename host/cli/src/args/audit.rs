//! The command line of `peal audit`.
use super::{ConfigArgs, number::whole};
use clap::{Args as ClapArgs, Subcommand};
use nix::unistd::User;
use peal_audit::{OUTCOMES, kind};
use peal_config::{nearest, words};
use peal_sandbox::LimitKind;
use std::path::PathBuf;

/// `peal audit`.
#[derive(Subcommand)]
pub enum AuditCommand {
    /// List what was recorded, the latest last
    #[command(after_help = LIST_EXAMPLES)]
    List(AuditList),
    /// Show one record with all that is known of it
    Show(AuditShow),
    /// Write records as lines of JSON, to be verified and replayed elsewhere
    ///
    /// Each record is there with its exact bytes (CBOR, RFC 8949), and what records refer to is there as well: components and
    /// what their modules were granted. A part of a trail replays; as a whole it also verifies.
    Export(AuditExport),
    /// Find out whether somebody has changed the trail, and what
    ///
    /// Each record's hash follows from all that it says and from the record before; the last one and some on the way are sealed
    /// with a key. Exit status: 0 if all is as it was written, 1 if not, 125 if that cannot be found out.
    #[command(after_help = VERIFY_NOTES)]
    Verify(AuditVerify),
    /// Count what was recorded: by module, by user, by outcome
    Stats(AuditStats),
    /// Call components again as they were called, and compare
    ///
    /// Each instance is called again from its first call on, with the answers that it had from the host; nothing outside is
    /// reached. With --with, another component is called in the place of those recorded: what would have come of all that?
    /// Exit status: 0 if all is the same, 1 if something differs, 125 if nothing can be replayed.
    #[command(after_help = REPLAY_EXAMPLES)]
    Replay(AuditReplay),
    /// Write a page that shows what was recorded: modules and what they reach, decisions, denials, failures
    ///
    /// One file of HTML that needs nothing else, neither a network nor scripts. Whatever stands in records is text on it.
    #[command(after_help = REPORT_EXAMPLES)]
    Report(AuditReport),
}

const LIST_EXAMPLES: &str = "\
Examples:
  peal audit list --kind decision --outcome denied --since 1h
  peal audit list --module quota --user alice --json
  peal audit list --from trail.jsonl --job job-7@node1";

const VERIFY_NOTES: &str = "\
Whoever can write the database and read the key (root) can make a trail that verifies. Checkpoints that were sent elsewhere
(audit.checkpoint_file, audit.checkpoint_syslog) tell of that, with --checkpoints: files with such lines, whatever else is in them.
What a server has put into its journal and not yet into the database is not sealed: of that it is only said how much there is.

Examples:
  peal audit verify --config /etc/peal/peal.toml
  peal audit verify --from trail.jsonl --key audit.key.pub --checkpoints /mnt/log/peal.checkpoints";

const REPLAY_EXAMPLES: &str = "\
Examples:
  peal audit replay 4711
  peal audit replay 4000..5000 --module quota
  peal audit replay --module quota --with quota-2.wasm --since 1d";

const REPORT_EXAMPLES: &str = "\
Examples:
  peal audit report --html report.html --since 7d
  peal audit report --html - --from trail.jsonl --job job-7@node1 > report.html";

/// Where records are read from.
#[derive(ClapArgs, Clone)]
pub struct AuditSource {
    /// The database of a trail, or what `peal audit export` wrote; without it audit.path of the configuration. It may be in use
    #[arg(long = "from", value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub from: Option<PathBuf>,
    /// Where the configuration comes from.
    #[command(flatten)]
    pub config: ConfigArgs,
}

/// Which records are wanted.
#[derive(ClapArgs, Clone, Default)]
pub struct AuditFilter {
    /// From this time on: as long ago as `30s`, `10m`, `2h` or `7d`, or a time such as 2026-11-22T10:00:00Z
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub since: Option<u64>,
    /// Up to this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub until: Option<u64>,
    /// About requests and events of this job
    #[arg(long, value_name = "NAMESPACE")]
    pub job: Option<String>,
    /// Of this user, by name or number
    #[arg(long, value_name = "USER", value_parser = user)]
    pub user: Option<u32>,
    /// About this module
    #[arg(long, value_name = "NAME")]
    pub module: Option<String>,
    /// With this outcome: granted or denied of a request; pass, grant or deny of a policy; status, done, init or failed of another
    /// call; where one says more as well, as in `denied:PMIX_ERR_NO_PERMISSIONS` or `failed:fuel`
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    pub outcome: Option<String>,
}

/// `peal audit list`.
#[derive(ClapArgs)]
pub struct AuditList {
    /// Where from.
    #[command(flatten)]
    pub source: AuditSource,
    /// Which.
    #[command(flatten)]
    pub filter: AuditFilter,
    /// Only records of this kind
    #[arg(long, value_name = "KIND", value_parser = clap::builder::PossibleValuesParser::new(kind::ALL))]
    pub kind: Vec<String>,
    /// At most so many, the latest; 0 for all
    #[arg(short = 'n', long, value_name = "N", default_value_t = 50, value_parser = whole(0..=u32::MAX))]
    pub most: u32,
    /// Print a line of JSON for each, with all that is known
    #[arg(long)]
    pub json: bool,
}

/// `peal audit show`.
#[derive(ClapArgs)]
pub struct AuditShow {
    /// The number of the record
    #[arg(value_name = "NUMBER", value_parser = whole(1..=u64::MAX))]
    pub seq: u64,
    /// Where from.
    #[command(flatten)]
    pub source: AuditSource,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal audit export`.
#[derive(ClapArgs)]
pub struct AuditExport {
    /// Where from.
    #[command(flatten)]
    pub source: AuditSource,
    /// Which.
    #[command(flatten)]
    pub filter: AuditFilter,
    /// The file to write; standard output without it. One that is there is not written over
    #[arg(short, long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub output: Option<PathBuf>,
}

/// `peal audit verify`.
#[derive(ClapArgs)]
pub struct AuditVerify {
    /// Where from.
    #[command(flatten)]
    pub source: AuditSource,
    /// The public key, or a file with it; without it that beside audit.key
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// A file with checkpoints that were kept elsewhere
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub checkpoints: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal audit stats`.
#[derive(ClapArgs)]
pub struct AuditStats {
    /// Where from.
    #[command(flatten)]
    pub source: AuditSource,
    /// Which.
    #[command(flatten)]
    pub filter: AuditFilter,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `peal audit replay`.
#[derive(ClapArgs)]
pub struct AuditReplay {
    /// A record, or a range of them as in 100..200; all without it
    #[arg(value_name = "NUMBER|RANGE", value_parser = range)]
    pub range: Option<(u64, u64)>,
    /// Where from.
    #[command(flatten)]
    pub source: AuditSource,
    /// Which.
    #[command(flatten)]
    pub filter: AuditFilter,
    /// A component that is called in the place of those that were
    #[arg(long, value_name = "FILE.wasm", value_hint = clap::ValueHint::FilePath)]
    pub with: Option<PathBuf>,
    /// At most so many differences are shown; they are all counted
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = whole(0..=u64::MAX))]
    pub most: u64,
    /// Print a line of JSON for each call
    #[arg(long)]
    pub json: bool,
}

/// `peal audit report`.
#[derive(ClapArgs)]
pub struct AuditReport {
    /// The page to write; - for standard output. One that is there is not written over
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath)]
    pub html: PathBuf,
    /// Where from.
    #[command(flatten)]
    pub source: AuditSource,
    /// Which.
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
            (from, to) if from <= to => Ok((from, to)),
            (from, to) => Err(format!(
                "a range goes from the smaller to the larger number, not from {from} to {to}"
            )),
        },
    }
}

/// An outcome as it is recorded.
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
    // As records show it, a status has its number behind its name.
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
                "nothing more is said of {word}: leave out {:?}",
                format!(":{detail}")
            ));
        }
    };
    Ok(format!("{word}:{detail}"))
}

/// A user's number; a name is looked up.
fn user(text: &str) -> Result<u32, String> {
    if let Ok(uid) = text.parse() {
        return Ok(uid);
    }
    match User::from_name(text) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!(
            "there is no user {text:?} here; a number is taken as it is"
        )),
        Err(error) => Err(format!("user {text:?} cannot be looked up: {error}")),
    }
}

/// Milliseconds since the epoch.
fn time(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "{text:?} is neither as long ago as 30s, 10m, 2h or 7d, nor a time such as 2026-11-22T10:00:00Z"
        )
    };
    let of = |time: std::time::SystemTime| {
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
