//! Quotes of received text in errors: short, and safe for a log.
use std::fmt;

/// Beginning of a received text, escaped as [`char::escape_debug`] does except for quotes. Bytes
/// that are not UTF-8 are escaped as `\xff`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    start: Box<str>,
    len: usize,
}

impl Quoted {
    /// Number of bytes of the text that are kept.
    pub const MAX: usize = 64;

    /// Makes the quote of a text. Bytes after the first [`Quoted::MAX`] are not read.
    pub fn new(text: impl AsRef<[u8]>) -> Quoted {
        let bytes = text.as_ref();
        let start: String = bytes
            // The cut may split a character. Its bytes are then escaped as bytes that are not
            // UTF-8.
            .get(..Self::MAX)
            .unwrap_or(bytes)
            .utf8_chunks()
            .map(escaped)
            .collect();
        Quoted {
            start: start.into(),
            len: bytes.len(),
        }
    }
}

fn escaped(chunk: std::str::Utf8Chunk<'_>) -> String {
    let mut plain = String::new();
    for character in chunk.valid().chars() {
        match character {
            '"' | '\'' => plain.push(character),
            _ => plain.extend(character.escape_debug()),
        }
    }
    plain.extend(chunk.invalid().escape_ascii().map(char::from));
    plain
}

/// Formats the text in quotes; a longer text with its length.
impl fmt::Display for Quoted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Quoted { start, len } = self;
        if *len > Self::MAX {
            write!(f, "\"{start}…\" ({len} bytes)")
        } else {
            write!(f, "\"{start}\"")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_plain_text_is_repeated() {
        for text in ["", "4.2.2rc2", "it's \"größer\"", &"x".repeat(Quoted::MAX)] {
            assert_eq!(Quoted::new(text).to_string(), format!("\"{text}\""));
        }
    }

    #[test]
    fn text_able_to_forge_log_is_escaped() {
        for (text, shown) in [
            (&b"a\nWARN b\r\t\0"[..], r#""a\nWARN b\r\t\0""#),
            (b"\x1b[31m\\", r#""\u{1b}[31m\\""#),
            (
                "\u{202e}\u{2028}\u{9b}".as_bytes(),
                r#""\u{202e}\u{2028}\u{9b}""#,
            ),
            (b"a\xffb\xe2\x82", r#""a\xffb\xe2\x82""#),
        ] {
            assert_eq!(Quoted::new(text).to_string(), shown);
        }
    }

    #[test]
    fn long_text_is_cut() {
        let long = Quoted::new("x".repeat(65));
        assert_eq!(
            long.to_string(),
            format!("\"{}…\" (65 bytes)", "x".repeat(64))
        );
        // Escapes grow no text by more than this factor.
        let worst = Quoted::new(vec![1; 15_000_000]);
        assert_eq!(
            worst.to_string(),
            format!("\"{}…\" (15000000 bytes)", "\\u{1}".repeat(64))
        );
    }
}
