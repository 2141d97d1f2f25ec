//! Asking a server, whether it runs or not.

use super::Request;
use super::sink::Row;
use crate::failure::Failure;

/// Somebody who answers requests.
pub(crate) trait Ask: Sized {
    /// Asks for something that has any number of rows, with a `file` after the request.
    ///
    /// # Errors
    /// Why it is not done, that nothing is answered, or what `each` returns.
    fn ask_each<T: Row>(
        self,
        request: &Request,
        file: &[u8],
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure>;

    /// Asks for something that has any number of rows.
    ///
    /// # Errors
    /// As for [`Ask::ask_each`].
    fn list<T: Row>(
        self,
        request: &Request,
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.ask_each(request, &[], each)
    }

    /// Asks for something that has one row.
    ///
    /// # Errors
    /// As for [`Ask::ask_each`].
    fn ask<T: Row>(self, request: &Request) -> Result<T, Failure> {
        self.ask_with(request, &[])
    }

    /// Like [`Ask::ask`], with a file after the request.
    ///
    /// # Errors
    /// As for [`Ask::ask_each`].
    fn ask_with<T: Row>(self, request: &Request, file: &[u8]) -> Result<T, Failure> {
        let mut row = None;
        self.ask_each(request, file, &mut |found| {
            row = Some(found);
            Ok(())
        })?;
        row.ok_or_else(|| Failure::said("the server's answer has nothing in it"))
    }
}
