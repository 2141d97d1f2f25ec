//! Positions in a text for error messages.

/// The line and the column of the octet at `at`, counted from one.
pub(crate) fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at.min(text.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    (line, before.rsplit('\n').next().unwrap_or_default().chars().count() + 1)
}
