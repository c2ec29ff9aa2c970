//! Colours and weights of what the screen shows.
use crate::top::table::Tone;
use ratatui::style::{Color, Modifier, Style};

/// Use of colours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colours {
    /// Tones have colours.
    Coloured,
    /// Tones differ by weight alone.
    Plain,
}

impl Colours {
    /// Returns the style of a tone.
    pub fn style(self, tone: Tone) -> Style {
        match (self, tone) {
            (_, Tone::Plain) => Style::new(),
            (Colours::Coloured, Tone::Faint) => Style::new().fg(Color::DarkGray),
            (Colours::Coloured, Tone::Good) => Style::new().fg(Color::Green),
            (Colours::Coloured, Tone::Warning) => Style::new().fg(Color::Yellow),
            (Colours::Coloured, Tone::Bad) => {
                Style::new().fg(Color::Red).add_modifier(Modifier::BOLD)
            }
            (Colours::Plain, Tone::Faint) => Style::new().add_modifier(Modifier::DIM),
            (Colours::Plain, Tone::Good) => Style::new(),
            (Colours::Plain, Tone::Warning | Tone::Bad) => {
                Style::new().add_modifier(Modifier::BOLD)
            }
        }
    }

    /// Returns the style of a title.
    pub fn title(self) -> Style {
        match self {
            Colours::Coloured => Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD),
            Colours::Plain => Style::new().add_modifier(Modifier::BOLD),
        }
    }
}

/// Style of the selected row.
pub const SELECTED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Style of the head of a table.
pub const HEAD: Style = Style::new().add_modifier(Modifier::BOLD.union(Modifier::UNDERLINED));

/// Style of what stands out.
pub const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
