//! Patterns of users: `alice`, `alice@example.org`, `1*`, `*@example.org`.

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// A pattern of users. Patterns are ordered by precedence, the most special one first: a whole
/// name before a beginning, a longer beginning before a shorter one, with a domain before without.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pattern {
    is_open: bool,
    shortness: usize,
    has_no_domain: bool,
    name: String,
    domain: String,
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let (name, domain) = text.split_once('@').unwrap_or((text, ""));
        let (name, is_open) = match name.strip_suffix('*') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let has_domain = text.contains('@');
        let is_bad = |text: &str| text.contains(['*', '@']) || text.contains(char::is_whitespace);
        if (name.is_empty() && !is_open)
            || is_bad(name)
            || is_bad(domain)
            || (has_domain && domain.is_empty())
        {
            return None;
        }
        Some(Self {
            is_open,
            shortness: usize::MAX - name.len(),
            has_no_domain: !has_domain,
            name: name.to_owned(),
            domain: domain.to_ascii_lowercase(),
        })
    }

    fn matches(&self, name: &str, domain: &str) -> bool {
        let has_name = if self.is_open { name.starts_with(&*self.name) } else { name == self.name };
        has_name && (self.has_no_domain || domain.eq_ignore_ascii_case(&self.domain))
    }
}

/// The fault of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternFault {
    /// It has another form.
    Form,
    /// It is repeated.
    Repeated,
}

/// Values by patterns of users.
#[derive(Clone, Debug)]
pub(crate) struct PatternTable<T>(Vec<(Pattern, String, T)>);

impl<T> Default for PatternTable<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> PatternTable<T> {
    /// Adds a value for the users that match `pattern`.
    pub(crate) fn insert(&mut self, pattern: &str, value: T) -> Result<(), PatternFault> {
        let parsed = Pattern::parse(pattern).ok_or(PatternFault::Form)?;
        match self.0.binary_search_by(|(known, ..)| known.cmp(&parsed)) {
            Ok(_) => Err(PatternFault::Repeated),
            Err(place) => {
                self.0.insert(place, (parsed, pattern.to_owned(), value));
                Ok(())
            }
        }
    }

    /// The most special pattern that matches a user, as `name@domain`, and its value.
    pub(crate) fn get(&self, user: &str) -> Option<(&str, &T)> {
        let (name, domain) = user.split_once('@').unwrap_or((user, ""));
        let found = self.0.iter().find(|(pattern, ..)| pattern.matches(name, domain))?;
        Some((&found.1, &found.2))
    }
}
