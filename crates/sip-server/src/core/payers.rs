//! The accounts that are charged for a request.

/// The accounts that are charged for a request: the account of its source and that of its user, if
/// each has a limited share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Payers {
    /// The account of the source. `None` if the source is trusted.
    pub source: Option<u16>,
    /// The account of the authenticated user.
    pub user: Option<u16>,
}

impl Payers {
    /// No account is charged.
    pub const NONE: Self = Self { source: None, user: None };

    /// Returns the accounts that are charged.
    pub fn accounts(&self) -> impl Iterator<Item = u16> + use<> {
        self.source.into_iter().chain(self.user)
    }
}
