//! Lines as XML: each an element of its own, whose text cannot create elements or attributes.
use peal_log_format::{lines, shown, visible};
use peal_sdk::Proc;

/// Format of the elements of one request.
pub struct Elements {
    /// Text before each line.
    start: String,
    /// Text after each line.
    end: String,
}

impl Elements {
    /// Creates elements of this name, with the requester's proc as attributes; `time` as in
    /// [`peal_log_format::LinePrefix`].
    pub fn new(name: &str, source: Option<&Proc>, time: Option<Option<u64>>) -> Elements {
        let mut start = format!("<{name}");
        if let Some(Proc { nspace, rank }) = source {
            start.push_str(&format!(
                " nspace=\"{}\" rank=\"{rank}\"",
                attribute(nspace)
            ));
        }
        if let Some(time) = time {
            start.push_str(&format!(
                " timestamp=\"{}\"",
                time.map_or_else(|| "-".to_owned(), shown)
            ));
        }
        Elements {
            start: start + ">",
            end: format!("&#010;</{name}>\n"),
        }
    }

    /// Formats the lines of a text.
    pub fn render(&self, text: &str) -> String {
        lines(text)
            .map(|line| format!("{}{}{}", self.start, escaped(line), self.end))
            .collect()
    }
}

/// Escapes text for XML: markup as entities; characters that XML 1.0 cannot contain or that control
/// a terminal are made visible.
fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            '\'' => written.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => written.extend(character.escape_unicode()),
            other => written.push(other),
        }
    }
    written
}

/// Escapes text for an attribute, where XML readers turn a tab into a space.
fn attribute(text: &str) -> String {
    escaped(text).replace('\t', "&#009;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_line_is_an_element() {
        let proc = Proc::new("solver", 3);
        let elements = Elements::new("stdout", Some(&proc), None);
        let one = "<stdout nspace=\"solver\" rank=\"3\">one&#010;</stdout>\n";
        assert_eq!(elements.render("one\n"), one);
        assert_eq!(elements.render("one\none"), one.repeat(2));
        assert_eq!(
            Elements::new("stderr", None, None).render(""),
            "<stderr>&#010;</stderr>\n"
        );
    }

    #[test]
    fn the_time_is_an_attribute() {
        let elements = |time| Elements::new("stderr", None, Some(time)).render("x");
        assert_eq!(
            elements(Some(0)),
            "<stderr timestamp=\"1970-01-01T00:00:00Z\">x&#010;</stderr>\n"
        );
        assert_eq!(elements(None), "<stderr timestamp=\"-\">x&#010;</stderr>\n");
    }

    #[test]
    fn nothing_forges_an_element_or_an_attribute() {
        let proc = Proc::new("a\" rank='0'>\t<x", 1);
        let lines = Elements::new("stdout", Some(&proc), None)
            .render("</stdout>\n<stdout rank=\"0\">&#010;]]>");
        let start = "<stdout nspace=\"a&quot; rank=&apos;0&apos;&gt;&#009;&lt;x\" rank=\"1\">";
        let texts = [
            "&lt;/stdout&gt;",
            "&lt;stdout rank=&quot;0&quot;&gt;&amp;#010;]]&gt;",
        ];
        assert_eq!(
            lines,
            texts
                .map(|text| format!("{start}{text}&#010;</stdout>\n"))
                .concat()
        );
    }

    #[test]
    fn characters_not_allowed_in_xml_stay_visible() {
        assert_eq!(
            escaped("\u{0}\u{1b}[2J\r\u{fffe}\u{ffff}\tgrün"),
            "\\u{0}\\u{1b}[2J\\r\\u{fffe}\\u{ffff}\tgrün"
        );
    }

    /// Returns the text that an XML reader sees.
    fn unescaped(text: &str) -> String {
        let named = [
            ("&lt;", "<"),
            ("&gt;", ">"),
            ("&quot;", "\""),
            ("&apos;", "'"),
            ("&#009;", "\t"),
            ("&amp;", "&"),
        ];
        named
            .iter()
            .fold(text.to_owned(), |text, (entity, character)| {
                text.replace(entity, character)
            })
    }

    /// Strategy for texts that resemble the channel's own syntax.
    const ODD: &str = r##"([ab \n\r\t<>"'&;#\[\],:0]|(?s:.)){0,60}"##;

    proptest! {
        /// Each line is one element from which a reader gets the logged text, for any text and
        /// namespace.
        #[test]
        fn elements_are_read_back(text in ODD, nspace in ODD) {
            let proc = Proc::new(nspace.clone(), 3);
            let written = Elements::new("stdout", Some(&proc), None).render(&text);
            let expected: Vec<String> = lines(&text).map(visible).collect();
            prop_assert_eq!(written.lines().count(), expected.len());
            for (element, line) in written.lines().zip(expected) {
                prop_assert_eq!((element.matches('<').count(), element.matches('"').count()), (2, 4));
                let (start, rest) = element.split_once('>').unwrap();
                let nspace_there = start.split('"').nth(1).unwrap();
                let text_there = rest.strip_suffix("&#010;</stdout>").unwrap();
                let is_odd = |text: &str| text.contains(['\u{fffe}', '\u{ffff}']);
                prop_assert!(!is_odd(element));
                prop_assert!(is_odd(&line) || unescaped(text_there) == line);
                prop_assert!(is_odd(&nspace) || unescaped(nspace_there) == visible(&nspace));
            }
        }
    }
}
