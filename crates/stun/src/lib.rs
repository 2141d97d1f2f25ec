//! STUN (RFC 8489) binding requests without I/O: the reflexive transport address of a host.
//!
//! A [`Client`] sends a binding request to a server with the retransmissions of the RFC. It accepts
//! only the response to its own transaction from the address of that server. [`answer`] is the
//! server side: it answers binding requests. Both use the FINGERPRINT attribute and no credentials,
//! which a binding request does not need.
//!
//! ```
//! use core::time::Duration;
//! use barebell_stun::{Client, Event, TransactionId};
//!
//! let (server, nat) = (([192, 0, 2, 1], 3478).into(), ([198, 51, 100, 7], 40_000).into());
//! let mut client = Client::new(TransactionId([7; 12]), server, Duration::ZERO);
//! let (mut request, mut response) = (Vec::new(), Vec::new());
//! assert_eq!(client.poll(Duration::ZERO, &mut request), Event::Send(server));
//! assert!(barebell_stun::answer(nat, &request, &mut response));
//! assert_eq!(client.receive(server, &response), Some(barebell_stun::Answer::Mapped(nat)));
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

pub use client::{BindingResponse, Client, Event};
pub use message::{
    Attribute, Class, ErrorCode, Message, MessageError, TransactionId, attribute_type, is_stun,
};
pub use responder::respond_to_binding;
pub use writer::Writer;

/// The only method of this crate: Binding.
pub const BINDING: u16 = 1;
