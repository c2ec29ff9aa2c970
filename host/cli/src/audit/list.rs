//! `peal audit list` and `show`: records for people, and as lines of JSON.
use super::{filter, open, shown_time};
use crate::args::{AuditList, AuditShow};
use anyhow::{Context, Result};
use peal_audit::{Source, readable};
use peal_store::{Filter, TrailRow};
use serde_json::{Value, json};
use std::{
    io::{BufWriter, Write},
    process::ExitCode,
};

pub(super) fn list(args: AuditList) -> Result<ExitCode> {
    let (source, _) = open(args.source)?;
    let wanted = Filter { kinds: args.kind, ..filter(args.filter) };
    let most = if args.most == 0 { u32::MAX } else { args.most };
    let mut out = BufWriter::new(crate::output::stdout());
    for row in source.last(&wanted, most)? {
        let text = if args.json { whole(&row)?.to_string() } else { line(&row) };
        writeln!(out, "{text}")?;
        if out.get_ref().is_closed() {
            break;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn show(args: AuditShow) -> Result<ExitCode> {
    let (source, _) = open(args.source)?;
    let row = source.row(args.seq)?.with_context(|| missing(&source, args.seq))?;
    let mut out = crate::output::stdout();
    if args.json {
        writeln!(out, "{}", whole(&row)?)?;
    } else {
        writeln!(out, "{}", line(&row))?;
        serde_json::to_writer_pretty(&mut out, &readable(&row.body)?)?;
        writeln!(out)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn missing(source: &Source, seq: u64) -> String {
    let last = source.last(&Filter::default(), 1).ok().and_then(|mut rows| rows.pop());
    match last {
        Some(last) => format!("there is no record {seq}; the last one is {}", last.seq),
        None => "there are no records".to_owned(),
    }
}

/// One record on one line.
fn line(row: &TrailRow) -> String {
    let TrailRow { seq, at, kind, module, job, uid, outcome, .. } = row;
    let mut line = format!("{seq:>8}  {}  {kind:<11}", shown_time(*at));
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            line.push_str(&format!(" {name}={}", value.escape_debug()));
        }
    };
    add("module", module.clone());
    add("job", job.clone());
    add("user", uid.map(|uid| uid.to_string()));
    add("outcome", outcome.clone());
    line
}

/// All that is known of one.
fn whole(row: &TrailRow) -> Result<Value> {
    let TrailRow { seq, at, kind, module, job, uid, outcome, body, hash } = row;
    let hash = peal_sandbox::Digest(*hash);
    Ok(json!({
        "seq": seq, "at": at, "time": shown_time(*at), "kind": kind, "module": module, "job": job, "uid": uid,
        "outcome": outcome, "entry": readable(body)?, "hash": hash,
    }))
}
