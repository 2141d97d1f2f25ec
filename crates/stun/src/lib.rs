#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Client`]: sends a binding request to a server, with retransmissions. It accepts only the
//!   response to its own transaction from the address of that server.
//! - [`respond_to_binding`]: the server side: answers binding requests.
//! - [`TurnUri`]: the URI of a TURN server; [`turn`]: a client of one.
//! - [`Message`], [`Writer`]: the parser and the writer of messages.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod client;
mod integrity;
mod message;
mod responder;
mod retransmission;
pub mod turn;
mod uri;
mod write_error;
mod writer;

pub use client::{BindingResponse, Client, Event};
pub use message::{
    Attribute, Class, ErrorCode, Message, MessageError, TransactionId, attribute_type, is_stun,
};
pub use responder::respond_to_binding;
pub use uri::{TurnTransport, TurnUri, TurnUriError};
pub use write_error::WriteError;
pub use writer::Writer;

/// The method Binding. [`turn::method`] has those of TURN.
pub const BINDING: u16 = 1;
