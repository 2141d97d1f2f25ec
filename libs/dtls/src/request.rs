//! The certificates that a server of DTLS 1.2 asks for: those of ECDSA and of RSA.
//!
//! `dimpl` asks for ECDSA with SHA-256 and with SHA-384, and a client such as OpenSSL shows no
//! other certificate than one that was asked for. The sent request has RSA with SHA-256 in place
//! of ECDSA with SHA-384, in as many octets. The client hashes and signs the handshake with this
//! request, so the transcript of `dimpl` is changed in the same way before it is hashed or
//! verified. A client with a key for P-384 signs with SHA-256, too.

use dimpl::HashAlgorithm;
use dimpl::crypto::{Buf, HashContext, HashProvider, rust_crypto};
use std::borrow::Cow;

/// The content type of a handshake in a record, and that of a certificate request in a handshake
/// (RFC 5246 section 7.4, RFC 6347 section 4.3.2).
const HANDSHAKE: u8 = 22;
const CERTIFICATE_REQUEST: u8 = 13;
/// The lengths of the header of a record, and of a message in it.
const RECORD_HEADER: usize = 13;
const MESSAGE_HEADER: usize = 12;

/// The body of the request of `dimpl`: one type of certificates, which is ECDSA, two pairs of a
/// hash function and a signature, and no authorities. The order of the pairs is that of the client.
const REQUESTS: [&[u8; 10]; 2] =
    [b"\x01\x40\x00\x04\x04\x03\x05\x03\x00\x00", b"\x01\x40\x00\x04\x05\x03\x04\x03\x00\x00"];
const ECDSA_SHA384: [u8; 2] = [5, 3];
const RSA_SHA256: [u8; 2] = [4, 1];
/// The places of the pairs in the body.
const PAIRS: [usize; 2] = [4, 6];

/// Changes the certificate request in a datagram of a server in clear, if it is there.
pub(crate) fn amend_datagram(datagram: &mut [u8]) {
    let mut rest = datagram;
    while let Some((header, after)) = rest.split_at_mut_checked(RECORD_HEADER) {
        let length = usize::from(u16::from_be_bytes([header[11], header[12]]));
        let Some((body, after)) = after.split_at_mut_checked(length) else { return };
        if header[0] == HANDSHAKE && header[3..5] == [0, 0] {
            amend_messages(body);
        }
        rest = after;
    }
}

/// The messages of a handshake as a client has received them.
pub(crate) fn amended(transcript: &[u8]) -> Cow<'_, [u8]> {
    let mut copy = transcript.to_vec();
    match amend_messages(&mut copy) {
        true => copy.into(),
        false => transcript.into(),
    }
}

/// Changes the certificate request in a sequence of whole messages. Returns true if it is there.
fn amend_messages(messages: &mut [u8]) -> bool {
    let mut rest = messages;
    while let Some((header, after)) = rest.split_at_mut_checked(MESSAGE_HEADER) {
        let number = |at: usize| {
            usize::from(header[at]) << 16
                | usize::from(header[at + 1]) << 8
                | usize::from(header[at + 2])
        };
        let (length, offset, fragment) = (number(1), number(6), number(9));
        let Some((body, after)) = after.split_at_mut_checked(fragment) else { return false };
        if header[0] == CERTIFICATE_REQUEST && offset == 0 && fragment == length {
            let is_request = REQUESTS.iter().any(|request| body == *request);
            for at in PAIRS.into_iter().filter(|_| is_request) {
                if body[at..at + 2] == ECDSA_SHA384 {
                    body[at..at + 2].copy_from_slice(&RSA_SHA256);
                }
            }
            return is_request;
        }
        rest = after;
    }
    false
}

/// The hash functions of a server. `dimpl` hashes the messages of DTLS 1.2 as one sequence of
/// octets.
#[derive(Debug)]
pub(crate) struct Hashes;

impl HashProvider for Hashes {
    fn create_hash(&self, algorithm: HashAlgorithm) -> Box<dyn HashContext> {
        Box::new(Hash(rust_crypto::default_provider().hash_provider.create_hash(algorithm)))
    }
}

#[derive(Debug)]
struct Hash(Box<dyn HashContext>);

impl HashContext for Hash {
    fn update(&mut self, data: &[u8]) {
        self.0.update(&amended(data));
    }

    fn clone_and_finalize(&self, out: &mut Buf) {
        self.0.clone_and_finalize(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that is not fragmented.
    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = [0, 0, u8::try_from(body.len()).unwrap()];
        [&[kind], &length[..], &[0, 2, 0, 0, 0], &length, body].concat()
    }

    fn record(epoch: u8, body: &[u8]) -> Vec<u8> {
        let header = [HANDSHAKE, 254, 253, 0, epoch, 0, 0, 0, 0, 0, 1];
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&header[..], &length, body].concat()
    }

    #[test]
    fn the_request_is_the_same_in_datagrams_and_in_the_transcript() {
        for (request, with_rsa) in [
            (REQUESTS[0], b"\x01\x40\x00\x04\x04\x03\x04\x01\x00\x00"),
            (REQUESTS[1], b"\x01\x40\x00\x04\x04\x01\x04\x03\x00\x00"),
        ] {
            let flight = |request: &[u8]| {
                [message(2, &[7; 80]), message(CERTIFICATE_REQUEST, request), message(14, &[])]
            };
            let (ours, theirs) = (flight(request), flight(with_rsa));
            assert_eq!(amended(&ours.concat()), theirs.concat());
            let records = |flight: &[Vec<u8>; 3]| {
                [record(0, &flight[0]), record(0, &flight[1..].concat())].concat()
            };
            let mut datagram = records(&ours);
            amend_datagram(&mut datagram);
            assert_eq!(datagram, records(&theirs));
        }
    }

    #[test]
    fn other_octets_stay() {
        let other = message(CERTIFICATE_REQUEST, b"\x01\x40\x00\x02\x04\x03\x00\x00");
        let in_another = message(11, &message(CERTIFICATE_REQUEST, REQUESTS[0]));
        for transcript in [&other[..], &in_another, REQUESTS[0], &[], &[13; 40]] {
            assert!(matches!(amended(transcript), Cow::Borrowed(same) if same == transcript));
        }
        // Records of later epochs are encrypted.
        let encrypted = record(1, &message(CERTIFICATE_REQUEST, REQUESTS[0]));
        let mut datagram = encrypted.clone();
        amend_datagram(&mut datagram);
        assert_eq!(datagram, encrypted);
    }
}
