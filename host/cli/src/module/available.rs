//! `peal module list --available`: modules that can be added to a server.
use crate::{
    args::ModuleListArgs,
    table::{Side, table},
};
use anyhow::Result;
use peal_modules::{AvailableModule, available, shipped_dir};
use serde_json::{Value, json};
use std::{io::Write, process::ExitCode};

/// Prints the modules.
pub fn list(args: &ModuleListArgs) -> Result<ExitCode> {
    let dir = match &args.from {
        Some(dir) => dir.clone(),
        None => shipped_dir()?,
    };
    let modules = available(&dir)?;
    let mut out = crate::output::stdout();
    if args.query.json {
        let modules: Vec<Value> = modules.iter().map(as_json).collect();
        serde_json::to_writer_pretty(&mut out, &modules)?;
        writeln!(out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let rows: Vec<[String; 3]> = modules.iter().map(row).collect();
    let head = ["MODULE", "GRANTS", "PURPOSE"].map(|name| (name, Side::Left));
    write!(out, "{}", table(head, &rows))?;
    writeln!(
        out,
        "\n{} has the components; `peal module add NAME` adds one",
        dir.display()
    )?;
    Ok(ExitCode::SUCCESS)
}

fn row(module: &AvailableModule) -> [String; 3] {
    let declaration = module.declaration();
    let grants: Vec<&str> = grants(module).collect();
    let grants = if grants.is_empty() {
        "-".to_owned()
    } else {
        grants.join(",")
    };
    [declaration.name, grants, declaration.description]
}

/// Returns the grants that a module needs.
pub fn grants(module: &AvailableModule) -> impl Iterator<Item = &'static str> {
    let capabilities = module.inspection.capabilities.iter();
    capabilities.map(|capability| capability.name())
}

fn as_json(module: &AvailableModule) -> Value {
    let declaration = module.declaration();
    json!({
        "name": declaration.name,
        "description": declaration.description,
        "path": module.path.display().to_string(),
        "sha256": module.inspection.digest.to_string(),
        "roles": module.inspection.roles,
        "grants": grants(module).collect::<Vec<_>>(),
        "deployment": declaration.deployment,
        "settings": declaration.settings(),
    })
}
