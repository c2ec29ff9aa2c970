//! `peal audit list` and `show`: records as tables and as lines of JSON.
use super::{filter, open, shown_time};
use crate::{
    args::{AuditList, AuditShow},
    table::{Side, table},
    units,
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
    let rows = source.last(&wanted, most)?;
    // A program that reads JSON takes each line for a record.
    if rows.is_empty() && !args.json {
        crate::print_line(
            "no record matches; `peal audit stats` lists the jobs, users, modules and outcomes",
        );
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = BufWriter::new(crate::output::stdout());
    if args.json {
        for row in &rows {
            writeln!(out, "{}", whole(row)?)?;
            // The reader has enough, as `head` does.
            if out.get_ref().is_closed() {
                break;
            }
        }
    } else {
        write!(out, "{}", text(&rows))?;
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show(args: AuditShow) -> Result<ExitCode> {
    let (source, _) = open(args.source)?;
    let row = source
        .row(args.seq)?
        .with_context(|| missing(&source, args.seq))?;
    let mut out = crate::output::stdout();
    if args.json {
        writeln!(out, "{}", whole(&row)?)?;
    } else {
        write!(out, "{}", text(std::slice::from_ref(&row)))?;
        serde_json::to_writer_pretty(&mut out, &readable(&row.body)?)?;
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
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

/// Formats records as a table.
fn text(rows: &[TrailRow]) -> String {
    let left = Side::Left;
    let right = Side::Right;
    let head = [
        ("record", right),
        ("time", left),
        ("kind", left),
        ("outcome", left),
        ("user", right),
        ("job", left),
        ("what", left),
        ("target", left),
        ("by", left),
        ("why", left),
    ];
    table(head, &rows.iter().map(cells).collect::<Vec<_>>())
}

/// Returns the cells of a record. A record that was altered has only the columns that can still be
/// read.
fn cells(row: &TrailRow) -> [String; 10] {
    let TrailRow {
        seq,
        at,
        kind,
        module,
        job,
        uid,
        outcome,
        body,
        ..
    } = row;
    let gist = match AuditEntry::read(body) {
        Ok(entry) => entry.gist(module.as_deref()),
        Err(error) => Gist {
            why: error.to_string(),
            ..Gist::default()
        },
    };
    let or_none = |text: String| {
        if text.is_empty() {
            "-".to_owned()
        } else {
            text
        }
    };
    let given = |text: &Option<String>| or_none(text.clone().unwrap_or_default());
    let user = uid.map_or("-".to_owned(), units::user);
    let (targets, Gist { what, by, why, .. }) = (gist.procs(), gist);
    [
        seq.to_string(),
        shown_time(*at),
        kind.clone(),
        given(outcome),
        user,
        given(job),
        or_none(what),
        or_none(targets),
        or_none(by),
        or_none(why),
    ]
}

/// Returns all fields of a record as JSON.
fn whole(row: &TrailRow) -> Result<Value> {
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
        "outcome": outcome, "entry": readable(body)?, "hash": hash,
    }))
}
