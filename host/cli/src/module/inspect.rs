//! `peal module inspect`.
use crate::args::Inspect;
use anyhow::{Context, Result};
use std::{io::Write, process::ExitCode};

/// Prints what a component is.
pub fn inspect(args: &Inspect) -> Result<ExitCode> {
    let bytes = peal_deploy::read(&args.file)?;
    let inspection = peal_sandbox::inspect(&bytes).with_context(|| args.file.display().to_string())?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &inspection)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let list = |items: Vec<String>| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let tools = |tools: &std::collections::BTreeSet<peal_sandbox::Tool>| {
        list(tools.iter().map(|tool| format!("{} {}", tool.name, tool.version).trim_end().to_owned()).collect())
    };
    writeln!(out, "roles          {}", list(inspection.roles.iter().map(ToString::to_string).collect()))?;
    writeln!(out, "capabilities   {}", list(inspection.capabilities.iter().map(ToString::to_string).collect()))?;
    writeln!(out, "not offered    {}", list(inspection.unknown_imports.clone()))?;
    writeln!(out, "other exports  {}", list(inspection.other_exports.clone()))?;
    writeln!(out, "size           {} bytes", inspection.size)?;
    writeln!(out, "sha256         {}", inspection.digest)?;
    writeln!(out, "language       {}", tools(&inspection.producers.language))?;
    writeln!(out, "sdk            {}", tools(&inspection.producers.sdk))?;
    writeln!(out, "processed by   {}", tools(&inspection.producers.processed_by))?;
    Ok(ExitCode::SUCCESS)
}
