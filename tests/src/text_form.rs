//! Handler components in text form, assembled with the parts of the sandbox's own tests.
use crate::root;
use std::fs;

/// Parts that a handler may include.
const PARTS: [&str; 5] = [
    "call.part",
    "capabilities.part",
    "handler.part",
    "lifecycle.part",
    "push.part",
];

/// Returns the component of a text of the sandbox's tests.
pub fn of_sandbox(name: &str) -> Vec<u8> {
    assemble(&part(name))
}

/// Returns the component of this text, which includes parts by `(;include ...;)`.
pub fn assemble(text: &str) -> Vec<u8> {
    let include = |text: String, name| text.replace(&format!("(;include {name};)"), &part(name));
    wat::parse_str(PARTS.into_iter().fold(text.to_owned(), include)).unwrap()
}

fn part(name: &str) -> String {
    fs::read_to_string(root().join("host/sandbox/tests/wat").join(name)).unwrap()
}
