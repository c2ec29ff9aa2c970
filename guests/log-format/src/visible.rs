//! Visible forms of characters with an effect.

/// Returns whether a character has no effect: it ends no line, controls no terminal, and changes no
/// writing direction.
pub fn is_plain(character: char) -> bool {
    let ends_a_line = matches!(character, '\u{2028}' | '\u{2029}');
    let turns_around = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (character == '\t' || !character.is_control()) && !ends_a_line && !turns_around
}

/// Escapes characters with an effect as `\r` or `\u{1b}`. Of the control characters only tabs are
/// kept.
pub fn visible(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for character in text.chars() {
        if is_plain(character) {
            written.push(character);
        } else {
            written.extend(character.escape_default());
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_controls_a_terminal() {
        let text = "\u{1b}[2J\u{9b}31m\r\u{7f}\u{0}\tgr\u{fc}\u{df}e \\";
        assert_eq!(
            visible(text),
            "\\u{1b}[2J\\u{9b}31m\\r\\u{7f}\\u{0}\tgr\u{fc}\u{df}e \\"
        );
    }

    #[test]
    fn nothing_in_a_text_ends_a_line_or_turns_it_around() {
        assert_eq!(
            visible("a\nb\u{2028}c\u{85}\u{202e}d"),
            "a\\nb\\u{2028}c\\u{85}\\u{202e}d"
        );
        assert_eq!(visible("שלום العربية"), "שלום العربية");
    }
}
