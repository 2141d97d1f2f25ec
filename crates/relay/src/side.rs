//! The sides of a call.

/// One of the two ends of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The end that began the call.
    Caller,
    /// The end that was called.
    Callee,
}

impl Side {
    /// Both sides.
    pub const BOTH: [Self; 2] = [Self::Caller, Self::Callee];

    /// The other side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Caller => Self::Callee,
            Self::Callee => Self::Caller,
        }
    }

    /// The index of the side: 0 or 1.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}
