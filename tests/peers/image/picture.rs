//! Screenshots, compared with the contents of a terminal.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Red, green and blue.
type Point = [u8; 3];

/// A screenshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// The width in pixels.
    pub width: usize,
    /// The height in pixels.
    pub height: usize,
    points: Vec<Point>,
}

impl Picture {
    /// Parses a PPM file as QEMU writes it: `P6`, width, height and maximum value as text, then the
    /// pixels.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(b"P6\n")?;
        let mut number = || {
            let end = rest.iter().position(u8::is_ascii_whitespace)?;
            let (text, after) = rest.split_at(end);
            rest = &after[1..];
            std::str::from_utf8(text).ok()?.parse::<usize>().ok()
        };
        let (width, height, _) = (number()?, number()?, number()?);
        let (points, _) = rest.as_chunks::<3>();
        (points.len() == width * height).then(|| Self { width, height, points: points.to_vec() })
    }

    /// Returns `Ok` if the top of the screen shows these rows of text in cells of this size in
    /// pixels. The font need not be known: each character has to look the same everywhere, and
    /// different from all others.
    ///
    /// # Errors
    /// The row and column of the first mismatch.
    pub fn shows(&self, rows: &[String], cell: (usize, usize)) -> Result<(), (usize, usize)> {
        let (mut shapes, mut letters) = (HashMap::new(), HashMap::new());
        for (row, text) in rows.iter().enumerate() {
            for (column, letter) in text.chars().enumerate() {
                let shape = self.shape(row, column, cell).ok_or((row, column))?;
                let is_known_as = |entry: Entry<'_, _, char>, letter| *entry.or_insert(letter);
                let by_shape = is_known_as(shapes.entry(shape.clone()), letter);
                let by_letter = letters.entry(letter).or_insert_with(|| shape.clone());
                let is_blank = !shape.contains(&true);
                if by_shape != letter || *by_letter != shape || is_blank != (letter == ' ') {
                    return Err((row, column));
                }
            }
        }
        Ok(())
    }

    /// The pixels of a cell in foreground colour.
    fn shape(
        &self,
        row: usize,
        column: usize,
        (width, height): (usize, usize),
    ) -> Option<Vec<bool>> {
        let mut points = Vec::new();
        for y in row * height..(row + 1) * height {
            let start = y * self.width + column * width;
            points.extend_from_slice(self.points.get(start..start + width)?);
        }
        // No character covers the first corner.
        let behind = points[0];
        let distance = |point: &Point| -> u32 {
            point.iter().zip(behind).map(|(&one, other)| u32::from(one.abs_diff(other))).sum()
        };
        // Edges are antialiased: a pixel closer to the foreground colour is foreground.
        let most = points.iter().map(distance).max()?;
        Some(points.iter().map(|point| most > 0 && 2 * distance(point) > most).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Characters of three by two pixels.
    fn picture(text: &str) -> Picture {
        let mut points = Vec::new();
        for y in 0..2 {
            for letter in text.bytes() {
                let bits = if letter == b' ' { 0 } else { letter };
                let point =
                    |x: u8| [if bits >> (3 * y + x) & 1 == 1 && x > 0 { 200 } else { 9 }; 3];
                points.extend((0..3).map(point));
            }
        }
        Picture { width: 3 * text.len(), height: 2, points }
    }

    #[test]
    fn different_texts_are_distinguished() {
        let shows = |drawn: &str, text: &str| picture(drawn).shows(&[text.into()], (3, 2));
        assert_eq!(shows("a bdab", "a bdab"), Ok(()));
        assert_eq!(shows("a bdab", "a bdaa"), Err((0, 5)));
        assert_eq!(shows("a bdab", "a bdad"), Err((0, 5)));
        assert_eq!(shows("a bdab", "abbdab"), Err((0, 1)));
        assert_eq!(shows("a bdab", "a bdabb"), Err((0, 6)));
        assert_eq!(shows("a", " "), Err((0, 0)));
    }

    #[test]
    fn screenshots_of_qemu_are_parsed() {
        let read = Picture::read(b"P6\n2 1\n255\nabcdef").expect("the file is a PPM file");
        assert_eq!((read.width, read.height, read.points), (2, 1, vec![*b"abc", *b"def"]));
        assert_eq!(Picture::read(b"P6\n2 1\n255\nabcde"), None);
    }
}
