//! A client of TURN (RFC 8656): an address at a server that relays datagrams to and from peers.
//!
//! A [`Client`] is a value without I/O. Its inputs are the octets of the server, commands and the
//! time, as a duration since an epoch that the owner chooses and keeps; its outputs are requests,
//! the relayed address, and the datagrams of peers. The server is reached by datagrams or by a
//! stream, which may be encrypted; the relayed datagrams are UDP.

mod client;
mod credentials;
mod error;
mod frame;
mod grant;

pub use client::{Client, Event, Received, Transport};
pub use credentials::Credentials;
pub use error::{Error, SendError};

/// A source of random octets. It has to be cryptographic: a guessed transaction ID allows a forged
/// response.
pub type Random = fn(&mut [u8]);

/// Methods (RFC 8656 section 17).
pub mod method {
    /// A relayed address is requested.
    pub const ALLOCATE: u16 = 3;
    /// The relayed address is kept, or given back.
    pub const REFRESH: u16 = 4;
    /// A datagram for a peer.
    pub const SEND: u16 = 6;
    /// A datagram of a peer.
    pub const DATA: u16 = 7;
    /// A peer may send to the relayed address.
    pub const CREATE_PERMISSION: u16 = 8;
    /// A peer gets the number of a channel.
    pub const CHANNEL_BIND: u16 = 9;
}

/// Attribute types (RFC 8656 section 18).
pub mod attribute_type {
    /// The number of a channel, with two octets behind it.
    pub const CHANNEL_NUMBER: u16 = 0x000c;
    /// The remaining time of an allocation in seconds.
    pub const LIFETIME: u16 = 0x000d;
    /// The address of a peer.
    pub const XOR_PEER_ADDRESS: u16 = 0x0012;
    /// The contents of a relayed datagram.
    pub const DATA: u16 = 0x0013;
    /// The address at which the server relays.
    pub const XOR_RELAYED_ADDRESS: u16 = 0x0016;
    /// The address family of the relayed address.
    pub const REQUESTED_ADDRESS_FAMILY: u16 = 0x0017;
    /// The transport of the relayed address, by its number in IP.
    pub const REQUESTED_TRANSPORT: u16 = 0x0019;
}
