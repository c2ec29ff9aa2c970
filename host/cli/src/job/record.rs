//! `peal job record`: record of a job, in order of time.
use crate::{
    args::{ConfigArgs, JobRecordArgs, OutputFormat},
    cluster::{
        NodeReply, NodeRequest,
        nodes::{NodeReplies, as_json, ask_all, of_kind, report_silent},
    },
    config, output, plain, supervisor,
};
use anyhow::{Result, bail};
use peal_audit::shown_time as time;
use peal_model::{Nspace, counted};
use peal_store::{JobEntryKind, JobRecord, JobRecordEntry, Store, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

/// Recorded job with its entries. Times are in seconds since the epoch.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct RecordedJob {
    nspace: String,
    size: u32,
    command: String,
    started: u64,
    /// Time and exit status of the end.
    ended: Option<(u64, i32)>,
    /// Ends of procs, by rank.
    procs: Vec<(u32, String)>,
    entries: Vec<RecordedEntry>,
}

/// Entry of a record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
struct RecordedEntry {
    /// Time in milliseconds since the epoch.
    at: u64,
    kind: String,
    rank: Option<u32>,
    body: String,
}

impl RecordedJob {
    /// Reads the record of a job. Blocks.
    pub fn read(store: &Store, nspace: &Nspace) -> Result<Option<RecordedJob>, StoreError> {
        let Some(record) = store.job(nspace)? else {
            return Ok(None);
        };
        let JobRecord {
            nspace: name,
            size,
            command,
            started,
            ended,
            procs,
        } = record;
        let entry = |entry: JobRecordEntry| RecordedEntry {
            at: entry.at,
            kind: entry.kind.name().to_owned(),
            rank: entry.rank.map(|rank| rank.0),
            body: entry.body.to_string(),
        };
        Ok(Some(RecordedJob {
            nspace: name,
            size,
            command,
            started,
            ended,
            procs: procs.into_iter().map(|(rank, end)| (rank.0, end)).collect(),
            entries: store.job_entries(nspace)?.into_iter().map(entry).collect(),
        }))
    }
}

/// Prints the record.
pub fn record(args: JobRecordArgs) -> Result<ExitCode> {
    if args.nodes.cluster {
        return of_nodes(args);
    }
    let StoreOfSite { store, path } = open_store(args.config)?;
    let Some(record) = RecordedJob::read(&store, &args.nspace)? else {
        bail!(
            "the store {} has no record of job {:?}",
            path.display(),
            args.nspace
        )
    };
    match args.format.output {
        OutputFormat::Data(form) => output::print(&form.document(&record_json(&record))?)?,
        _ => print(&mut output::stdout(), &record)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Store of a configuration.
struct StoreOfSite {
    store: Store,
    path: PathBuf,
}

/// Opens the store in which servers keep records.
fn open_store(sources: ConfigArgs) -> Result<StoreOfSite> {
    let config = config::load_sections(sources, &["store"])?;
    let Some(path) = config.store.path.clone() else {
        bail!(
            "there is no record without a store: set store.path, as the server that runs the job has it"
        )
    };
    // Opening a store that is missing would create it.
    if !path.exists() {
        bail!(
            "there is no store at {}: no server has kept a record there",
            path.display()
        );
    }
    let settings = config::store_settings(&config);
    let store = supervisor::as_owner_of(&path, || Store::open(&path, settings))??;
    Ok(StoreOfSite { store, path })
}

/// Returns the record of a job as JSON, if there is one.
pub fn recorded(sources: ConfigArgs, nspace: &Nspace) -> Result<Option<Value>> {
    let store = open_store(sources)?.store;
    let record = RecordedJob::read(&store, nspace)?;
    Ok(record.as_ref().map(record_json))
}

/// Prints the records of the job at all nodes that have one.
fn of_nodes(args: JobRecordArgs) -> Result<ExitCode> {
    let request = NodeRequest::JobRecord {
        nspace: args.nspace.clone(),
    };
    let replies = ask_all(args.config, &request, args.nodes.timeout)?;
    let replies: NodeReplies<Option<RecordedJob>> = of_kind(replies, |reply| match reply {
        NodeReply::JobRecord { record } => Some(record),
        _ => None,
    });
    let mut out = output::stdout();
    if let OutputFormat::Data(form) = args.format.output {
        let record = |record: &Option<RecordedJob>| json!(record.as_ref().map(record_json));
        let told = form.document(&as_json(&replies, "record", record))?;
        out.write_all(told.as_bytes())?;
    } else {
        for (node, reply) in &replies {
            if let Ok(Some(record)) = reply {
                writeln!(out, "node {node}")?;
                print(&mut out, record)?;
            }
        }
    }
    out.flush()?;
    let has_record = replies.values().flatten().any(Option::is_some);
    let silent = report_silent(&replies);
    if !has_record && silent == ExitCode::SUCCESS {
        bail!(
            "no node of the cluster has a record of job {:?}",
            args.nspace
        );
    }
    Ok(silent)
}

fn record_json(record: &RecordedJob) -> Value {
    let procs: Vec<Value> = record
        .procs
        .iter()
        .map(|(rank, how)| json!({ "rank": rank, "end": how }))
        .collect();
    let entries: Vec<Value> = record.entries.iter().map(entry_json).collect();
    json!({
        "nspace": record.nspace, "size": record.size, "command": record.command,
        "started": time(record.started.saturating_mul(1000)),
        "ended": record.ended.map(|(at, _)| time(at.saturating_mul(1000))),
        "exit_status": record.ended.map(|(_, status)| status), "procs": procs, "entries": entries,
    })
}

fn entry_json(entry: &RecordedEntry) -> Value {
    json!({ "time": time(entry.at), "kind": entry.kind, "rank": entry.rank, "body": body(entry) })
}

/// Returns the body as JSON; a body that was altered is returned as a string.
fn body(entry: &RecordedEntry) -> Value {
    serde_json::from_str(&entry.body).unwrap_or_else(|_| Value::String(entry.body.clone()))
}

fn print(out: &mut impl Write, record: &RecordedJob) -> io::Result<()> {
    let RecordedJob {
        nspace,
        size,
        command,
        started,
        ended,
        procs,
        entries,
    } = record;
    line(
        out,
        // Starts and ends are stored in seconds, entries in milliseconds.
        started.saturating_mul(1000),
        "start",
        None,
        &format!("job {nspace} of {}: {command}", counted(*size, "proc")),
    )?;
    for entry in entries {
        let body = body(entry);
        line(
            out,
            entry.at,
            &plain(&entry.kind),
            entry.rank,
            &summarized(JobEntryKind::of(&entry.kind), &body),
        )?;
    }
    // The times at which procs ended are not recorded.
    for (rank, how) in procs {
        writeln!(out, "{:<24} {:<8} {:>5}  {}", "", "proc", rank, plain(how))?;
    }
    match ended {
        Some((at, status)) => line(
            out,
            at.saturating_mul(1000),
            "end",
            None,
            &format!("exit status {status}"),
        ),
        None => writeln!(
            out,
            "{:<24} {:<8} {:>5}  it runs, or its server was killed",
            "", "", ""
        ),
    }
}

fn line(
    out: &mut impl Write,
    at: u64,
    kind: &str,
    rank: Option<u32>,
    text: &str,
) -> io::Result<()> {
    let rank = rank.map(|rank| rank.to_string()).unwrap_or_default();
    writeln!(out, "{:<24} {kind:<8} {rank:>5}  {}", time(at), plain(text))
}

/// Summarizes an entry.
fn summarized(kind: JobEntryKind, body: &Value) -> String {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let gist = match kind {
        JobEntryKind::Log => text("text").map(|text| match body.get("data") {
            Some(data) => format!("{text}  {data}"),
            None => text.to_owned(),
        }),
        JobEntryKind::Event => body.get("code").map(|code| {
            let name = code.get("name").and_then(Value::as_str).map(str::to_owned);
            let name = name
                .unwrap_or_else(|| code.get("number").map(Value::to_string).unwrap_or_default());
            format!(
                "{name} from {}",
                text("source").unwrap_or("the resource manager")
            )
        }),
        JobEntryKind::Control => match (text("action"), text("request")) {
            (Some(action), _) => {
                let by = text("requester")
                    .map(|by| format!(" by {by}"))
                    .unwrap_or_default();
                let status = text("status").or(text("because")).unwrap_or_default();
                Some(format!("{action}{by}: {status}"))
            }
            (None, Some(request)) => Some(format!(
                "handler {} requests: {request}",
                text("handler").unwrap_or_default()
            )),
            (None, None) => None,
        },
        JobEntryKind::Gap => match (body.get("entries"), body.get("notices")) {
            (Some(entries), _) => Some(format!(
                "{entries} entries are missing, there was no room for them"
            )),
            (None, Some(notices)) => Some(format!(
                "{notices} notices are missing, perhaps of this job"
            )),
            (None, None) => None,
        },
    };
    // An entry without the expected fields is shown whole.
    gist.unwrap_or_else(|| body.to_string())
}
