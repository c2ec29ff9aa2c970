//! `peal audit report`: HTML page about the records.
use super::{create, filter, open, shown_time};
use crate::args::AuditReport;
use anyhow::{Context, Result};
use peal_audit::{TrailReport, page};
use peal_model::counted;
use peal_store::Filter;
use std::{io::Write, process::ExitCode};

pub(super) fn run(args: AuditReport) -> Result<ExitCode> {
    let AuditReport {
        html,
        source,
        filter: wanted,
    } = args;
    let of = source
        .from
        .as_ref()
        .map_or("the audit trail".to_owned(), |path| {
            path.display().to_string()
        });
    let (source, _) = open(source)?;
    let filter = filter(wanted);
    let report = TrailReport::of(&source, &filter)?;
    let page = page(&report, &of, &described(&filter));
    if html.as_os_str() == "-" {
        crate::output::stdout().write_all(page.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = create(&html)?;
    out.write_all(page.as_bytes())
        .and_then(|()| out.flush())
        .with_context(|| html.display().to_string())?;
    crate::print_line(&format!(
        "wrote a report on {} to {}",
        counted(report.records(), "record"),
        html.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Describes the filter of the records in words.
fn described(filter: &Filter) -> String {
    let Filter {
        since,
        until,
        module,
        job,
        uid,
        outcome,
        ..
    } = filter;
    let words = [
        since.map(|at| format!("since {}", shown_time(at))),
        until.map(|at| format!("until {}", shown_time(at))),
        job.as_ref().map(|job| format!("of job {job}")),
        uid.map(|uid| format!("of user {uid}")),
        module
            .as_ref()
            .map(|module| format!("about module {module}")),
        outcome
            .as_ref()
            .map(|outcome| format!("with outcome {outcome}")),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}
