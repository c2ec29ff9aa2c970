//! Formatting of lines: their prefix, and text without control sequences.
use crate::{LogDirectives, shown, visible};

/// Prefix of each line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LinePrefix {
    /// Time of the request, in seconds since the epoch. The outer none: no time in lines; the inner
    /// none: the time is unknown.
    pub time: Option<Option<u64>>,
    /// Name of the channel.
    pub tag: Option<String>,
}

impl LinePrefix {
    /// Returns the prefix that a request selects, for the channel of this name.
    pub fn requested(directives: &LogDirectives, name: &str) -> LinePrefix {
        LinePrefix {
            time: directives.dated.then_some(directives.timestamp),
            tag: directives.tagged.then(|| name.to_owned()),
        }
    }

    /// Returns the text of the prefix; empty if none is requested.
    pub fn text(&self) -> String {
        let mut prefix = String::new();
        if let Some(time) = self.time {
            prefix.push_str(&time.map_or_else(|| "-".to_owned(), shown));
            prefix.push(' ');
        }
        if let Some(tag) = &self.tag {
            prefix.push_str(&format!("<{}>: ", visible(tag)));
        }
        prefix
    }

    /// Formats the lines of a text, each with its prefix and line feed.
    pub fn render(&self, text: &str) -> String {
        let prefix = self.text();
        lines(text)
            .map(|line| format!("{prefix}{}\n", visible(line)))
            .collect()
    }
}

/// Returns the lines of a text: at least one, and none for a line feed that ends the text.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_an_end_and_only_one() {
        let rendered = |text| LinePrefix::default().render(text);
        assert_eq!(rendered("one"), "one\n");
        assert_eq!(rendered("one\n"), "one\n");
        assert_eq!(rendered("one\n\ntwo\n\n"), "one\n\ntwo\n\n");
        assert_eq!(rendered(""), "\n");
        assert_eq!(rendered("\u{1b}c\r"), "\\u{1b}c\\r\n");
    }

    #[test]
    fn every_line_is_dressed() {
        let prefix = LinePrefix {
            time: Some(Some(0)),
            tag: Some("stdout".to_owned()),
        };
        let lines =
            "1970-01-01T00:00:00Z <stdout>: one\n1970-01-01T00:00:00Z <stdout>: <stderr>: two\n";
        assert_eq!(prefix.render("one\n<stderr>: two"), lines);
    }

    #[test]
    fn unknown_time_keeps_its_column() {
        let directives = LogDirectives {
            dated: true,
            ..LogDirectives::default()
        };
        assert_eq!(
            LinePrefix::requested(&directives, "stdout").render("one"),
            "- one\n"
        );
        assert_eq!(
            LinePrefix::requested(&LogDirectives::default(), "stdout").render("one"),
            "one\n"
        );
    }
}
