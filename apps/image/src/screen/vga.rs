//! The VGA text mode: a byte and its colours for each cell, in memory.

use super::{Cell, Display, Style};
use crate::machine::{mapping, port};
use core::ptr;

const MEMORY: u64 = 0xb8000;
const WIDTH: usize = 80;
const HEIGHT: usize = 25;
/// The ports of its CRT controller: register index and data.
const REGISTER: u16 = 0x3d4;
const VALUE: u16 = 0x3d5;

/// The VGA text screen.
#[derive(Clone, Copy, Debug)]
pub struct Text(());

impl Text {
    /// Opens the screen; `None` if its memory does not keep data.
    #[must_use]
    pub fn open() -> Option<Self> {
        let first = cell(0)?;
        for probe in [0x0741_u16, 0x0720] {
            // SAFETY: the VGA memory is mapped, and contains only the text shown.
            let kept = unsafe {
                ptr::write_volatile(first, probe);
                ptr::read_volatile(first)
            };
            if kept != probe {
                return None;
            }
        }
        // No cursor.
        port::write_u8(REGISTER, 0x0a);
        port::write_u8(VALUE, 0x20);
        Some(Self(()))
    }
}

fn cell(at: usize) -> Option<*mut u16> {
    let memory = mapping::device(MEMORY, (2 * WIDTH * HEIGHT) as u32)?;
    Some(memory.cast::<u16>().wrapping_add(at))
}

fn colours(style: Style) -> u8 {
    match style {
        Style::Plain => 0x07,
        Style::Strong => 0x0f,
        Style::Label => 0x03,
        Style::Bar => 0x1f,
        Style::Chosen => 0x70,
        Style::Good => 0x0a,
        Style::Bad => 0x4f,
    }
}

impl Display for Text {
    fn size(&self) -> (usize, usize) {
        (WIDTH, HEIGHT)
    }

    fn most(&self) -> usize {
        40
    }

    fn show(&mut self, row: usize, column: usize, cells: &[Cell]) {
        let Some(start) = cell(row * WIDTH + column) else { return };
        let room = (WIDTH * HEIGHT).saturating_sub(row * WIDTH + column);
        for (at, cell) in cells.iter().take(room).enumerate() {
            let value = u16::from_le_bytes([cell.byte, colours(cell.style)]);
            // SAFETY: the address is within the VGA memory, which `open` has found.
            unsafe { ptr::write_volatile(start.wrapping_add(at), value) };
        }
    }
}
