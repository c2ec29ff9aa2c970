//! Lines as they are written: what stands before each, and nothing in them that controls a terminal.
use humantime::format_rfc3339_seconds;
use std::{
    fmt::Write,
    time::{Duration, UNIX_EPOCH},
};

/// What stands before each line.
pub struct Dress {
    /// The name of the channel.
    pub tag: Option<&'static str>,
    /// When it was logged, in seconds since the epoch.
    pub timestamp: Option<u64>,
}

/// Adds a text's lines, each dressed and ended. Of the characters that control a terminal only tabs stay as they are.
pub fn render(text: &str, dress: &Dress, lines: &mut String) {
    for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
        if let Some(seconds) = dress.timestamp {
            lines.push_str(&time(seconds));
            lines.push(' ');
        }
        if let Some(tag) = dress.tag {
            // Writing to a string cannot fail.
            let _ = write!(lines, "<{tag}>: ");
        }
        for character in line.chars() {
            if character.is_control() && character != '\t' {
                lines.extend(character.escape_default());
            } else {
                lines.push(character);
            }
        }
        lines.push('\n');
    }
}

/// A point of time in UTC, as RFC 3339 writes it where it can, else the seconds themselves.
fn time(seconds: u64) -> String {
    let mut text = String::new();
    let moment = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).map(format_rfc3339_seconds);
    match moment.map(|moment| write!(text, "{moment}")) {
        Some(Ok(())) => text,
        Some(Err(_)) | None => format!("@{seconds}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(text: &str, tag: Option<&'static str>, timestamp: Option<u64>) -> String {
        let mut lines = String::new();
        render(text, &Dress { tag, timestamp }, &mut lines);
        lines
    }

    #[test]
    fn a_line_has_an_end_and_only_one() {
        assert_eq!(rendered("one", None, None), "one\n");
        assert_eq!(rendered("one\n", None, None), "one\n");
        assert_eq!(rendered("one\n\ntwo\n\n", None, None), "one\n\ntwo\n\n");
        assert_eq!(rendered("", None, None), "\n");
    }

    #[test]
    fn nothing_in_a_text_controls_a_terminal() {
        let text = "\u{1b}[2J\u{9b}31m\r\u{7f}\u{0}\tgr\u{fc}\u{df}e \\";
        assert_eq!(rendered(text, None, None), "\\u{1b}[2J\\u{9b}31m\\r\\u{7f}\\u{0}\tgr\u{fc}\u{df}e \\\n");
    }

    #[test]
    fn every_line_is_dressed() {
        let lines = rendered("one\n<stderr>: two", Some("stdout"), Some(0));
        assert_eq!(lines, "1970-01-01T00:00:00Z <stdout>: one\n1970-01-01T00:00:00Z <stdout>: <stderr>: two\n");
    }

    #[test]
    fn a_time_that_no_calendar_has_is_shown_in_seconds() {
        assert_eq!(time(1_700_000_000), "2023-11-14T22:13:20Z");
        assert_eq!(time(253_402_300_800), "@253402300800");
        assert_eq!(time(u64::MAX), format!("@{}", u64::MAX));
    }
}
