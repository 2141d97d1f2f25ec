//! The local session descriptions (RFC 8866).

use super::attributes::{ExtendedReports, NOISE};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use codec::Codec;
use core::net::{IpAddr, SocketAddr};
use sdp::CryptoAttribute;
use sdp::dtls::{Fingerprint, Setup};

/// The parameters of a description with one audio medium.
pub(super) struct Description<'a> {
    pub(super) protocol: &'a str,
    pub(super) types: &'a [(u8, Codec)],
    /// True if comfort noise is accepted.
    pub(super) noise: bool,
    /// The payload types of telephone events, with their clock rates.
    pub(super) events: &'a [(u8, u32)],
    pub(super) direction: &'a str,
    pub(super) keys: &'a [CryptoAttribute],
    /// The fingerprint of the local certificate, and the role in the handshake.
    pub(super) dtls: Option<(&'a Fingerprint, Setup)>,
    /// The value of `a=zrtp-hash`.
    pub(super) zrtp: Option<&'a str>,
    pub(super) multiplexes_rtcp: bool,
    /// The lines of ICE.
    pub(super) ice: Option<&'a str>,
    pub(super) extended_reports: bool,
}

impl Description<'_> {
    /// Returns the description as text, with the identifier and version of the session (RFC 8866
    /// section 5.2), the identifier of the DTLS association, the address of RTP, and the address of
    /// RTCP if it does not share the port and is not the port after RTP's.
    pub(super) fn write(
        &self,
        (id, version): (u64, u64),
        tls_id: &str,
        local: SocketAddr,
        rtcp: Option<SocketAddr>,
    ) -> Vec<u8> {
        let Self { protocol, types, events, direction, keys, .. } = *self;
        let (address, port) = (address(local.ip()), local.port());
        let mut numbers: Vec<String> = types.iter().map(|(number, _)| number.to_string()).collect();
        let noise = self.noise.then_some(NOISE);
        numbers.extend(noise.map(|(number, _)| number.to_string()));
        numbers.extend(events.iter().map(|(number, _)| number.to_string()));
        let mut text = format!(
            "v=0\r\no=- {id} {version} IN {address}\r\ns=-\r\nc=IN {address}\r\nt=0 0\r\n\
             m=audio {port} {protocol} {}\r\n",
            numbers.join(" ")
        );
        for (number, codec) in types {
            text += &format!("a=rtpmap:{number} {}/{}", codec.name(), codec.clock_rate());
            match codec.channels() {
                1 => text += "\r\n",
                channels => text += &format!("/{channels}\r\n"),
            }
            if let Some(parameters) = codec.format_parameters() {
                text += &format!("a=fmtp:{number} {parameters}\r\n");
            }
        }
        if let Some((number, rate)) = noise {
            text += &format!("a=rtpmap:{number} CN/{rate}\r\n");
        }
        for (number, rate) in events {
            text += &format!("a=rtpmap:{number} telephone-event/{rate}\r\n");
            // The common events, which old phones require to be named (RFC 4733 section 2.4.1).
            if *rate == 8000 {
                text += &format!("a=fmtp:{number} 0-15\r\n");
            }
        }
        for key in keys {
            text += &format!("a=crypto:{key}\r\n");
        }
        if let Some((fingerprint, setup)) = self.dtls {
            let id = (!tls_id.is_empty()).then_some(tls_id);
            for attribute in sdp::dtls::attributes(fingerprint, setup, id) {
                text += &format!("a={attribute}\r\n");
            }
        }
        if let Some(hash) = self.zrtp {
            text += &format!("a=zrtp-hash:{hash}\r\n");
        }
        if self.multiplexes_rtcp {
            text += "a=rtcp-mux\r\n";
        }
        text += self.ice.unwrap_or_default();
        text += &line_of_rtcp(local, rtcp);
        if self.extended_reports {
            text += ExtendedReports::LINE;
        }
        text += &format!("a=ptime:20\r\na={direction}\r\n");
        text.into_bytes()
    }
}

/// Returns `offer`, a local offer, without the parts that its answer does not depend on: names of
/// static payload types, advisory parameters, all keys but the first, events of other clock rates
/// than 8000 Hz, extended reports and the default direction.
#[must_use]
pub fn shorten(offer: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(offer);
    let map_of = |line: &str| {
        let (number, name) = line.strip_prefix("a=rtpmap:")?.split_once(' ')?;
        Some((number.parse::<u8>().ok()?, name.trim_end().to_string()))
    };
    let is_high_event =
        |name: &str| name.strip_prefix("telephone-event/").is_some_and(|rate| rate != "8000");
    let maps = text.lines().filter_map(map_of);
    let left_out: Vec<String> = maps
        .filter(|(_, name)| is_high_event(name))
        .map(|(number, _)| number.to_string())
        .collect();
    let mut keys = 0;
    let mut short = String::new();
    for line in text.split_inclusive('\n') {
        if let Some(media) = line.strip_prefix("m=") {
            let is_kept = |(place, word): &(usize, &str)| {
                *place < 3 || !left_out.iter().any(|number| number == word)
            };
            let words = media.split_whitespace().enumerate().filter(is_kept);
            let words: Vec<&str> = words.map(|(_, word)| word).collect();
            short += &format!("m={}\r\n", words.join(" "));
            continue;
        }
        keys += usize::from(line.starts_with("a=crypto:"));
        let is_named = map_of(line).is_some_and(|(number, name)| {
            rtp::payload::static_format(number).is_some() || is_high_event(&name)
        });
        let advises = ["a=fmtp:", "a=rtcp-xr:", "a=sendrecv"];
        let is_further_key = line.starts_with("a=crypto:") && keys > 1;
        if !is_named && !is_further_key && !advises.iter().any(|start| line.starts_with(start)) {
            short += line;
        }
    }
    short.into_bytes()
}

/// Returns the attribute with the address of RTCP, or nothing if it is the port after RTP's.
fn line_of_rtcp(rtp: SocketAddr, rtcp: Option<SocketAddr>) -> String {
    match rtcp {
        Some(rtcp) if rtcp.ip() != rtp.ip() => {
            format!("a=rtcp:{} IN {}\r\n", rtcp.port(), address(rtcp.ip()))
        }
        Some(rtcp) if Some(rtcp.port()) != rtp.port().checked_add(1) => {
            format!("a=rtcp:{}\r\n", rtcp.port())
        }
        _ => String::new(),
    }
}

/// Returns the address type `IP4` or `IP6`, and the address.
fn address(ip: IpAddr) -> String {
    let family = if ip.is_ipv4() { "IP4" } else { "IP6" };
    format!("{family} {ip}")
}

/// The media of the session, in the order of the first description that names them. One of them is
/// the audio. The others are rejected in each description, and keep their places (RFC 3264 sections
/// 6 and 8).
#[derive(Clone, Debug, Default)]
pub(super) struct MediaLines {
    /// The place of the audio.
    pub(super) place: usize,
    /// The lines of the other media, before and after the audio.
    others: Vec<String>,
}

impl MediaLines {
    /// Returns the media of `offer`, with the audio at `place`.
    pub(super) fn of(offer: &sdp::SessionDescription<'_>, place: usize) -> Self {
        let media = offer.media.iter().enumerate().filter(|(number, _)| *number != place);
        let rejected = media.map(|(_, media)| {
            let format = media.formats().next().unwrap_or("0");
            format!("m={} 0 {} {format}\r\n", media.media_type, media.protocol)
        });
        Self { place, others: rejected.collect() }
    }

    /// Adds the other media to `own`, which has only the audio.
    pub(super) fn fill(&self, own: Vec<u8>) -> Vec<u8> {
        if self.others.is_empty() {
            return own;
        }
        let text = String::from_utf8_lossy(&own);
        let (head, audio) = text.split_at(text.find("m=").unwrap_or(text.len()));
        let (before, after) = self.others.split_at(self.place.min(self.others.len()));
        [head, &before.concat(), audio, &after.concat()].concat().into_bytes()
    }
}
