//! Picture of the way from an event through handlers, as SVG. A table beside it says the same.
use maud::{Markup, html};
use peal_model::plain_lines;

/// Width of the picture, of a box, and height of a box and of the gap below it.
const WIDTH: usize = 640;
const BOX_WIDTH: usize = 440;
const BOX_HEIGHT: usize = 46;
const GAP: usize = 22;
/// Characters of the name in a box, of the smaller line below it, and of the text beside it.
const MAX_LABEL: usize = 52;
const MAX_DETAIL: usize = 64;
const MAX_ASIDE: usize = 30;
/// Boxes of a picture; further ones are counted.
const MAX_BOXES: usize = 200;

/// Tone of a box.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BoxTone {
    /// Beginning or end.
    Plain,
    /// The handler runs, or has run.
    Runs,
    /// The call has failed.
    Failed,
    /// The event passes the handler by.
    Passed,
}

/// Box of a picture.
#[derive(Clone, Debug)]
pub(crate) struct PictureBox {
    /// Name.
    pub(crate) label: String,
    /// Line below the name.
    pub(crate) detail: String,
    /// Text at the right side.
    pub(crate) aside: String,
    pub(crate) tone: BoxTone,
}

/// Returns the picture, with a title and a description for who does not see it.
pub(crate) fn picture(title: &str, description: &str, boxes: &[PictureBox]) -> Markup {
    let shown = boxes.len().min(MAX_BOXES);
    let height = shown * (BOX_HEIGHT + GAP) + GAP;
    html! {
        svg role="img" aria-labelledby="picture-title picture-description" width=(WIDTH) height=(height)
            viewBox=(format!("0 0 {WIDTH} {height}")) {
            title #picture-title { (plain_lines(title)) }
            desc #picture-description { (plain_lines(description)) }
            @for (at, of) in boxes.iter().take(MAX_BOXES).enumerate() { (drawn(at, of)) }
        }
        @if boxes.len() > shown { p.faint { "and " (boxes.len() - shown) " more handlers" } }
    }
}

fn drawn(at: usize, of: &PictureBox) -> Markup {
    let top = at * (BOX_HEIGHT + GAP) + GAP / 2;
    let middle = BOX_WIDTH / 2;
    let class = match of.tone {
        BoxTone::Plain => None,
        BoxTone::Runs => Some("good"),
        BoxTone::Failed => Some("bad"),
        BoxTone::Passed => Some("over"),
    };
    html! {
        @if at > 0 { line x1=(middle) x2=(middle) y1=(top - GAP) y2=(top) {} }
        rect class=[class] x="2" y=(top) width=(BOX_WIDTH - 4) height=(BOX_HEIGHT) rx="6" {}
        text x="14" y=(top + 20) { (line(&of.label, MAX_LABEL)) }
        text.faint x="14" y=(top + 37) { (line(&of.detail, MAX_DETAIL)) }
        text.faint x=(BOX_WIDTH + 12) y=(top + 28) { (line(&of.aside, MAX_ASIDE)) }
    }
}

/// Returns a text of this number of characters at most.
fn line(text: &str, max: usize) -> String {
    let text = plain_lines(text);
    if text.chars().count() <= max {
        return text;
    }
    let mut short: String = text.chars().take(max.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_names_what_it_shows_and_bounds_it() {
        let of = PictureBox {
            label: "<b>".repeat(40),
            detail: String::new(),
            aside: String::new(),
            tone: BoxTone::Failed,
        };
        let svg = picture("Title", "Description", &vec![of; MAX_BOXES + 3]).into_string();
        assert!(svg.contains("<title id=\"picture-title\">Title</title>"));
        assert_eq!(svg.matches("<rect").count(), MAX_BOXES);
        assert!(svg.contains("and 3 more handlers") && !svg.contains("<b>"));
    }
}
