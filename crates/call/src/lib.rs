#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`Call`]: a call. The owner finds the call of an event by [`sip_ua::Event::call`].
//! - [`Setup`]: the properties of a new call.
//! - [`Change`]: the changes of a call that concern the owner.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod call;
mod event;
mod packets;
mod stream;

pub use call::{Call, Setup};
pub use event::Change;
pub use packets::SendPacket;
pub use {media, sip, sip_ua};
