//! The ends of a call.

use crate::profile::MuxRules;
use crate::transcode::CodecRules;
use alloc::boxed::Box;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

/// The keys in the descriptions that an end gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keying {
    /// The keys of the other end pass. The relay has no keys.
    #[default]
    Passed,
    /// No keys: media in clear.
    Clear,
    /// Keys of the relay are offered beside media in clear (RFC 8643): SDES, or a handshake with
    /// the [host](crate::Host::fingerprint) as the end chooses.
    Optional,
    /// Keys of the relay are offered as for `Optional`, and the end must use them.
    Required,
    /// The end is a browser: it is offered ICE, and keys by a DTLS handshake with the
    /// [host](crate::Host::fingerprint).
    Dtls,
    /// The end is a phone with DTLS-SRTP as its only encryption: it is offered a handshake with the
    /// [host](crate::Host::fingerprint), without ICE and without other keys.
    Handshake,
}

/// One end of a call, as its signalling shows it.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct End<'a> {
    /// The address that the signalling of the end comes from. Packets may come from its host.
    pub signalling: SocketAddr,
    /// The local address that the ports to the end are opened at.
    pub local: IpAddr,
    /// The address of the ports in descriptions: that of `local`, or the one that an address
    /// translation in front of the server has.
    pub advertised: IpAddr,
    /// The keys in the first description for the end, and in all later ones if it agrees. The
    /// offers of an end with [`Keying::Required`] must have keys.
    pub keying: Keying,
    /// False if offers for the end have no handshake beside keys in the description.
    pub handshake: bool,
    /// The changes to the codecs of offers for the end.
    pub codecs: CodecRules<'a>,
    /// True if offers for the end have an RTP profile with feedback in RTCP (RFC 4585, RFC 5124),
    /// and false if they have one without. `None`: the profile that the end had before if the
    /// profiles of the call were converted, otherwise that of the offerer.
    pub feedback: Option<bool>,
    /// RTP and RTCP on one port, in offers for the end and in their answers.
    pub mux: MuxRules,
    /// True if the end has authenticated, and messages have proved that it receives at the host of
    /// `signalling`. Packets to this host need no sign of the end.
    pub is_proven: bool,
    /// The host of its media, in place of those that its descriptions name.
    pub media: Option<IpAddr>,
    /// A name for reports.
    pub label: Option<&'a str>,
    /// True if the end takes digits by signalling, and the owner passes them. If it has no
    /// telephone events and the other end has, digits are translated: see
    /// [`Pressed`](crate::Pressed) and [`Calls::press`](crate::Calls::press). It holds for the rest
    /// of the call.
    pub takes_digits: bool,
    permits: &'a dyn Fn(SocketAddr) -> bool,
}

impl<'a> End<'a> {
    /// Creates an end with media from `local` and with keys that pass. `permits` tells if
    /// packets may be sent to an address that the end names.
    #[must_use]
    pub fn new(
        signalling: SocketAddr,
        local: IpAddr,
        permits: &'a dyn Fn(SocketAddr) -> bool,
    ) -> Self {
        Self {
            signalling,
            local,
            advertised: local,
            keying: Keying::Passed,
            handshake: true,
            codecs: CodecRules::default(),
            feedback: None,
            mux: MuxRules::default(),
            is_proven: false,
            media: None,
            label: None,
            takes_digits: false,
            permits,
        }
    }

    pub(crate) fn permits(&self, place: SocketAddr) -> bool {
        // A port of the other family cannot send there.
        place.is_ipv4() == self.local.is_ipv4()
            && place.port() != 0
            && !place.ip().is_unspecified()
            && !place.ip().is_multicast()
            && (self.permits)(place)
    }
}

/// An end of a call, for reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndReport {
    /// See [`End::signalling`].
    pub signalling: SocketAddr,
    /// See [`End::local`].
    pub local: IpAddr,
    /// See [`End::advertised`].
    pub advertised: IpAddr,
    /// See [`End::label`].
    pub label: Option<Box<str>>,
    /// See [`End::takes_digits`].
    pub(crate) takes_digits: bool,
    /// The host of `signalling`, when the end was [proven](End::is_proven).
    proven: Option<IpAddr>,
}

impl EndReport {
    pub(crate) const UNKNOWN: Self = Self {
        signalling: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        local: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        advertised: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        label: None,
        takes_digits: false,
        proven: None,
    };

    /// An end at `signalling`.
    pub(crate) const fn at(signalling: SocketAddr) -> Self {
        Self { signalling, ..Self::UNKNOWN }
    }

    /// Takes over the properties of `end`. A label stays until there is another one.
    pub(crate) fn update(&mut self, end: &End<'_>) {
        self.signalling = end.signalling;
        self.local = end.local;
        self.advertised = end.advertised;
        self.takes_digits |= end.takes_digits;
        if end.is_proven {
            self.proven = Some(end.signalling.ip());
        }
        if let Some(label) = end.label {
            self.label = Some(label.into());
        }
    }

    /// True if the end was [proven](End::is_proven) with the present host of its signalling.
    pub(crate) fn is_proven(&self) -> bool {
        self.proven == Some(self.signalling.ip())
    }
}

impl fmt::Debug for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("End")
            .field("signalling", &self.signalling)
            .field("local", &self.local)
            .field("advertised", &self.advertised)
            .field("keying", &self.keying)
            .field("codecs", &self.codecs)
            .field("feedback", &self.feedback)
            .field("mux", &self.mux)
            .field("is_proven", &self.is_proven)
            .field("media", &self.media)
            .field("label", &self.label)
            .field("takes_digits", &self.takes_digits)
            .finish_non_exhaustive()
    }
}
