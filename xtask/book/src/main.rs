//! `peal-book ROOT`: builds the book in ROOT/docs into ROOT/target/book, and checks the links of
//! the book and of the documents beside it. `cargo xtask docs` runs it.
mod blocks;
mod links;

use anyhow::{Context, Result, ensure};
use mdbook_driver::{MDBook, book::BookItem};
use std::{
    collections::BTreeSet,
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let root = env::args_os().nth(1).context("usage: peal-book ROOT")?;
    let root = PathBuf::from(root);
    let source = root.join("docs/src");
    let built = root.join("target/book");

    let mut book = MDBook::load(root.join("docs")).context("loading docs")?;
    book.config.build.build_dir.clone_from(&built);
    let listed = listed_pages(&book);
    let mut pages = BTreeSet::new();
    find_pages(&source, &source, &mut pages)?;
    let unlisted: Vec<&PathBuf> = pages.difference(&listed).collect();
    ensure!(
        unlisted.is_empty(),
        "pages missing in docs/src/SUMMARY.md: {unlisted:?}"
    );
    book.build().context("building the book")?;

    let problems = links::check(&root, &source, &built, &pages)?;
    for problem in &problems {
        eprintln!("{problem}");
    }
    ensure!(problems.is_empty(), "{} broken links", problems.len());
    let index = built.join("index.html");
    ensure!(index.exists(), "{} was not written", index.display());
    println!("{} pages in {}", pages.len(), index.display());
    blocks::print_counts(&root, &source, &pages)
}

/// Returns the pages that SUMMARY.md lists, relative to the source directory.
fn listed_pages(book: &MDBook) -> BTreeSet<PathBuf> {
    let chapters = book.iter().filter_map(|item| match item {
        BookItem::Chapter(chapter) => chapter.source_path.clone(),
        _ => None,
    });
    chapters.collect()
}

/// Adds the Markdown files below a directory, relative to the source directory, without SUMMARY.md.
fn find_pages(dir: &Path, source: &Path, pages: &mut BTreeSet<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("reading {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            find_pages(&path, source, pages)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            let page = path.strip_prefix(source)?;
            if page != Path::new("SUMMARY.md") {
                pages.insert(page.to_owned());
            }
        }
    }
    Ok(())
}
