//! New project in JavaScript.
use peal_sandbox::Role;
use std::collections::BTreeSet;

fn part(role: Role) -> &'static str {
    match role {
        Role::EventHandler => include_str!("../../templates/js/event-handler.txt"),
        Role::ConnectionPolicy => include_str!("../../templates/js/connection-policy.txt"),
        Role::EventPolicy => include_str!("../../templates/js/event-policy.txt"),
        Role::JobControlPolicy => include_str!("../../templates/js/job-control-policy.txt"),
        Role::MonitorPolicy => include_str!("../../templates/js/monitor-policy.txt"),
        Role::ProvisionPolicy => include_str!("../../templates/js/provision-policy.txt"),
        Role::LogPolicy => include_str!("../../templates/js/log-policy.txt"),
        Role::GroupPolicy => include_str!("../../templates/js/group-policy.txt"),
        Role::SpawnPolicy => include_str!("../../templates/js/spawn-policy.txt"),
        Role::LogChannel => include_str!("../../templates/js/log-channel.txt"),
        Role::Lifecycle => include_str!("../../templates/js/lifecycle.txt"),
    }
}

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    // The import needs the capability, which the manifest names for log channels only.
    let sink = if roles.contains(&Role::LogChannel) {
        "import * as sink from \"./sdk/js/sink.js\";\n"
    } else {
        ""
    };
    let parts: Vec<&str> = roles.iter().map(|role| part(*role)).collect();
    let head = "// The module MODULE. Integers are exact to 2^53.\n// @ts-check\nimport * as peal from \"./sdk/js/peal.js\";\n";
    vec![("module.js", format!("{head}{sink}\n{}", parts.join("\n")))]
}
