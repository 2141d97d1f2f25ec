//! Where the answer to a request goes.

use super::{Condition, Registration, UserDomain, UserRemoved, UserRow, UsersMoved, UsersStored};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;

/// What answers are made of. The rows of one answer are of one type, which the request tells.
pub(crate) trait Row: Serialize + DeserializeOwned + Any {}

impl Row for Condition {}
impl Row for Registration {}
impl Row for UserRow {}
impl Row for UsersStored {}
impl Row for UserRemoved {}
impl Row for UsersMoved {}
impl Row for UserDomain {}

/// Takes one answer: rows, one after the other, and then an end, or an error in its place.
pub(crate) trait Sink {
    /// Why the answer is not taken.
    type Error;

    /// One more row.
    ///
    /// # Errors
    /// When no more is taken. Then nothing follows.
    fn row<R: Row>(&mut self, row: R) -> Result<(), Self::Error>;

    /// There is no more.
    ///
    /// # Errors
    /// When not all is taken.
    fn end(&mut self) -> Result<(), Self::Error>;

    /// It could not be done, as `text` says, also where there were rows.
    ///
    /// # Errors
    /// When that is not taken, or is what the answer is to end with.
    fn error(&mut self, text: &str) -> Result<(), Self::Error>;
}
