//! `peal module new`: creates a project that builds.
use crate::args::New;
use anyhow::Result;
use peal_devtools::project::{self, SdkOrigin};
use std::{io::Write, process::ExitCode};

/// Writes a new project, and prints the next steps.
pub fn new(args: &New) -> Result<ExitCode> {
    let roles = args.role.iter().copied().collect();
    let sdk = args
        .sdk
        .as_deref()
        .map_or(SdkOrigin::Copied, SdkOrigin::Installed);
    let files = project::files(&args.name, args.lang, &roles, sdk).map_err(crate::usage_error)?;
    let dir = args.dir.as_deref().unwrap_or_else(|| args.name.as_ref());
    project::write(dir, &files)?;
    let mut out = crate::output::stdout();
    writeln!(out, "{} is ready; see its README.md. Next:", dir.display())?;
    writeln!(out, "  cd {}", dir.display())?;
    writeln!(out, "  peal module build")?;
    writeln!(out, "  peal module test")?;
    Ok(ExitCode::SUCCESS)
}
