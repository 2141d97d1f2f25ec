//! STUN messages and their attributes (RFC 8489 sections 5 and 14).

use crate::integrity;
use core::error::Error;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The length of a message header in bytes.
pub(crate) const HEADER: usize = 20;
/// The magic cookie, which follows the length and identifies STUN.
pub(crate) const MAGIC: u32 = 0x2112_a442;
/// The value that is XORed with the CRC of a fingerprint.
const FINGERPRINT_MASK: u32 = 0x5354_554e;
/// The length of a FINGERPRINT attribute with its header, in bytes.
const FINGERPRINT_LENGTH: usize = 8;

/// Attribute types (RFC 8489 section 18.3). Those below 0x8000 are comprehension-required.
pub mod attribute_type {
    /// The reflexive transport address.
    pub const MAPPED_ADDRESS: u16 = 0x0001;
    /// The user name.
    pub const USERNAME: u16 = 0x0006;
    /// An HMAC-SHA1 of the message up to this attribute.
    pub const MESSAGE_INTEGRITY: u16 = 0x0008;
    /// The code and the reason of an error.
    pub const ERROR_CODE: u16 = 0x0009;
    /// The unknown attribute types of the request.
    pub const UNKNOWN_ATTRIBUTES: u16 = 0x000a;
    /// The realm of the credentials.
    pub const REALM: u16 = 0x0014;
    /// The nonce of the server.
    pub const NONCE: u16 = 0x0015;
    /// An HMAC-SHA256 of the message up to this attribute.
    pub const MESSAGE_INTEGRITY_SHA256: u16 = 0x001c;
    /// The algorithm that derives the key from the password.
    pub const PASSWORD_ALGORITHM: u16 = 0x001d;
    /// The hashed user name.
    pub const USERHASH: u16 = 0x001e;
    /// The priority of the reflexive candidate that a check may find (RFC 8445 section 16.1).
    pub const PRIORITY: u16 = 0x0024;
    /// The nomination of the pair of the check (RFC 8445 section 16.1).
    pub const USE_CANDIDATE: u16 = 0x0025;
    /// The reflexive transport address, XORed so that no NAT rewrites it.
    pub const XOR_MAPPED_ADDRESS: u16 = 0x0020;
    /// The software of the sender.
    pub const SOFTWARE: u16 = 0x8022;
    /// A CRC-32 of the message up to this attribute.
    pub const FINGERPRINT: u16 = 0x8028;
    /// The sender is the controlled agent; the value is its tie-breaker (RFC 8445 section 16.1).
    pub const ICE_CONTROLLED: u16 = 0x8029;
    /// The sender is the controlling agent; the value is its tie-breaker (RFC 8445 section 16.1).
    pub const ICE_CONTROLLING: u16 = 0x802a;
}

/// The transaction ID: 96 random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TransactionId(pub [u8; 12]);

/// The message class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A request, which is answered.
    Request,
    /// An indication, which is not answered.
    Indication,
    /// A success response.
    Success,
    /// An error response.
    Error,
}

/// The reason why bytes are not a STUN message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// The bytes do not start with a STUN header.
    NotStun,
    /// The length differs from the announced one, or is not a multiple of four.
    Length {
        /// The announced number of bytes.
        announced: usize,
        /// The actual number of bytes.
        length: usize,
    },
    /// An attribute extends beyond the end of the message.
    Attribute(u16),
    /// The fingerprint is wrong, or not the last attribute.
    Fingerprint,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotStun => {
                write!(f, "not a STUN message: expected a header of 20 bytes with the magic cookie")
            }
            Self::Length { announced, length } => {
                write!(f, "STUN message of {length} bytes, its header announces {announced}")
            }
            Self::Attribute(number) => {
                write!(f, "STUN attribute {number:#06x} extends beyond the end of its message")
            }
            Self::Fingerprint => write!(f, "STUN message with a wrong fingerprint"),
        }
    }
}

impl Error for MessageError {}

/// Returns true if a datagram starts with a STUN header: two zero bits, and the magic cookie.
#[must_use]
pub fn is_stun(datagram: &[u8]) -> bool {
    datagram.len() >= HEADER && datagram[0] < 0x40 && datagram[4..8] == MAGIC.to_be_bytes()
}

/// A complete message, over borrowed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// The message class.
    pub class: Class,
    /// The method: [`BINDING`](crate::BINDING) or another one.
    pub method: u16,
    /// The transaction ID.
    pub id: TransactionId,
    /// True if the message ends with a correct fingerprint.
    pub has_fingerprint: bool,
    datagram: &'a [u8],
}

/// An attribute of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attribute<'a> {
    /// See [`attribute_type`].
    pub number: u16,
    /// The value without padding.
    pub value: &'a [u8],
}

/// The value of ERROR-CODE (RFC 8489 section 14.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode<'a> {
    /// The code, 300 to 699.
    pub code: u16,
    /// The reason phrase; empty if it is not UTF-8.
    pub reason: &'a str,
}

impl<'a> Message<'a> {
    /// Parses a datagram that is one message.
    ///
    /// # Errors
    /// See [`MessageError`].
    pub fn parse(datagram: &'a [u8]) -> Result<Self, MessageError> {
        if !is_stun(datagram) {
            return Err(MessageError::NotStun);
        }
        let short = |at: usize| u16::from_be_bytes([datagram[at], datagram[at + 1]]);
        let (kind, announced) = (short(0), HEADER + usize::from(short(2)));
        let length = datagram.len();
        if announced != length || !length.is_multiple_of(4) {
            return Err(MessageError::Length { announced, length });
        }
        let class = match kind >> 7 & 2 | kind >> 4 & 1 {
            0 => Class::Request,
            1 => Class::Indication,
            2 => Class::Success,
            _ => Class::Error,
        };
        // The bits of the class are interleaved with those of the method.
        let method = kind & 0xf | kind >> 1 & 0x70 | kind >> 2 & 0xf80;
        let mut id = TransactionId([0; 12]);
        id.0.copy_from_slice(&datagram[8..HEADER]);
        let mut has_fingerprint = false;
        let mut rest = &datagram[HEADER..];
        while !rest.is_empty() {
            if has_fingerprint {
                return Err(MessageError::Fingerprint);
            }
            let start = length - rest.len();
            let (attribute, after) = split(rest)?;
            if attribute.number == attribute_type::FINGERPRINT {
                if *attribute.value != fingerprint(&datagram[..start]).to_be_bytes() {
                    return Err(MessageError::Fingerprint);
                }
                has_fingerprint = true;
            }
            rest = after;
        }
        Ok(Self { class, method, id, has_fingerprint, datagram })
    }

    /// The attributes in message order.
    pub fn attributes(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        let mut rest = &self.datagram[HEADER..];
        core::iter::from_fn(move || {
            let (attribute, after) = split(rest).ok()?;
            rest = after;
            Some(attribute)
        })
    }

    /// The value of the first attribute of this type. Attributes after an integrity attribute are
    /// ignored (RFC 8489 section 14.5).
    #[must_use]
    pub fn value(&self, number: u16) -> Option<&'a [u8]> {
        use attribute_type::{MESSAGE_INTEGRITY, MESSAGE_INTEGRITY_SHA256};
        let is_integrity =
            |number: u16| number == MESSAGE_INTEGRITY || number == MESSAGE_INTEGRITY_SHA256;
        for attribute in self.attributes() {
            if attribute.number == number {
                return Some(attribute.value);
            }
            if is_integrity(attribute.number) && !is_integrity(number) {
                return None;
            }
        }
        None
    }

    /// Returns true if the message has a MESSAGE-INTEGRITY by `key`: the password of short-term
    /// credentials (RFC 8489 section 9.1.1), or the hash of long-term ones.
    #[must_use]
    pub fn has_integrity(&self, key: &[u8]) -> bool {
        let mut rest = &self.datagram[HEADER..];
        while let Ok((attribute, after)) = split(rest) {
            if attribute.number == attribute_type::MESSAGE_INTEGRITY {
                let before = self.datagram.len() - rest.len();
                return integrity::of(&self.datagram[..before], key).is(attribute.value);
            }
            rest = after;
        }
        false
    }

    /// The reflexive transport address: XOR-MAPPED-ADDRESS, or MAPPED-ADDRESS of a server that
    /// predates RFC 5389.
    #[must_use]
    pub fn mapped_address(&self) -> Option<SocketAddr> {
        if self.value(attribute_type::XOR_MAPPED_ADDRESS).is_some() {
            return self.xor_address(attribute_type::XOR_MAPPED_ADDRESS);
        }
        read_address(self.value(attribute_type::MAPPED_ADDRESS)?, &self.id, false)
    }

    /// The XORed address in the first attribute of this type.
    #[must_use]
    pub fn xor_address(&self, number: u16) -> Option<SocketAddr> {
        read_address(self.value(number)?, &self.id, true)
    }

    /// The error of an error response.
    #[must_use]
    pub fn error(&self) -> Option<ErrorCode<'a>> {
        let [_, _, class, number, reason @ ..] = self.value(attribute_type::ERROR_CODE)? else {
            return None;
        };
        let (class, number) = (u16::from(class & 7), u16::from(*number));
        let is_one = (3..=6).contains(&class) && number < 100;
        let reason = core::str::from_utf8(reason).unwrap_or_default();
        is_one.then_some(ErrorCode { code: 100 * class + number, reason })
    }

    /// The comprehension-required attributes that are not in `known`.
    pub fn unknown_attributes(&self, known: &'static [u16]) -> impl Iterator<Item = u16> + use<'a> {
        let numbers = self.attributes().map(|attribute| attribute.number);
        numbers.filter(|&number| number < 0x8000 && !known.contains(&number))
    }
}

/// Splits off the first attribute with its padding and returns the bytes after it.
fn split(bytes: &[u8]) -> Result<(Attribute<'_>, &[u8]), MessageError> {
    let &[high, low, length_high, length_low, ref rest @ ..] = bytes else {
        return Err(MessageError::Attribute(0));
    };
    let number = u16::from_be_bytes([high, low]);
    let length = usize::from(u16::from_be_bytes([length_high, length_low]));
    let padded = rest.split_at_checked(length.next_multiple_of(4));
    let (value, rest) = padded.ok_or(MessageError::Attribute(number))?;
    Ok((Attribute { number, value: &value[..length] }, rest))
}

/// The fingerprint of the bytes before it. Their length field includes it already.
pub(crate) fn fingerprint(message: &[u8]) -> u32 {
    crc32(message) ^ FINGERPRINT_MASK
}

/// The CRC-32 of each byte (ITU-T V.42).
const CRCS: [u32; 256] = {
    let mut crcs = [0; 256];
    let mut byte = 0;
    while byte < crcs.len() {
        let (mut crc, mut bits) = (byte as u32, 8);
        while bits > 0 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0xedb8_8320 } else { 0 };
            bits -= 1;
        }
        crcs[byte] = crc;
        byte += 1;
    }
    crcs
};

fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| (crc >> 8) ^ CRCS[usize::from(crc as u8 ^ byte)])
}

/// The length of a message with a fingerprint added.
pub(crate) const fn with_fingerprint(length: usize) -> usize {
    length + FINGERPRINT_LENGTH
}

/// The XOR mask of an address: the magic cookie, then the transaction ID.
pub(crate) fn pad(id: &TransactionId) -> [u8; 16] {
    let mut pad = [0; 16];
    pad[..4].copy_from_slice(&MAGIC.to_be_bytes());
    pad[4..].copy_from_slice(&id.0);
    pad
}

fn read_address(value: &[u8], id: &TransactionId, is_xored: bool) -> Option<SocketAddr> {
    let &[_, family, high, low, ref bytes @ ..] = value else { return None };
    let pad = if is_xored { pad(id) } else { [0; 16] };
    let port = u16::from_be_bytes([high ^ pad[0], low ^ pad[1]]);
    let mut octets = [0; 16];
    for ((octet, byte), mask) in octets.iter_mut().zip(bytes).zip(pad) {
        *octet = byte ^ mask;
    }
    let ip = match (family, bytes.len()) {
        (1, 4) => IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])),
        (2, 16) => IpAddr::V6(Ipv6Addr::from(octets)),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests;
