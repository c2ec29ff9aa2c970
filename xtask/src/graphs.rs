//! Programs of the demo and the tests, and the crates that each of the two builds. A crate with
//! different features in the two is compiled twice, with all crates that depend on it.
use crate::command::{cargo, run, run_quietly};
use anyhow::{Result, ensure};
use std::{collections::BTreeSet, path::Path};

/// Packages whose programs the demo shows and the tests run. `xtask` is one of them, so that its
/// crates serve the others.
const PROGRAMS: [&str; 3] = ["peal", "peal-tests", "xtask"];

/// Builds the programs that the demo shows and the tests run, with cargo's own progress.
pub fn build_programs(root: &Path) -> Result<()> {
    let packages = PROGRAMS
        .into_iter()
        .flat_map(|package| ["--package", package]);
    run(cargo(root).arg("build").args(packages).arg("--bins"))
}

/// Checks that the demo and `cargo xtask` itself build all crates with the same features as the
/// tests.
///
/// # Errors
///
/// Names each crate that differs, and the place where features are pinned.
pub fn check(root: &Path) -> Result<()> {
    let tests = crates(root, &["--workspace"])?;
    let demo: Vec<&str> = PROGRAMS
        .into_iter()
        .flat_map(|package| ["--package", package])
        .collect();
    for (what, selection) in [
        ("the demo", demo.as_slice()),
        ("cargo xtask", &["--package", "xtask"]),
    ] {
        // These programs are built without the dependencies of tests.
        let built = crates(root, &[&["--edges", "no-dev"], selection].concat())?;
        let twice: Vec<&str> = built.difference(&tests).map(String::as_str).collect();
        ensure!(
            twice.is_empty(),
            "{what} builds crates with other features than the tests, so they are compiled twice:\n  {}\n\
             Add the missing features to the pins in tests/Cargo.toml or xtask/Cargo.toml, or in [workspace.dependencies].",
            twice.join("\n  ")
        );
    }
    Ok(())
}

/// Checks that `peal-client` builds without the WebAssembly engine unless its feature `modules` is
/// on, and `peal-libpmix` always: programs that link either must not carry the engine.
///
/// # Errors
///
/// Names the crates of the engine that one of the two depends on.
pub fn check_client(root: &Path) -> Result<()> {
    for package in ["peal-client", "peal-libpmix"] {
        let built = crates(root, &["--edges", "normal", "--package", package])?;
        let engine: Vec<&str> = built
            .iter()
            .map(String::as_str)
            .filter(|name| name.starts_with("peal-sandbox ") || name.starts_with("wasmtime"))
            .collect();
        ensure!(
            engine.is_empty(),
            "{package} depends on the engine without the feature `modules` of peal-client: {}",
            engine.join(", ")
        );
    }
    run(cargo(root).args([
        "clippy",
        "--quiet",
        "--package",
        "peal-client",
        "--",
        "-D",
        "warnings",
    ]))
}

/// Returns each crate with its version and features, as `cargo tree` resolves them for these
/// packages.
fn crates(root: &Path, selection: &[&str]) -> Result<BTreeSet<String>> {
    let mut tree = cargo(root);
    tree.args([
        "tree",
        "--quiet",
        "--locked",
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        "{p} with {f}",
    ])
    .args(selection);
    let lines = run_quietly(&mut tree)?;
    // Words in brackets, such as paths, do not affect what is compiled.
    let is_shown = |word: &&str| !word.starts_with('(') && !word.ends_with(')');
    Ok(lines
        .lines()
        .map(|line| {
            line.split(' ')
                .filter(is_shown)
                .collect::<Vec<_>>()
                .join(" ")
        })
        .collect())
}
