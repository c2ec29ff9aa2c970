//! `peal job record`: record of a job, in order of time.
use crate::{args::JobRecordArgs, config, plain, supervisor};
use anyhow::{Result, bail};
use peal_audit::shown_time as time;
use peal_model::counted;
use peal_store::{JobEntryKind, JobRecord, JobRecordEntry, Store};
use serde_json::{Value, json};
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// Prints the record.
pub fn record(args: JobRecordArgs) -> Result<ExitCode> {
    let config = config::load_sections(args.config, &["store"])?;
    let Some(path) = &config.store.path else {
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
    let store = supervisor::as_owner_of(path, || Store::open(path, settings))??;
    let Some(record) = store.job(&args.nspace)? else {
        bail!(
            "the store {} has no record of job {:?}",
            path.display(),
            args.nspace
        )
    };
    let entries = store.job_entries(&args.nspace)?;
    let mut out = crate::output::stdout();
    if args.json {
        let entries = entries.iter().map(entry_json).collect::<Vec<_>>();
        serde_json::to_writer_pretty(&mut out, &record_json(&record, entries))?;
        writeln!(out)?;
    } else {
        print(&mut out, &record, &entries)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn record_json(record: &JobRecord, entries: Vec<Value>) -> Value {
    let procs: Vec<Value> = record
        .procs
        .iter()
        .map(|(rank, how)| json!({ "rank": rank.0, "end": how }))
        .collect();
    json!({
        "nspace": record.nspace, "size": record.size, "command": record.command,
        "started": time(record.started * 1000), "ended": record.ended.map(|(at, _)| time(at * 1000)),
        "exit_status": record.ended.map(|(_, status)| status), "procs": procs, "entries": entries,
    })
}

fn entry_json(entry: &JobRecordEntry) -> Value {
    let rank = entry.rank.map(|rank| rank.0);
    json!({ "time": time(entry.at), "kind": entry.kind.name(), "rank": rank, "body": body(entry) })
}

/// Returns the body as JSON; a body that was altered is returned as a string.
fn body(entry: &JobRecordEntry) -> Value {
    serde_json::from_str(&entry.body).unwrap_or_else(|_| Value::String(entry.body.to_string()))
}

fn print(out: &mut impl Write, record: &JobRecord, entries: &[JobRecordEntry]) -> io::Result<()> {
    let JobRecord {
        nspace,
        size,
        command,
        started,
        ended,
        procs,
    } = record;
    line(
        out,
        // Starts and ends are stored in seconds, entries in milliseconds.
        started * 1000,
        "start",
        None,
        &format!("job {nspace} of {}: {command}", counted(*size, "proc")),
    )?;
    for entry in entries {
        let rank = entry.rank.map(|rank| rank.0);
        let body = body(entry);
        line(
            out,
            entry.at,
            entry.kind.name(),
            rank,
            &summarized(entry.kind, &body),
        )?;
    }
    // The times at which procs ended are not recorded.
    for (rank, how) in procs {
        writeln!(
            out,
            "{:<24} {:<8} {:>5}  {}",
            "",
            "proc",
            rank.0,
            plain(how)
        )?;
    }
    match ended {
        Some((at, status)) => line(
            out,
            at * 1000,
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
