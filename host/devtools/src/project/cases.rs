//! Cases of a new project, which are the same for all languages.
use peal_sandbox::Role;
use std::collections::BTreeSet;

fn part(role: Role) -> &'static str {
    match role {
        Role::EventHandler => include_str!("../../templates/cases/event-handler.toml"),
        Role::ConnectionPolicy => include_str!("../../templates/cases/connection-policy.toml"),
        Role::EventPolicy => include_str!("../../templates/cases/event-policy.toml"),
        Role::JobControlPolicy => include_str!("../../templates/cases/job-control-policy.toml"),
        Role::MonitorPolicy => include_str!("../../templates/cases/monitor-policy.toml"),
        Role::ProvisionPolicy => include_str!("../../templates/cases/provision-policy.toml"),
        Role::LogPolicy => include_str!("../../templates/cases/log-policy.toml"),
        Role::GroupPolicy => include_str!("../../templates/cases/group-policy.toml"),
        Role::SpawnPolicy => include_str!("../../templates/cases/spawn-policy.toml"),
        Role::LogChannel => include_str!("../../templates/cases/log-channel.toml"),
        Role::Lifecycle => include_str!("../../templates/cases/lifecycle.toml"),
    }
}

/// Description of the case format, for readers who have only the project.
const CASE_FORMAT: &str = include_str!("../../../../docs/src/modules/module-tests.md");

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    let parts: Vec<&str> = roles.iter().map(|role| part(*role)).collect();
    let head = "# Inputs of the module MODULE and its expected results, for `peal module test`. README.md describes the format.\n\n";
    vec![
        ("tests/example.toml", head.to_owned() + &parts.join("\n")),
        ("tests/README.md", CASE_FORMAT.to_owned()),
    ]
}
