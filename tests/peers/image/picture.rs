//! What was on a machine's screen, and whether it is what a terminal shows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Red, green and blue.
type Point = [u8; 3];

/// What was on a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Points in a row.
    pub width: usize,
    /// Rows of points.
    pub height: usize,
    points: Vec<Point>,
}

impl Picture {
    /// Takes the bytes of a PPM file as QEMU writes it: `P6`, width, height and the largest value
    /// in text, then the points.
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

    /// Whether these rows of text are at the top of it, in cells of so many points. Nothing has to
    /// be known of the letters: each looks the same wherever it is, and like no other one.
    ///
    /// # Errors
    /// The cell, by row and column, that does not fit.
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

    /// Which points of a cell are of the letter, and not of what is behind it.
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
        // No letter reaches into the first corner.
        let behind = points[0];
        let distance = |point: &Point| -> u32 {
            point.iter().zip(behind).map(|(&one, other)| u32::from(one.abs_diff(other))).sum()
        };
        // Edges are smoothed: what is nearer to the letter's colour is of the letter.
        let most = points.iter().map(distance).max()?;
        Some(points.iter().map(|point| most > 0 && 2 * distance(point) > most).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters of three by two points.
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
    fn tells_texts_apart() {
        let shows = |drawn: &str, text: &str| picture(drawn).shows(&[text.into()], (3, 2));
        assert_eq!(shows("a bdab", "a bdab"), Ok(()));
        assert_eq!(shows("a bdab", "a bdaa"), Err((0, 5)));
        assert_eq!(shows("a bdab", "a bdad"), Err((0, 5)));
        assert_eq!(shows("a bdab", "abbdab"), Err((0, 1)));
        assert_eq!(shows("a bdab", "a bdabb"), Err((0, 6)));
        assert_eq!(shows("a", " "), Err((0, 0)));
    }

    #[test]
    fn reads_what_qemu_writes() {
        let read = Picture::read(b"P6\n2 1\n255\nabcdef").expect("a picture");
        assert_eq!((read.width, read.height, read.points), (2, 1, vec![*b"abc", *b"def"]));
        assert_eq!(Picture::read(b"P6\n2 1\n255\nabcde"), None);
    }
}
