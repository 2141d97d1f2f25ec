//! Keys and flags become options.

use super::types::{
    AddressSource, Codecs, Dtls, Family, Ice, Names, Osrtp, Replace, RtcpAttribute, RtcpMux, Sdes,
    Tos, Transport,
};
use crate::argument::{Argument, Words, key_and_value, short_text};
use crate::name::{Name, strip_prefix};
use crate::unrecognized::Unrecognized;
use core::net::IpAddr;

/// The options of a request.
///
/// The last of several contradicting keys or flags counts. An option without a use for its command
/// is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options<'a> {
    /// The transport protocol towards the receiver of the written description.
    pub transport: Option<Transport>,
    /// The transport protocol of an answer is passed on, even if another one was offered.
    pub accept_transport: bool,
    /// The parts of the description to replace, besides media addresses and ports.
    pub replace: Replace,
    /// The address to which media goes first.
    pub address_source: AddressSource,
    /// The source address of the SIP message.
    pub received_from: Option<IpAddr>,
    /// The address to which media goes instead of those of the description and of `received_from`.
    pub media_address: Option<IpAddr>,
    /// The family of the relay's address in the written description.
    pub address_family: Option<Family>,
    /// The names of the interfaces: that of the sender of the message, that of its receiver.
    pub direction: [Option<&'a str>; 2],
    /// Packets of other sources than the learned one are dropped.
    pub strict_source: bool,
    /// The sender of the message receives media at another address than it sends from.
    pub asymmetric: bool,
    /// The sender of the message receives media at the address that it sends from: the default.
    pub symmetric: bool,
    /// The local port stays if the remote one changes.
    pub port_latching: Option<bool>,
    /// The handling of ICE.
    pub ice: Ice,
    /// ICE of the offerer is rejected.
    pub reject_ice: bool,
    /// RTP and RTCP on one port.
    pub rtcp_mux: RtcpMux,
    /// The a=rtcp attribute.
    pub rtcp_attribute: RtcpAttribute,
    /// Opportunistic SRTP.
    pub osrtp: Osrtp,
    /// SRTP keys in the description.
    pub sdes: Sdes<'a>,
    /// The role in DTLS towards the receiver of the written description.
    pub dtls: Dtls,
    /// The role in DTLS towards the sender of the message.
    pub dtls_reverse: Dtls,
    /// The hash of the certificate's fingerprint, such as `SHA-256`.
    pub dtls_fingerprint: Option<&'a str>,
    /// Changes of the codecs.
    pub codecs: Codecs<'a>,
    /// The packet time towards the receiver of the offer, in milliseconds.
    pub ptime: Option<u16>,
    /// The packet time towards the offerer, in milliseconds.
    pub ptime_reverse: Option<u16>,
    /// The type of service of sent packets.
    pub tos: Tos,
    /// A name for the sender of the message, for reports.
    pub label: Option<&'a str>,
    /// The branch of the SIP message.
    pub via_branch: Option<&'a str>,
    /// A description that has passed this relay is not changed again.
    pub loop_protect: bool,
    /// The direction attributes of the description stay.
    pub original_sendrecv: bool,
    /// Adds a=mid attributes.
    pub generate_mid: bool,
    /// The time in seconds that a deleted call remains.
    pub delete_delay: Option<u32>,
    /// A deletion that finds no call is an error.
    pub fatal: bool,
    /// The peer understands the result `load limit`.
    pub supports_load_limit: bool,
    /// Keys and flags without a meaning here.
    pub unrecognized: Unrecognized<'a>,
}

/// Flags with a name and an appended value, and the keys they stand for.
const PREFIXES: &[(&str, &str)] = &[
    ("rtcp-mux-", "rtcp-mux"),
    ("sdes-", "sdes"),
    ("osrtp-", "osrtp"),
    ("replace-", "replace"),
    ("transcode-", "transcode"),
    ("codec-strip-", "codec-strip"),
    ("codec-offer-", "codec-offer"),
    ("codec-except-", "codec-except"),
    ("codec-mask-", "codec-mask"),
    ("codec-accept-", "codec-accept"),
    ("codec-consume-", "codec-consume"),
    ("codec-transcode-", "codec-transcode"),
    ("codec-set-", "codec-set"),
    ("codec-ignore-", "codec-ignore"),
];

impl<'a> Options<'a> {
    /// Sets the options of a string of flags, as in the key `rtpp-flags`. `set_other` sets a flag
    /// that is no option, and returns false if it is one.
    pub(crate) fn set_flags(
        &mut self,
        text: &'a [u8],
        mut set_other: impl FnMut(&'a [u8]) -> bool,
    ) {
        let mut transport = None;
        for word in Words(text) {
            if !set_transport_word(&mut transport, word) && !set_other(word) {
                self.set_flag(word);
            }
        }
        self.transport = transport.or(self.transport);
    }

    /// Sets the option of a flag.
    pub(crate) fn set_flag(&mut self, flag: &'a [u8]) {
        let on = match Name::new(flag).as_str() {
            "strict-source" => &mut self.strict_source,
            "asymmetric" => &mut self.asymmetric,
            "symmetric" => &mut self.symmetric,
            "loop-protect" => &mut self.loop_protect,
            "original-sendrecv" => &mut self.original_sendrecv,
            "generate-mid" => &mut self.generate_mid,
            "reject-ice" | "ice-reject" => &mut self.reject_ice,
            "pad-crypto" => &mut self.sdes.pad,
            "fatal" => &mut self.fatal,
            "trust-address" => {
                self.address_source = AddressSource::Description;
                return;
            }
            "sip-source-address" => {
                self.address_source = AddressSource::Signalling;
                return;
            }
            "port-latching" => {
                self.port_latching = Some(true);
                return;
            }
            "no-port-latching" => {
                self.port_latching = Some(false);
                return;
            }
            "no-rtcp-attribute" => {
                self.rtcp_attribute = RtcpAttribute::Omitted;
                return;
            }
            "full-rtcp-attribute" => {
                self.rtcp_attribute = RtcpAttribute::Full;
                return;
            }
            "internal" | "external" => return self.set(b"direction", Argument::Raw(flag)),
            _ => return self.set_flag_with_value(flag),
        };
        *on = true;
    }

    fn set_flag_with_value(&mut self, flag: &'a [u8]) {
        for &(prefix, key) in PREFIXES {
            if let Some(value) = strip_prefix(flag, prefix) {
                return self.set(key.as_bytes(), Argument::Raw(value));
            }
        }
        match key_and_value(flag) {
            // The controlling proxy has evaluated it, and sends the branch itself.
            Some((key, _)) if Name::new(key).as_str() == "via-branch" => {}
            Some((key, value)) => self.set(key, Argument::Raw(value)),
            None => self.unrecognized.push(flag, None),
        }
    }

    /// Sets the option of a key.
    pub(crate) fn set(&mut self, key: &'a [u8], value: Argument<'a>) {
        let name = Name::new(key);
        let name = name.as_str();
        let is_set = match name {
            "replace" => return self.set_each(key, value, Self::set_replace),
            "rtcp-mux" => return self.set_each(key, value, Self::set_rtcp_mux),
            "sdes" => return self.set_each(key, value, Self::set_sdes),
            "osrtp" => return self.set_each(key, value, Self::set_osrtp),
            "direction" => return self.set_each(key, value, Self::set_direction),
            "supports" => return self.set_supports(value),
            "codec" => {
                for (list, names) in value.entries() {
                    self.set_codecs(key, Name::new(list).as_str(), names);
                }
                return;
            }
            "transcode" => return self.set_codecs(key, name, value),
            "transport-protocol" => self.set_transport(value),
            "received-from" => self.set_received_from(value),
            "media-address" => store(&mut self.media_address, address(value)),
            "address-family" => store(&mut self.address_family, family(value)),
            "from-interface" => store(&mut self.direction[0], value.short_text()),
            "to-interface" => store(&mut self.direction[1], value.short_text()),
            "ice" => replace(&mut self.ice, ice(value)),
            "dtls" => replace(&mut self.dtls, dtls(value)),
            "dtls-reverse" => replace(&mut self.dtls_reverse, dtls(value)),
            "dtls-fingerprint" => store(&mut self.dtls_fingerprint, value.short_text()),
            "ptime" => store(&mut self.ptime, number(value)),
            "ptime-reverse" | "reverse-ptime" => store(&mut self.ptime_reverse, number(value)),
            "tos" => replace(&mut self.tos, value.integer().map(tos)),
            "label" | "from-label" => store(&mut self.label, value.short_text()),
            "via-branch" => store(&mut self.via_branch, value.short_text()),
            "delete-delay" => store(&mut self.delete_delay, number(value)),
            _ => match name.strip_prefix("codec-") {
                Some(list) => return self.set_codecs(key, list, value),
                None => false,
            },
        };
        if !is_set {
            self.unrecognized.push(key, value.text());
        }
    }

    /// Calls `set` for each text in a list. It returns false if the text is not understood.
    fn set_each(
        &mut self,
        key: &'a [u8],
        list: Argument<'a>,
        mut set: impl FnMut(&mut Self, &'a [u8]) -> bool,
    ) {
        for element in list.elements() {
            let text = element.text();
            if !text.is_some_and(|text| set(self, text)) {
                self.unrecognized.push(key, text);
            }
        }
    }

    fn set_replace(&mut self, part: &'a [u8]) -> bool {
        let replace = &mut self.replace;
        let part = match Name::new(part).as_str() {
            "origin" => &mut replace.origin,
            "session-connection" => &mut replace.session_connection,
            "username" => &mut replace.username,
            "session-name" => &mut replace.session_name,
            "sdp-version" => &mut replace.version,
            "force-increment-sdp-ver" => &mut replace.force_version,
            "zero-address" => &mut replace.zero_address,
            _ => return false,
        };
        *part = true;
        true
    }

    fn set_rtcp_mux(&mut self, option: &'a [u8]) -> bool {
        let mux = &mut self.rtcp_mux;
        let option = match Name::new(option).as_str() {
            "offer" => &mut mux.offer,
            "require" => &mut mux.require,
            "demux" => &mut mux.demux,
            "accept" => &mut mux.accept,
            "reject" => &mut mux.reject,
            _ => return false,
        };
        *option = true;
        true
    }

    fn set_osrtp(&mut self, option: &'a [u8]) -> bool {
        match Name::new(option).as_str() {
            "offer" | "offer-rfc" => self.osrtp.offer = true,
            "accept" | "accept-rfc" => self.osrtp.accept = true,
            _ => return false,
        }
        true
    }

    fn set_sdes(&mut self, option: &'a [u8]) -> bool {
        let sdes = &mut self.sdes;
        match Name::new(option).as_str() {
            "off" | "no" | "disable" | "disabled" => sdes.off = true,
            "nonew" => sdes.no_new = true,
            "pad" => sdes.pad = true,
            "lifetime" => sdes.lifetime = true,
            "static" => sdes.keep = true,
            _ => {
                let lists = [
                    ("no-", &mut sdes.without),
                    ("only-", &mut sdes.only),
                    ("order:", &mut sdes.order),
                    ("offerer-pref:", &mut sdes.preferred),
                ];
                let mut lists = lists.into_iter();
                let found =
                    lists.find_map(|(prefix, names)| Some((strip_prefix(option, prefix)?, names)));
                return found.is_some_and(|(suites, names)| names.push_all(suites));
            }
        }
        true
    }

    /// Stores the next of the two interfaces.
    fn set_direction(&mut self, interface: &'a [u8]) -> bool {
        let next = self.direction.iter_mut().find(|place| place.is_none());
        next.is_some_and(|place| store(place, short_text(interface)))
    }

    /// Features that the relay does not know are no fault: they are of the peer.
    fn set_supports(&mut self, value: Argument<'a>) {
        let mut features = value.elements().filter_map(Argument::text);
        self.supports_load_limit |= features.any(|text| Name::new(text).as_str() == "load-limit");
    }

    /// Adds the codecs of a list.
    fn set_codecs(&mut self, key: &'a [u8], list: &str, value: Argument<'a>) {
        let codecs: for<'c> fn(&'c mut Codecs<'a>) -> &'c mut Names<'a> = match list {
            "strip" => |codecs| &mut codecs.strip,
            "offer" => |codecs| &mut codecs.offer,
            "except" => |codecs| &mut codecs.except,
            "mask" => |codecs| &mut codecs.mask,
            "accept" => |codecs| &mut codecs.accept,
            "consume" => |codecs| &mut codecs.consume,
            "transcode" => |codecs| &mut codecs.transcode,
            "set" => |codecs| &mut codecs.set,
            "ignore" => |codecs| &mut codecs.ignore,
            _ => return self.unrecognized.push(key, value.text()),
        };
        self.set_each(key, value, |options, name| codecs(&mut options.codecs).push(name));
    }

    fn set_transport(&mut self, value: Argument<'a>) -> bool {
        match value.text() {
            Some(b"accept") => self.accept_transport = true,
            Some(text) => return store(&mut self.transport, Transport::parse(text)),
            None => return false,
        }
        true
    }

    /// The value is a list of family and address, or the address alone.
    fn set_received_from(&mut self, value: Argument<'a>) -> bool {
        store(&mut self.received_from, value.elements().last().and_then(address))
    }
}

/// Sets the transport by a word of a string of flags. Returns false if it is another flag.
fn set_transport_word(transport: &mut Option<Transport>, word: &[u8]) -> bool {
    if let Some(parsed) = Transport::parse(word) {
        *transport = Some(parsed);
        return true;
    }
    let mut changed =
        transport.unwrap_or(Transport { secure: false, feedback: false, dtls: false });
    match word {
        b"RTP" => (changed.secure, changed.dtls) = (false, false),
        b"SRTP" => changed.secure = true,
        b"AVP" => changed.feedback = false,
        b"AVPF" => changed.feedback = true,
        b"DTLS" => (changed.secure, changed.dtls) = (true, true),
        _ => return false,
    }
    *transport = Some(changed);
    true
}

/// Stores a value. Returns false if it is missing.
fn store<T>(place: &mut Option<T>, value: Option<T>) -> bool {
    let is_some = value.is_some();
    if is_some {
        *place = value;
    }
    is_some
}

/// As [`store`], for a place with a default.
fn replace<T>(place: &mut T, value: Option<T>) -> bool {
    let is_some = value.is_some();
    if let Some(value) = value {
        *place = value;
    }
    is_some
}

fn address(value: Argument<'_>) -> Option<IpAddr> {
    value.short_text()?.parse().ok()
}

fn family(value: Argument<'_>) -> Option<Family> {
    match value.text()? {
        b"IP4" => Some(Family::V4),
        b"IP6" => Some(Family::V6),
        _ => None,
    }
}

fn ice(value: Argument<'_>) -> Option<Ice> {
    match Name::new(value.text()?).as_str() {
        "default" => Some(Ice::Default),
        "remove" => Some(Ice::Remove),
        "force" => Some(Ice::Force),
        "optional" => Some(Ice::Optional),
        "force-relay" => Some(Ice::ForceRelay),
        _ => None,
    }
}

fn dtls(value: Argument<'_>) -> Option<Dtls> {
    match Name::new(value.text()?).as_str() {
        "off" | "no" | "disable" | "disabled" => Some(Dtls::Off),
        "passive" => Some(Dtls::Passive),
        "active" => Some(Dtls::Active),
        _ => None,
    }
}

fn number<T: TryFrom<i64>>(value: Argument<'_>) -> Option<T> {
    value.integer()?.try_into().ok()
}

fn tos(value: i64) -> Tos {
    match u8::try_from(value) {
        Ok(value) => Tos::Value(value),
        Err(_) if value < 0 => Tos::Unchanged,
        Err(_) => Tos::Configured,
    }
}
