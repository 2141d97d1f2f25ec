//! The events of an association.

use crate::algorithm::{Cipher, Hash, KeyAgreement};
use crate::cache::{Update, Zid};
use crate::error::Failure;
use crate::sas::Sas;
use alloc::boxed::Box;
use alloc::string::String;
use srtp::{MasterKey, Suite};

/// An event for the owner.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    /// The keys are there, and the peer has proved that it has them.
    Keyed(Box<Keyed>),
    /// The owner stores this in its [`Cache`](crate::Cache).
    Update(Update),
    /// The peer has not answered for four seconds. If it begins later, the agreement goes on.
    Silent {
        /// The peer is known to have ZRTP, by its description or by the owner's word. A program
        /// between the ends may suppress it.
        is_expected: bool,
    },
    /// There will be no keys.
    Failed(Failure),
}

/// The result of an agreement.
#[derive(Debug)]
#[non_exhaustive]
pub struct Keyed {
    /// The suite of SRTP.
    pub suite: Suite,
    /// The key of sent packets.
    pub local: MasterKey,
    /// The key of received packets.
    pub remote: MasterKey,
    /// The string that the users compare.
    pub sas: Sas,
    /// The users of both ends have compared the string in this call or an earlier one, and the
    /// secrets since then are unbroken.
    pub is_verified: bool,
    /// The relation to earlier calls.
    pub continuity: Continuity,
    /// The ZID of the peer.
    pub peer: Zid,
    /// The program of the peer, as it names itself, in printable characters.
    pub peer_client: String,
    /// The group of the exchange.
    pub key_agreement: KeyAgreement,
    /// The hash function.
    pub hash: Hash,
    /// The cipher.
    pub cipher: Cipher,
}

/// The relation of an agreement to earlier ones with the same ZID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// The cache has no secrets of this peer.
    New,
    /// The peer has the secrets of an earlier call: it is the same.
    Continued,
    /// The peer does not have the secrets of the cache. It has lost its cache, or this is a man in
    /// the middle. The cache is left as it is until the user confirms the SAS.
    Broken,
}
