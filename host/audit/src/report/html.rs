//! HTML writer that escapes everything except for static markup of this program.
use std::fmt::{self, Display, Write};

/// An HTML page that is being written.
#[derive(Default)]
pub(super) struct Html(String);

/// Adds text escaped.
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
                // Invisible characters and direction marks are shown as escapes, so that they
                // cannot mislead.
                letter => self.0.extend(letter.escape_debug()),
            }
        }
        Ok(())
    }
}

impl Html {
    /// Adds markup. It must be static, so that no text of a record becomes markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Html {
        self.0.push_str(markup);
        self
    }

    /// Adds text, which may also be inside an attribute in double quotes.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Html {
        // Writing to a string fails only if a `Display` implementation does.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// Adds a cell of a table.
    pub(super) fn cell(&mut self, text: impl Display) -> &mut Html {
        self.raw("<td>").text(text).raw("</td>")
    }

    /// Adds a cell with a number.
    pub(super) fn number(&mut self, number: impl Display) -> &mut Html {
        self.raw("<td class=\"n\">").text(number).raw("</td>")
    }

    /// Adds the head of a table. The caller opens and closes each row.
    pub(super) fn heads(&mut self, caption: &'static str, heads: &[&'static str]) -> &mut Html {
        self.raw("<div class=\"wide\"><table><caption>")
            .raw(caption)
            .raw("</caption><thead><tr>");
        for head in heads {
            self.raw("<th scope=\"col\">").raw(head).raw("</th>");
        }
        self.raw("</tr></thead><tbody>")
    }

    /// Adds the end of a table.
    pub(super) fn end(&mut self) -> &mut Html {
        self.raw("</tbody></table></div>")
    }

    /// Returns the page.
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
