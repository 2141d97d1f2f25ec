//! Series of values for charts and tables: measured ones, and those of the source documents.

use serde::Serialize;

/// A series of a figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) values: Vec<Value>,
}

/// A value of a series.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Value {
    pub(crate) key: Key,
    pub(crate) value: f64,
    /// The lowest and the highest.
    pub(crate) range: Option<(f64, f64)>,
    /// True if the result is not valid.
    pub(crate) is_doubtful: bool,
    /// True for a limit that was not reached: no higher value was tried.
    pub(crate) is_open: bool,
}

/// The place of a value: on an axis, or among names.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Key {
    At(f64),
    Name(String),
}

impl Value {
    /// Returns a value on an axis.
    pub(crate) fn at(x: f64, value: f64) -> Self {
        Self { key: Key::At(x), value, range: None, is_doubtful: false, is_open: false }
    }

    /// Returns a value with a name.
    pub(crate) fn of(name: impl Into<String>, value: f64) -> Self {
        Self { key: Key::Name(name.into()), value, range: None, is_doubtful: false, is_open: false }
    }
}

/// Returns a series of values with names.
pub(crate) fn named<N: Into<String>>(
    name: &str,
    values: impl IntoIterator<Item = (N, f64)>,
) -> Series {
    let values = values.into_iter().map(|(name, value)| Value::of(name, value));
    Series { name: name.to_owned(), values: values.collect() }
}
