//! The roles of accounts and tokens.

use std::fmt;

/// A role. Each includes the rights of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Sees everything except accounts, tokens and actions.
    Reader,
    /// Changes users, ends calls, lifts bans.
    Operator,
    /// Makes and restores backups; reloads the configuration; changes accounts and tokens, and sees
    /// actions.
    Administrator,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Reader, Self::Operator, Self::Administrator];

    /// The name in forms, commands and the database.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reader => "reader",
            Self::Operator => "operator",
            Self::Administrator => "administrator",
        }
    }

    /// The role of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.name() == name)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
