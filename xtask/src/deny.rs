//! `cargo xtask deny`: what Peal is built of, by the rules of `deny.toml`.
use crate::command::{cargo, run, run_quietly};
use anyhow::Result;
use std::path::Path;

/// Checks the host's crates and those of the guests.
pub fn run_checks(root: &Path, advisories: bool) -> Result<()> {
    if run_quietly(cargo(root).args(["deny", "--version"])).is_err() {
        println!("installing cargo-deny (once)");
        run(cargo(root).args(["install", "cargo-deny", "--locked"]))?;
    }
    for workspace in [root.to_owned(), root.join("guests")] {
        let mut deny = cargo(&workspace);
        deny.args(["deny", "--locked", "--workspace", "--config"]).arg(root.join("deny.toml"));
        run(deny.args(["check", "licenses", "bans", "sources"]).args(advisories.then_some("advisories")))?;
    }
    Ok(())
}
