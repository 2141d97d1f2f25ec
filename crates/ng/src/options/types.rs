//! The types of the options.

use crate::argument::short_text;
use alloc::vec::Vec;

/// A transport protocol of RTP, as in the m= line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transport {
    /// SRTP.
    pub secure: bool,
    /// RTCP feedback (RFC 4585, RFC 5124).
    pub feedback: bool,
    /// Keys by DTLS (RFC 5764). Only with `secure`.
    pub dtls: bool,
}

impl Transport {
    /// Parses the protocol of an m= line.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (rest, dtls) = match text.strip_prefix(b"UDP/TLS/") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let (secure, feedback) = match rest {
            b"RTP/AVP" => (false, false),
            b"RTP/AVPF" => (false, true),
            b"RTP/SAVP" => (true, false),
            b"RTP/SAVPF" => (true, true),
            _ => return None,
        };
        (secure || !dtls).then_some(Self { secure, feedback, dtls })
    }

    /// The protocol of an m= line.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match (self.dtls, self.secure, self.feedback) {
            (false, false, false) => "RTP/AVP",
            (false, false, true) => "RTP/AVPF",
            (false, true, false) => "RTP/SAVP",
            (false, true, true) => "RTP/SAVPF",
            (true, _, false) => "UDP/TLS/RTP/SAVP",
            (true, _, true) => "UDP/TLS/RTP/SAVPF",
        }
    }
}

/// The parts of a session description to replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replace {
    /// The address of the o= line.
    pub origin: bool,
    /// The address of the c= line of the session.
    pub session_connection: bool,
    /// The user name of the o= line.
    pub username: bool,
    /// The s= line.
    pub session_name: bool,
    /// The version of the o= line: it increases with each change.
    pub version: bool,
    /// The version of the o= line: it increases with each description.
    pub force_version: bool,
    /// An unspecified address: the relay's address replaces it.
    pub zero_address: bool,
}

/// The address to which media goes before any media has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressSource {
    /// No preference is given.
    #[default]
    Unspecified,
    /// The address of the session description (`trust-address`).
    Description,
    /// The source address of the SIP message (`SIP-source-address`).
    Signalling,
}

/// The handling of ICE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ice {
    /// With candidates of the relay only, if the description had some.
    #[default]
    Default,
    /// No ICE in the written description.
    Remove,
    /// With candidates of the relay only.
    Force,
    /// With the relay as a candidate of low priority.
    Optional,
    /// With the relay as the only candidate of type relay.
    ForceRelay,
}

/// RTP and RTCP on one port (RFC 5761).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtcpMux {
    /// Offers it in any case.
    pub offer: bool,
    /// Offers it, without a port for RTCP.
    pub require: bool,
    /// Accepts it from the offerer, and does not offer it to the other side.
    pub demux: bool,
    /// Accepts it from the offerer.
    pub accept: bool,
    /// Rejects it to the offerer.
    pub reject: bool,
}

/// Opportunistic SRTP (RFC 8643).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Osrtp {
    /// Makes an offer of plain RTP to one of OSRTP.
    pub offer: bool,
    /// Accepts an offer of OSRTP in any case.
    pub accept: bool,
}

/// SRTP keys in the description (RFC 4568).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sdes<'a> {
    /// Keys are not offered.
    pub off: bool,
    /// Suites that are not offered.
    pub without: Names<'a>,
    /// The only suites that are offered.
    pub only: Names<'a>,
    /// The order of the offered suites.
    pub order: Names<'a>,
    /// The suites that are preferred in the answer to the offerer.
    pub preferred: Names<'a>,
    /// No suite is added to those of the offerer.
    pub no_new: bool,
    /// Padding of the keys' base64.
    pub pad: bool,
    /// The lifetime of the keys is written.
    pub lifetime: bool,
    /// A change of the session keeps the keys.
    pub keep: bool,
}

/// The role in DTLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dtls {
    /// No preference is given.
    #[default]
    Default,
    /// DTLS is neither offered nor accepted.
    Off,
    /// The server.
    Passive,
    /// The client.
    Active,
}

/// Changes of the codecs of an offer. The names are as sent, for example `opus/48000/2`; `all` and
/// `full` stand for all codecs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Codecs<'a> {
    /// Codecs to remove.
    pub strip: Names<'a>,
    /// Codecs to keep, in this order.
    pub offer: Names<'a>,
    /// Codecs to keep.
    pub except: Names<'a>,
    /// Codecs to hide from the other side, and to accept from the offerer.
    pub mask: Names<'a>,
    /// Codecs to accept from the offerer even if the other side rejects them.
    pub accept: Names<'a>,
    /// As `mask`, and always with transcoding.
    pub consume: Names<'a>,
    /// Codecs to add, by transcoding.
    pub transcode: Names<'a>,
    /// Parameters of accepted codecs.
    pub set: Names<'a>,
    /// Codecs to leave unchanged.
    pub ignore: Names<'a>,
}

/// Names of codecs, suites or interfaces, limited in number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names<'a>(Vec<&'a str>);

impl<'a> Names<'a> {
    /// The maximum number of names.
    pub const MAX: usize = 64;

    /// The names in the order of the request.
    #[must_use]
    pub fn as_slice(&self) -> &[&'a str] {
        &self.0
    }

    /// Returns true if there is no name.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a name. Returns false if it is no short text, or if there are [`Self::MAX`] names.
    pub(super) fn push(&mut self, name: &'a [u8]) -> bool {
        let name = short_text(name).filter(|_| self.0.len() < Self::MAX);
        let Some(name) = name else { return false };
        self.0.push(name);
        true
    }

    /// Adds names that are separated by semicolons or commas.
    pub(super) fn push_all(&mut self, names: &'a [u8]) -> bool {
        let names = names.split(|byte| matches!(byte, b';' | b','));
        names.filter(|name| !name.is_empty()).all(|name| self.push(name))
    }
}

/// An address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// The a=rtcp attribute of the written description (RFC 3605).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RtcpAttribute {
    /// The port only.
    #[default]
    Port,
    /// The port and the address.
    Full,
    /// No attribute.
    Omitted,
}

/// The type of service of the packets that the relay sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tos {
    /// The value of the configuration.
    #[default]
    Configured,
    /// The value in force for the call.
    Unchanged,
    /// A value for the call.
    Value(u8),
}
