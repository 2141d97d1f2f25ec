//! The RTP data of session descriptions: addresses, payload types, keys (RFC 8866, RFC 4568).
//!
//! They are read line by line, since a capture may contain descriptions that a strict parser
//! rejects.

use sdp::CryptoAttribute;
use sdp::negotiation::Profile;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// An RTP payload format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Format {
    pub(super) payload_type: u8,
    /// The encoding name.
    pub(super) name: Rc<str>,
    /// The clock rate in Hz.
    pub(super) clock: u32,
}

/// The encoding of a payload type without a session description, from the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Assumed {
    payload_type: u8,
    name: String,
    clock: u32,
}

impl Assumed {
    /// Parses `111=opus/48000` or `111=48000`.
    ///
    /// # Errors
    /// A message if the text has neither form.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("expected TYPE=NAME/RATE such as 111=opus/48000, not {text}");
        let (payload_type, encoding) = text.split_once('=').ok_or_else(wrong)?;
        let (name, clock) = encoding.rsplit_once('/').unwrap_or(("unknown", encoding));
        let payload_type = payload_type.parse().ok().filter(|&number| number < 128);
        let clock = clock.parse().ok().filter(|&clock| clock > 0);
        let (payload_type, clock) = payload_type.zip(clock).ok_or_else(wrong)?;
        Ok(Self { payload_type, name: name.to_owned(), clock })
    }

    /// Returns the format.
    pub(super) fn format(&self) -> Format {
        let Self { payload_type, ref name, clock } = *self;
        Format { payload_type, name: name.as_str().into(), clock }
    }
}

/// The limit of formats per media description.
const FORMATS: usize = 16;
/// The limit of keys per media description.
const KEYS: usize = 8;
/// The limit of media per session description.
pub(super) const MEDIA: usize = 64;
/// The limit of lines.
const LINES: usize = 2000;

/// A media description of one end.
#[derive(Clone, Debug)]
pub(super) struct Described {
    /// The receiving address; `None` if the medium is rejected, on hold, or not RTP.
    pub(super) endpoint: Option<SocketAddr>,
    pub(super) formats: Rc<[Format]>,
    /// True if no attribute indicates SRTP.
    pub(super) is_plain: bool,
    /// The keys for media that this end sends.
    pub(super) keys: Rc<[CryptoAttribute]>,
}

/// A media description during parsing.
struct Section<'a> {
    address: Option<IpAddr>,
    port: u16,
    types: Vec<u8>,
    maps: Vec<(u8, &'a str)>,
    is_plain: bool,
    keys: Vec<CryptoAttribute>,
}

/// Parses a session description. Returns its media in order.
pub(super) fn media(body: &[u8]) -> Vec<Described> {
    let text = String::from_utf8_lossy(body);
    let mut session = None;
    let mut session_is_plain = true;
    let mut sections: Vec<Section<'_>> = Vec::new();
    for line in text.lines().take(LINES) {
        if let Some(value) = line.strip_prefix("c=") {
            let address = connection_address(value);
            match sections.last_mut() {
                Some(section) => section.address = address,
                None => session = address,
            }
        } else if let Some(value) = line.strip_prefix("m=") {
            if sections.len() >= MEDIA {
                break;
            }
            // A medium that is not RTP still ends the section before it.
            sections.push(Section::new(value, session, session_is_plain));
        } else if let Some(value) = line.strip_prefix("a=") {
            match sections.last_mut() {
                Some(section) => section.attribute(value),
                None => session_is_plain &= !agrees_on_keys(value),
            }
        }
    }
    sections.iter().map(Section::described).collect()
}

/// Returns true if an attribute offers SRTP keys, here or in the media path (RFC 4568, RFC 8122,
/// RFC 4567, RFC 6189).
fn agrees_on_keys(attribute: &str) -> bool {
    let name = attribute.split(':').next().unwrap_or_default();
    matches!(name, "crypto" | "fingerprint" | "key-mgmt" | "zrtp-hash")
}

impl<'a> Section<'a> {
    fn new(value: &'a str, session: Option<IpAddr>, session_is_plain: bool) -> Self {
        let mut words = value.split_ascii_whitespace().skip(1);
        let port = words.next().and_then(|port| port.split('/').next()?.parse().ok());
        let protocol = words.next().unwrap_or_default();
        let is_rtp = protocol.contains("RTP/");
        Self {
            address: session,
            port: port.filter(|_| is_rtp).unwrap_or(0),
            types: words.take(FORMATS).filter_map(|word| word.parse().ok()).collect(),
            maps: Vec::new(),
            is_plain: session_is_plain && Profile::of(protocol) == Some(Profile::Plain),
            keys: Vec::new(),
        }
    }

    fn attribute(&mut self, attribute: &'a str) {
        self.is_plain &= !agrees_on_keys(attribute);
        if let Some(map) = attribute.strip_prefix("rtpmap:")
            && let Some((number, map)) = map.split_once(' ')
            && let Ok(number) = number.parse()
            && self.maps.len() < FORMATS
        {
            self.maps.push((number, map.trim()));
        } else if let Some(crypto) = attribute.strip_prefix("crypto:")
            && let Ok(crypto) = CryptoAttribute::parse(crypto)
            && self.keys.len() < KEYS
        {
            self.keys.push(crypto);
        }
    }

    fn described(&self) -> Described {
        let address = self.address.filter(|_| self.port != 0);
        Described {
            endpoint: address.map(|address| SocketAddr::new(address, self.port)),
            formats: self.formats(),
            is_plain: self.is_plain,
            keys: self.keys.iter().cloned().collect(),
        }
    }

    fn formats(&self) -> Rc<[Format]> {
        let mapped = |wanted: u8| {
            let (_, map) = self.maps.iter().find(|(number, _)| *number == wanted)?;
            let mut parts = map.split('/');
            let name = parts.next().filter(|name| !name.is_empty() && name.len() <= 32)?;
            let clock = parts.next()?.parse().ok()?;
            Some(Format { payload_type: wanted, name: name.into(), clock })
        };
        self.types.iter().filter_map(|&one| mapped(one).or_else(|| static_format(one))).collect()
    }
}

/// Returns the address of a `c=` line, or `None` for an unspecified address (on hold).
fn connection_address(value: &str) -> Option<IpAddr> {
    let address = value.split_ascii_whitespace().nth(2)?;
    let address: IpAddr = address.split('/').next()?.parse().ok()?;
    (!address.is_unspecified()).then_some(address)
}

/// Returns the static format of a payload type (RFC 3551 section 6).
pub(super) fn static_format(payload_type: u8) -> Option<Format> {
    let format = rtp::payload::static_format(payload_type)?;
    Some(Format { payload_type, name: format.name.into(), clock: format.clock_rate })
}
