//! Generates the reference pages of the book (`docs/src/reference`), the catalogue of modules
//! (`docs/src/catalogue`), and a part of `THREATS.md`, from the programs, the contract, the manifests and
//! the rules of the confinement.
mod catalogue;
mod commands;
mod libpmix;
mod metrics;
mod processes;
mod quotas;
mod statuses;
mod wit;

use crate::{command::run_quietly, docs::StalePages};
use anyhow::{Context, Result, bail};
use std::{fs, path::Path, process::Command};

/// Returns the paths of the pages relative to the root of the repository, and their contents.
fn pages(root: &Path) -> Result<Vec<(String, String)>> {
    let pages = vec![
        (
            "docs/src/reference/settings.md",
            printed(root, &["config", "reference"])?,
        ),
        (
            "docs/src/reference/peal.example.toml",
            printed(root, &["config", "example"])?,
        ),
        (
            "docs/src/reference/commands.md",
            commands::page(&|words| printed(root, words))?,
        ),
        ("docs/src/reference/wit.md", wit::page(root)?),
        ("docs/src/reference/metrics.md", metrics::page(root)?),
        ("docs/src/reference/quotas.md", quotas::page()),
        ("docs/src/reference/statuses.md", statuses::page(root)?),
        ("docs/src/reference/libpmix.md", libpmix::page(root)?),
        ("THREATS.md", processes::threats(root)?),
    ];
    let pages = pages
        .into_iter()
        .map(|(page, text)| (page.to_owned(), text));
    Ok(pages.chain(catalogue::pages(root)?).collect())
}

/// Writes the pages that are stale, or fails because of them.
///
/// # Errors
///
/// Names a stale page with [`StalePages::Refuse`], and a page that cannot be generated.
pub fn generate(root: &Path, stale: StalePages) -> Result<()> {
    for (page, text) in pages(root)? {
        let file = root.join(&page);
        if fs::read_to_string(&file).is_ok_and(|there| there == text) {
            continue;
        }
        if stale == StalePages::Refuse {
            bail!("{page} is stale; run `cargo xtask docs`");
        }
        fs::write(&file, text).with_context(|| format!("writing {page}"))?;
        println!("wrote {page}");
    }
    catalogue::check_others(root)
}

/// Returns the output of `peal`, in a width that does not depend on the terminal.
fn printed(root: &Path, words: &[&str]) -> Result<String> {
    let mut peal = Command::new(root.join("target/debug/peal"));
    peal.args(words)
        // The pages must not depend on the terminal, nor on a configuration of this machine: an
        // empty variable means no file.
        .env_remove("COLUMNS")
        .env("PEAL_CONFIG", "");
    run_quietly(&mut peal)
}

/// Returns a text for a cell of a table: on one line, with its bars escaped.
fn cell(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").replace('|', "\\|")
}
