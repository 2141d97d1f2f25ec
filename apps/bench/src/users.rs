//! The users of a load: from a file, or from a pattern.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Users with their passwords.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Users {
    /// Any number of users, with names and passwords made from a number.
    Pattern {
        /// The pattern of the name.
        name: Pattern,
        /// The pattern of the password.
        password: Pattern,
        /// The number of the first.
        first: usize,
        /// The count.
        count: usize,
    },
    /// The users of a file.
    List(Vec<(String, String)>),
}

/// A text with a number in it: `user{}`, or `user{:06}` with leading zeros.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pattern {
    before: String,
    width: Option<usize>,
    after: String,
}

/// An error of the users.
#[derive(Debug)]
pub(crate) enum UsersError {
    /// The file cannot be read.
    Read(PathBuf, io::Error),
    /// This line of the file, counted from 1, is not of the form `name:password`.
    Line(PathBuf, usize),
    /// The file has no users.
    Empty(PathBuf),
    /// The pattern is not of the form `name:password`, or a `{` in it is not closed.
    Pattern(String),
    /// The names of several users would be equal.
    NoNumber(String),
}

impl fmt::Display for UsersError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::Line(path, line) => {
                write!(f, "{}, line {line}: expected name:password", path.display())
            }
            Self::Empty(path) => write!(f, "{} has no users in it", path.display()),
            Self::Pattern(text) => write!(
                f,
                "user pattern '{text}': expected name:password, with {{}} or {{:06}} for the number"
            ),
            Self::NoNumber(text) => {
                write!(f, "user pattern '{text}': a name for many users needs a {{}} in it")
            }
        }
    }
}

impl std::error::Error for UsersError {}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let Some((before, rest)) = text.split_once('{') else {
            return Some(Self { before: text.to_owned(), width: None, after: String::new() });
        };
        let (format, after) = rest.split_once('}')?;
        let width = match format.strip_prefix(":0") {
            Some(width) => width.parse().ok().filter(|&width| width <= 20)?,
            None if format.is_empty() => 1,
            None => return None,
        };
        let is_plain = !after.contains(['{', '}']);
        is_plain.then(|| Self {
            before: before.to_owned(),
            width: Some(width),
            after: after.to_owned(),
        })
    }

    /// Returns the text with `number`.
    pub(crate) fn with(&self, number: usize) -> String {
        let Self { before, width, after } = self;
        match width {
            Some(width) => format!("{before}{number:0width$}{after}"),
            None => before.clone(),
        }
    }
}

impl Users {
    /// The default pattern.
    pub(crate) const DEFAULT_PATTERN: &str = "user{:06}:secret{:06}";

    /// Returns `count` users from a pattern `name:password`.
    ///
    /// # Errors
    /// [`UsersError`] if the pattern is invalid.
    pub(crate) fn from_pattern(text: &str, count: usize) -> Result<Self, UsersError> {
        let wrong = || UsersError::Pattern(text.to_owned());
        let (name, password) = text.split_once(':').ok_or_else(wrong)?;
        // The colon of a format does not separate name and password.
        let (name, password) = match name.ends_with('{') {
            true => {
                let end = text.find('}').ok_or_else(wrong)?;
                let colon = end + text[end..].find(':').ok_or_else(wrong)?;
                (&text[..colon], &text[colon + 1..])
            }
            false => (name, password),
        };
        let name = Pattern::parse(name).filter(|_| !name.is_empty()).ok_or_else(wrong)?;
        let password = Pattern::parse(password).ok_or_else(wrong)?;
        if name.width.is_none() && count > 1 {
            return Err(UsersError::NoNumber(text.to_owned()));
        }
        Ok(Self::Pattern { name, password, first: 0, count })
    }

    /// Reads the users of a file with a `name:password` on each line. Empty lines and lines that
    /// begin with `#` are skipped.
    ///
    /// # Errors
    /// [`UsersError`] if the file cannot be read or a line is not of this form.
    pub(crate) fn from_file(path: &Path) -> Result<Self, UsersError> {
        let text =
            fs::read_to_string(path).map_err(|error| UsersError::Read(path.to_owned(), error))?;
        let mut users = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            match line.split_once(':') {
                Some((name, password)) if !name.is_empty() => {
                    users.push((name.to_owned(), password.to_owned()));
                }
                _ => return Err(UsersError::Line(path.to_owned(), index + 1)),
            }
        }
        if users.is_empty() {
            return Err(UsersError::Empty(path.to_owned()));
        }
        Ok(Self::List(users))
    }

    /// Returns the number of users.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Pattern { count, .. } => *count,
            Self::List(users) => users.len(),
        }
    }

    /// Returns the users with an index in `range`.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Pattern { name, password, first, .. } => Self::Pattern {
                name: name.clone(),
                password: password.clone(),
                first: first + range.start,
                count: range.len(),
            },
            Self::List(users) => Self::List(users[range].to_vec()),
        }
    }

    /// Returns name and password of the user at `index`.
    pub(crate) fn get(&self, index: usize) -> (String, String) {
        match self {
            Self::Pattern { name, password, first, .. } => {
                (name.with(first + index), password.with(first + index))
            }
            Self::List(users) => users[index].clone(),
        }
    }

    /// Yields name and password of each user.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (String, String)> + '_ {
        (0..self.len()).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_come_from_a_pattern() {
        for (pattern, name, password) in [
            (Users::DEFAULT_PATTERN, "user000007", "secret000007"),
            ("u{}:p", "u7", "p"),
            ("u{}x:p{:03}y:z", "u7x", "p007y:z"),
            ("{:02}:", "07", ""),
        ] {
            let users = Users::from_pattern(pattern, 10).unwrap();
            assert_eq!(users.len(), 10);
            assert_eq!(users.get(7), (name.to_owned(), password.to_owned()), "{pattern}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in ["", "user", ":p", "u{:p", "u{:06:p", "u{x}:p", "u{}{}:p", "u{:0x}:p"] {
            assert!(
                matches!(Users::from_pattern(pattern, 1), Err(UsersError::Pattern(_))),
                "{pattern}"
            );
        }
        assert!(matches!(Users::from_pattern("u:p", 2), Err(UsersError::NoNumber(_))));
        assert_eq!(Users::from_pattern("u:p", 1).unwrap().get(0).0, "u");
    }

    #[test]
    fn parts_are_the_users_of_their_range() {
        let pattern = Users::from_pattern("u{}:p{}", 10).unwrap();
        let list = Users::List(pattern.iter().collect());
        for users in [pattern, list] {
            let all: Vec<_> = users.iter().collect();
            let parts =
                [0..3, 3..9, 9..10].map(|range| users.part(range).iter().collect::<Vec<_>>());
            assert_eq!(parts.concat(), all);
            assert_eq!(users.part(2..8).part(1..3).get(1), all[4]);
        }
    }

    #[test]
    fn a_file_has_a_user_on_each_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("users");
        fs::write(&path, "# ours\nalice:wonder:land\n\nbob:\n").unwrap();
        let users: Vec<_> = Users::from_file(&path).unwrap().iter().collect();
        assert_eq!(
            users,
            [("alice", "wonder:land"), ("bob", "")]
                .map(|(name, password)| (name.to_owned(), password.to_owned()))
        );
        fs::write(&path, "alice:x\nbob\n").unwrap();
        assert!(matches!(Users::from_file(&path), Err(UsersError::Line(_, 2))));
        fs::write(&path, "\n").unwrap();
        assert!(matches!(Users::from_file(&path), Err(UsersError::Empty(_))));
    }
}
