//! `cargo xtask docs`: the book in `docs/`.
use crate::{
    command::{cargo, run, run_quietly, step},
    graphs, guests, reference,
};
use anyhow::Result;
use std::path::Path;

/// What happens to generated pages that are stale.
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
        guests::build_rust(root)?;
        reference::generate(root, stale)
    })?;
    step("book and links", || {
        let manifest = root.join("xtask/book/Cargo.toml");
        // Of its own target directory: its crates have other features than ours.
        let target = root.join("target/book-build");
        let of_book = |verb: &str| {
            let mut command = cargo(root);
            command.args([verb, "--quiet", "--locked", "--manifest-path"]);
            command.arg(&manifest).arg("--target-dir").arg(&target);
            command
        };
        run_quietly(&mut of_book("test"))?;
        run(of_book("run").arg("--").arg(root))
    })
}
