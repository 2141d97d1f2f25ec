#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Agent`]: a user agent. Its inputs are received messages with their times, commands of its
//!   owner, and the answers to its queries. Its outputs are messages to send
//!   ([`Agent::poll_transmit`]), events ([`Agent::poll_event`]) and the time of its next timer
//!   ([`Agent::next_timer`]).
//! - [`Event`]: the events and queries: calls, registrations, messages, transfers.
//! - [`Config`], [`Account`]: the configuration.
//!
//! The engine does not parse session descriptions. It tracks when an offer or an answer is allowed.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod acks;
mod admission;
mod agent;
mod back_to_back;
mod call;
mod calls;
mod capabilities;
mod client_transaction;
mod config;
mod core;
mod credentials;
mod draft;
mod envelope;
mod event;
mod info_digit;
mod message;
#[cfg(feature = "messages")]
mod message_subscription;
mod options;
mod receive;
mod registration;
mod replaces;
mod server_transaction;
mod summary;
mod table;
mod timer_queue;
mod token;
mod uac;
mod uas;
mod violation;
mod way;

pub use crate::core::{contact, via};
pub use agent::Agent;
pub use back_to_back::Placement;
pub use call::{CallError, CallState, LOST_REASON, PassedRequest, UnknownRequest};
pub use config::{Account, AccountError, AccountId, Config, Password, Reliable};
pub use envelope::Envelope;
pub use event::{
    CallId, Denial, End, Event, Failure, MessageId, RegistrationState, RequestId, Ticket, Transfer,
};
pub use info_digit::{InfoDigit, NoDigit};
pub use replaces::{Replaces, ReplacesError};
pub use sip::{self, Location, Transmit};
pub use timer_queue::TimerQueue;
pub use token::{Token, Tokens};
pub use uac::{DestinationError, destination};
pub use violation::Violation;
