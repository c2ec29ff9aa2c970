//! `peal module build`: builds a component of a project.
use crate::args::Build;
use anyhow::{Context, Result, bail};
use peal_build::{BuildTools, Install, ProgressCallback, Project};
use peal_sandbox::Inspection;
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// Builds a project with its language's own tools, and prints the properties of the component.
pub fn build(args: &Build) -> Result<ExitCode> {
    let project = Project::open(&args.dir)?;
    let tools = BuildTools::of_user(if args.install {
        Install::Allowed
    } else {
        Install::Never
    })?;
    let component = BuiltComponent::build(&project, &tools, &mut |words| crate::print_line(words))?;
    let file = component.write(&args.dir)?;
    print_next_step(&file, &component.inspection).map(|()| ExitCode::SUCCESS)
}

/// Component of a project, with the roles of its manifest.
pub struct BuiltComponent {
    /// Name of the module.
    pub name: String,
    /// Bytes of the component.
    pub bytes: Vec<u8>,
    inspection: Inspection,
}

impl BuiltComponent {
    /// Builds the component of a project.
    ///
    /// # Errors
    ///
    /// Fails if the build fails, or a server would refuse the component.
    pub fn build(
        project: &Project,
        tools: &BuildTools,
        progress: ProgressCallback<'_>,
    ) -> Result<BuiltComponent> {
        let bytes = project.build(tools, progress)?;
        let inspection = peal_sandbox::inspect(&bytes).context("what was built")?;
        check(project, &inspection)?;
        Ok(BuiltComponent {
            name: project.manifest.name.clone(),
            bytes,
            inspection,
        })
    }

    /// Writes the component into a directory. Returns its file.
    pub fn write(&self, dir: &Path) -> Result<PathBuf> {
        let file = dir.join(format!("{}.wasm", self.name));
        fs::write(&file, &self.bytes).with_context(|| file.display().to_string())?;
        Ok(file)
    }
}

/// Checks that the component has the roles of the manifest, since readers of the manifest rely on
/// them.
fn check(project: &Project, inspection: &Inspection) -> Result<()> {
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
