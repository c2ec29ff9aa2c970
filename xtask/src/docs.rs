//! `cargo xtask docs`: the book in `docs/`.
use crate::{
    command::{cargo, run, run_quietly, step},
    graphs, guests, reference,
};
use anyhow::Result;
use std::{path::Path, process::Command};

/// Treatment of stale generated pages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StalePages {
    /// They are written.
    Write,
    /// They are an error.
    Refuse,
}

/// Generates or checks the reference pages, builds the book into `target/book`, and checks links.
///
/// # Errors
/// Names stale pages and broken links.
pub fn build(root: &Path, stale: StalePages) -> Result<()> {
    step("reference pages", || {
        graphs::build_programs(root)?;
        guests::build(root)?;
        reference::generate(root, stale)
    })?;
    step("book and links", || {
        run_quietly(&mut cargo_of_book(root, "test"))?;
        run(cargo_of_book(root, "run").arg("--").arg(root))
    })
}

/// Returns a command of cargo for the program that builds the book. Its crates have other features
/// than the workspace's, so it has a target directory of its own.
pub fn cargo_of_book(root: &Path, verb: &str) -> Command {
    let mut command = cargo(root);
    command.args([verb, "--quiet", "--locked", "--manifest-path"]);
    command.arg(root.join("xtask/book/Cargo.toml"));
    command
        .arg("--target-dir")
        .arg(root.join("target/book-build"));
    command
}
