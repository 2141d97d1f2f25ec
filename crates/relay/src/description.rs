//! The rewriting of session descriptions: addresses, ports and keys.

use crate::announcement::Content;
use crate::codec::bit;
use crate::profile::{MuxChange, ProfileChange, protocol};
use crate::transcode::FormatChange;
use crate::web::{WebAttributes, is_of_browser};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use core::net::IpAddr;
use sdp::{MediaDescription, SessionDescription};

/// The attributes that name addresses of their author or need its agents (ICE), by name.
const REMOVED: [&str; 11] = [
    "rtcp",
    "candidate",
    "remote-candidates",
    "end-of-candidates",
    "ice-ufrag",
    "ice-pwd",
    "ice-options",
    "ice-lite",
    "ice-mismatch",
    "ice-pacing",
    "group",
];

/// The attributes of an agreement on keys, which go if the keys end at the relay.
const OF_KEYS: [&str; 5] = ["crypto", "fingerprint", "setup", "tls-id", "zrtp-hash"];

/// The attributes of the direction of a medium.
const DIRECTIONS: [&str; 4] = ["sendrecv", "sendonly", "recvonly", "inactive"];

/// The changes to one medium.
#[derive(Clone, Debug, Default)]
pub(crate) struct MediumChange {
    /// The port of RTP. RTCP has the next one.
    pub(crate) port: u16,
    pub(crate) keys: KeyChange,
    pub(crate) profile: ProfileChange,
    pub(crate) formats: FormatChange,
    /// True if the description comes from an end with a handshake.
    pub(crate) is_of_browser: bool,
    /// The attribute of the direction that replaces that of the author, if any.
    pub(crate) direction: Option<&'static str>,
}

impl MediumChange {
    /// True if the attributes that are for browsers go: the other end has none, or others.
    const fn removes_web(&self) -> bool {
        self.is_of_browser || matches!(self.keys, KeyChange::Web(_))
    }
}

/// The change to the keys of a medium.
#[derive(Clone, Debug, Default)]
pub(crate) enum KeyChange {
    /// The protocol and the keys pass.
    #[default]
    None,
    /// These crypto attributes replace the received ones, under a protocol of this profile, with
    /// the attributes of a handshake beside them.
    Replaced { is_secure: bool, attributes: Vec<String>, handshake: Option<WebAttributes> },
    /// The attributes of a handshake, and of ICE for a browser, replace the received keys.
    Web(WebAttributes),
}

/// Returns `session` with `address` in place of all its addresses. `media` has an entry for each
/// medium; a medium with `None` is rejected, or passes with its address if it has no datagrams.
pub(crate) fn rewrite(
    session: &SessionDescription<'_>,
    address: IpAddr,
    media: &[Option<MediumChange>],
) -> String {
    rewrite_all(session, address, (media, &None))
}

/// Returns the session description `body` without its media and keys, in place of an answer that
/// the relay has refused: each medium has port 0, and `address` replaces all addresses. `None` if
/// `body` is no session description.
#[must_use]
pub fn reject(body: &[u8], address: IpAddr) -> Option<String> {
    let session = SessionDescription::parse(body).ok()?;
    let keys = KeyChange::Replaced { is_secure: false, attributes: Vec::new(), handshake: None };
    let rejected = Some(MediumChange { keys, ..MediumChange::default() });
    Some(rewrite_all(&session, address, (&[], &rejected)))
}

/// Returns `session` as [`rewrite`] does, with `rest` for the media after those in `media`.
fn rewrite_all(
    session: &SessionDescription<'_>,
    address: IpAddr,
    (media, rest): (&[Option<MediumChange>], &Option<MediumChange>),
) -> String {
    let mut out = String::with_capacity(1024);
    // Writing into a string does not fail.
    let _ = write_session(session, address, (media, rest), &mut out);
    out
}

fn write_session(
    session: &SessionDescription<'_>,
    address: IpAddr,
    (media, rest): (&[Option<MediumChange>], &Option<MediumChange>),
    out: &mut String,
) -> fmt::Result {
    out.write_str("v=0\r\n")?;
    let mut needs_connection = true;
    let changes = || media.iter().flatten().chain(rest);
    let removes_web = changes().any(MediumChange::removes_web);
    let replaces = changes().any(|change| !matches!(change.keys, KeyChange::None));
    for &(letter, value) in &session.lines {
        // The connection stands after these lines (RFC 8866 section 5).
        if needs_connection && !"osiuep".contains(letter) {
            write_connection(address, out)?;
            needs_connection = false;
        }
        match letter {
            'c' => {}
            'o' => write_origin(value, address, out)?,
            'a' if is_removed(value) => {}
            'a' if removes_web && is_of_browser(name_of(value)) => {}
            'a' if replaces && is_of_keys(name_of(value)) => {}
            _ => write_line(letter, value, out)?,
        }
    }
    if needs_connection {
        write_connection(address, out)?;
    }
    if changes().any(|change| matches!(&change.keys, KeyChange::Web(web) if web.has_ice())) {
        out.write_str("a=ice-lite\r\n")?;
    }
    let rest = core::iter::repeat(rest);
    session.media.iter().zip(media.iter().chain(rest)).try_for_each(|(medium, change)| match change
    {
        None if medium.port != 0 && Content::of(medium.protocol).is_none() => {
            write_kept(session, medium, out)
        }
        change => write_medium(medium, change.as_ref(), out),
    })
}

/// Writes a medium that is not relayed, with its own address.
fn write_kept(
    session: &SessionDescription<'_>,
    medium: &MediaDescription<'_>,
    out: &mut String,
) -> fmt::Result {
    write!(out, "m={} {} {}", medium.media_type, medium.port, medium.protocol)?;
    medium.formats().try_for_each(|format| write!(out, " {format}"))?;
    out.write_str("\r\n")?;
    if let Some(Ok(address)) = session.address(medium).map(str::parse) {
        write_connection(address, out)?;
    }
    let lines = medium.lines.iter().filter(|(letter, _)| *letter != 'c');
    lines.into_iter().try_for_each(|&(letter, value)| write_line(letter, value, out))
}

fn write_medium(
    medium: &MediaDescription<'_>,
    change: Option<&MediumChange>,
    out: &mut String,
) -> fmt::Result {
    let none = MediumChange::default();
    let change = change.unwrap_or(&none);
    let MediumChange { port, keys, profile, formats, direction, .. } = change;
    let removes_web = change.removes_web();
    let is_secure = match keys {
        KeyChange::None | KeyChange::Web(_) => None,
        KeyChange::Replaced { is_secure, .. } => Some(*is_secure),
    };
    let changes = is_secure.is_some() || profile.feedback.is_some();
    let changed = changes.then(|| protocol(medium.protocol, is_secure, profile.feedback)).flatten();
    let protocol = match keys {
        KeyChange::Web(web) => web.protocol(),
        _ => changed.unwrap_or(medium.protocol),
    };
    write!(out, "m={} {port} {protocol}", medium.media_type)?;
    let left = medium.formats().filter(|format| !formats.removes(format));
    left.into_iter().try_for_each(|format| write!(out, " {format}"))?;
    formats.added.iter().try_for_each(|format| write!(out, " {}", format.payload_type))?;
    out.write_str("\r\n")?;
    for &(letter, value) in &medium.lines {
        match (letter, keys) {
            ('c', _) => {}
            ('a', _) if is_removed(value) || formats.removes_attribute(value) => {}
            ('a', _) if profile.removes(name_of(value)) => {}
            ('a', _) if direction.is_some() && is_one_of(value, &DIRECTIONS) => {}
            ('a', _) if removes_web && is_of_browser(name_of(value)) => {}
            ('a', KeyChange::Replaced { .. } | KeyChange::Web(_)) if is_of_keys(name_of(value)) => {
            }
            _ => write_line(letter, value, out)?,
        }
    }
    if let Some(direction) = direction {
        write_line('a', direction, out)?;
    }
    for format in &formats.added {
        write!(out, "a=rtpmap:{format}\r\n")?;
        if let Some(parameters) = format.parameters() {
            write!(out, "a=fmtp:{} {parameters}\r\n", format.payload_type)?;
        }
    }
    match profile.mux {
        MuxChange::Required => write!(out, "a=rtcp:{port}\r\na=rtcp-mux\r\n")?,
        MuxChange::Written => out.write_str("a=rtcp-mux\r\n")?,
        MuxChange::Passed | MuxChange::Removed => {}
    }
    match keys {
        KeyChange::None => Ok(()),
        KeyChange::Replaced { attributes, handshake, .. } => {
            attributes.iter().try_for_each(|value| write!(out, "a=crypto:{value}\r\n"))?;
            handshake.iter().try_for_each(|web| write_web(web, out))
        }
        KeyChange::Web(web) => write_web(web, out),
    }
}

fn write_web(web: &WebAttributes, out: &mut String) -> fmt::Result {
    web.lines().iter().try_for_each(|line| write!(out, "a={line}\r\n"))
}

impl FormatChange {
    /// True if the payload type `format` goes.
    fn removes(&self, format: &str) -> bool {
        format.parse::<u8>().is_ok_and(|number| number < 128 && self.removed & bit(number) != 0)
    }

    /// True if an attribute goes with its payload type or with the packets of its author.
    fn removes_attribute(&self, attribute: &str) -> bool {
        let (name, value) = attribute.split_once(':').unwrap_or((attribute, ""));
        let is = |names: &[&str]| names.iter().any(|it| name.trim_end().eq_ignore_ascii_case(it));
        if is(&["rtpmap", "fmtp", "rtcp-fb"]) {
            return self.removes(value.split_ascii_whitespace().next().unwrap_or_default());
        }
        self.is_converted && is(&["ptime", "maxptime"])
    }
}

fn write_line(letter: char, value: &str, out: &mut String) -> fmt::Result {
    write!(out, "{letter}={value}\r\n")
}

fn write_connection(address: IpAddr, out: &mut String) -> fmt::Result {
    write!(out, "c=IN {} {address}\r\n", family(address))
}

/// Writes the origin with another address. Its version stays: it changes with the description of
/// its author.
fn write_origin(value: &str, address: IpAddr, out: &mut String) -> fmt::Result {
    let mut words = value.split_ascii_whitespace();
    let mut word = || words.next().unwrap_or("-");
    write!(out, "o={} {} {} IN {} {address}\r\n", word(), word(), word(), family(address))
}

const fn family(address: IpAddr) -> &'static str {
    match address {
        IpAddr::V4(_) => "IP4",
        IpAddr::V6(_) => "IP6",
    }
}

fn is_removed(attribute: &str) -> bool {
    is_one_of(name_of(attribute), &REMOVED)
}

/// True if an attribute of this name is of an agreement on keys.
fn is_of_keys(name: &str) -> bool {
    is_one_of(name, &OF_KEYS)
}

fn is_one_of(name: &str, names: &[&str]) -> bool {
    names.iter().any(|it| name.eq_ignore_ascii_case(it))
}

fn name_of(attribute: &str) -> &str {
    attribute.split(':').next().unwrap_or_default().trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OFFER: &str = "v=0\r\n\
        o=alice 42 43 IN IP4 10.0.0.7\r\n\
        s=-\r\n\
        c=IN IP4 10.0.0.7\r\n\
        t=0 0\r\n\
        a=group:BUNDLE 0 1\r\n\
        a=ice-lite\r\n\
        m=audio 4000 RTP/SAVPF 0 8 101\r\n\
        c=IN IP4 10.0.0.8\r\n\
        a=rtpmap:101 telephone-event/8000\r\n\
        a=rtcp:4005 IN IP4 10.0.0.9\r\n\
        a=candidate:1 1 UDP 1 10.0.0.7 4000 typ host\r\n\
        a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AAAA\r\n\
        a=sendrecv\r\n\
        m=video 5000 RTP/AVP 96\r\n\
        a=rtpmap:96 VP8/90000\r\n";

    fn change(port: u16, keys: KeyChange) -> Option<MediumChange> {
        Some(MediumChange { port, keys, ..MediumChange::default() })
    }

    #[test]
    fn only_addresses_ports_and_ice_change() {
        let session = SessionDescription::parse(OFFER.as_bytes()).unwrap();
        let media = [change(20000, KeyChange::None), change(20002, KeyChange::None)];
        let text = rewrite(&session, [192, 0, 2, 1].into(), &media);
        let expected = "v=0\r\n\
            o=alice 42 43 IN IP4 192.0.2.1\r\n\
            s=-\r\n\
            c=IN IP4 192.0.2.1\r\n\
            t=0 0\r\n\
            m=audio 20000 RTP/SAVPF 0 8 101\r\n\
            a=rtpmap:101 telephone-event/8000\r\n\
            a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:AAAA\r\n\
            a=sendrecv\r\n\
            m=video 20002 RTP/AVP 96\r\n\
            a=rtpmap:96 VP8/90000\r\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn keys_are_replaced_and_media_rejected() {
        let session = SessionDescription::parse(OFFER.as_bytes()).unwrap();
        let plain =
            KeyChange::Replaced { is_secure: false, attributes: Vec::new(), handshake: None };
        let text = rewrite(&session, "2001:db8::1".parse().unwrap(), &[change(20000, plain)]);
        assert!(text.contains("m=audio 20000 RTP/AVPF 0 8 101\r\n"), "{text}");
        assert!(text.contains("c=IN IP6 2001:db8::1\r\nt="), "{text}");
        assert!(text.contains("m=video 0 RTP/AVP 96\r\n"), "{text}");
        assert!(!text.contains("crypto"), "{text}");
        let attributes = alloc::vec!["1 AES_CM_128_HMAC_SHA1_80 inline:BBBB".into()];
        let keys = KeyChange::Replaced { is_secure: true, attributes, handshake: None };
        let media = [change(1, KeyChange::None), change(20002, keys)];
        let text = rewrite(&session, [192, 0, 2, 1].into(), &media);
        assert!(text.contains("m=video 20002 RTP/SAVP 96\r\n"), "{text}");
        assert!(text.ends_with("a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:BBBB\r\n"), "{text}");
    }

    #[test]
    fn a_rejected_description_has_no_media_addresses_and_keys() {
        let mut text = String::from(OFFER);
        text += "a=fingerprint:sha-256 AB\r\na=setup:active\r\na=zrtp-hash:1.10 fe\r\n\
            m=message 2855 TCP/MSRP *\r\n";
        let text = reject(text.as_bytes(), [192, 0, 2, 1].into()).unwrap();
        let expected = "v=0\r\n\
            o=alice 42 43 IN IP4 192.0.2.1\r\n\
            s=-\r\n\
            c=IN IP4 192.0.2.1\r\n\
            t=0 0\r\n\
            m=audio 0 RTP/AVPF 0 8 101\r\n\
            a=rtpmap:101 telephone-event/8000\r\n\
            a=sendrecv\r\n\
            m=video 0 RTP/AVP 96\r\n\
            a=rtpmap:96 VP8/90000\r\n\
            m=message 0 TCP/MSRP *\r\n";
        assert_eq!(text, expected);
        assert_eq!(reject(b"text", [192, 0, 2, 1].into()), None);
    }

    #[test]
    fn a_direction_replaces_that_of_the_author() {
        let session = SessionDescription::parse(OFFER.as_bytes()).unwrap();
        let held = MediumChange { direction: Some("sendonly"), ..MediumChange::default() };
        let media = [Some(held), change(20002, KeyChange::None)];
        let text = rewrite(&session, [192, 0, 2, 1].into(), &media);
        let directions = text.lines().filter(|line| DIRECTIONS.contains(&&line[2..]));
        assert_eq!(directions.collect::<Vec<_>>(), ["a=sendonly"]);
        assert!(text.find("a=sendonly").unwrap() < text.find("m=video").unwrap(), "{text}");
    }

    #[test]
    fn a_medium_over_tcp_keeps_its_address() {
        let text = "v=0\r\nc=IN IP4 10.0.0.1\r\nm=message 2855 TCP/MSRP *\r\na=path:msrp://x\r\n";
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        let text = rewrite(&session, [192, 0, 2, 1].into(), &[None]);
        let medium = "m=message 2855 TCP/MSRP *\r\nc=IN IP4 10.0.0.1\r\na=path:msrp://x\r\n";
        assert!(text.ends_with(medium), "{text}");
    }

    #[test]
    fn a_description_without_connection_gets_one() {
        let text = "v=0\r\ns=-\r\nm=audio 4000 RTP/AVP 0\r\nc=IN IP4 10.0.0.1\r\n";
        let session = SessionDescription::parse(text.as_bytes()).unwrap();
        let text = rewrite(&session, [192, 0, 2, 1].into(), &[change(9, KeyChange::None)]);
        assert_eq!(text, "v=0\r\ns=-\r\nc=IN IP4 192.0.2.1\r\nm=audio 9 RTP/AVP 0\r\n");
    }

    proptest! {
        #[test]
        fn no_address_of_the_author_passes(
            text in "v=0\n([acmotk]=(IN IP4 10.9.8.7|rtcp:5 IN IP4 10.9.8.7|audio 5 RTP/AVP 0|- 1 1 IN IP4 10.9.8.7|candidate:10.9.8.7)\n){0,12}"
        ) {
            let session = SessionDescription::parse(text.as_bytes()).unwrap();
            let media = alloc::vec![change(9, KeyChange::None); session.media.len()];
            let written = rewrite(&session, [192, 0, 2, 1].into(), &media);
            let names = |line: &&str| ["c=", "o=", "a=rtcp", "a=candidate"].iter().any(|start| line.starts_with(start));
            for line in written.lines().filter(names) {
                prop_assert!(!line.contains("10.9.8.7"), "{}", written);
            }
            let again = SessionDescription::parse(written.as_bytes()).unwrap();
            prop_assert_eq!(again.media.len(), session.media.len());
        }
    }
}
