//! `peal module build`: builds a component of a project.
use crate::args::Build;
use anyhow::{Context, Result, bail};
use peal_build::{BuildTools, Install, Project};
use peal_sandbox::Inspection;
use std::{fs, io::Write, path::Path, process::ExitCode};

/// Builds a project with its language's own tools, and prints the properties of the component.
pub fn build(args: &Build) -> Result<ExitCode> {
    let project = Project::open(&args.dir)?;
    let tools = BuildTools::of_user(if args.install {
        Install::Allowed
    } else {
        Install::Never
    })?;
    let bytes = project.build(&tools, &mut |words| crate::print_line(words))?;
    let inspection = peal_sandbox::inspect(&bytes).context("what was built")?;
    check(&project, &inspection)?;
    let file = args.dir.join(format!("{}.wasm", project.manifest.name));
    fs::write(&file, &bytes).with_context(|| file.display().to_string())?;
    print_next_step(&file, &inspection).map(|()| ExitCode::SUCCESS)
}

/// Checks that the component has the roles of the manifest, since readers of the manifest rely on
/// them.
pub fn check(project: &Project, inspection: &Inspection) -> Result<()> {
    let mut promised: Vec<&str> = project.manifest.roles.iter().map(String::as_str).collect();
    let mut filled: Vec<&str> = inspection.roles.iter().map(|role| role.name()).collect();
    // The order of roles in the manifest has no meaning.
    promised.sort_unstable();
    filled.sort_unstable();
    if promised != filled {
        bail!(
            "peal-module.toml says roles = {promised:?}, but the component has {filled:?}: change one of them"
        );
    }
    // A server would refuse to load it.
    if !inspection.unknown_imports.is_empty() {
        bail!(
            "it imports what no host offers: {}",
            inspection.unknown_imports.join(", ")
        );
    }
    Ok(())
}

fn print_next_step(file: &Path, inspection: &Inspection) -> Result<()> {
    let list = |names: Vec<&str>| {
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(", ")
        }
    };
    let mut out = crate::output::stdout();
    writeln!(out, "{}, {} bytes", file.display(), inspection.size)?;
    writeln!(
        out,
        "roles          {}",
        list(inspection.roles.iter().map(|role| role.name()).collect())
    )?;
    writeln!(
        out,
        "capabilities   {}",
        list(
            inspection
                .capabilities
                .iter()
                .map(|one| one.name())
                .collect()
        )
    )?;
    writeln!(
        out,
        "next: peal module test; then the steps in the project's README.md"
    )?;
    Ok(())
}
