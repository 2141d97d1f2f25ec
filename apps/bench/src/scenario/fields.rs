//! Files of fields (`--inf`): each call uses a line of values.

use super::fault::ScenarioError;
use std::path::{Path, PathBuf};

/// The order of lines over calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Sequential,
    Random,
    User,
}

/// A file of fields.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    /// The name as given, and the name without its folder.
    name: String,
    base: String,
    order: Order,
    lines: Vec<Vec<u8>>,
    next: usize,
    /// The first line in order, and the distance of the next one: those of this worker.
    first: usize,
    step: usize,
}

impl Fields {
    /// Reads a file: `SEQUENTIAL`, `RANDOM` or `USER` in its first line, then values that are
    /// separated by semicolons.
    ///
    /// # Errors
    /// [`ScenarioError`] if it cannot be read, or is not of this form.
    pub(super) fn read(path: &Path) -> Result<Self, ScenarioError> {
        let text =
            std::fs::read(path).map_err(|error| ScenarioError::Read(PathBuf::from(path), error))?;
        let base = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Self::parse(&text, path.display().to_string(), base)
            .map_err(|text| ScenarioError::Fields(PathBuf::from(path), text))
    }

    fn parse(text: &[u8], name: String, base: String) -> Result<Self, String> {
        let mut lines = text
            .split(|&octet| octet == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .filter(|line| !line.is_empty() && !line.starts_with(b"#"));
        let first = lines.next().unwrap_or_default().trim_ascii();
        let order = match first {
            b"SEQUENTIAL" => Order::Sequential,
            b"RANDOM" => Order::Random,
            b"USER" => Order::User,
            _ => {
                let first = first.escape_ascii().to_string();
                let hint = match first.contains("PRINTF") {
                    true => "; PRINTF is not known: write the lines out",
                    false => "",
                };
                return Err(format!(
                    "the first line is '{first}', not SEQUENTIAL, RANDOM or USER{hint}"
                ));
            }
        };
        let lines: Vec<_> = lines.map(<[u8]>::to_vec).collect();
        match lines.is_empty() {
            true => Err("there is no line of fields after the first line".to_owned()),
            false => Ok(Self { name, base, order, lines, next: 0, first: 0, step: 1 }),
        }
    }

    /// Returns the lines of the worker `index` of `count`, if they are taken in their order.
    pub(super) fn share(mut self, index: usize, count: usize) -> Self {
        self.first = index % self.lines.len();
        (self.next, self.step) = (self.first, count);
        self
    }

    /// Returns true if a scenario means this file by `name`.
    pub(super) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.base == name
    }

    /// Returns true if the lines are those of users.
    pub(super) fn is_by_user(&self) -> bool {
        self.order == Order::User
    }

    /// Returns the line for a new call of `user`.
    pub(super) fn take(&mut self, user: Option<usize>, rng: &mut fastrand::Rng) -> usize {
        match self.order {
            Order::Sequential => {
                let line = self.next;
                let next = line + self.step;
                self.next = if next < self.lines.len() { next } else { self.first };
                line
            }
            Order::Random => rng.usize(..self.lines.len()),
            Order::User => user.unwrap_or_default() % self.lines.len(),
        }
    }

    /// Returns a field of a line; an absent one is empty.
    pub(super) fn get(&self, line: usize, index: usize) -> &[u8] {
        let line = self.lines.get(line).map(Vec::as_slice).unwrap_or_default();
        line.split(|&octet| octet == b';').nth(index).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Result<Fields, String> {
        Fields::parse(text.as_bytes(), "a/b.csv".to_owned(), "b.csv".to_owned())
    }

    #[test]
    fn lines_are_taken_in_their_order() {
        let mut rng = fastrand::Rng::with_seed(1);
        let mut read = fields("SEQUENTIAL\r\n# a comment\nalice;[x]\r\nbob\n").unwrap();
        let taken = [0; 3].map(|_| read.take(None, &mut rng));
        assert_eq!(taken, [0, 1, 0]);
        assert_eq!((read.get(0, 0), read.get(0, 1)), (&b"alice"[..], &b"[x]"[..]));
        assert_eq!((read.get(1, 1), read.get(7, 0)), (&b""[..], &b""[..]));
        assert!(read.is_called("b.csv") && read.is_called("a/b.csv") && !read.is_called("b"));
        let mut random = fields("RANDOM\n1\n2\n3\n").unwrap();
        let taken: std::collections::BTreeSet<_> =
            (0..100).map(|_| random.take(None, &mut rng)).collect();
        assert_eq!(taken.len(), 3);
        let mut user = fields("USER\n1\n2\n").unwrap();
        assert_eq!([Some(1), Some(1), Some(2)].map(|id| user.take(id, &mut rng)), [1, 1, 0]);
    }

    #[test]
    fn each_worker_has_lines_of_its_own() {
        let mut rng = fastrand::Rng::with_seed(1);
        let taken = [0, 1, 2].map(|index| {
            let mut read = fields("SEQUENTIAL\n0\n1\n2\n3\n").unwrap().share(index, 3);
            [0; 3].map(|_| read.take(None, &mut rng))
        });
        assert_eq!(taken, [[0, 3, 0], [1, 1, 1], [2, 2, 2]]);
        let mut few = fields("SEQUENTIAL\n0\n").unwrap().share(1, 2);
        assert_eq!(few.take(None, &mut rng), 0);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(fields("").unwrap_err().contains("first line"));
        assert!(fields("alice;x\n").unwrap_err().contains("'alice;x'"));
        assert!(fields("SEQUENTIAL,PRINTF=9\nx%d\n").unwrap_err().contains("write the lines out"));
        assert!(fields("RANDOM\n").unwrap_err().contains("no line"));
    }
}
