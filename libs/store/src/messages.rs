//! Messages (RFC 3428) that are kept for users without a reachable phone.

use crate::Error;
use sip::Instant;

/// A message that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    /// The time at which it came.
    pub received: Instant,
    /// The sender: a name-addr without a tag, as in From.
    pub sender: Vec<u8>,
    /// The value of Content-Type.
    pub content_type: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
    /// True if the sender was authenticated or trusted.
    pub is_proved: bool,
}

/// The first of the kept messages of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Oldest {
    /// There are no messages.
    None,
    /// Another server delivers it at present.
    Claimed,
    /// It can be delivered.
    Message {
        /// The identifier in the storage.
        id: i64,
        /// The message.
        message: KeptMessage,
    },
}

/// The limits of kept messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// The maximum number of a user.
    pub of_user: u64,
    /// The maximum number in all.
    pub all: u64,
}

impl MessageLimits {
    /// The limits of unproved messages: a quarter, rounded up. So strangers leave room for the
    /// messages of users.
    #[must_use]
    pub const fn of_unproved(self) -> Self {
        const PART: u64 = 4;
        Self { of_user: self.of_user.div_ceil(PART), all: self.all.div_ceil(PART) }
    }
}

/// The storage of kept messages. Every method may block.
pub trait KeptMessages: Send + Sync {
    /// Stores a message for `user`, which is `name@domain`. Returns false at a limit of `limits`,
    /// or at one of [`MessageLimits::of_unproved`] for the unproved ones. When this returns, the
    /// message survives a power loss.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn keep_message(
        &self,
        user: &str,
        message: &KeptMessage,
        limits: MessageLimits,
    ) -> Result<bool, Error>;

    /// The oldest message for `user`. If servers share the storage, it is claimed for this one,
    /// for longer than a delivery takes.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn oldest_message(&self, user: &str) -> Result<Oldest, Error>;

    /// Deletes the message `id`.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn delete_message(&self, id: i64) -> Result<(), Error>;

    /// Deletes the messages that came before `time`. Returns their number.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn purge_messages(&self, time: Instant) -> Result<u64, Error>;

    /// The users with messages.
    ///
    /// # Errors
    /// [`Error`] if the storage fails.
    fn users_with_messages(&self) -> Result<Vec<String>, Error>;
}
