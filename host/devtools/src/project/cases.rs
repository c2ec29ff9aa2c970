//! Cases of a new project, which are the same for all languages.
use peal_sandbox::Role;
use std::collections::BTreeSet;

/// Description of the case format, for readers who have only the project.
const CASE_FORMAT: &str = include_str!("../../../../docs/src/modules/module-tests.md");

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("cases", ".toml", role))
        .collect();
    let head = "# Inputs of the module MODULE and its expected results, for `peal module test`. README.md describes the format.\n\n";
    vec![
        ("tests/example.toml", head.to_owned() + &parts.join("\n")),
        ("tests/README.md", CASE_FORMAT.to_owned()),
    ]
}
