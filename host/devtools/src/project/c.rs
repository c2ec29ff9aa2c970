//! New project in C.
use peal_sandbox::Role;
use std::collections::BTreeSet;

fn part(role: Role) -> &'static str {
    match role {
        Role::EventHandler => include_str!("../../templates/c/event-handler.txt"),
        Role::ConnectionPolicy => include_str!("../../templates/c/connection-policy.txt"),
        Role::EventPolicy => include_str!("../../templates/c/event-policy.txt"),
        Role::JobControlPolicy => include_str!("../../templates/c/job-control-policy.txt"),
        Role::MonitorPolicy => include_str!("../../templates/c/monitor-policy.txt"),
        Role::ProvisionPolicy => include_str!("../../templates/c/provision-policy.txt"),
        Role::LogPolicy => include_str!("../../templates/c/log-policy.txt"),
        Role::GroupPolicy => include_str!("../../templates/c/group-policy.txt"),
        Role::SpawnPolicy => include_str!("../../templates/c/spawn-policy.txt"),
        Role::LogChannel => include_str!("../../templates/c/log-channel.txt"),
        Role::Lifecycle => include_str!("../../templates/c/lifecycle.txt"),
    }
}

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
    let parts: Vec<&str> = roles.iter().map(|role| part(*role)).collect();
    vec![(
        "module.c",
        format!(
            "// The module MODULE.\n#include <peal.h>\n{strings}\n{}",
            parts.join("\n")
        ),
    )]
}
