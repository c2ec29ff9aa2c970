//! Texts and values cut for lines that people read.
use std::fmt::Display;

/// Limit of a text's length, in characters.
const MAX_SHOWN_CHARACTERS: usize = 200;

/// Returns the start of a text of a program or component, escaped so that it cannot end a line or move the
/// cursor.
pub fn plain_start(text: &str) -> String {
    shortened(crate::plain(text))
}

/// Returns the start of a value, which is shown without characters that move the cursor.
pub fn shortened(value: impl Display) -> String {
    value
        .to_string()
        .chars()
        .take(MAX_SHOWN_CHARACTERS)
        .collect()
}
