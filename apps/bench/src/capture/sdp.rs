//! Where session descriptions say that RTP will be (RFC 8866).

use std::collections::HashMap;
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

/// What is received at an address and port.
#[derive(Clone, Debug)]
pub(super) struct Media {
    pub(super) formats: Rc<[Format]>,
    /// The Call-ID of the message with the description.
    pub(super) call_id: Rc<str>,
}

/// The most addresses and ports that are kept.
const ENDPOINTS: usize = 100_000;
/// The most formats of a media description.
const FORMATS: usize = 16;

/// Everything that was described.
#[derive(Default)]
pub(super) struct Endpoints {
    endpoints: HashMap<SocketAddr, Media>,
    /// Media descriptions beyond the limit.
    pub(super) left_out: u64,
}

/// A media description while it is read.
struct Section<'a> {
    address: Option<IpAddr>,
    port: u16,
    types: Vec<u8>,
    maps: Vec<(u8, &'a str)>,
}

impl Endpoints {
    /// Remembers what `body`, a session description, says.
    pub(super) fn learn(&mut self, body: &[u8], call_id: &str) {
        let Ok(text) = std::str::from_utf8(body) else { return };
        let mut session = None;
        let mut sections: Vec<Section<'_>> = Vec::new();
        for line in text.lines().take(2000) {
            if let Some(value) = line.strip_prefix("c=") {
                let address = connection_address(value);
                match sections.last_mut() {
                    Some(section) => section.address = address,
                    None => session = address,
                }
            } else if let Some(value) = line.strip_prefix("m=") {
                // A medium that is not RTP still ends the section before it.
                sections.push(Section::new(value, session));
            } else if let Some(value) = line.strip_prefix("a=rtpmap:")
                && let Some((number, map)) = value.split_once(' ')
                && let Ok(number) = number.parse()
                && let Some(section) = sections.last_mut()
                && section.maps.len() < FORMATS
            {
                section.maps.push((number, map.trim()));
            }
        }
        let call_id: Rc<str> = call_id.into();
        for section in sections {
            if let Some(address) = section.address
                && section.port != 0
            {
                let endpoint = SocketAddr::new(address, section.port);
                let is_new = !self.endpoints.contains_key(&endpoint);
                if is_new && self.endpoints.len() >= ENDPOINTS {
                    self.left_out += 1;
                    continue;
                }
                let media = Media { formats: section.formats(), call_id: call_id.clone() };
                self.endpoints.insert(endpoint, media);
            }
        }
    }

    /// What is sent to, or, since RTP is mostly sent from where it is received, from these.
    pub(super) fn find(&self, source: SocketAddr, destination: SocketAddr) -> Option<&Media> {
        self.endpoints.get(&destination).or_else(|| self.endpoints.get(&source))
    }
}

impl Section<'_> {
    fn new(value: &str, session: Option<IpAddr>) -> Self {
        let mut words = value.split_ascii_whitespace().skip(1);
        let port = words.next().and_then(|port| port.split('/').next()?.parse().ok());
        let is_rtp = words.next().is_some_and(|protocol| protocol.contains("RTP/"));
        Self {
            address: session,
            port: port.filter(|_| is_rtp).unwrap_or(0),
            types: words.take(FORMATS).filter_map(|word| word.parse().ok()).collect(),
            maps: Vec::new(),
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

/// The address of a `c=` line. An address that says that nothing is to be sent is none.
fn connection_address(value: &str) -> Option<IpAddr> {
    let address = value.split_ascii_whitespace().nth(2)?;
    let address: IpAddr = address.split('/').next()?.parse().ok()?;
    (!address.is_unspecified()).then_some(address)
}

/// The formats that RFC 3551 section 6 numbers.
pub(super) fn static_format(payload_type: u8) -> Option<Format> {
    let format = rtp::payload::static_format(payload_type)?;
    Some(Format { payload_type, name: format.name.into(), clock: format.clock_rate })
}
