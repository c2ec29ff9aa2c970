//! Escaping of text that a guest wrote, or that the engine wrote about a guest, for a log or a
//! terminal.

/// Bound on a quote of a guest in an error, in bytes.
pub(crate) const MAX_QUOTED: usize = 1024;

/// Returns true if a character needs no escape. It must be visible and neither control the terminal
/// nor change the direction of writing. The backslash is escaped because it begins the escapes.
pub(crate) fn is_plain(character: char) -> bool {
    matches!(character, '"' | '\'') || character.escape_debug().eq([character])
}

/// Returns a text with all characters escaped that are not plain, cut after `max` bytes with an
/// ellipsis for the rest.
pub(crate) fn plain(text: &str, max: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(max));
    for character in text.chars() {
        let before = plain.len();
        if is_plain(character) {
            plain.push(character)
        } else {
            plain.extend(character.escape_debug())
        }
        if plain.len() > max {
            // Cut before the character: half of an escape must not remain.
            plain.truncate(before);
            plain.push('…');
            break;
        }
    }
    plain
}

/// Returns a text that another process should have escaped and cut. If it has not, the text is escaped
/// here.
pub fn checked_plain(text: &str, max: usize) -> String {
    // A backslash begins the escapes of the other process.
    let is_escaped = text
        .chars()
        .all(|character| character == '\\' || is_plain(character));
    if is_escaped && text.len() <= max {
        text.to_owned()
    } else {
        plain(text, max)
    }
}

/// Joins plain texts with commas and cuts the result likewise.
pub(crate) fn row(texts: &[String], max: usize) -> String {
    let whole = texts.join(", ");
    let end = (0..=max)
        .rev()
        .find(|end| whole.is_char_boundary(*end))
        .unwrap_or(0);
    match whole.get(..end) {
        Some(start) if whole.len() > max => format!("{start}…"),
        _ => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::{checked_plain, plain, row};

    #[test]
    fn text_that_was_escaped_stays_and_other_text_is_escaped() {
        let escaped = plain("a\nb", 100);
        assert_eq!(checked_plain(&escaped, 100), escaped);
        assert_eq!(checked_plain("a\nb", 100), escaped);
        assert_eq!(checked_plain("long", 2), "lo…");
    }

    #[test]
    fn control_characters_are_escaped_and_long_text_is_cut() {
        assert_eq!(plain("a\nb\u{1b}[2J", 100), "a\\nb\\u{1b}[2J");
        assert_eq!(
            plain("\u{202e}gpj.exe\u{2028}\u{200b}", 100),
            "\\u{202e}gpj.exe\\u{2028}\\u{200b}"
        );
        assert_eq!(
            plain("\\n is not a line break, \"it's\" text", 100),
            "\\\\n is not a line break, \"it's\" text"
        );
        assert_eq!(plain("grüße", 4), "grü…");
        assert_eq!(plain("four", 4), "four");
        assert_eq!(plain("four\u{202e}", 6), "four…", "no half of an escape");
    }

    #[test]
    fn a_row_is_cut_at_a_character() {
        assert_eq!(row(&["a".into(), "b".into()], 4), "a, b");
        assert_eq!(row(&["grüße".into()], 3), "gr…");
    }
}
