//! Requests to a server, running or stopped.

use super::Request;
use super::sink::Row;
use crate::failure::Failure;

/// An administrative interface that answers requests.
pub(crate) trait Ask: Sized {
    /// Sends a request with any number of result rows, followed by the content of `file`.
    ///
    /// # Errors
    /// The request failed, there is no answer, or `each` returned an error.
    fn ask_each<T: Row>(
        self,
        request: &Request,
        file: &[u8],
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Sends a request with any number of result rows.
    ///
    /// # Errors
    /// See [`Ask::ask_each`].
    fn list<T: Row>(
        self,
        request: &Request,
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.ask_each(request, &[], each)
    }

    /// Sends a request with one result row.
    ///
    /// # Errors
    /// See [`Ask::ask_each`].
    fn ask<T: Row>(self, request: &Request) -> Result<T, Failure> {
        self.ask_with(request, &[])
    }

    /// Like [`Ask::ask`], followed by the content of `file`.
    ///
    /// # Errors
    /// See [`Ask::ask_each`].
    fn ask_with<T: Row>(self, request: &Request, file: &[u8]) -> Result<T, Failure> {
        let mut row = None;
        self.ask_each(request, file, &mut |found| {
            row = Some(found);
            Ok(())
        })?;
        row.ok_or_else(|| Failure::message("the server's answer is empty"))
    }
}
