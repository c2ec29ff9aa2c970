//! `peal module new`: a project that builds.
use crate::args::New;
use anyhow::{Context, Result, bail};
use peal_author::project;
use peal_build::Language;
use std::{collections::BTreeSet, io::Write, process::ExitCode};

/// Writes a new project and says what to do next.
pub fn new(args: &New) -> Result<ExitCode> {
    let language: Language = match args.lang.parse() {
        Ok(language) => language,
        Err(reason) => bail!("--lang: {reason}"),
    };
    let roles =
        args.role.iter().map(|name| project::role(name)).collect::<Result<BTreeSet<_>, _>>().context("--role")?;
    let dir = args.dir.as_deref().unwrap_or_else(|| args.name.as_ref());
    project::write(dir, &project::files(&args.name, language, &roles)?)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} is ready; its README.md says more. Next:", dir.display())?;
    writeln!(out, "  cd {}", dir.display())?;
    writeln!(out, "  peal module build")?;
    writeln!(out, "  peal module test")?;
    Ok(ExitCode::SUCCESS)
}
