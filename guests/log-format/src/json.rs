//! JSON on one line.
use std::fmt::Write;

/// Ends JSON with a line feed, and escapes the characters in it that are not shown as they are. JSON has such
/// characters in its strings alone.
pub fn json_line(json: &str, is_shown: impl Fn(char) -> bool) -> String {
    let mut line = String::with_capacity(json.len() + 1);
    for character in json.chars() {
        if is_shown(character) {
            line.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(line, "\\u{unit:04x}");
            }
        }
    }
    line.push('\n');
    line
}
