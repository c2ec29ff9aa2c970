//! Names of the modules that ship with Peal, for the completion of shells.
use clap::{
    Arg, Command, Error,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};
use std::ffi::OsStr;

/// Names of the shipped modules. `tests/tests/modules/catalogue.rs` compares them with their
/// manifests.
const SHIPPED: [&str; 24] = [
    "abort-report",
    "admin-group",
    "chat-channel",
    "drain-node",
    "email",
    "escalate",
    "fair-share",
    "file",
    "group-rule",
    "join-by-rule",
    "log-abort",
    "log-limit",
    "maintenance-window",
    "namespace-only",
    "provision-dry",
    "quota",
    "record",
    "redact",
    "restart",
    "same-user",
    "spawn-limit",
    "stdio",
    "syslog",
    "watchdog",
];

/// Parser that takes any name or path, and has shells complete the names of shipped modules.
#[derive(Clone, Copy, Debug)]
pub struct AvailableNameParser;

impl TypedValueParser for AvailableNameParser {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<String, Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(
            SHIPPED.iter().map(|&name| PossibleValue::new(name)),
        ))
    }
}
