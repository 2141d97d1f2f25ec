//! Colours and styles. Texts carry the same information, so that colours are not needed.

use ratatui::style::{Color, Modifier, Style};

/// The meaning of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Good,
    Caution,
    Bad,
    Label,
    Strong,
    /// Selected lines, and bars.
    Chosen,
}

/// The styles of the screen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    has_colours: bool,
}

impl Theme {
    pub(super) const fn new(has_colours: bool) -> Self {
        Self { has_colours }
    }

    /// With colours, unless `NO_COLOR` is set (no-color.org).
    pub(super) fn from_environment() -> Self {
        Self::new(std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()))
    }

    pub(super) fn style(self, tone: Tone) -> Style {
        let (colour, modifier) = match tone {
            Tone::Plain => return Style::new(),
            Tone::Good => (Some(Color::Green), Modifier::BOLD),
            Tone::Caution => (Some(Color::Yellow), Modifier::BOLD),
            Tone::Bad => (Some(Color::Red), Modifier::BOLD),
            Tone::Label => (Some(Color::Cyan), Modifier::empty()),
            Tone::Strong => (None, Modifier::BOLD),
            Tone::Chosen => (None, Modifier::REVERSED),
        };
        let colour = colour.filter(|_| self.has_colours);
        colour.map_or(Style::new(), |colour| Style::new().fg(colour)).add_modifier(modifier)
    }
}
