//! HTML in which what is not written here is text: markup is part of this program, and all else is escaped.
use std::fmt::{self, Display, Write};

/// A page in the making.
#[derive(Default)]
pub(super) struct Html(String);

/// Takes text and adds it escaped.
struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for letter in text.chars() {
            match letter {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\\' => self.0.push('\\'),
                // What is not seen, and what has text read backwards, is spelled out.
                letter => self.0.extend(letter.escape_debug()),
            }
        }
        Ok(())
    }
}

impl Html {
    /// Markup. It is static, so that nothing from a record becomes some.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Text, also within an attribute that stands in double quotes.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Html {
        // Writing to a string fails only where a value cannot be shown.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// A cell of a table.
    pub(super) fn cell(&mut self, text: impl Display) -> &mut Html {
        self.raw("<td>").text(text).raw("</td>")
    }

    /// A cell with a number.
    pub(super) fn number(&mut self, number: impl Display) -> &mut Html {
        self.raw("<td class=\"n\">").text(number).raw("</td>")
    }

    /// The head of a table; each row is closed by whoever adds it.
    pub(super) fn heads(&mut self, caption: &'static str, heads: &[&'static str]) -> &mut Html {
        self.raw("<div class=\"wide\"><table><caption>")
            .raw(caption)
            .raw("</caption><thead><tr>");
        for head in heads {
            self.raw("<th scope=\"col\">").raw(head).raw("</th>");
        }
        self.raw("</tr></thead><tbody>")
    }

    /// The end of a table.
    pub(super) fn end(&mut self) -> &mut Html {
        self.raw("</tbody></table></div>")
    }

    /// All of it.
    pub(super) fn finish(self) -> String {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Html;

    #[test]
    fn text_is_escaped_unless_markup() {
        let mut html = Html::default();
        html.raw("<b title=\"")
            .text("\"><script>'&\\é\u{202e}\0\n")
            .raw("\">");
        let wanted = "<b title=\"&quot;&gt;&lt;script&gt;&#39;&amp;\\é\\u{202e}\\0\\n\">";
        assert_eq!(html.finish(), wanted);
    }
}
