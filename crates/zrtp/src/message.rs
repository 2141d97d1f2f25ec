//! Messages (RFC 6189 sections 5.2 to 5.16), read strictly and written.

use crate::algorithm::{
    Algorithm, AuthTag, Cipher, Hash, KeyAgreement, NAMES, Preferences, SasType, Suite,
};
use crate::cache::Zid;
use crate::crypto::{Direction, cfb, is_equal, mac, short_mac};
use crate::error::{ErrorCode, Failure};
use crate::keys::Side;
use alloc::vec::Vec;
use zeroize::Zeroizing;

/// The first bytes of a message.
const PREAMBLE: [u8; 2] = [0x50, 0x5a];
/// Preamble, length and type.
const START: usize = 12;
/// The length of a short MAC, which is the end of some messages.
const MAC: usize = 8;

/// A received message. The names of its fields are those of the RFC.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Hello(Hello<'a>),
    HelloAck,
    Commit(Commit<'a>),
    DhPart1(DhPart<'a>),
    DhPart2(DhPart<'a>),
    Confirm1(Confirm<'a>),
    Confirm2(Confirm<'a>),
    Conf2Ack,
    Error(ErrorCode),
    ErrorAck,
    /// With the MAC over its type.
    GoClear([u8; 8]),
    SasRelay(Confirm<'a>),
    /// With the hash of the sender's address.
    Ping([u8; 8]),
}

#[derive(Debug)]
pub(crate) struct Hello<'a> {
    pub(crate) version: [u8; 4],
    pub(crate) client: &'a [u8; 16],
    pub(crate) h3: &'a [u8; 32],
    pub(crate) zid: Zid,
    hashes: &'a [[u8; 4]],
    ciphers: &'a [[u8; 4]],
    auth_tags: &'a [[u8; 4]],
    key_agreements: &'a [[u8; 4]],
    sas_types: &'a [[u8; 4]],
}

#[derive(Debug)]
pub(crate) struct Commit<'a> {
    pub(crate) h2: &'a [u8; 32],
    pub(crate) zid: Zid,
    /// Hash, cipher, authentication tag, key agreement, rendering of the SAS.
    algorithms: &'a [[u8; 4]; 5],
    /// The hash of DHPart2 and the responder's Hello. `None` in the modes without an exchange.
    pub(crate) hvi: Option<&'a [u8; 32]>,
}

#[derive(Debug)]
pub(crate) struct DhPart<'a> {
    pub(crate) h1: &'a [u8; 32],
    /// The identifiers of secrets.
    pub(crate) identifiers: [[u8; 8]; 4],
    /// The public value.
    pub(crate) public: &'a [u8],
}

#[derive(Debug)]
pub(crate) struct Confirm<'a> {
    mac: &'a [u8; 8],
    iv: &'a [u8; 16],
    encrypted: &'a [u8],
}

/// The content of a Confirm message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Confirmed {
    pub(crate) h0: Zeroizing<[u8; 32]>,
    pub(crate) is_verified: bool,
    /// The seconds for which the sender keeps the secret; `u32::MAX` for ever.
    pub(crate) lifetime: u32,
}

/// The flag V of Confirm messages.
const VERIFIED: u8 = 4;

/// Takes bytes from the front.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(array)
    }

    fn names(&mut self, count: u32) -> Option<&'a [[u8; 4]]> {
        let count = count as usize;
        let (bytes, rest) = self.0.split_at_checked(4 * count).filter(|_| count <= NAMES)?;
        self.0 = rest;
        Some(bytes.as_chunks().0)
    }

    fn end(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

impl<'a> Message<'a> {
    /// Reads the message of a packet. `None` if it is malformed or of an unknown type.
    pub(crate) fn parse(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader(bytes);
        if *reader.array()? != PREAMBLE {
            return None;
        }
        let words = u16::from_be_bytes(*reader.array()?);
        if bytes.len() != 4 * usize::from(words) {
            return None;
        }
        let message = match reader.array::<8>()? {
            b"Hello   " => Self::Hello(Hello::parse(&mut reader)?),
            b"HelloACK" => Self::HelloAck,
            b"Commit  " => Self::Commit(Commit::parse(&mut reader)?),
            b"DHPart1 " => Self::DhPart1(DhPart::parse(&mut reader)?),
            b"DHPart2 " => Self::DhPart2(DhPart::parse(&mut reader)?),
            b"Confirm1" => Self::Confirm1(Confirm::parse(&mut reader, 40)?),
            b"Confirm2" => Self::Confirm2(Confirm::parse(&mut reader, 40)?),
            b"Conf2ACK" => Self::Conf2Ack,
            b"Error   " => Self::Error(ErrorCode(u32::from_be_bytes(*reader.array()?))),
            b"ErrorACK" => Self::ErrorAck,
            b"GoClear " => Self::GoClear(*reader.array()?),
            b"SASrelay" => Self::SasRelay(Confirm::parse(&mut reader, 40)?),
            b"Ping    " => {
                reader.array::<4>()?;
                Self::Ping(*reader.array()?)
            }
            _ => return None,
        };
        reader.end()?;
        Some(message)
    }
}

impl<'a> Hello<'a> {
    fn parse(reader: &mut Reader<'a>) -> Option<Self> {
        let version = *reader.array()?;
        let client = reader.array()?;
        let h3 = reader.array()?;
        let zid = Zid(*reader.array()?);
        let counts = u32::from_be_bytes(*reader.array()?);
        let mut names = |shift: u32| reader.names(counts >> shift & 15);
        let hello = Self {
            version,
            client,
            h3,
            zid,
            hashes: names(16)?,
            ciphers: names(12)?,
            auth_tags: names(8)?,
            key_agreements: names(4)?,
            sas_types: names(0)?,
        };
        reader.array::<MAC>()?;
        Some(hello)
    }

    /// The algorithms that an initiator with these preferences chooses.
    pub(crate) fn choose(&self, ours: &Preferences) -> Suite {
        Suite {
            hash: Hash::choose(&ours.hashes, self.hashes),
            cipher: Cipher::choose(&ours.ciphers, self.ciphers),
            auth_tag: AuthTag::choose(&ours.auth_tags, self.auth_tags),
            key_agreement: KeyAgreement::choose(&ours.key_agreements, self.key_agreements),
            sas_type: SasType::choose(&ours.sas_types, self.sas_types),
        }
    }
}

impl<'a> Commit<'a> {
    fn parse(reader: &mut Reader<'a>) -> Option<Self> {
        let h2 = reader.array()?;
        let zid = Zid(*reader.array()?);
        let algorithms: &[[u8; 4]; 5] = reader.array::<20>()?.as_chunks().0.try_into().ok()?;
        let hvi = match &algorithms {
            [.., [b'M', b'u', b'l', b't'], _] => {
                reader.array::<16>()?;
                None
            }
            [.., [b'P', b'r', b's', b'h'], _] => {
                reader.array::<24>()?;
                None
            }
            _ => Some(reader.array()?),
        };
        reader.array::<MAC>()?;
        Some(Self { h2, zid, algorithms, hvi })
    }

    /// The algorithms of the initiator.
    ///
    /// # Errors
    /// One is neither in `ours` nor mandatory.
    pub(crate) fn suite(&self, ours: &Preferences) -> Result<Suite, Failure> {
        fn accept<T: Algorithm>(ours: &[T], name: [u8; 4], code: ErrorCode) -> Result<T, Failure> {
            T::accept(ours, name).ok_or(Failure::Unsupported(code))
        }
        let [hash, cipher, auth_tag, key_agreement, sas_type] = *self.algorithms;
        if key_agreement == *b"Prsh" {
            return Err(Failure::Unsupported(ErrorCode::NO_SHARED_SECRET));
        }
        Ok(Suite {
            hash: accept(&ours.hashes, hash, ErrorCode::HASH)?,
            cipher: accept(&ours.ciphers, cipher, ErrorCode::CIPHER)?,
            auth_tag: accept(&ours.auth_tags, auth_tag, ErrorCode::AUTH_TAG)?,
            key_agreement: accept(&ours.key_agreements, key_agreement, ErrorCode::KEY_AGREEMENT)?,
            sas_type: accept(&ours.sas_types, sas_type, ErrorCode::SAS_TYPE)?,
        })
    }
}

impl<'a> DhPart<'a> {
    fn parse(reader: &mut Reader<'a>) -> Option<Self> {
        let h1 = reader.array()?;
        let identifiers = [*reader.array()?, *reader.array()?, *reader.array()?, *reader.array()?];
        let (public, _) = reader.0.split_last_chunk::<MAC>()?;
        reader.0 = &[];
        Some(Self { h1, identifiers, public })
    }
}

impl<'a> Confirm<'a> {
    /// Reads it if the encrypted part has at least `least` bytes.
    fn parse(reader: &mut Reader<'a>, least: usize) -> Option<Self> {
        let (mac, iv) = (reader.array()?, reader.array()?);
        let encrypted = core::mem::take(&mut reader.0);
        (encrypted.len() >= least).then_some(Self { mac, iv, encrypted })
    }

    /// Returns true if its sender has these keys.
    pub(crate) fn is_authentic(&self, hash: Hash, side: &Side) -> bool {
        is_equal(self.mac, &short_mac(hash, &side.mac, self.encrypted))
    }

    /// The content, if its sender has these keys. A signature behind it is not verified: the SAS
    /// is compared by people.
    pub(crate) fn open(&self, hash: Hash, side: &Side) -> Option<Confirmed> {
        if !self.is_authentic(hash, side) {
            return None;
        }
        let mut content = Zeroizing::new(self.encrypted.to_vec());
        cfb(&side.cipher, *self.iv, &mut content, Direction::Decrypt);
        let mut reader = Reader(&content);
        let h0 = Zeroizing::new(*reader.array()?);
        let [_, _, _, flags] = *reader.array()?;
        let lifetime = u32::from_be_bytes(*reader.array()?);
        Some(Confirmed { h0, is_verified: flags & VERIFIED != 0, lifetime })
    }
}

/// Writes a message of this type.
pub(crate) fn write(kind: &[u8; 8], parts: &[&[u8]]) -> Vec<u8> {
    start(kind, parts, 0)
}

/// Writes a message with a MAC at its end, by the next value of the sender's hash chain.
pub(crate) fn write_with_mac(kind: &[u8; 8], parts: &[&[u8]], key: &[u8; 32]) -> Vec<u8> {
    let mut out = start(kind, parts, MAC);
    let tag = short_mac(Hash::S256, key, &out);
    out.extend(tag);
    out
}

/// Preamble, length, type and parts of a message with `after` more bytes.
fn start(kind: &[u8; 8], parts: &[&[u8]], after: usize) -> Vec<u8> {
    let length = START + parts.iter().map(|part| part.len()).sum::<usize>() + after;
    let mut out = Vec::with_capacity(length);
    out.extend(PREAMBLE);
    out.extend((length as u16 / 4).to_be_bytes());
    out.extend(kind);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Returns true if the MAC at the end of a message is by this key.
pub(crate) fn has_mac(message: &[u8], key: &[u8; 32]) -> bool {
    let Some((content, tag)) = message.split_last_chunk::<MAC>() else { return false };
    is_equal(tag, &short_mac(Hash::S256, key, content))
}

/// The names of algorithms, one after the other.
fn names<T: Algorithm>(algorithms: &[T]) -> Vec<u8> {
    algorithms.iter().take(NAMES).flat_map(|it| *it.name()).collect()
}

/// Writes a Hello message.
pub(crate) fn hello(
    version: [u8; 4],
    client: [u8; 16],
    zid: Zid,
    ours: &Preferences,
    [_, _, h2, h3]: &[[u8; 32]; 4],
) -> Vec<u8> {
    let lists = [
        names(&ours.hashes),
        names(&ours.ciphers),
        names(&ours.auth_tags),
        names(&ours.key_agreements),
        names(&ours.sas_types),
    ];
    let counts = lists.iter().fold(0_u32, |counts, list| (counts << 4) | (list.len() as u32 / 4));
    let lists = lists.concat();
    write_with_mac(b"Hello   ", &[&version, &client, h3, &zid.0, &counts.to_be_bytes(), &lists], h2)
}

/// Writes a Commit message.
pub(crate) fn commit(
    zid: Zid,
    suite: Suite,
    hvi: &[u8; 32],
    [_, h1, h2, _]: &[[u8; 32]; 4],
) -> Vec<u8> {
    let algorithms = [
        *suite.hash.name(),
        *suite.cipher.name(),
        *suite.auth_tag.name(),
        *suite.key_agreement.name(),
        *suite.sas_type.name(),
    ];
    write_with_mac(b"Commit  ", &[h2, &zid.0, algorithms.as_flattened(), hvi], h1)
}

/// Writes a DHPart1 or DHPart2 message.
pub(crate) fn dh_part(
    kind: &[u8; 8],
    identifiers: &[[u8; 8]; 4],
    public: &[u8],
    [h0, h1, ..]: &[[u8; 32]; 4],
) -> Vec<u8> {
    write_with_mac(kind, &[h1, identifiers.as_flattened(), public], h0)
}

/// Writes a Confirm message.
pub(crate) fn confirm(
    kind: &[u8; 8],
    hash: Hash,
    side: &Side,
    iv: [u8; 16],
    content: &Confirmed,
) -> Vec<u8> {
    let flags = if content.is_verified { VERIFIED } else { 0 };
    let parts: [&[u8]; 3] = [&*content.h0, &[0, 0, 0, flags], &content.lifetime.to_be_bytes()];
    let mut encrypted = Zeroizing::new(parts.concat());
    cfb(&side.cipher, iv, &mut encrypted, Direction::Encrypt);
    let tag = short_mac(hash, &side.mac, &encrypted);
    write(kind, &[&tag, &iv, &encrypted])
}

/// Returns true if a GoClear message with this MAC is by the sender with these keys.
pub(crate) fn is_go_clear(hash: Hash, side: &Side, tag: &[u8; 8]) -> bool {
    is_equal(tag, &mac(hash, &side.mac, &[b"GoClear "])[..MAC])
}
