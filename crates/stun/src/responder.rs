//! The responder to binding requests.

use crate::BINDING;
use crate::message::{Class, Message, attribute_type as at};
use crate::writer::Writer;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// The comprehension-required attributes that a request may have. The response uses none of them.
const KNOWN: &[u16] = &[
    at::MAPPED_ADDRESS,
    at::USERNAME,
    at::MESSAGE_INTEGRITY,
    at::ERROR_CODE,
    at::UNKNOWN_ATTRIBUTES,
    at::REALM,
    at::NONCE,
    at::MESSAGE_INTEGRITY_SHA256,
    at::PASSWORD_ALGORITHM,
    at::USERHASH,
    at::XOR_MAPPED_ADDRESS,
];

/// The maximum number of unknown attributes listed in a response.
const MAX_UNKNOWN: usize = 16;

/// Answers a datagram from `from`, with the response in `out`: a binding request gets its source
/// address, one with unknown comprehension-required attributes gets error 420. Returns false if the
/// datagram gets no response.
///
/// A response is at most 24 bytes longer than a request without attributes. It has a fingerprint if
/// the request has one.
pub fn respond_to_binding(from: SocketAddr, datagram: &[u8], out: &mut Vec<u8>) -> bool {
    let Ok(request) = Message::parse(datagram) else { return false };
    if request.class != Class::Request || request.method != BINDING {
        return false;
    }
    let mut unknown = Vec::new();
    for number in request.unknown_attributes(KNOWN).take(MAX_UNKNOWN) {
        unknown.extend_from_slice(&number.to_be_bytes());
    }
    let class = if unknown.is_empty() { Class::Success } else { Class::Error };
    let mut writer = Writer::new(class, BINDING, request.id, out);
    let written = if unknown.is_empty() {
        writer.xor_mapped_address(from)
    } else {
        writer.error(420, "").and_then(|()| writer.attribute(at::UNKNOWN_ATTRIBUTES, &unknown))
    };
    let written = written.and_then(|()| match request.has_fingerprint {
        true => writer.fingerprint(),
        false => Ok(()),
    });
    written.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TransactionId;

    const ID: TransactionId = TransactionId([3; 12]);

    #[test]
    fn a_response_has_the_source_address_of_the_request() {
        for from in ["192.0.2.7:4000", "[2001:db8::7]:65535"] {
            let from: SocketAddr = from.parse().unwrap();
            for has_fingerprint in [false, true] {
                let (mut request, mut out) = (Vec::new(), Vec::new());
                let writer = Writer::new(Class::Request, BINDING, ID, &mut request);
                if has_fingerprint {
                    writer.fingerprint().unwrap();
                }
                assert!(respond_to_binding(from, &request, &mut out));
                let message = Message::parse(&out).unwrap();
                assert_eq!((message.class, message.id), (Class::Success, ID));
                assert_eq!(message.mapped_address(), Some(from));
                assert_eq!(message.has_fingerprint, has_fingerprint);
                assert!(out.len() <= request.len() + 24, "no amplifier");
            }
        }
    }

    #[test]
    fn unknown_attributes_are_listed() {
        let from = ([192, 0, 2, 7], 4000).into();
        let (mut request, mut out) = (Vec::new(), Vec::new());
        let mut writer = Writer::new(Class::Request, BINDING, ID, &mut request);
        writer.attribute(0x0003, &[0, 0, 0, 6]).unwrap();
        writer.attribute(at::SOFTWARE, b"a phone").unwrap();
        writer.attribute(0x7ffe, &[]).unwrap();
        assert!(respond_to_binding(from, &request, &mut out));
        let message = Message::parse(&out).unwrap();
        assert_eq!(message.error().map(|error| error.code), Some(420));
        assert_eq!(message.value(at::UNKNOWN_ATTRIBUTES), Some(&[0, 3, 0x7f, 0xfe][..]));
        let mut many = Vec::new();
        let mut writer = Writer::new(Class::Request, BINDING, ID, &mut many);
        (0..1000).for_each(|number| writer.attribute(0x4000 + number, &[]).unwrap());
        assert!(respond_to_binding(from, &many, &mut out) && out.len() < 100);
    }

    #[test]
    fn other_messages_are_not_answered() {
        let from = ([192, 0, 2, 7], 4000).into();
        let mut out = Vec::new();
        for (class, method) in
            [(Class::Indication, 1), (Class::Success, 1), (Class::Error, 1), (Class::Request, 3)]
        {
            let mut message = Vec::new();
            Writer::new(class, method, ID, &mut message);
            assert!(!respond_to_binding(from, &message, &mut out), "{class:?} {method}");
        }
        assert!(!respond_to_binding(from, b"OPTIONS sip:a SIP/2.0\r\n\r\n", &mut out));
    }
}
