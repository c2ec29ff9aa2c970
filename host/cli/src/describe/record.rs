//! `peal describe denial` and `event`: what the audit trail has about a request or an event.
use super::DescribedParts;
use crate::{args::DescribeRecord, audit};
use anyhow::{Context, Result, bail};
use peal_audit::{
    AuditEntry, AuditError, CallEntry, DecisionEntry, DecisionKind, TrailSource, kind, readable,
};
use peal_sandbox::CallSubject;
use peal_server::admin::WatchedEvent;
use peal_store::{Filter, TrailRow};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Time before and after a record in which calls about the same request or event are looked for, in
/// milliseconds.
const NEIGHBOURHOOD_MS: u64 = 600_000;

/// Describes a denial.
pub(super) fn denial(args: DescribeRecord) -> Result<ExitCode> {
    let (source, _) = audit::open(args.source)?;
    let row = audit::record(&source, args.seq)?;
    let entry = AuditEntry::read(&row.body)?;
    let calls = match &entry {
        AuditEntry::Decision(decision) if is_denied(decision) => {
            // Each run of the server counts its requests anew.
            let run = run_of(&source, &row)?;
            let is_about = |subject: &CallSubject| matches!(subject, CallSubject::Policy(policy) if policy.number == decision.request_number);
            calls(&source, &row, |call| {
                run.is_none_or(|run| call.run == run) && is_about(&call.record.subject)
            })?
        }
        AuditEntry::Denied(_) | AuditEntry::Refusals(_) => Vec::new(),
        _ => {
            let outcome = row.outcome.as_deref().unwrap_or("none");
            bail!(
                "record {} is no denial: its kind is {}, its outcome {outcome}; `peal audit list --outcome denied` lists denials",
                row.seq,
                row.kind
            );
        }
    };
    let mut told = DescribedParts::default();
    told.add("denial", audit::summary(&row))?;
    told.add("policies", calls)?;
    told.add("record", readable(&row.body)?)?;
    told.print(args.format.output)
}

/// Returns the run of the server that made a record: the record at which it began, if that is kept.
fn run_of(source: &TrailSource, row: &TrailRow) -> Result<Option<u64>> {
    let began = Filter {
        to: Some(row.seq),
        kinds: vec![kind::BEGAN.to_owned()],
        ..Filter::default()
    };
    let last = source.last(&began, 1)?.pop();
    Ok(last.map(|began| began.seq))
}

fn is_denied(decision: &DecisionEntry) -> bool {
    matches!(decision.verdict, DecisionKind::Denied(_))
}

/// Describes an event.
pub(super) fn event(args: DescribeRecord) -> Result<ExitCode> {
    let (source, _) = audit::open(args.source)?;
    let row = audit::record(&source, args.seq)?;
    let entry = AuditEntry::read(&row.body)?;
    let AuditEntry::Call(of) = &entry else {
        bail!(no_call(&row));
    };
    let CallSubject::Event(about) = &of.record.subject else {
        bail!(no_call(&row));
    };
    let calls = calls(&source, &row, |call| {
        let is_same = |subject: &CallSubject| matches!(subject, CallSubject::Event(event) if event.number == about.number);
        call.run == of.run && is_same(&call.record.subject)
    })?;
    let mut told = DescribedParts::default();
    told.add("event", WatchedEvent::of(&about.event))?;
    told.add("number", about.number)?;
    told.add("handlers", calls)?;
    told.print(args.format.output)
}

fn no_call(row: &TrailRow) -> String {
    format!(
        "record {} is no call for an event; `peal audit list --kind call` lists calls",
        row.seq
    )
}

/// Returns the calls near a record that are about the same, in their order.
fn calls(
    source: &TrailSource,
    row: &TrailRow,
    is_meant: impl Fn(&CallEntry) -> bool,
) -> Result<Vec<Value>> {
    let wanted = Filter {
        kinds: vec![kind::CALL.to_owned()],
        since: Some(row.at.saturating_sub(NEIGHBOURHOOD_MS)),
        until: Some(row.at.saturating_add(NEIGHBOURHOOD_MS)),
        ..Filter::default()
    };
    let mut found = Vec::new();
    source
        .each::<AuditError>(&wanted, |row| {
            // A record that was altered is about nothing that is known.
            if let Ok(AuditEntry::Call(call)) = AuditEntry::read(&row.body)
                && is_meant(&call)
            {
                let micros = u64::try_from(call.record.time.as_micros()).unwrap_or(u64::MAX);
                found.push(json!({
                    "record": row.seq, "module": row.module, "outcome": row.outcome, "time_us": micros,
                    "memory": call.record.memory,
                }));
            }
            Ok(())
        })
        .context("cannot read the calls")?;
    Ok(found)
}
