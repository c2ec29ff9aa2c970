//! Checks relative links: of the pages of the book to pages and anchors, and of the documents
//! beside it to files of the repository.
use anyhow::{Context, Result};
use pulldown_cmark::{Event, LinkType, Options, Parser, Tag, TagEnd};
use std::{
    collections::BTreeSet,
    fs,
    path::{Component, Path, PathBuf},
};

/// Documents beside the book whose links are checked, if they exist.
const DOCUMENTS: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "THREATS.md",
    "examples/README.md",
    "tests/c/README.md",
];

/// Returns one line for each broken link.
///
/// # Errors
/// Names a file that cannot be read.
pub fn check(
    root: &Path,
    source: &Path,
    built: &Path,
    pages: &BTreeSet<PathBuf>,
) -> Result<Vec<String>> {
    let book = Book { source, built };
    let mut problems = Vec::new();
    for page in pages {
        let file = source.join(page);
        for link in links(&read(&file)?) {
            if let Err(reason) = book.check_page_link(&file, &link) {
                problems.push(format!("docs/src/{}: {link}: {reason}", page.display()));
            }
        }
    }
    for document in DOCUMENTS {
        let file = root.join(document);
        if !file.exists() {
            continue;
        }
        for link in links(&read(&file)?) {
            if let Err(reason) = book.check_document_link(&file, &link) {
                problems.push(format!("{document}: {link}: {reason}"));
            }
        }
    }
    Ok(problems)
}

fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))
}

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES
}

/// Returns the destinations of links and images that are relative. Others are not followed: the
/// check needs no network.
fn links(text: &str) -> Vec<String> {
    let destinations = Parser::new_ext(text, options()).filter_map(|event| match event {
        // An address in angle brackets has no scheme.
        Event::Start(Tag::Link {
            link_type: LinkType::Email,
            ..
        }) => None,
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
            Some(dest_url.into_string())
        }
        _ => None,
    });
    let is_relative = |link: &String| !link.contains("://") && !link.starts_with("mailto:");
    destinations.filter(is_relative).collect()
}

/// Sources of the book and the pages that were built from them.
struct Book<'a> {
    source: &'a Path,
    built: &'a Path,
}

impl Book<'_> {
    /// Checks a link of a page: its target is in the book.
    fn check_page_link(&self, file: &Path, link: &str) -> Result<(), String> {
        let (target, anchor) = split(file, link);
        if !target.starts_with(self.source) {
            return Err("leads out of the book".to_owned());
        }
        self.check_target(&target, anchor)
    }

    /// Checks a link of a document of the repository: its target exists.
    fn check_document_link(&self, file: &Path, link: &str) -> Result<(), String> {
        let (target, anchor) = split(file, link);
        self.check_target(&target, anchor)
    }

    fn check_target(&self, target: &Path, anchor: Option<&str>) -> Result<(), String> {
        if !target.exists() {
            return Err(format!("{} does not exist", target.display()));
        }
        let Some(anchor) = anchor else {
            return Ok(());
        };
        let found = match target.strip_prefix(self.source) {
            Ok(page) => {
                let page = self.built.join(page.with_extension("html"));
                let text = fs::read_to_string(&page)
                    .map_err(|error| format!("{}: {error}", page.display()))?;
                text.contains(&format!(" id=\"{anchor}\""))
            }
            Err(_) => {
                let text = fs::read_to_string(target).map_err(|error| error.to_string())?;
                headings(&text).contains(anchor)
            }
        };
        if found {
            Ok(())
        } else {
            Err(format!("no heading {anchor}"))
        }
    }
}

/// Returns the file that a link of a file leads to, and its anchor.
fn split<'a>(file: &Path, link: &'a str) -> (PathBuf, Option<&'a str>) {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    if path.is_empty() {
        return (file.to_owned(), anchor);
    }
    let dir = file.parent().unwrap_or(Path::new(""));
    (normalized(&dir.join(path)), anchor)
}

/// Returns a path without `.` and `..`.
fn normalized(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// Returns the anchors of a document as forges make them of its headings.
fn headings(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, options()) {
        match event {
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                anchors.extend(heading.take().map(|text| anchor(&text)))
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    anchors
}

/// Returns the anchor of a heading: lower case, hyphens for spaces, and nothing but letters,
/// digits, `-` and `_`.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        letter if letter.is_alphanumeric() => Some(letter),
        _ => None,
    });
    kept.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_follow_the_headings_of_forges() {
        let text = "# A first handler\n## `peal run`: what, when?\n";
        assert_eq!(
            headings(text),
            BTreeSet::from([
                "a-first-handler".to_owned(),
                "peal-run-what-when".to_owned()
            ])
        );
    }

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let dir = env!("CARGO_MANIFEST_DIR");
        let source = Path::new("/nowhere/src");
        let built = Path::new("/nowhere/built");
        let book = Book { source, built };
        let file = Path::new(dir).join("README.md");
        assert_eq!(book.check_document_link(&file, "Cargo.toml"), Ok(()));
        assert_eq!(book.check_document_link(&file, "src/../Cargo.toml"), Ok(()));
        assert!(book.check_document_link(&file, "missing.md").is_err());
        assert!(
            book.check_document_link(&file, "src/links.rs#missing")
                .is_err()
        );
        assert!(book.check_page_link(&file, "Cargo.toml").is_err());
    }

    #[test]
    fn links_with_a_scheme_are_not_followed() {
        let text = "[a](b.md#c) [d](https://example.org) ![e](f.png) <mailto:g@example.org>";
        assert_eq!(links(text), ["b.md#c", "f.png"]);
    }
}
