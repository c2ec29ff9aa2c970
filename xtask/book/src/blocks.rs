//! Counts the blocks of commands in the documents: those that tests run, and those that are
//! ignored, by reason.
use anyhow::{Context, Result};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Comment that keeps tests from running the next block, with the reason.
/// `tests/tests/project/book.rs` reads it as well.
const IGNORES: &str = "<!-- test ignores: ";

/// Prints the number of blocks that are run, and that of ignored blocks by reason.
///
/// # Errors
/// Names a file that cannot be read.
pub fn print_counts(root: &Path, source: &Path, pages: &BTreeSet<PathBuf>) -> Result<()> {
    let files = pages.iter().map(|page| source.join(page));
    let mut run = 0;
    let mut ignored: BTreeMap<String, usize> = BTreeMap::new();
    for file in files.chain([root.join("README.md")]) {
        let text =
            fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        let mut reason = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix(IGNORES) {
                reason = Some(rest.trim_end_matches("-->").trim().to_owned());
            } else if line == "```sh" {
                match reason.take() {
                    Some(reason) => *ignored.entry(reason).or_default() += 1,
                    None => run += 1,
                }
            }
        }
    }
    let count: usize = ignored.values().sum();
    println!("{run} blocks of commands are run by tests, {count} are not:");
    for (reason, count) in ignored {
        println!("  {count}: {reason}");
    }
    Ok(())
}
