//! New project in JavaScript.
use super::SdkOrigin;
use peal_sandbox::Role;
use std::collections::BTreeSet;

pub fn files(roles: &BTreeSet<Role>, sdk: SdkOrigin<'_>) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("js", ".txt", role))
        .collect();
    vec![("module.js", source(roles, "// @ts-check\n", &parts, sdk))]
}

/// Returns a source in JavaScript or TypeScript: a comment and imports, then the parts for the roles.
/// `directive` is a line before the imports.
pub(super) fn source(
    roles: &BTreeSet<Role>,
    directive: &str,
    parts: &[&str],
    sdk: SdkOrigin<'_>,
) -> String {
    // Of an installed package the name is imported. Its place is found as for other packages.
    let library = match sdk {
        SdkOrigin::Copied => "./sdk/js",
        SdkOrigin::Installed(_) => "peal-sdk",
    };
    // The import needs the capability, which the manifest names for log channels only.
    let sink = if roles.contains(&Role::LogChannel) {
        format!("import * as sink from \"{library}/sink.js\";\n")
    } else {
        String::new()
    };
    format!(
        "// The module MODULE. Integers are exact to 2^53.\n{directive}import * as peal from \"{library}/peal.js\";\n{sink}\n{}",
        parts.join("\n")
    )
}
