//! `peal audit list` and `show`: records as tables and for programs.
use super::{filter, open, shown_time};
use crate::{
    args::{AuditList, AuditShow, AuditSource, OutputFormat},
    listing::{ListColumn, ListItem, listed, names},
    output, units, users,
};
use anyhow::{Context, Result};
use peal_audit::{AuditEntry, Gist, TrailSource, readable};
use peal_store::{Filter, TrailRow};
use serde_json::{Value, json};
use std::{
    io::{BufWriter, Write},
    process::ExitCode,
};

pub(super) fn list(args: AuditList) -> Result<ExitCode> {
    let (source, _) = open(args.source)?;
    let wanted = Filter {
        kinds: args.kind,
        ..filter(args.filter)
    };
    let most = if args.most == 0 { u32::MAX } else { args.most };
    let mut rows = source.last(&wanted, most)?;
    if let Some(order) = &args.order.sort {
        rows.sort_by_cached_key(|row| order.key(&RecordSummary::of(row)));
    }
    let format = args.format.output;
    // A program takes each line for a record.
    let is_table = matches!(format, OutputFormat::Text | OutputFormat::Wide);
    if rows.is_empty() && is_table {
        crate::print_line(
            "no record matches; `peal audit stats` lists the jobs, users, modules and outcomes",
        );
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = BufWriter::new(output::stdout());
    match format {
        OutputFormat::Data(form) => {
            for row in &rows {
                out.write_all(form.record(&record_json(row)?)?.as_bytes())?;
                // The reader has enough, as `head` does.
                if out.get_ref().is_closed() {
                    break;
                }
            }
        }
        OutputFormat::Name => {
            let numbers = rows.iter().map(|row| row.seq.to_string());
            out.write_all(names(numbers).as_bytes())?;
        }
        _ => {
            let rows: Vec<RecordSummary> = rows.iter().map(RecordSummary::of).collect();
            out.write_all(listed(&rows, format).as_bytes())?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show(args: AuditShow) -> Result<ExitCode> {
    let (source, _) = open(args.source)?;
    let row = record(&source, args.seq)?;
    let text = match args.format.output {
        OutputFormat::Data(form) => form.document(&record_json(&row)?)?,
        format => {
            let body = serde_json::to_string_pretty(&readable(&row.body)?)?;
            let summary = RecordSummary::of(&row);
            format!("{}{body}\n", listed(&[summary], format))
        }
    };
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Reads a record.
pub fn record(source: &TrailSource, seq: u64) -> Result<TrailRow> {
    source.row(seq)?.with_context(|| missing(source, seq))
}

/// Returns the summary of a record as JSON.
pub fn summary(row: &TrailRow) -> Value {
    let RecordSummary {
        seq,
        at,
        kind,
        module,
        outcome,
        uid,
        job,
        what,
        target,
        by,
        why,
        hash: _,
    } = RecordSummary::of(row);
    json!({
        "record": seq, "time": shown_time(at), "kind": kind, "module": module, "outcome": outcome,
        "uid": uid, "user": uid.and_then(users::name), "job": job, "what": what,
        "targets": target, "by": by, "why": why,
    })
}

/// Returns summaries of the last records that match.
pub fn summaries(source: AuditSource, wanted: &Filter, most: u32) -> Result<Vec<Value>> {
    let (source, _) = open(source)?;
    let rows = source.last(wanted, most)?;
    Ok(rows.iter().map(summary).collect())
}

fn missing(source: &TrailSource, seq: u64) -> String {
    let last = source
        .last(&Filter::default(), 1)
        .ok()
        .and_then(|mut rows| rows.pop());
    match last {
        Some(last) => format!("there is no record {seq}; the last one is {}", last.seq),
        None => "there are no records".to_owned(),
    }
}

/// Record in a list. A record that was altered has only the columns that can still be read.
pub struct RecordSummary {
    seq: u64,
    at: u64,
    kind: String,
    module: Option<String>,
    outcome: Option<String>,
    uid: Option<u32>,
    job: Option<String>,
    what: Option<String>,
    target: Option<String>,
    by: Option<String>,
    why: Option<String>,
    hash: String,
}

impl RecordSummary {
    fn of(row: &TrailRow) -> RecordSummary {
        let gist = match AuditEntry::read(&row.body) {
            Ok(entry) => entry.gist(row.module.as_deref()),
            Err(error) => Gist {
                why: error.to_string(),
                ..Gist::default()
            },
        };
        let given = |text: String| (!text.is_empty()).then_some(text);
        let procs = gist.procs();
        RecordSummary {
            seq: row.seq,
            at: row.at,
            kind: row.kind.clone(),
            module: row.module.clone().and_then(given),
            outcome: row.outcome.clone().and_then(given),
            uid: row.uid,
            job: row.job.clone().and_then(given),
            what: given(gist.what),
            target: given(procs),
            by: given(gist.by),
            why: given(gist.why),
            hash: peal_sandbox::Digest(row.hash).to_string(),
        }
    }
}

impl ListItem for RecordSummary {
    const COLUMNS: &'static [ListColumn<RecordSummary>] = &[
        ListColumn::<RecordSummary>::number(
            "record",
            |record| Some(record.seq as f64),
            units::count,
        ),
        ListColumn::<RecordSummary>::text("time", |record| shown_time(record.at)),
        ListColumn::<RecordSummary>::text("kind", |record| record.kind.clone()),
        ListColumn::<RecordSummary>::optional_text("module", |record| record.module.clone()).wide(),
        ListColumn::<RecordSummary>::optional_text("outcome", |record| record.outcome.clone()),
        ListColumn::<RecordSummary>::optional_text("user", |record| record.uid.map(users::shown)),
        ListColumn::<RecordSummary>::optional_text("job", |record| record.job.clone()),
        ListColumn::<RecordSummary>::optional_text("what", |record| record.what.clone()),
        ListColumn::<RecordSummary>::optional_text("target", |record| record.target.clone()),
        ListColumn::<RecordSummary>::optional_text("by", |record| record.by.clone()),
        ListColumn::<RecordSummary>::optional_text("why", |record| record.why.clone()),
        ListColumn::<RecordSummary>::text("hash", |record| record.hash.clone()).wide(),
    ];
}

/// Returns all fields of a record as JSON.
fn record_json(row: &TrailRow) -> Result<Value> {
    let TrailRow {
        seq,
        at,
        kind,
        module,
        job,
        uid,
        outcome,
        body,
        hash,
    } = row;
    let hash = peal_sandbox::Digest(*hash);
    Ok(json!({
        "seq": seq, "at": at, "time": shown_time(*at), "kind": kind, "module": module, "job": job, "uid": uid,
        "user": uid.and_then(users::name),
        "outcome": outcome, "entry": readable(body)?, "hash": hash,
    }))
}
