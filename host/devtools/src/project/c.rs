//! New project in C.
use peal_sandbox::Role;
use std::collections::BTreeSet;

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    // Only the code of these roles calls functions of this header.
    let needs_strings = [
        Role::ProvisionPolicy,
        Role::LogPolicy,
        Role::GroupPolicy,
        Role::LogChannel,
        Role::Lifecycle,
    ]
    .iter()
    .any(|role| roles.contains(role));
    let strings = if needs_strings {
        "#include <string.h>\n"
    } else {
        ""
    };
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("c", ".txt", role))
        .collect();
    vec![(
        "module.c",
        format!(
            "// The module MODULE.\n#include <peal.h>\n{strings}\n{}",
            parts.join("\n")
        ),
    )]
}
