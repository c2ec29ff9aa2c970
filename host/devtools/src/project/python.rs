//! New project in Python.
use peal_sandbox::Role;
use std::collections::BTreeSet;

fn part(role: Role) -> &'static str {
    match role {
        Role::EventHandler => include_str!("../../templates/python/event-handler.txt"),
        Role::ConnectionPolicy => include_str!("../../templates/python/connection-policy.txt"),
        Role::EventPolicy => include_str!("../../templates/python/event-policy.txt"),
        Role::JobControlPolicy => include_str!("../../templates/python/job-control-policy.txt"),
        Role::MonitorPolicy => include_str!("../../templates/python/monitor-policy.txt"),
        Role::ProvisionPolicy => include_str!("../../templates/python/provision-policy.txt"),
        Role::LogPolicy => include_str!("../../templates/python/log-policy.txt"),
        Role::GroupPolicy => include_str!("../../templates/python/group-policy.txt"),
        Role::SpawnPolicy => include_str!("../../templates/python/spawn-policy.txt"),
        Role::LogChannel => include_str!("../../templates/python/log-channel.txt"),
        Role::Lifecycle => include_str!("../../templates/python/lifecycle.txt"),
    }
}

const TESTS: &str = "\"\"\"Any Python runs these: PYTHONPATH=sdk/python python3 -m unittest\"\"\"
import unittest

import module
import peal


class Tests(unittest.TestCase):
";

pub fn files(roles: &BTreeSet<Role>) -> Vec<(&'static str, String)> {
    // The import needs the capability, which the manifest names for log channels only.
    let sink = if roles.contains(&Role::LogChannel) {
        "from peal import sink\n"
    } else {
        ""
    };
    let parts: Vec<&str> = roles.iter().map(|role| part(*role)).collect();
    // Each part ends with a line end, so functions are two empty lines apart (PEP 8).
    let (code, tests) = super::halves(&parts, "\n\n");
    vec![
        (
            "module.py",
            format!("\"\"\"The module MODULE.\"\"\"\nimport peal\n{sink}\n\n{code}"),
        ),
        ("test_module.py", format!("{TESTS}{tests}")),
    ]
}
