//! `cargo xtask lint`: static checks.
use crate::{
    codegen,
    command::{self, cargo, step},
    docs, graphs, guests, sdk_version,
};
use anyhow::Result;
use std::{env, path::Path};

/// Variable with the arguments of clippy's compiler, which `.ci/run` sets with the compiler: then all crates
/// are checked while they are compiled, except one.
const CLIPPY_ARGS: &str = "CLIPPY_ARGS";

/// Crate that is compiled without clippy even then (`.ci/compiler`).
const UNSAFE_CRATE: &str = graphs::LIBRARY;

/// Arguments by which clippy takes warnings for errors.
const DENY_WARNINGS: [&str; 3] = ["--", "-D", "warnings"];

/// Runs all checks, the quickest first.
pub fn run(root: &Path) -> Result<()> {
    step("generated code", || codegen::check(root))?;
    step("features of the demo and the tests", || graphs::check(root))?;
    step("client without the engine", || graphs::check_client(root))?;
    step("version of the SDK in Rust", || sdk_version::check(root))?;
    step("format", || format(root))?;
    if env::var(CLIPPY_ARGS).is_ok_and(|args| args.contains("-Dwarnings")) {
        println!(
            "\nthe lints of all crates but {UNSAFE_CRATE} are checked while the tests and the book are compiled"
        );
        let clippy = ["clippy", "--package", UNSAFE_CRATE, "--all-targets"];
        return step("lints", || {
            command::run(cargo(root).args(clippy).args(DENY_WARNINGS))
        });
    }
    step("lints", || lints(root))
}

fn format(root: &Path) -> Result<()> {
    command::run(cargo(root).args(["fmt", "--all", "--check"]))?;
    command::run(cargo(&root.join("xtask/book")).args(["fmt", "--all", "--check"]))?;
    command::run(cargo(&root.join("guests")).args(["fmt", "--all", "--check"]))
}

fn lints(root: &Path) -> Result<()> {
    command::run(
        cargo(root)
            .args(["clippy", "--workspace", "--all-targets"])
            .args(DENY_WARNINGS),
    )?;
    command::run(
        docs::cargo_of_book(root, "clippy")
            .arg("--all-targets")
            .args(DENY_WARNINGS),
    )?;
    command::run(
        guests::cargo_on_host(root)
            .args(["clippy", "--quiet", "--workspace", "--all-targets"])
            .args(DENY_WARNINGS),
    )
}
