#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`MediaServer`]: the engine. Its inputs are messages and packets with their times, a tick
//!   every 20 ms, and the replies of its owner. Its outputs are messages
//!   ([`MediaServer::poll_transmit`]), packets ([`MediaServer::tick`]) and requests to its owner
//!   ([`MediaServer::poll_event`]).
//! - [`Config`]: the limits.
//! - [`Invitation`], [`Service`]: the service of a call, as the proxy has written it.
//! - [`Mailboxes`]: the numbers of messages, for the notifier of subscriptions.
//! - [`Sounds`]: the sounds of the operator.
//! - [`wav`]: WAV files as bytes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod config;
mod deposit;
mod event;
mod invitation;
mod line;
mod mailboxes;
mod parking;
mod player;
mod program;
mod retrieval;
mod room;
mod server;
mod slot;
mod sounds;
mod step;
pub mod wav;

pub use config::Config;
pub use event::{Ask, Event, MessageId, Opening, Recording, Reply, Summary};
pub use invitation::{Invitation, InvitationError, Service};
pub use mailboxes::{Mailboxes, MessageCounts};
pub use server::{Counters, MediaServer, Random, Send};
pub use sip_ua::{CallId, Transmit};
pub use sounds::{RATE, Sounds};
pub use {call, media, sip, sip_ua};
