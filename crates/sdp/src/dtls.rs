//! DTLS-SRTP in session descriptions: fingerprints and roles (RFC 5763, RFC 8122, RFC 8842).

use crate::{MediaDescription, SessionDescription};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;

/// The maximum number of fingerprints of a medium that are parsed.
const MAX_FINGERPRINTS: usize = 16;

/// The parameters of DTLS of a medium.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DtlsParameters<'a> {
    /// The fingerprints of the certificate by known hash functions, at least one. The certificate
    /// of the peer has to match the strongest hash function (RFC 8122 section 5).
    pub fingerprints: Vec<Fingerprint>,
    /// The role of the author.
    pub setup: Setup,
    /// The identifier of the association (`a=tls-id`): a new one asks for a new association.
    pub tls_id: Option<&'a str>,
}

/// The hash of a certificate in DER (`a=fingerprint`).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// The hash function.
    pub hash: HashFunction,
    /// The hash, of the length of its function.
    pub bytes: Vec<u8>,
}

/// The hash function of a fingerprint, in the order of strength. MD5 and MD2 are not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum HashFunction {
    /// SHA-1, for old phones.
    Sha1,
    /// SHA-256, which every implementation has.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// The role of an end in the handshake (`a=setup`, RFC 4145, RFC 5763 section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setup {
    /// The author sends the `ClientHello`.
    Active,
    /// The author waits for the `ClientHello`.
    Passive,
    /// The answerer chooses.
    ActPass,
    /// No association for now.
    HoldConn,
}

/// The reason why DTLS cannot be used with a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DtlsError {
    /// No fingerprint is well-formed and of a known hash function.
    NoFingerprint,
    /// The role is not `active`, `passive`, `actpass` or `holdconn`.
    Setup,
}

impl fmt::Display for DtlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoFingerprint => "a=fingerprint: expected a hash such as `sha-256 AB:CD:…`",
            Self::Setup => "a=setup: expected active, passive, actpass or holdconn",
        })
    }
}

impl Error for DtlsError {}

/// The reason why a fingerprint is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FingerprintError {
    /// The value is not a hash function and pairs of hexadecimal digits with colons between them.
    Syntax,
    /// The hash function is unknown, or not accepted any more.
    HashFunction,
    /// The hash has not the length of its function.
    Length(HashFunction),
}

impl fmt::Display for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a=fingerprint: expected ")?;
        match self {
            Self::Syntax => f.write_str("a hash such as `sha-256 AB:CD:…`"),
            Self::HashFunction => f.write_str("sha-1, sha-256, sha-384 or sha-512"),
            Self::Length(hash) => write!(f, "{} bytes of {}", hash.length(), hash.name()),
        }
    }
}

impl Error for FingerprintError {}

impl<'a> DtlsParameters<'a> {
    /// The parameters of `media` of `session`; `None` if its author offers no DTLS. Fingerprints
    /// and roles of the session count for media without their own. A missing role is that of the
    /// default in RFC 4145 section 4: `active`.
    ///
    /// # Errors
    /// No fingerprint is usable, or the role is unknown.
    pub fn of(
        media: &MediaDescription<'a>,
        session: &SessionDescription<'a>,
    ) -> Result<Option<Self>, DtlsError> {
        let of_media: Vec<&str> = media.attributes("fingerprint").take(MAX_FINGERPRINTS).collect();
        let values = match of_media.is_empty() {
            true => session.attributes("fingerprint").take(MAX_FINGERPRINTS).collect(),
            false => of_media,
        };
        if values.is_empty() {
            return Ok(None);
        }
        let fingerprints: Vec<_> = values.into_iter().flat_map(Fingerprint::parse).collect();
        if fingerprints.is_empty() {
            return Err(DtlsError::NoFingerprint);
        }
        let value = |name| media.attributes(name).next().or(session.attributes(name).next());
        let setup = value("setup").map_or(Some(Setup::Active), Setup::from_name);
        Ok(Some(Self {
            fingerprints,
            setup: setup.ok_or(DtlsError::Setup)?,
            tls_id: value("tls-id"),
        }))
    }

    /// The fingerprints by the strongest hash function, one of which the certificate has to match.
    pub fn strongest(&self) -> impl Iterator<Item = &Fingerprint> {
        let strongest = self.fingerprints.iter().map(|fingerprint| fingerprint.hash).max();
        self.fingerprints.iter().filter(move |fingerprint| Some(fingerprint.hash) == strongest)
    }
}

impl Fingerprint {
    /// Parses the value of `a=fingerprint`, such as `sha-256 4A:AD:B9:…`.
    ///
    /// # Errors
    /// The value is malformed, of an unknown hash function, or has not the length of its function.
    pub fn parse(value: &str) -> Result<Self, FingerprintError> {
        let (name, digits) = value.split_once([' ', '\t']).ok_or(FingerprintError::Syntax)?;
        let hash = HashFunction::from_name(name).ok_or(FingerprintError::HashFunction)?;
        let mut bytes = Vec::with_capacity(hash.length());
        for digits in digits.trim().split(':').take(hash.length() + 1) {
            let is_byte =
                digits.len() == 2 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            let byte = u8::from_str_radix(digits, 16).ok().filter(|_| is_byte);
            bytes.push(byte.ok_or(FingerprintError::Syntax)?);
        }
        match bytes.len() == hash.length() {
            true => Ok(Self { hash, bytes }),
            false => Err(FingerprintError::Length(hash)),
        }
    }
}

impl fmt::Display for Fingerprint {
    /// Writes the value of `a=fingerprint`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hash.name())?;
        for (place, byte) in self.bytes.iter().enumerate() {
            write!(f, "{}{byte:02X}", if place == 0 { ' ' } else { ':' })?;
        }
        Ok(())
    }
}

impl HashFunction {
    const ALL: [Self; 4] = [Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512];

    /// The name in `a=fingerprint`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sha1 => "sha-1",
            Self::Sha256 => "sha-256",
            Self::Sha384 => "sha-384",
            Self::Sha512 => "sha-512",
        }
    }

    /// The length of a hash in bytes.
    #[must_use]
    pub const fn length(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| name.eq_ignore_ascii_case(function.name()))
    }
}

impl Setup {
    /// The name in `a=setup`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Passive => "passive",
            Self::ActPass => "actpass",
            Self::HoldConn => "holdconn",
        }
    }

    /// Returns true if an answer with this role is permitted for `offer` (RFC 4145 section 4.1).
    #[must_use]
    pub const fn answers(self, offer: Self) -> bool {
        match offer {
            Self::Active => matches!(self, Self::Passive | Self::HoldConn),
            Self::Passive => matches!(self, Self::Active | Self::HoldConn),
            Self::ActPass => !matches!(self, Self::ActPass),
            Self::HoldConn => matches!(self, Self::HoldConn),
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Active, Self::Passive, Self::ActPass, Self::HoldConn]
            .into_iter()
            .find(|setup| name.eq_ignore_ascii_case(setup.name()))
    }
}

/// Returns a new value of `a=tls-id`, of 120 random bits (RFC 8842 section 4).
pub fn tls_id(random: &mut dyn FnMut(&mut [u8])) -> String {
    let mut bytes = [0; 15];
    random(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the attributes of a medium with DTLS, without `a=`.
pub fn attributes(
    fingerprint: &Fingerprint,
    setup: Setup,
    tls_id: Option<&str>,
) -> impl Iterator<Item = String> {
    let id = tls_id.map(|id| format!("tls-id:{id}"));
    [format!("fingerprint:{fingerprint}"), format!("setup:{}", setup.name())].into_iter().chain(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};
    use proptest::prelude::*;
    use std::format;

    fn of(of_session: &str, of_media: &str) -> Result<Option<DtlsParameters<'static>>, DtlsError> {
        let text = format!("v=0\r\n{of_session}m=audio 9 UDP/TLS/RTP/SAVPF 0\r\n{of_media}").leak();
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        DtlsParameters::of(&session.media[0], &session)
    }

    fn fingerprint(hash: HashFunction, byte: u8) -> String {
        let fingerprint = Fingerprint { hash, bytes: [byte].repeat(hash.length()) };
        format!("a=fingerprint:{fingerprint}\r\n")
    }

    #[test]
    fn the_medium_has_precedence_over_the_session() {
        let (session, media) = (HashFunction::Sha256, HashFunction::Sha512);
        let found = of(&fingerprint(session, 1), "").unwrap().unwrap();
        assert_eq!((found.fingerprints[0].hash, found.setup), (session, Setup::Active));
        let lines = fingerprint(media, 2) + "a=setup:ACTPASS\r\na=tls-id:abc3de65cddef001be82\r\n";
        let found = of(&fingerprint(session, 1), &lines).unwrap().unwrap();
        assert_eq!((found.fingerprints.len(), found.fingerprints[0].hash), (1, media));
        assert_eq!((found.setup, found.tls_id), (Setup::ActPass, Some("abc3de65cddef001be82")));
        assert_eq!(of("", "a=setup:active\r\n"), Ok(None));
        assert_eq!(of("", &(fingerprint(media, 2) + "a=setup:x\r\n")), Err(DtlsError::Setup));
    }

    #[test]
    fn the_strongest_hash_counts_and_unknown_ones_do_not() {
        let lines = fingerprint(HashFunction::Sha1, 1)
            + &fingerprint(HashFunction::Sha256, 2)
            + &fingerprint(HashFunction::Sha256, 3)
            + "a=fingerprint:md5 01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10\r\n";
        let found = of("", &lines).unwrap().unwrap();
        assert_eq!(found.fingerprints.len(), 3);
        let strongest: Vec<_> = found.strongest().map(|it| (it.hash, it.bytes[0])).collect();
        assert_eq!(strongest, [(HashFunction::Sha256, 2), (HashFunction::Sha256, 3)]);
        for bad in ["sha-1 01", "sha-1", "sha-1 +1:02", "sha-9 01:02", ""] {
            let refused = of("", &format!("a=fingerprint:{bad}\r\n"));
            assert_eq!(refused, Err(DtlsError::NoFingerprint), "{bad}");
        }
    }

    #[test]
    fn an_answer_has_the_other_role() {
        use Setup::{ActPass, Active, HoldConn, Passive};
        for (offer, answers) in [
            (Active, &[Passive, HoldConn][..]),
            (Passive, &[Active, HoldConn]),
            (ActPass, &[Active, Passive, HoldConn]),
            (HoldConn, &[HoldConn]),
        ] {
            for answer in [Active, Passive, ActPass, HoldConn] {
                assert_eq!(
                    answer.answers(offer),
                    answers.contains(&answer),
                    "{answer:?} {offer:?}"
                );
            }
        }
    }

    #[test]
    fn the_fault_of_a_fingerprint_is_named() {
        let sha1 = "AB:".repeat(19) + "cd";
        assert!(Fingerprint::parse(&format!("SHA-1 {sha1}")).is_ok());
        for (value, expected) in [
            ("sha-1", FingerprintError::Syntax),
            ("sha-1 A:BC", FingerprintError::Syntax),
            ("sha-1 +A:BC", FingerprintError::Syntax),
            ("md5 AB:CD", FingerprintError::HashFunction),
            ("sha-1 AB:CD", FingerprintError::Length(HashFunction::Sha1)),
            (&format!("sha-1 {sha1}:EF"), FingerprintError::Length(HashFunction::Sha1)),
        ] {
            assert_eq!(Fingerprint::parse(value), Err(expected), "{value}");
        }
    }

    proptest! {
        #[test]
        fn a_fingerprint_is_written_as_it_is_parsed(bytes in prop::collection::vec(any::<u8>(), 64)) {
            for hash in HashFunction::ALL {
                let fingerprint = Fingerprint { hash, bytes: bytes[..hash.length()].to_vec() };
                prop_assert_eq!(Fingerprint::parse(&fingerprint.to_string()), Ok(fingerprint));
            }
        }

        #[test]
        fn any_value_is_parsed_or_refused(value in "(sha-1|sha-256|\\PC{0,8}) ?[0-9A-Fa-f:+]{0,200}") {
            if let Ok(found) = Fingerprint::parse(&value) {
                prop_assert_eq!(found.bytes.len(), found.hash.length());
            }
        }
    }
}
