//! A SIP user agent (RFC 3261) without I/O: it registers its accounts, places and takes calls, and
//! says what to send.
//!
//! An [`Agent`] is a value. It is given what came and when, commands of its owner and the answers
//! to its questions, and is asked for messages to send ([`Agent::poll_transmit`]), for what has
//! happened ([`Agent::poll_event`]) and for the time of its next timer. It looks into no session
//! description: offers and answers (RFC 3264) are the owner's, and this engine knows when each may
//! be made.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod admission;
mod agent;
mod body;
mod call;
mod capabilities;
mod client_transaction;
mod config;
mod core;
mod credentials;
mod draft;
mod event;
mod message;
mod registration;
mod replaces;
mod server_transaction;
mod summary;
mod token;
mod uac;
mod uas;
mod way;

pub use agent::Agent;
pub use call::CallError;
pub use config::{Account, AccountId, Config, Password, Reliable};
pub use event::{
    CallId, Denial, End, Event, Failure, Location, MessageId, RegistrationState, Ticket, Transfer,
    Transmit,
};
pub use uac::destination;
