//! Handler components in text form, put together with the parts that the sandbox's own tests have for that.
use crate::root;
use std::fs;

/// One of the texts of the sandbox's tests.
pub fn of_sandbox(name: &str) -> Vec<u8> {
    assemble(&part(name))
}

/// A component whose text includes `call.part` and `handler.part`.
pub fn assemble(text: &str) -> Vec<u8> {
    let include = |text: String, name| text.replace(&format!("(;include {name};)"), &part(name));
    wat::parse_str(["call.part", "handler.part"].into_iter().fold(text.to_owned(), include)).unwrap()
}

fn part(name: &str) -> String {
    fs::read_to_string(root().join("host/sandbox/tests/wat").join(name)).unwrap()
}
