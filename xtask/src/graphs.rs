//! Programs of the demo and the tests, and the crates that each of the two builds. A crate with
//! different features in the two is compiled twice, with all crates that depend on it.
use crate::command::{cargo, run, run_quietly};
use anyhow::{Result, ensure};
use std::{collections::BTreeSet, path::Path};

/// Packages whose programs the demo shows and the tests run. `xtask` is one of them, so that its
/// crates serve the others.
const PROGRAMS: [&str; 3] = ["peal", "peal-tests", "xtask"];

/// Package of the C library.
pub const LIBRARY: &str = "peal-libpmix";

/// Returns the options of cargo that select these packages.
fn selection<'a>(packages: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let packages = packages.into_iter();
    packages
        .flat_map(|package| ["--package", package])
        .collect()
}

/// Returns the options of cargo that select the programs.
fn programs() -> Vec<&'static str> {
    selection(PROGRAMS)
}

/// Returns the options of cargo that select the C library with the programs, whose crates it then shares.
fn library_with_programs() -> Vec<&'static str> {
    selection(PROGRAMS.into_iter().chain([LIBRARY]))
}

/// Builds the programs that the demo shows and the tests run, with cargo's own progress.
pub fn build_programs(root: &Path) -> Result<()> {
    run(cargo(root).arg("build").args(programs()).arg("--bins"))
}

/// Builds the C library that the tests load, with cargo's own progress.
pub fn build_library(root: &Path) -> Result<()> {
    run(cargo(root)
        .arg("build")
        .args(library_with_programs())
        .arg("--lib"))
}

/// Part of what a build compiles. Cargo selects the features of the two parts apart.
#[derive(Clone, Copy)]
enum Part {
    /// All crates, also those that run while cargo builds.
    All,
    /// Crates of which programs are linked.
    Linked,
}

impl Part {
    /// Returns the kinds of dependencies of this part, as `cargo tree` names them.
    fn edges(self, development: Development) -> &'static str {
        match (self, development) {
            (Part::All, Development::With) => "normal,build,dev",
            (Part::All, Development::Without) => "normal,build",
            (Part::Linked, Development::With) => "normal,dev,no-proc-macro",
            (Part::Linked, Development::Without) => "normal,no-proc-macro",
        }
    }
}

/// Dependencies of tests.
#[derive(Clone, Copy)]
enum Development {
    /// They are built, too.
    With,
    /// They are left out.
    Without,
}

/// Checks that the demo, the tests' C library and `cargo xtask` itself build all crates with the same features as
/// the tests.
///
/// # Errors
///
/// Names each crate that differs, and the place where features are pinned.
pub fn check(root: &Path) -> Result<()> {
    // Of all crates alone it would not be seen that a program links a crate with the features that
    // only a macro needs.
    for part in [Part::Linked, Part::All] {
        let edges = part.edges(Development::With);
        let tests = crates(root, &["--edges", edges, "--workspace"])?;
        for (what, selection) in [
            ("the demo", programs()),
            ("the C library", library_with_programs()),
            ("cargo xtask", selection(["xtask"])),
        ] {
            let edges = part.edges(Development::Without);
            let built = crates(root, &[vec!["--edges", edges], selection].concat())?;
            let twice: Vec<&str> = built.difference(&tests).map(String::as_str).collect();
            ensure!(
                twice.is_empty(),
                "{what} builds crates with other features than the tests, so they are compiled twice:\n  {}\n\
                 Add the missing features to the pins in tests/Cargo.toml or xtask/Cargo.toml, or in [workspace.dependencies].",
                twice.join("\n  ")
            );
        }
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
    let packages = ["peal-client", LIBRARY];
    for package in packages {
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
    // Both compile without the features that other crates of the workspace select.
    run(cargo(root)
        .args(["clippy", "--quiet"])
        .args(selection(packages))
        .args(["--", "-D", "warnings"]))
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
