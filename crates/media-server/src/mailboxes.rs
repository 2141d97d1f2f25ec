//! The numbers of messages of mailboxes.

use alloc::boxed::Box;

/// The numbers of messages of a mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCounts {
    /// Messages that were not heard.
    pub new: u32,
    /// Messages that were heard.
    pub old: u32,
}

/// The mailboxes, for the notifier of their state (RFC 3842).
pub trait Mailboxes: Send + Sync {
    /// The numbers of messages of the mailbox `user@domain`. `None` if the user has no mailbox.
    fn counts(&self, mailbox: &str) -> Option<MessageCounts>;

    /// Calls `notify` with the name of a mailbox after each change of its numbers. It must return
    /// soon, and not use the mailboxes.
    fn watch(&self, notify: Box<dyn Fn(&str) + Send + Sync>);
}
