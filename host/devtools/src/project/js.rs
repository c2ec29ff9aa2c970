//! New project in JavaScript.
use peal_sandbox::Role;
use std::collections::BTreeSet;

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("js", ".txt", role))
        .collect();
    vec![("module.js", source(roles, "// @ts-check\n", &parts))]
}

/// Returns a source in JavaScript or TypeScript: a comment and imports, then the parts for the roles.
/// `directive` is a line before the imports.
pub(super) fn source(roles: &BTreeSet<Role>, directive: &str, parts: &[&str]) -> String {
    // The import needs the capability, which the manifest names for log channels only.
    let sink = if roles.contains(&Role::LogChannel) {
        "import * as sink from \"./sdk/js/sink.js\";\n"
    } else {
        ""
    };
    format!(
        "// The module MODULE. Integers are exact to 2^53.\n{directive}import * as peal from \"./sdk/js/peal.js\";\n{sink}\n{}",
        parts.join("\n")
    )
}
