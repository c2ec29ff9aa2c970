//! Lines as they are written: what stands before each, and nothing in them that does anything.
use crate::{Wishes, shown, visible};

/// What stands before each line.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Dress {
    /// When it was logged, in seconds since the epoch, if that is to be said at all; then none inside is a time nobody knows.
    pub time: Option<Option<u64>>,
    /// The name of the channel.
    pub tag: Option<String>,
}

impl Dress {
    /// What a request asks for, of the channel of this name.
    pub fn asked(wishes: &Wishes, name: &str) -> Dress {
        Dress {
            time: wishes.dated.then_some(wishes.timestamp),
            tag: wishes.tagged.then(|| name.to_owned()),
        }
    }

    /// What stands before each line, if anything.
    pub fn prefix(&self) -> String {
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

    /// A text's lines, each dressed and ended.
    pub fn render(&self, text: &str) -> String {
        let prefix = self.prefix();
        lines(text)
            .map(|line| format!("{prefix}{}\n", visible(line)))
            .collect()
    }
}

/// The lines of a text: one at least, and none for an end of line that ends the text.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.strip_suffix('\n').unwrap_or(text).split('\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_an_end_and_only_one() {
        let rendered = |text| Dress::default().render(text);
        assert_eq!(rendered("one"), "one\n");
        assert_eq!(rendered("one\n"), "one\n");
        assert_eq!(rendered("one\n\ntwo\n\n"), "one\n\ntwo\n\n");
        assert_eq!(rendered(""), "\n");
        assert_eq!(rendered("\u{1b}c\r"), "\\u{1b}c\\r\n");
    }

    #[test]
    fn every_line_is_dressed() {
        let dress = Dress {
            time: Some(Some(0)),
            tag: Some("stdout".to_owned()),
        };
        let lines =
            "1970-01-01T00:00:00Z <stdout>: one\n1970-01-01T00:00:00Z <stdout>: <stderr>: two\n";
        assert_eq!(dress.render("one\n<stderr>: two"), lines);
    }

    #[test]
    fn unknown_time_keeps_its_column() {
        let wishes = Wishes {
            dated: true,
            ..Wishes::default()
        };
        assert_eq!(Dress::asked(&wishes, "stdout").render("one"), "- one\n");
        assert_eq!(
            Dress::asked(&Wishes::default(), "stdout").render("one"),
            "one\n"
        );
    }
}
