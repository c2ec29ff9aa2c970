//! Names: what the library exports, compared with the list of all names of the C library.
use crate::program::library;
use peal_needs::needs;
use std::{collections::BTreeSet, process::Command};

/// All names, by release and group.
const NAMES: &str = include_str!("../../names.toml");

/// Source of the functions that are not supported.
const UNSUPPORTED: &str = include_str!("../../src/server/unsupported.rs");

/// Names that are not implemented yet. This list only shrinks. `cargo xtask docs` reads it.
const PENDING: &[&str] = &["PMIx_Progress_thread_stop", "PMIx_tool_set_server_module"];

/// Names of functions and data that the library exports and that the C library has, too.
fn exported() -> BTreeSet<String> {
    let output = Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(library())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names = text
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2));
    names
        .filter(|name| name.starts_with("PMIx_") || name.starts_with("pmix_"))
        .map(str::to_owned)
        .collect()
}

/// Returns a text of an entry of the list.
fn text<'a>(entry: &'a toml::Value, member: &str) -> &'a str {
    entry.get(member).and_then(toml::Value::as_str).unwrap()
}

/// Returns the list: names with their release and group.
fn list() -> toml::Table {
    let mut file: toml::Table = NAMES.parse().unwrap();
    let Some(toml::Value::Table(names)) = file.remove("names") else {
        unreachable!("names.toml has a table of names");
    };
    for (name, entry) in &names {
        let group = text(entry, "group");
        let groups = ["values", "client", "tool", "server", "data"];
        assert!(groups.contains(&group), "{name}: {group}");
        let releases = ["4.2.2", "5.0.11", "6.1.0", "7.0"];
        assert!(releases.contains(&text(entry, "since")), "{name}");
    }
    names
}

#[needs(libpmix)]
#[test]
fn every_name_of_the_c_library_is_exported_or_pending() {
    let exported = exported();
    let listed: BTreeSet<String> = list().keys().cloned().collect();
    assert_eq!(listed.len(), 325);
    let unknown: Vec<&String> = exported.difference(&listed).collect();
    assert!(unknown.is_empty(), "not in names.toml: {unknown:#?}");
    let pending: BTreeSet<String> = PENDING.iter().map(|name| (*name).to_owned()).collect();
    let missing: BTreeSet<String> = listed.difference(&exported).cloned().collect();
    let lost: Vec<&String> = missing.difference(&pending).collect();
    assert!(lost.is_empty(), "not exported: {lost:#?}");
    let done: Vec<&String> = pending.difference(&missing).collect();
    assert!(
        done.is_empty(),
        "exported, so remove from PENDING: {done:#?}"
    );
}

#[needs(libpmix)]
#[test]
fn functions_without_server_are_all_exported() {
    let exported = exported();
    let mut names = list();
    names.retain(|name, entry| text(entry, "group") == "values" && !exported.contains(name));
    assert!(names.is_empty(), "{names:#?}");
}

#[test]
fn unsupported_names_are_those_that_the_source_refuses() {
    for (name, entry) in list() {
        let supported = entry.get("supported").and_then(toml::Value::as_bool);
        let refused = UNSUPPORTED.contains(&format!("\"{name}\""));
        assert_eq!(supported.unwrap_or(true), !refused, "{name}");
    }
}
