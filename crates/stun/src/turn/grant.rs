//! One of the things that a server grants for a time, and that the client renews.

use super::credentials::Credentials;
use super::{attribute_type as turn_at, method};
use crate::message::{Class, TransactionId, attribute_type as at};
use crate::retransmission::Retransmission;
use crate::{WriteError, Writer};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

/// The number of UDP in IP, as the value of REQUESTED-TRANSPORT.
const UDP: [u8; 4] = [17, 0, 0, 0];
/// IPv6 as the value of REQUESTED-ADDRESS-FAMILY.
const IPV6: [u8; 4] = [2, 0, 0, 0];

/// The thing that is granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Subject {
    /// The relayed address.
    Allocation,
    /// The peers at this address may send to the relayed address.
    Permission(IpAddr),
    /// The channel with this number to and from a peer.
    Channel(u16, SocketAddr),
}

/// A grant, and the request for it.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) subject: Subject,
    /// True once the server has granted it.
    pub(super) is_valid: bool,
    /// The time of the next request, if there is to be one.
    pub(super) renewal: Option<Duration>,
    /// The request that is not answered yet.
    pub(super) request: Option<Request>,
    /// The number of challenges since the last success.
    pub(super) challenges: u8,
}

/// A request to the server.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: TransactionId,
    pub(super) method: u16,
    /// True if it has credentials.
    pub(super) is_signed: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) schedule: Retransmission,
}

/// The challenge of the server, and the key that answers it.
#[derive(Debug)]
pub(super) struct Proof {
    realm: Vec<u8>,
    nonce: Vec<u8>,
    pub(super) key: [u8; 16],
}

impl Proof {
    pub(super) fn new(credentials: &Credentials, realm: &[u8], nonce: &[u8]) -> Self {
        Self { realm: realm.to_vec(), nonce: nonce.to_vec(), key: credentials.key(realm) }
    }

    /// Signs a message.
    pub(super) fn sign(&self, user: &str, writer: &mut Writer<'_>) -> Result<(), WriteError> {
        writer.attribute(at::USERNAME, user.as_bytes())?;
        writer.attribute(at::REALM, &self.realm)?;
        writer.attribute(at::NONCE, &self.nonce)?;
        writer.integrity(&self.key)
    }
}

impl Grant {
    /// A grant that is requested at `renewal`.
    pub(super) const fn new(subject: Subject, renewal: Option<Duration>) -> Self {
        Self { subject, is_valid: false, renewal, request: None, challenges: 0 }
    }

    /// The time at which something is to be done.
    pub(super) fn next(&self) -> Option<Duration> {
        self.request.as_ref().map(|request| request.schedule.next()).or(self.renewal)
    }

    /// The method of the request.
    pub(super) const fn method(&self) -> u16 {
        match self.subject {
            Subject::Allocation if self.is_valid => method::REFRESH,
            Subject::Allocation => method::ALLOCATE,
            Subject::Permission(_) => method::CREATE_PERMISSION,
            Subject::Channel(..) => method::CHANNEL_BIND,
        }
    }

    /// Writes the request with this ID.
    ///
    /// # Errors
    /// As of [`Writer::attribute`].
    pub(super) fn write(
        &self,
        id: TransactionId,
        is_ipv6: bool,
        (user, proof): (&str, Option<&Proof>),
        out: &mut Vec<u8>,
    ) -> Result<(), WriteError> {
        let mut writer = Writer::new(Class::Request, self.method(), id, out);
        match self.subject {
            Subject::Allocation if self.is_valid => {}
            Subject::Allocation => {
                writer.attribute(turn_at::REQUESTED_TRANSPORT, &UDP)?;
                if is_ipv6 {
                    writer.attribute(turn_at::REQUESTED_ADDRESS_FAMILY, &IPV6)?;
                }
            }
            Subject::Permission(ip) => {
                writer.xor_address(turn_at::XOR_PEER_ADDRESS, (ip, 0).into())?;
            }
            Subject::Channel(number, peer) => {
                let [high, low] = number.to_be_bytes();
                writer.attribute(turn_at::CHANNEL_NUMBER, &[high, low, 0, 0])?;
                writer.xor_address(turn_at::XOR_PEER_ADDRESS, peer)?;
            }
        }
        if let Some(proof) = proof {
            proof.sign(user, &mut writer)?;
        }
        writer.fingerprint()
    }
}
