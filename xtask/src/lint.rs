//! `cargo xtask lint`: static checks.
use crate::{
    codegen,
    command::{self, cargo, step},
    docs, graphs, guests, sdk_version,
};
use anyhow::Result;
use std::{env, path::Path};

/// Variable of cargo with a program that compiles the crates of a workspace in the place of the
/// compiler.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

/// Compiler with clippy's lints.
const CLIPPY: &str = "clippy-driver";

/// Runs all checks, the quickest first.
pub fn run(root: &Path) -> Result<()> {
    step("generated code", || codegen::check(root))?;
    step("features of the demo and the tests", || graphs::check(root))?;
    step("client without the engine", || graphs::check_client(root))?;
    step("version of the SDK in Rust", || sdk_version::check(root))?;
    step("format", || format(root))?;
    if env::var_os(WRAPPER).is_some_and(|wrapper| wrapper == CLIPPY) {
        println!("\nlints: left to the builds of the tests and the book, by {WRAPPER}={CLIPPY}");
        return Ok(());
    }
    step("lints", || lints(root))
}

fn format(root: &Path) -> Result<()> {
    command::run(cargo(root).args(["fmt", "--all", "--check"]))?;
    command::run(cargo(&root.join("xtask/book")).args(["fmt", "--all", "--check"]))?;
    command::run(cargo(&root.join("guests")).args(["fmt", "--all", "--check"]))
}

fn lints(root: &Path) -> Result<()> {
    let deny = ["--", "-D", "warnings"];
    command::run(
        cargo(root)
            .args(["clippy", "--workspace", "--all-targets"])
            .args(deny),
    )?;
    command::run(
        docs::cargo_of_book(root, "clippy")
            .arg("--all-targets")
            .args(deny),
    )?;
    command::run(
        guests::cargo_on_host(root)
            .args(["clippy", "--quiet", "--workspace", "--all-targets"])
            .args(deny),
    )
}
