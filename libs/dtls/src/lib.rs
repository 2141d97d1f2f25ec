//! Keys of SRTP by a DTLS handshake on the media path (RFC 5763, RFC 5764), without I/O.
//!
//! The handshake is by the crate `dimpl`: DTLS 1.2 and 1.3 with ECDSA certificates. A client of
//! DTLS 1.2 may have an RSA certificate: an end that may choose its role is the server. An
//! [`Association`] verifies the certificate of the peer by the fingerprints of its description,
//! and gives no keys before.
//!
//! Records of a handshake are not authentic. The owner passes only datagrams from the address that
//! the peer is known at, by a check of ICE or by its description: one that is forged from there may
//! end the handshake.
#![forbid(unsafe_code)]

mod association;
mod error;
mod fingerprint;
mod identity;
mod record;
mod request;
mod rsa;

pub use association::{Association, Event, SrtpKeys};
pub use error::{AssociationError, IdentityError};
pub use identity::Identity;
