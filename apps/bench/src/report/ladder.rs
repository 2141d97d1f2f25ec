//! Draws the messages of a call as a ladder diagram.

use crate::capture::flow::{Arrow, Flow, seconds};
use maud::{Markup, html};

/// A ladder diagram with its caption.
#[derive(Debug)]
pub(super) struct Ladder {
    pub(super) caption: String,
    pub(super) flow: Flow,
}

/// The position of the first column, after the times.
const LEFT: usize = 200;
/// The distance of columns, wide enough for the longest address and a method of 16 letters.
const COLUMN: usize = 320;
/// The distance of messages.
const ROW: usize = 30;
/// The position of the first message, below the parties.
const TOP: usize = 62;

impl Ladder {
    /// Returns the ladder as an element of a page, whose style sets the colours.
    pub(super) fn drawn(&self) -> Markup {
        let Flow { parties, arrows } = &self.flow;
        let width = LEFT + COLUMN * parties.len().saturating_sub(1).max(1) + COLUMN / 2;
        let height = TOP + ROW * arrows.len();
        let column = |number: usize| LEFT + COLUMN * number;
        html! {
            div.ladder {
                p.caption { (self.caption) }
                svg role="img" aria-label=(self.caption) width=(width) height=(height)
                    viewBox=(format!("0 0 {width} {height}")) {
                    @for (number, party) in parties.iter().enumerate() {
                        text.party x=(column(number)) y="20" { (party) }
                        line.life x1=(column(number)) x2=(column(number)) y1="30" y2=(height) {}
                    }
                    @for (number, arrow) in arrows.iter().enumerate() {
                        (drawn(arrow, TOP + ROW * number, column))
                    }
                }
            }
        }
    }
}

fn drawn(arrow: &Arrow, y: usize, column: impl Fn(usize) -> usize) -> Markup {
    html! {
        g.message.again[arrow.again] {
            text.time x="96" y=(y + 4) { (seconds(arrow.at_us)) }
            @match arrow.between {
                Some((from, to)) => {
                    @let (x1, x2) = (column(from), column(to));
                    // The line ends before the tip of the arrow head.
                    @let back = if from < to { x2 - 9 } else { x2 + 9 };
                    line x1=(x1) x2=(back) y1=(y) y2=(y) {}
                    polygon points=(format!("{x2},{y} {back},{} {back},{}", y - 5, y + 5)) {}
                    text.what x=((x1 + x2) / 2) y=(y - 7) { (arrow.what) }
                }
                None => text.aside x=(LEFT + 12) y=(y + 4) { (arrow.what) },
            }
        }
    }
}
