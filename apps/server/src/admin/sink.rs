//! The destination of an answer.

use super::account::Account;
use super::limited_use::LimitedUse;
use super::token::{AddedToken, Token};
use super::trunk::Trunk;
use super::{Call, CallEnded, CallRecord, Condition, Drained, MessageCounts, Registration};
use super::{UserDomain, UserRemoved, UserRow, UsersMoved, UsersStored};
use crate::accounts::ServicesRow;
use crate::backup::{Line, Report};
use crate::trace::{FoundRow, Mark, Traced, Traffic};
use crate::why::RefusalRow;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;

/// A row of an answer. All rows of one answer have one type, given by the request.
pub(crate) trait Row: Serialize + DeserializeOwned + Any {}

impl Row for Call {}
impl Row for CallEnded {}
impl Row for LimitedUse {}
impl Row for Mark {}
impl Row for Traced {}
impl Row for Traffic {}
impl Row for FoundRow {}
impl Row for RefusalRow {}
impl Row for CallRecord {}
impl Row for Condition {}
impl Row for Drained {}
impl Row for MessageCounts {}
impl Row for super::UserFound {}
impl Row for Registration {}
impl Row for Line {}
impl Row for Report {}
impl Row for Account {}
impl Row for Token {}
impl Row for AddedToken {}
impl Row for Trunk {}
impl Row for ServicesRow {}
impl Row for UserRow {}
impl Row for UsersStored {}
impl Row for UserRemoved {}
impl Row for UsersMoved {}
impl Row for UserDomain {}

/// The receiver of one answer: any number of rows, then an end or an error.
pub(crate) trait Sink {
    /// The error if the answer is not accepted.
    type Error;

    /// Accepts a row.
    ///
    /// # Errors
    /// The row is not accepted. The caller stops.
    fn row<R: Row>(&mut self, row: R) -> Result<(), Self::Error>;

    /// Ends the answer.
    ///
    /// # Errors
    /// The answer could not be delivered completely.
    fn end(&mut self) -> Result<(), Self::Error>;

    /// Ends the answer with the error `text`, possibly after rows.
    ///
    /// # Errors
    /// The error is not accepted, or is the result of the answer.
    fn error(&mut self, text: &str) -> Result<(), Self::Error>;
}
