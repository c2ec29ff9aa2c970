//! New project in JavaScript.
use peal_sandbox::Role;
use std::collections::BTreeSet;

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    // The import needs the capability, which the manifest names for log channels only.
    let sink = if roles.contains(&Role::LogChannel) {
        "import * as sink from \"./sdk/js/sink.js\";\n"
    } else {
        ""
    };
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("js", ".txt", role))
        .collect();
    let head = "// The module MODULE. Integers are exact to 2^53.\n// @ts-check\nimport * as peal from \"./sdk/js/peal.js\";\n";
    vec![("module.js", format!("{head}{sink}\n{}", parts.join("\n")))]
}
