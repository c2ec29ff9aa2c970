//! Handler components in text form, put together with the parts that the sandbox's own tests have for that.
use crate::root;
use std::fs;

/// What a handler may include.
const PARTS: [&str; 5] = [
    "call.part",
    "capabilities.part",
    "handler.part",
    "lifecycle.part",
    "push.part",
];

/// One of the texts of the sandbox's tests.
pub fn of_sandbox(name: &str) -> Vec<u8> {
    assemble(&part(name))
}

/// A component of this text, which says by `(;include ...;)` where parts go.
pub fn assemble(text: &str) -> Vec<u8> {
    let include = |text: String, name| text.replace(&format!("(;include {name};)"), &part(name));
    wat::parse_str(PARTS.into_iter().fold(text.to_owned(), include)).unwrap()
}

fn part(name: &str) -> String {
    fs::read_to_string(root().join("host/sandbox/tests/wat").join(name)).unwrap()
}
