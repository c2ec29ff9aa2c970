//! Rules for names and doc comments of the workspace that a tool can check.
use super::architecture::source_files;
use peal_needs::needs;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Maximum length of the name of a test.
const MAX_TEST_NAME: usize = 60;

/// Forbidden first words of a doc comment: such a comment does not describe its item.
const OPENINGS: [&str; 5] = ["What", "Who", "Whose", "As whom", "How"];

/// Returns the functions marked `#[test]`, of any runtime, in a formatted source.
fn tests_in(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut lines = text.lines().map(str::trim_start);
    while let Some(line) = lines.next() {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            let function = lines.find_map(|line| line.split_once("fn "));
            names.extend(function.and_then(|(_, rest)| rest.split(['(', '<']).next()));
        }
    }
    names
}

/// Returns the types that a source declares public.
fn public_types(text: &str) -> impl Iterator<Item = &str> {
    let kinds = ["struct ", "enum ", "union ", "trait ", "type "];
    text.lines().filter_map(move |line| {
        let item = line.trim_start().strip_prefix("pub ")?;
        let rest = kinds.iter().find_map(|kind| item.strip_prefix(kind))?;
        let name = rest.split(|next: char| !(next.is_alphanumeric() || next == '_'));
        // In a macro, a variable takes the place of the name.
        name.into_iter().next().filter(|name| !name.is_empty())
    })
}

/// Returns the first lines of doc comments that begin with one of `OPENINGS`.
fn bad_openings(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut before = "";
    for line in text.lines().map(str::trim_start) {
        for mark in ["/// ", "//! "] {
            let is_first = !before.starts_with(mark.trim_end());
            let Some(words) = line.strip_prefix(mark).filter(|_| is_first) else {
                continue;
            };
            let is_bad = OPENINGS.iter().any(|opening| {
                words
                    .strip_prefix(*opening)
                    .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
            });
            if is_bad {
                found.push(line);
            }
        }
        before = line;
    }
    found
}

/// Returns the crate of a source of the host or the SDK.
fn crate_of(file: &Path) -> Option<&str> {
    let file = file.to_str()?;
    if let Some(rest) = file.strip_prefix("host/") {
        let (name, inside) = rest.split_once('/')?;
        inside.starts_with("src/").then_some(name)
    } else {
        file.starts_with("sdk/rust/src/").then_some("sdk")
    }
}

#[needs(git)]
#[test]
fn test_names_have_at_most_60_characters() {
    let example = [
        "#[test]",
        "fn one() {}",
        "    #[tokio::test]",
        "    #[ignore]",
        "    async fn two() {}",
        "fn three() {}",
    ];
    assert_eq!(tests_in(&example.join("\n")), ["one", "two"]);
    for (file, text) in source_files() {
        for name in tests_in(&text) {
            assert!(
                name.len() <= MAX_TEST_NAME,
                "{}: {name} has {} characters; the limit is {MAX_TEST_NAME}",
                file.display(),
                name.len()
            );
        }
    }
}

#[needs(git)]
#[test]
fn public_type_names_are_unique_in_the_workspace() {
    let example = "pub struct A<T>;\npub(crate) enum B {}\n    pub trait C: D {}\nstruct E;";
    assert_eq!(public_types(example).collect::<Vec<_>>(), ["A", "C"]);
    let mut homes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (file, text) in source_files() {
        if let Some(name) = crate_of(&file) {
            for public in public_types(&text) {
                homes
                    .entry(public.to_owned())
                    .or_default()
                    .push(name.to_owned());
            }
        }
    }
    assert!(homes.len() > 200, "these are not all: {homes:?}");
    // The SDK has the names of the contract, which are those of the model.
    let duplicates: BTreeSet<&str> = homes
        .iter()
        .filter(|(_, homes)| homes.len() > 1)
        .filter(|(_, homes)| {
            !(homes.len() == 2
                && ["model", "sdk"]
                    .iter()
                    .all(|home| homes.iter().any(|one| one == home)))
        })
        .map(|(name, _)| name.as_str())
        .collect();
    assert!(
        duplicates.is_empty(),
        "public types with one name in several crates: {duplicates:?}"
    );
}

#[needs(git)]
#[test]
fn doc_comments_begin_with_a_noun_or_a_verb() {
    let example = "/// What it is.\n/// A thing.\nfn a() {}\n\n/// However.\n/// How it is.\nfn b() {}\n//! Whose it is.\n/// As whom.";
    assert_eq!(
        bad_openings(example),
        ["/// What it is.", "//! Whose it is.", "/// As whom."]
    );
    for (file, text) in source_files() {
        let bad = bad_openings(&text);
        assert!(bad.is_empty(), "{}: {bad:#?}", file.display());
    }
}
