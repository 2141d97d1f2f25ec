//! STUN (RFC 8489): what an address looks like from outside, without I/O.
//!
//! A [`Client`] asks a server, as often as the RFC says, and believes only the answer to its own
//! question from whom it was asked. [`answer`] is the other end: it answers binding requests. Both
//! use the FINGERPRINT attribute, and neither credentials: a binding needs none.
//!
//! ```
//! use core::time::Duration;
//! use stun::{Client, Event, TransactionId};
//!
//! let (server, nat) = (([192, 0, 2, 1], 3478).into(), ([198, 51, 100, 7], 40_000).into());
//! let mut client = Client::new(TransactionId([7; 12]), server, Duration::ZERO);
//! let (mut request, mut response) = (Vec::new(), Vec::new());
//! assert_eq!(client.poll(Duration::ZERO, &mut request), Event::Send(server));
//! assert!(stun::answer(nat, &request, &mut response));
//! assert_eq!(client.receive(server, &response), Some(stun::Answer::Mapped(nat)));
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod client;
mod message;
mod responder;
mod writer;

pub use client::{Answer, Client, Event};
pub use message::{
    Attribute, Class, ErrorCode, Message, MessageError, TransactionId, attribute_type, is_stun,
};
pub use responder::answer;
pub use writer::Writer;

/// The method of all that is here: Binding.
pub const BINDING: u16 = 1;
