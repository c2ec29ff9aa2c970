//! `peal module list --available`: modules that can be added to a server.
use crate::{
    args::{ModuleListArgs, OutputFormat},
    listing::{ListColumn, ListItem, listed, names},
    output,
};
use anyhow::Result;
use peal_modules::{AvailableModule, available, shipped_dir};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Prints the modules.
pub fn list(args: &ModuleListArgs) -> Result<ExitCode> {
    let dir = match &args.from {
        Some(dir) => dir.clone(),
        None => shipped_dir()?,
    };
    let modules = available(&dir)?;
    output::print(&match args.format.output {
        OutputFormat::Data(form) => {
            form.document(&modules.iter().map(as_json).collect::<Vec<_>>())?
        }
        OutputFormat::Name => names(modules.iter().map(|module| module.declaration().name)),
        format => format!(
            "{}\n{} has the components; `peal module add NAME` adds one\n",
            listed(&modules, format),
            dir.display()
        ),
    })?;
    Ok(ExitCode::SUCCESS)
}

impl ListItem for AvailableModule {
    const COLUMNS: &'static [ListColumn<AvailableModule>] = &[
        ListColumn::<AvailableModule>::text("module", |module| module.declaration().name),
        ListColumn::<AvailableModule>::optional_text("grants", |module| {
            let grants: Vec<&str> = grants(module).collect();
            (!grants.is_empty()).then(|| grants.join(","))
        }),
        ListColumn::<AvailableModule>::text("path", |module| module.path.display().to_string())
            .wide(),
        ListColumn::<AvailableModule>::text("sha256", |module| {
            module.inspection.digest.to_string()
        })
        .wide(),
        ListColumn::<AvailableModule>::text("purpose", |module| module.declaration().description),
    ];
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
