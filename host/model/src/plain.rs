//! Texts of others as people read them, with characters escaped that could mislead a reader.

/// Returns true if a character controls a terminal, ends a line, changes the direction of text, or cannot be
/// seen.
fn is_misleading(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}'
        )
}

/// Returns a text as one line, with misleading characters and line breaks escaped.
pub fn plain(text: &str) -> String {
    escaped(text, is_misleading)
}

/// Returns a text with its line breaks, and with misleading characters escaped.
pub fn plain_lines(text: &str) -> String {
    escaped(text, |character| {
        is_misleading(character) && character != '\n'
    })
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if is_escaped(character) {
            plain.extend(character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misleading_characters_are_escaped_and_others_kept() {
        assert_eq!(
            plain("a\r\n\u{1b}[2J\u{9b}H\u{200b}\u{202e}\u{2066}\u{feff}"),
            "a\\r\\n\\u{1b}[2J\\u{9b}H\\u{200b}\\u{202e}\\u{2066}\\u{feff}"
        );
        let kept = "grün \"it's\" \\n \u{1f600}";
        assert_eq!(plain(kept), kept);
    }

    #[test]
    fn lines_of_a_text_are_kept_and_its_other_controls_escaped() {
        assert_eq!(plain_lines("a\nb\r\u{2028}\n"), "a\nb\\r\\u{2028}\n");
    }
}
