//! Text that a guest wrote, made fit for a log or a terminal.

/// The text with control characters escaped, cut after `max` bytes with an ellipsis in place of the rest.
pub(crate) fn plain(text: &str, max: usize) -> String {
    let mut plain = String::with_capacity(text.len().min(max));
    for character in text.chars() {
        if plain.len() + character.len_utf8() > max {
            plain.push('…');
            break;
        }
        if character.is_control() { plain.extend(character.escape_default()) } else { plain.push(character) }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn control_characters_are_escaped_and_long_text_is_cut() {
        assert_eq!(plain("a\nb\u{1b}[2J", 100), "a\\nb\\u{1b}[2J");
        assert_eq!(plain("grüße", 4), "grü…");
        assert_eq!(plain("four", 4), "four");
    }
}
