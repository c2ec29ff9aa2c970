//! New project in C++.
use peal_sandbox::Role;
use std::collections::BTreeSet;

/// Settings of clang-format, which the sources follow.
const FORMAT: &str = "BasedOnStyle: Google\nColumnLimit: 120\n";

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("cpp", ".txt", role))
        .collect();
    vec![
        (
            "module.cpp",
            format!(
                "// The module MODULE.\n#include <peal.hpp>\n\n{}",
                parts.join("\n")
            ),
        ),
        (".clang-format", FORMAT.to_owned()),
    ]
}
