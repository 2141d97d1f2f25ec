//! Text screens: a grid of cells for pages, displays that show it, and keys.
//!
//! Drawing and showing are separate: a page is drawn completely in memory, and the cells that
//! differ from the display are shown a few at a time. A slow display delays nothing else.

pub mod console;
pub mod keys;
pub mod last_words;
pub(crate) mod page;
pub mod pixels;
pub mod terminal;
pub mod vga;

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

/// The style of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Normal text.
    #[default]
    Plain,
    /// Emphasized text.
    Strong,
    /// A label.
    Label,
    /// The first and the last row.
    Bar,
    /// The selected entry of a bar.
    Chosen,
    /// A good state.
    Good,
    /// A bad state.
    Bad,
}

/// A cell of a grid: a printable ASCII character with a style.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The character.
    pub byte: u8,
    /// Its style.
    pub style: Style,
}

impl Cell {
    /// A blank cell.
    pub const BLANK: Self = Self { byte: b' ', style: Style::Plain };
    /// A cell with unknown content.
    const UNKNOWN: Self = Self { byte: 0, style: Style::Plain };

    /// A cell with `letter`, or with a question mark if that is not printable ASCII.
    #[must_use]
    pub fn new(letter: char, style: Style) -> Self {
        let is_shown = letter == ' ' || letter.is_ascii_graphic();
        Self { byte: if is_shown { letter as u8 } else { b'?' }, style }
    }
}

/// Rows of cells. Output outside of the grid is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    width: usize,
    height: usize,
    cells: Vec<Cell>,
}

impl Grid {
    /// A blank grid.
    #[must_use]
    pub fn new(width: usize, height: usize) -> Self {
        Self { width, height, cells: alloc::vec![Cell::BLANK; width * height] }
    }

    /// Cells per row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    #[must_use]
    pub fn height(&self) -> usize {
        self.height
    }

    /// The cells of a row; empty if there is no such row.
    #[must_use]
    pub fn row(&self, row: usize) -> &[Cell] {
        self.cells.chunks_exact(self.width).nth(row).unwrap_or_default()
    }

    /// Clears a row to blanks of this style.
    pub fn fill(&mut self, row: usize, style: Style) {
        if let Some(cells) = self.cells.chunks_exact_mut(self.width).nth(row) {
            cells.fill(Cell { byte: b' ', style });
        }
    }

    /// Prints at a position. Returns the column behind the text.
    pub fn print(
        &mut self,
        row: usize,
        column: usize,
        style: Style,
        text: fmt::Arguments<'_>,
    ) -> usize {
        struct Pen<'a> {
            cells: &'a mut [Cell],
            column: usize,
            style: Style,
        }
        impl fmt::Write for Pen<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                for letter in text.chars() {
                    if let Some(cell) = self.cells.get_mut(self.column) {
                        *cell = Cell::new(letter, self.style);
                    }
                    self.column += 1;
                }
                Ok(())
            }
        }
        let cells = self.cells.chunks_exact_mut(self.width).nth(row).unwrap_or_default();
        let mut pen = Pen { cells, column, style };
        // Writing to a pen does not fail.
        let _ = pen.write_fmt(text);
        pen.column
    }

    /// The text of a row, without trailing blanks.
    #[must_use]
    pub fn text(&self, row: usize) -> String {
        let text: String = self.row(row).iter().map(|cell| char::from(cell.byte)).collect();
        text.trim_end().into()
    }
}

/// A device that shows cells.
pub trait Display: fmt::Debug {
    /// Cells per row, and number of rows.
    fn size(&self) -> (usize, usize);

    /// Maximum number of cells shown at a time, so that it does not take long.
    fn most(&self) -> usize;

    /// Returns true if it accepts cells now.
    fn is_ready(&self) -> bool {
        true
    }

    /// Shows cells of one row.
    fn show(&mut self, row: usize, column: usize, cells: &[Cell]);
}

/// A grid, and the state of its display.
#[derive(Debug)]
pub struct Screen {
    grid: Grid,
    shown: Vec<Cell>,
    /// The cell to compare next.
    at: usize,
    /// Number of cells not compared since the last drawing.
    rest: usize,
}

impl Screen {
    /// A screen for a display of this size with unknown content.
    #[must_use]
    pub fn new((width, height): (usize, usize)) -> Self {
        let grid = Grid::new(width, height);
        let shown = alloc::vec![Cell::UNKNOWN; grid.cells.len()];
        Self { rest: shown.len(), grid, shown, at: 0 }
    }

    /// The drawn grid.
    #[must_use]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Draws a page on a blank grid.
    pub fn draw(&mut self, page: impl FnOnce(&mut Grid)) {
        self.grid.cells.fill(Cell::BLANK);
        page(&mut self.grid);
        self.rest = self.shown.len();
    }

    /// Shows all cells again.
    pub fn forget(&mut self) {
        self.shown.fill(Cell::UNKNOWN);
        self.rest = self.shown.len();
    }

    /// Compares at most one row, and shows a few of its different cells. Returns true if there is
    /// more to compare.
    pub fn turn(&mut self, display: &mut dyn Display) -> bool {
        if self.rest == 0 || !display.is_ready() {
            return self.rest > 0;
        }
        let row = self.at / self.grid.width;
        let end = (row + 1) * self.grid.width;
        let is_old = |at: &usize| self.grid.cells[*at] != self.shown[*at];
        let start = (self.at..end).find(is_old).unwrap_or(end);
        let limit = end.min(start + display.most());
        let stop = (start..limit).find(|at| !is_old(at)).unwrap_or(limit);
        if start < stop {
            let cells = &self.grid.cells[start..stop];
            display.show(row, start - row * self.grid.width, cells);
            self.shown[start..stop].copy_from_slice(cells);
        }
        self.rest = self.rest.saturating_sub(stop - self.at);
        self.at = if stop == self.shown.len() { 0 } else { stop };
        self.rest > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A display that stores its content.
    #[derive(Debug)]
    struct Recorder {
        grid: Grid,
        times: usize,
    }

    impl Display for Recorder {
        fn size(&self) -> (usize, usize) {
            (self.grid.width, self.grid.height)
        }

        fn most(&self) -> usize {
            4
        }

        fn show(&mut self, row: usize, column: usize, cells: &[Cell]) {
            assert!(cells.len() <= self.most());
            let at = row * self.grid.width + column;
            self.grid.cells[at..at + cells.len()].copy_from_slice(cells);
            self.times += 1;
        }
    }

    fn shown(screen: &mut Screen, told: &mut Recorder) -> usize {
        told.times = 0;
        while screen.turn(told) {}
        assert_eq!(&told.grid, screen.grid());
        told.times
    }

    #[test]
    fn only_changed_cells_are_drawn_a_few_at_a_time() {
        let mut told = Recorder { grid: Grid::new(10, 3), times: 0 };
        let mut screen = Screen::new(told.size());
        assert_eq!(shown(&mut screen, &mut told), 9);
        screen.draw(|_| ());
        assert_eq!(shown(&mut screen, &mut told), 0);
        screen.draw(|grid| {
            grid.print(1, 2, Style::Good, format_args!("ab"));
            grid.print(2, 6, Style::Plain, format_args!("cd"));
        });
        assert_eq!(shown(&mut screen, &mut told), 2);
        // A different style is a change.
        screen.draw(|grid| {
            grid.print(1, 2, Style::Bad, format_args!("ab"));
            grid.print(2, 6, Style::Plain, format_args!("cd"));
        });
        assert_eq!(shown(&mut screen, &mut told), 1);
        screen.forget();
        assert_eq!(shown(&mut screen, &mut told), 9);
    }

    #[test]
    fn changes_during_drawing_are_drawn() {
        let mut told = Recorder { grid: Grid::new(10, 3), times: 0 };
        let mut screen = Screen::new(told.size());
        for number in 0..20 {
            screen.draw(|grid| {
                grid.print(number % 3, 0, Style::Plain, format_args!("{number}"));
            });
            screen.turn(&mut told);
        }
        shown(&mut screen, &mut told);
    }

    #[test]
    fn long_text_is_cut_and_unprintable_text_is_replaced() {
        let mut grid = Grid::new(6, 2);
        let behind = grid.print(0, 2, Style::Plain, format_args!("a\x1b\u{fc}bcd"));
        assert_eq!((grid.text(0).as_str(), behind), ("  a??b", 8));
        assert_eq!(grid.print(2, 0, Style::Plain, format_args!("x")), 1);
        assert_eq!(grid.text(1), "");
    }
}
