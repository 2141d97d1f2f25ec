//! The failure message on the screen. Nothing here allocates or waits.

use super::pixels::Pixels;
use super::vga::Text;
use super::{Cell, Display, Style};
use crate::lock::Lock;
use core::fmt::{self, Write as _};
use core::sync::atomic::{AtomicBool, Ordering};
use lock_api::Mutex;

/// The machine's own screen.
#[derive(Clone, Copy, Debug)]
pub enum Local {
    /// In text mode.
    Text(Text),
    /// In graphics mode.
    Pixels(Pixels),
}

impl Display for Local {
    fn size(&self) -> (usize, usize) {
        match self {
            Self::Text(text) => text.size(),
            Self::Pixels(pixels) => pixels.size(),
        }
    }

    fn most(&self) -> usize {
        match self {
            Self::Text(text) => text.most(),
            Self::Pixels(pixels) => pixels.most(),
        }
    }

    fn show(&mut self, row: usize, column: usize, cells: &[Cell]) {
        match self {
            Self::Text(text) => text.show(row, column, cells),
            Self::Pixels(pixels) => pixels.show(row, column, cells),
        }
    }
}

static SCREEN: Mutex<Lock, Option<Local>> = Mutex::new(None);
static HAS_PAGE: AtomicBool = AtomicBool::new(false);

/// Sets the screen for the failure message.
pub fn set_screen(screen: Local) {
    *SCREEN.lock() = Some(screen);
}

/// Records that the terminal on the serial line shows pages, or lines again.
pub fn set_has_page(has: bool) {
    HAS_PAGE.store(has, Ordering::Relaxed);
}

/// Returns true if the terminal on the serial line shows a page, which has to be cleared.
#[must_use]
pub fn has_page() -> bool {
    HAS_PAGE.load(Ordering::Relaxed)
}

/// Shows `words` on the screen, above its content.
pub fn show(words: fmt::Arguments<'_>) {
    // After a failure while the screen was being set there is no screen.
    let Some(screen) = SCREEN.try_lock().and_then(|screen| *screen) else { return };
    say(screen, words);
}

fn say(mut screen: impl Display, words: fmt::Arguments<'_>) {
    let mut pen = Pen { screen: &mut screen, row: 0, column: 0 };
    let _ = write!(pen, "\n{words}\n\n");
}

struct Pen<'a> {
    screen: &'a mut dyn Display,
    row: usize,
    column: usize,
}

impl Pen<'_> {
    fn put(&mut self, letter: char) {
        self.screen.show(self.row, self.column, &[Cell::new(letter, Style::Bad)]);
        self.column += 1;
    }

    fn end_row(&mut self) {
        while self.column < self.screen.size().0 {
            self.put(' ');
        }
        self.row += 1;
        self.column = 0;
    }
}

impl fmt::Write for Pen<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let (width, height) = self.screen.size();
        for letter in text.chars() {
            if letter == '\n' || self.column >= width {
                self.end_row();
            }
            if self.row >= height {
                return Err(fmt::Error);
            }
            if letter != '\n' {
                // A margin on the left.
                if self.column == 0 {
                    self.put(' ');
                }
                self.put(letter);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::Grid;
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;

    /// A screen that stores its content.
    #[derive(Debug)]
    struct Shown(Grid);

    impl Display for &mut Shown {
        fn size(&self) -> (usize, usize) {
            (self.0.width(), self.0.height())
        }

        fn most(&self) -> usize {
            1
        }

        fn show(&mut self, row: usize, column: usize, cells: &[Cell]) {
            assert!(row < self.0.height() && column < self.0.width());
            for (at, cell) in cells.iter().enumerate() {
                let letter = char::from(cell.byte);
                self.0.print(row, column + at, cell.style, format_args!("{letter}"));
            }
        }
    }

    fn rows(height: usize) -> Vec<String> {
        let mut shown = Shown(Grid::new(10, height));
        shown.0.print(0, 0, Style::Plain, format_args!("##########"));
        if let Some(last) = height.checked_sub(1) {
            shown.0.print(last, 0, Style::Plain, format_args!("##########"));
        }
        say(&mut shown, format_args!("page fault at {:#x}\nboots", 0xbad));
        (0..height).map(|row| shown.0.text(row)).collect()
    }

    #[test]
    fn words_are_wrapped_and_cut_off_where_the_screen_ends() {
        assert_eq!(rows(7), ["", " page faul", " t at 0xba", " d", " boots", "", "##########"]);
        assert_eq!(rows(2), ["", " page faul"]);
    }
}
