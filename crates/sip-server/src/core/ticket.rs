//! Tickets for look-ups. The owner returns the ticket with the result.

#[cfg(feature = "office")]
use crate::core::asleep::Asleep;
use crate::core::flow::Flow;
use crate::core::payers::Payers;
use crate::core::reach::Scope;
#[cfg(feature = "office")]
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The position of a transaction in the table of its application, and its identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Handle {
    pub(crate) shard: u8,
    pub(crate) slot: u32,
    /// An unpredictable identifier of 48 bits that no other transaction in the slot ever had.
    pub(crate) id: u64,
}

/// The state of an application that waits for a look-up.
#[derive(Clone, Debug)]
pub struct Ticket(pub(crate) Waiting);

/// A branch to a phone that sleeps.
#[cfg(feature = "office")]
#[derive(Clone, Debug)]
pub(crate) struct Sleeper {
    pub(crate) handle: Handle,
    pub(crate) index: u8,
    pub(crate) phone: Asleep,
}

/// The state that waits.
#[derive(Clone, Debug)]
pub(crate) enum Waiting {
    /// A branch of a transaction.
    Branch { handle: Handle, index: u8 },
    /// A branch to a phone that sleeps.
    #[cfg(feature = "office")]
    Phone(Box<Sleeper>),
    /// A message to be forwarded without a transaction, written for the flow on which it arrived.
    /// The party that named the destination is in a network of scope `origin`. If
    /// `leaves_transport`, the length of the message decides on the transport.
    Message {
        bytes: Vec<u8>,
        arrived_on: Flow,
        origin: Scope,
        leaves_transport: bool,
        payers: Payers,
    },
}
