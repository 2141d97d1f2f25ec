//! Writing of STUN messages.

use crate::WriteError;
use crate::integrity;
use crate::message::{
    Class, HEADER, MAGIC, TransactionId, attribute_type, fingerprint, pad, with_fingerprint,
};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

/// Writes one message into a buffer, attribute by attribute.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
    id: TransactionId,
}

impl<'a> Writer<'a> {
    /// Starts a message. `out` is cleared.
    pub fn new(class: Class, method: u16, id: TransactionId, out: &'a mut Vec<u8>) -> Self {
        out.clear();
        let class = match class {
            Class::Request => 0,
            Class::Indication => 0x010,
            Class::Success => 0x100,
            Class::Error => 0x110,
        };
        let kind = method & 0xf | (method & 0x70) << 1 | (method & 0xf80) << 2 | class;
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&id.0);
        Self { out, id }
    }

    /// Adds an attribute.
    ///
    /// # Errors
    /// [`WriteError::TooLong`]: nothing is added.
    pub fn attribute(&mut self, number: u16, value: &[u8]) -> Result<(), WriteError> {
        let length = self.out.len() - HEADER + 4 + value.len().next_multiple_of(4);
        let (Ok(_), Ok(value_length)) = (u16::try_from(length), u16::try_from(value.len())) else {
            return Err(WriteError::TooLong);
        };
        self.out.extend_from_slice(&number.to_be_bytes());
        self.out.extend_from_slice(&value_length.to_be_bytes());
        self.out.extend_from_slice(value);
        self.out.resize(HEADER + length, 0);
        self.set_length(HEADER + length);
        Ok(())
    }

    /// Adds XOR-MAPPED-ADDRESS.
    ///
    /// # Errors
    /// As of [`Writer::attribute`].
    pub fn xor_mapped_address(&mut self, address: SocketAddr) -> Result<(), WriteError> {
        self.xor_address(attribute_type::XOR_MAPPED_ADDRESS, address)
    }

    /// Adds an attribute with a XORed address as its value, such as XOR-PEER-ADDRESS of TURN.
    ///
    /// # Errors
    /// As of [`Writer::attribute`].
    pub fn xor_address(&mut self, number: u16, address: SocketAddr) -> Result<(), WriteError> {
        let (mut value, pad) = ([0; 20], pad(&self.id));
        let port = address.port().to_be_bytes();
        (value[2], value[3]) = (port[0] ^ pad[0], port[1] ^ pad[1]);
        let mut put = |family: u8, octets: &[u8]| {
            value[1] = family;
            for ((byte, octet), mask) in value[4..].iter_mut().zip(octets).zip(pad) {
                *byte = octet ^ mask;
            }
            4 + octets.len()
        };
        let length = match address.ip().to_canonical() {
            IpAddr::V4(ip) => put(1, &ip.octets()),
            IpAddr::V6(ip) => put(2, &ip.octets()),
        };
        self.attribute(number, &value[..length])
    }

    /// Adds ERROR-CODE with a code from 300 to 699.
    ///
    /// # Errors
    /// As of [`Writer::attribute`].
    pub fn error(&mut self, code: u16, reason: &str) -> Result<(), WriteError> {
        let mut value = Vec::from([0, 0, (code / 100) as u8, (code % 100) as u8]);
        value.extend_from_slice(reason.as_bytes());
        self.attribute(attribute_type::ERROR_CODE, &value)
    }

    /// Adds MESSAGE-INTEGRITY by `key`: the password of short-term credentials, or the hash of
    /// long-term ones. Only FINGERPRINT may follow.
    ///
    /// # Errors
    /// As of [`Writer::attribute`].
    pub fn integrity(&mut self, key: &[u8]) -> Result<(), WriteError> {
        let value = integrity::of(self.out, key).value();
        self.attribute(attribute_type::MESSAGE_INTEGRITY, &value)
    }

    /// Adds FINGERPRINT, which has to be the last attribute.
    ///
    /// # Errors
    /// As of [`Writer::attribute`].
    pub fn fingerprint(mut self) -> Result<(), WriteError> {
        let length = with_fingerprint(self.out.len());
        if u16::try_from(length - HEADER).is_err() {
            return Err(WriteError::TooLong);
        }
        // The CRC covers a length field that includes the fingerprint.
        self.set_length(length);
        let code = fingerprint(self.out).to_be_bytes();
        self.attribute(attribute_type::FINGERPRINT, &code)
    }

    fn set_length(&mut self, length: usize) {
        let length = (length - HEADER) as u16;
        self.out[2..4].copy_from_slice(&length.to_be_bytes());
    }
}
