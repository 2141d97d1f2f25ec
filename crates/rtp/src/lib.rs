#![doc = include_str!("../README.md")]
//!
//! ## Contents
//!
//! - [`packet`], [`extension`], [`event`], [`payload`]: RTP packets and their contents.
//! - [`rtcp`]: RTCP packets, and the times of reports.
//! - [`reception`], [`transmission`], [`quality`], [`ntp`]: statistics of received and sent
//!   packets.
//! - [`ssrc`]: collisions and loops of synchronization sources.
//! - [`jitter_buffer`]: packets in order, at an even pace.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod event;
pub mod extension;
pub mod jitter_buffer;
pub mod ntp;
pub mod packet;
pub mod payload;
pub mod quality;
pub mod reception;
pub mod rtcp;
pub mod ssrc;
pub mod transmission;
mod write_error;

pub use jitter_buffer::JitterBuffer;
pub use packet::{Header, Packet, PacketError};
pub use reception::ReceptionStats;
pub use transmission::SenderStats;
pub use write_error::WriteError;

/// Returns true if a datagram on a port shared by RTP and RTCP is RTCP (RFC 5761 section 4): its
/// second byte is a packet type between 192 and 223. No RTP payload type, with or without the
/// marker bit, may have these values.
#[must_use]
pub fn is_rtcp(datagram: &[u8]) -> bool {
    matches!(datagram, [_, 192..=223, ..])
}
