//! `cargo xtask lint`: static checks.
use crate::{
    codegen,
    command::{self, cargo, step},
    docs, graphs, guests, sdk_version,
};
use anyhow::Result;
use std::path::Path;

/// Runs all checks, the quickest first.
pub fn run(root: &Path) -> Result<()> {
    step("generated code", || codegen::check(root))?;
    step("features of the demo and the tests", || graphs::check(root))?;
    step("client without the engine", || graphs::check_client(root))?;
    step("version of the SDK in Rust", || sdk_version::check(root))?;
    step("format", || format(root))?;
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
