//! `peal module inspect`.
use crate::{args::Inspect, config};
use anyhow::{Context, Result};
use peal_deploy::Terms;
use peal_sandbox::Capability;
use std::{io::Write, process::ExitCode};

/// Prints what a component is.
pub fn inspect(args: &Inspect) -> Result<ExitCode> {
    let bytes = peal_deploy::read(&args.file)?;
    let inspection = peal_sandbox::inspect(&bytes).with_context(|| args.file.display().to_string())?;
    let mut out = std::io::stdout().lock();
    let terms = match config::load(args.config.clone(), None) {
        Ok(site) => peal_deploy::terms(&args.file, &inspection, &site.modules, &site.config),
        Err(problems) => {
            crate::say(&format!(
                "what this site would grant is not known, its configuration makes no sense:\n{problems}"
            ));
            Vec::new()
        }
    };
    if args.json {
        let mut inspection = serde_json::to_value(&inspection)?;
        if let Some(fields) = inspection.as_object_mut() {
            fields.insert("terms".to_owned(), terms.iter().map(as_json).collect());
        }
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
    for Terms { name, granted, refused, limits } in &terms {
        let all = |capabilities: &[Capability]| list(capabilities.iter().map(|one| one.name().to_owned()).collect());
        match name {
            Some(name) => writeln!(out, "\nas module {name:?} of the configuration")?,
            None => writeln!(out, "\nas a handler that a job brings")?,
        }
        writeln!(out, "  granted      {}", all(granted))?;
        writeln!(out, "  refused      {}", all(refused))?;
        let limits = limits.iter().map(|(name, value)| format!("{name} {value}")).collect();
        writeln!(out, "  limits       {}", list(limits))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(terms: &Terms) -> serde_json::Value {
    let names = |capabilities: &[Capability]| capabilities.iter().map(|one| one.name()).collect::<Vec<_>>();
    let Terms { name, granted, refused, limits } = terms;
    serde_json::json!({ "module": name, "granted": names(granted), "refused": names(refused), "limits": limits })
}
