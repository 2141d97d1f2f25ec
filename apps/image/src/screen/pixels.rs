//! A pixel framebuffer, as UEFI provides it, with the font Noto Sans Mono.

use super::{Cell, Display, Style};
use crate::machine::boot_info::Framebuffer;
use crate::machine::mapping;
use core::ptr;
use noto_sans_mono_bitmap::{FontWeight, RasterHeight, get_raster, get_raster_width};

const FONT: FontWeight = FontWeight::Regular;
const SIZE: RasterHeight = RasterHeight::Size16;
/// Width of a letter in pixels.
const WIDTH: usize = get_raster_width(FONT, SIZE);
const HEIGHT: usize = SIZE.val();
/// Minimum columns and rows when letters are scaled up on a large framebuffer.
const ENOUGH: (usize, usize) = (100, 30);

/// Red, green, blue.
type Colour = [u8; 3];

/// A framebuffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pixels {
    screen: Framebuffer,
    /// The address of its mapped memory.
    memory: usize,
    /// Screen pixels per font pixel, in both directions.
    scale: usize,
}

impl Pixels {
    /// Opens the framebuffer and clears it to black; `None` if its format is not supported.
    #[must_use]
    pub fn open(screen: Framebuffer) -> Option<Self> {
        let bytes = usize::from(screen.depth / 8);
        let (width, height) = (screen.width as usize, screen.height as usize);
        let is_known = matches!(screen.depth, 24 | 32)
            && [screen.red, screen.green, screen.blue]
                .iter()
                .all(|shift| shift + 8 <= screen.depth)
            && width * bytes <= screen.pitch as usize
            && width >= WIDTH
            && height >= HEIGHT;
        if !is_known {
            return None;
        }
        let memory = mapping::device(screen.address, screen.pitch.checked_mul(screen.height)?)?;
        let scale = (width / (ENOUGH.0 * WIDTH)).min(height / (ENOUGH.1 * HEIGHT)).max(1);
        let pixels = Self { screen, memory: memory.addr(), scale };
        for y in 0..height {
            for x in 0..width {
                pixels.set(x, y, 0);
            }
        }
        Some(pixels)
    }

    /// Sets a pixel, which must be on the screen.
    fn set(&self, x: usize, y: usize, value: u32) {
        let bytes = usize::from(self.screen.depth / 8);
        let at = self.memory + y * self.screen.pitch as usize + x * bytes;
        // SAFETY: `open` has checked that the pixels of the screen are in its memory.
        unsafe {
            if bytes == 4 {
                ptr::write_volatile(at as *mut u32, value);
            } else {
                for (number, byte) in value.to_le_bytes().into_iter().take(3).enumerate() {
                    ptr::write_volatile((at + number) as *mut u8, byte);
                }
            }
        }
    }

    /// The pixel value of a mixed colour: from `background` to `foreground` by `share` of 255
    /// parts.
    fn value(&self, background: Colour, foreground: Colour, share: u8) -> u32 {
        let mix = |number: usize| {
            let part = u32::from(share);
            (u32::from(background[number]) * (255 - part) + u32::from(foreground[number]) * part)
                / 255
        };
        mix(0) << self.screen.red | mix(1) << self.screen.green | mix(2) << self.screen.blue
    }
}

/// The background and foreground colours of a style.
fn colours(style: Style) -> (Colour, Colour) {
    const BLACK: Colour = [0, 0, 0];
    const GREY: Colour = [190, 190, 190];
    const WHITE: Colour = [255, 255, 255];
    match style {
        Style::Plain => (BLACK, GREY),
        Style::Strong => (BLACK, WHITE),
        Style::Label => (BLACK, [90, 175, 190]),
        Style::Bar => ([30, 60, 120], WHITE),
        Style::Chosen => (GREY, BLACK),
        Style::Good => (BLACK, [110, 220, 110]),
        Style::Bad => ([160, 30, 30], WHITE),
    }
}

impl Display for Pixels {
    fn size(&self) -> (usize, usize) {
        let fit = |pixels: u32, letter: usize| pixels as usize / (letter * self.scale);
        (fit(self.screen.width, WIDTH), fit(self.screen.height, HEIGHT))
    }

    fn most(&self) -> usize {
        8
    }

    fn show(&mut self, row: usize, column: usize, cells: &[Cell]) {
        let (width, height) = self.size();
        if row >= height {
            return;
        }
        for (cell, column) in cells.iter().zip(column..width) {
            let (background, foreground) = colours(cell.style);
            let letter = get_raster(cell.byte.into(), FONT, SIZE);
            for y in 0..HEIGHT * self.scale {
                for x in 0..WIDTH * self.scale {
                    let share =
                        letter.and_then(|letter| letter.pixel(x / self.scale, y / self.scale));
                    let value = self.value(background, foreground, share.unwrap_or(0));
                    let (left, top) = (column * WIDTH * self.scale, row * HEIGHT * self.scale);
                    self.set(left + x, top + y, value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// A framebuffer of this size in leaked memory.
    fn open(width: u32, height: u32, depth: u8) -> (Pixels, Framebuffer, *const u8) {
        let pitch = width * u32::from(depth / 8) + 12;
        let memory = Vec::leak(alloc::vec![0xaa_u8; (pitch * height) as usize]).as_mut_ptr();
        let (red, green, blue) = (16, 8, 0);
        let address = memory.addr() as u64;
        let screen = Framebuffer { address, pitch, width, height, depth, red, green, blue };
        // A program on an operating system cannot map memory, so the value is constructed directly.
        (Pixels { screen, memory: memory.expose_provenance(), scale: 1 }, screen, memory)
    }

    fn pixel(screen: Framebuffer, memory: *const u8, x: usize, y: usize) -> [u8; 3] {
        let bytes = usize::from(screen.depth / 8);
        let at = y * screen.pitch as usize + x * bytes;
        // SAFETY: `open` has allocated that much.
        [2, 1, 0].map(|number| unsafe { memory.add(at + number).read_volatile() })
    }

    #[test]
    fn a_letter_is_drawn_where_it_belongs_in_its_colours() {
        for depth in [24, 32] {
            let (mut pixels, screen, memory) = open(100, 50, depth);
            assert_eq!(pixels.size(), (100 / WIDTH, 3));
            let cells = [Cell::new('|', Style::Strong), Cell::new(' ', Style::Bar)];
            pixels.show(1, 2, &cells);
            let row = |y: usize| (0..100).map(move |x| pixel(screen, memory, x, y));
            let middle = HEIGHT + HEIGHT / 2;
            let stroke = row(middle).skip(2 * WIDTH).take(WIDTH).map(|[red, ..]| red).max();
            assert!(stroke.is_some_and(|red| red > 128), "{stroke:?}");
            assert!(row(middle).skip(3 * WIDTH).take(WIDTH).all(|colour| colour == [30, 60, 120]));
            // Nothing else is changed.
            assert!(row(middle).take(2 * WIDTH).all(|colour| colour == [0xaa; 3]));
            assert!(row(middle).skip(4 * WIDTH).all(|colour| colour == [0xaa; 3]));
            assert!(row(HEIGHT - 1).chain(row(2 * HEIGHT)).all(|colour| colour == [0xaa; 3]));
        }
    }

    #[test]
    fn cells_outside_are_not_drawn() {
        let (mut pixels, screen, memory) = open(3 * WIDTH as u32 + 2, HEIGHT as u32, 32);
        let cells = [Cell::new('x', Style::Chosen); 5];
        pixels.show(0, 2, &cells);
        pixels.show(1, 0, &cells);
        pixels.show(0, 7, &cells);
        assert_eq!(pixel(screen, memory, 3 * WIDTH, 0), [0xaa; 3]);
        assert_eq!(pixel(screen, memory, 3 * WIDTH - 1, 0), [190; 3]);
    }

    #[test]
    fn screens_of_kinds_that_are_not_known_are_refused() {
        let (_, screen, _) = open(100, 50, 32);
        for odd in [
            Framebuffer { depth: 16, ..screen },
            Framebuffer { depth: 0, ..screen },
            Framebuffer { pitch: 399, ..screen },
            Framebuffer { width: 3, ..screen },
            Framebuffer { red: 25, ..screen },
            Framebuffer { pitch: u32::MAX, ..screen },
        ] {
            assert_eq!(Pixels::open(odd), None, "{odd:?}");
        }
    }
}
