//! New project in Python.
use super::SdkOrigin;
use peal_sandbox::Role;
use std::collections::BTreeSet;

const TESTS: &str = "\"\"\"Any Python runs these: PYTHONPATH=LIBRARY python3 -m unittest\"\"\"
import unittest

import module
import peal


class Tests(unittest.TestCase):
";

pub fn files(roles: &BTreeSet<Role>, sdk: SdkOrigin<'_>) -> Vec<(&'static str, String)> {
    // The import needs the capability, which the manifest names for log channels only.
    let sink = if roles.contains(&Role::LogChannel) {
        "from peal import sink\n"
    } else {
        ""
    };
    let parts: Vec<&str> = roles
        .iter()
        .map(|role| template!("python", ".txt", role))
        .collect();
    // Each part ends with a line end, so functions are two empty lines apart (PEP 8).
    let (code, tests) = super::halves(&parts, "\n\n");
    vec![
        (
            "module.py",
            format!("\"\"\"The module MODULE.\"\"\"\nimport peal\n{sink}\n\n{code}"),
        ),
        (
            "test_module.py",
            TESTS.replace("LIBRARY", &sdk.library("python")) + &tests,
        ),
    ]
}
