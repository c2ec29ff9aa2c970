//! `peal module test`.
use super::{
    call_list,
    candidate::Tried,
    case_results::{CaseResults, LogDisplay, run_file, table, usual_sinks},
};
use crate::{
    args::{ModuleTest, OutputFormat},
    output,
    wait_message::WaitMessage,
};
use anyhow::{Context, Result};
use peal_devtools::module_test::{CallRecords, Candidate, CaseReport};
use peal_sandbox::ModuleLimits;
use serde_json::{Value, json};
use std::{fs, io::Write, process::ExitCode};

/// Runs cases, and prints their results. The exit status is 0 if all are as expected, else 1.
pub fn test(args: &ModuleTest) -> Result<ExitCode> {
    // Before the component is read if the files are named, below once they are found.
    check_write(args, args.cases.len())?;
    let tried = Tried::find(&args.component)?;
    let name = args.name.clone().unwrap_or_else(|| tried.name());
    let paths = if args.cases.is_empty() {
        tried.cases()?
    } else {
        args.cases.clone()
    };
    check_write(args, paths.len())?;
    let sinks = match args.sinks.as_slice() {
        [] => usual_sinks(),
        named => named.to_vec(),
    };
    let tested = tried.with_lines()?;
    let limits = ModuleLimits {
        call_time: args.call_time,
        ..ModuleLimits::default()
    };
    let of = Candidate {
        engine: &tested.engine,
        name: &name,
        bytes: &tested.bytes,
        sinks: &sinks,
        limits,
        records: match args.debug {
            Some(_) => CallRecords::Kept,
            None => CallRecords::None,
        },
    };
    let waiting = WaitMessage::new(tried.compiling());
    let mut all = Vec::new();
    for path in &paths {
        let results = run_file(&of, path)?;
        if let Some(to) = &args.write {
            fs::write(to, results.file.rewritten(&results.reports))
                .with_context(|| to.display().to_string())?;
        }
        all.push(results);
    }
    // The line of the message must be gone before results are printed.
    drop(waiting);
    let mut out = output::stdout();
    match (&args.debug, args.format.output) {
        (Some(case), _) => call_list::print(&all, case, &mut out)?,
        (None, OutputFormat::Data(form)) => {
            let told = form.document(&all.iter().map(as_json).collect::<Vec<_>>())?;
            out.write_all(told.as_bytes())?;
        }
        (None, _) if args.show_log => table(&all, LogDisplay::Shown, &mut out)?,
        (None, _) => table(&all, LogDisplay::Hidden, &mut out)?,
    }
    let mut reports = all.iter().flat_map(|results| &results.reports);
    Ok(if reports.all(CaseReport::is_ok) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Refuses `--write` with the cases of several files.
fn check_write(args: &ModuleTest, files: usize) -> Result<()> {
    if args.write.is_some() && files > 1 {
        return Err(crate::usage_error(format!(
            "--write takes the cases of one file, and there are {files}"
        )));
    }
    Ok(())
}

fn as_json(results: &CaseResults) -> Value {
    let CaseResults { file, reports } = results;
    let cases = reports.iter().map(|report| {
        json!({
            "case": report.case,
            "ok": report.is_ok(),
            "checked": report.is_checked,
            "outcome": report.outcome,
            "differences": report.differences,
            "logs": report.logs,
            "writes": report.writes,
        })
    });
    json!({ "file": file.path, "left_out": file.left_out, "cases": cases.collect::<Vec<_>>() })
}
