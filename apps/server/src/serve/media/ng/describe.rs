//! Offers and answers.

use super::fault::Fault;
use super::surroundings::Surroundings;
use crate::ng::Interface;
use ng::Options;
use ng::options::{AddressSource, Dtls, Family, Names, RtcpMux, Transport};
use relay::sdp::SessionDescription;
use relay::sdp::negotiation::Profile;
use relay::{Codec, CodecRules, End, EndReport, Keying, MuxAnswer, MuxOffer, MuxRules};
use relay::{Passage, Role, Side};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A session description in a request.
pub(super) struct Description<'a> {
    pub(super) call_id: &'a [u8],
    /// The tag of its author, and that of the other end, which may be empty.
    pub(super) tags: [&'a [u8]; 2],
    pub(super) sdp: &'a [u8],
    pub(super) is_offer: bool,
    /// The address of the client.
    pub(super) source: SocketAddr,
}

/// An address that is not known.
const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The local and the advertised address of an end.
type Addresses = [IpAddr; 2];

/// Returns the description for the other end. `interfaces` are the addresses for media.
pub(super) fn describe(
    surroundings: &Surroundings<'_>,
    interfaces: &[Interface],
    description: &Description<'_>,
    options: &mut Options<'_>,
) -> Result<String, Fault> {
    let Description { call_id, tags, sdp, is_offer, source } = *description;
    let medium = Medium::first(sdp);
    let offerer = if is_offer { tags[0] } else { tags[1] };
    let signalling = options.received_from.map_or(NOWHERE, |ip| ip.to_canonical());
    // A script that names the address of the media speaks for itself, not for the end.
    let origin = match options.media_address {
        None if signalling != NOWHERE => signalling,
        _ => source.ip(),
    };
    let permits =
        |place: SocketAddr| place.ip() == signalling || (surroundings.permits)(origin, place);
    let nothing = |_: SocketAddr| false;
    let (role, side) = match is_offer {
        true => (Role::Offer { exchange: 0 }, Side::Caller),
        false => (Role::Answer, Side::Callee),
    };
    let mut passage = Passage {
        call_id,
        // Without a branch, the calls of one caller with this Call-ID are one.
        branch: Some(options.via_branch.map_or(offerer, str::as_bytes)),
        from_tag: tags[0],
        to_tag: tags[1],
        from: End::new(SocketAddr::new(signalling, 0), NOWHERE, &permits),
        to: End::new(SocketAddr::new(NOWHERE, 0), NOWHERE, &nothing),
        role,
        side,
        begins: is_offer,
        parties: [&[]; 2],
        owner: 0,
        now: surroundings.now,
    };
    let known = surroundings.calls.find(&passage);
    let addresses = match &known {
        None if !is_offer => return Err(Fault::UnknownCall),
        None => {
            let peer = Some(signalling).filter(|ip| *ip != NOWHERE);
            let peer = peer.or(medium.as_ref().and_then(|medium| medium.host));
            addresses(surroundings, interfaces, options, peer)?
        }
        Some((call, side)) => {
            let other = &call.ends[side.other().index()];
            passage.to.signalling = other.signalling;
            [&call.ends[side.index()], other].map(addresses_of)
        }
    };
    for (end, [local, advertised]) in
        [&mut passage.from, &mut passage.to].into_iter().zip(addresses)
    {
        (end.local, end.advertised) = (local, advertised);
    }
    passage.from.label = options.label;
    passage.from.media = match (options.media_address, options.address_source) {
        (Some(address), _) => Some(address),
        (None, AddressSource::Signalling) => options.received_from,
        (None, AddressSource::Unspecified | AddressSource::Description) => None,
    };
    let codecs = RequestedCodecs::new(options);
    if is_offer {
        passage.to.codecs = codecs.rules();
        passage.to.keying = keying(options, medium.as_ref())?;
        passage.to.handshake = options.dtls != Dtls::Off;
        passage.to.feedback = options.transport.map(|transport| transport.feedback);
        passage.to.mux = mux(options.rtcp_mux);
    }
    surroundings.calls.describe(&passage, sdp)?.ok_or(Fault::UnknownCall)
}

/// The addresses of the author of the first offer, at `peer`, and of the other end.
fn addresses(
    surroundings: &Surroundings<'_>,
    interfaces: &[Interface],
    options: &Options<'_>,
    peer: Option<IpAddr>,
) -> Result<[Addresses; 2], Fault> {
    let is_v4 = options.address_family.map(|family| family == Family::V4);
    if let Some(first) = interfaces.first() {
        let [from, to] = options.direction.map(|name| name.unwrap_or(&first.name));
        let from = interface(interfaces, from, None, peer.map(|ip| ip.is_ipv4()))?;
        let to = interface(interfaces, to, is_v4, Some(from.local.is_ipv4()))?;
        return Ok([from, to].map(|interface| [interface.local, interface.advertised]));
    }
    if let [Some(name), _] | [None, Some(name)] = options.direction {
        return Err(Fault::UnknownInterface(name.to_owned()));
    }
    let local = peer.and_then(surroundings.local).ok_or(Fault::NoRoute)?;
    let is_wanted = is_v4.is_none_or(|is_v4| is_v4 == local.is_ipv4());
    is_wanted.then_some([[local; 2]; 2]).ok_or(Fault::NoAddress)
}

/// The interface with this name, and of the required or else the preferred family.
fn interface<'i>(
    interfaces: &'i [Interface],
    name: &str,
    required: Option<bool>,
    preferred: Option<bool>,
) -> Result<&'i Interface, Fault> {
    let named = || interfaces.iter().filter(|interface| interface.name == name);
    if named().next().is_none() {
        return Err(Fault::UnknownInterface(name.to_owned()));
    }
    let of = |family: Option<bool>| named().find(|it| Some(it.local.is_ipv4()) == family);
    match required {
        Some(_) => of(required),
        None => of(preferred).or_else(|| named().next()),
    }
    .ok_or(Fault::NoAddress)
}

const fn addresses_of(end: &EndReport) -> Addresses {
    [end.local, end.advertised]
}

/// The first medium of RTP in a description.
struct Medium {
    profile: Profile,
    has_keys: bool,
    host: Option<IpAddr>,
}

impl Medium {
    fn first(sdp: &[u8]) -> Option<Self> {
        let session = SessionDescription::parse(sdp).ok()?;
        session.media.iter().filter(|medium| medium.port != 0).find_map(|medium| {
            Some(Self {
                profile: Profile::of(medium.protocol)?,
                has_keys: medium.attributes("crypto").next().is_some(),
                host: session.address(medium).and_then(|host| host.parse().ok()),
            })
        })
    }
}

/// The keys in an offer for the other end.
fn keying(options: &Options<'_>, offered: Option<&Medium>) -> Result<Keying, Fault> {
    let Some(Medium { profile, has_keys, .. }) = offered else { return Ok(Keying::Passed) };
    let wanted = options.transport;
    Ok(match (profile, wanted) {
        (Profile::Dtls, None | Some(Transport { dtls: true, .. })) => Keying::Passed,
        (Profile::Dtls, Some(_)) | (_, Some(Transport { dtls: true, .. })) => {
            return Err(Fault::Dtls);
        }
        (Profile::Secure, None | Some(Transport { secure: true, .. })) => Keying::Passed,
        (Profile::Secure, Some(_)) if options.osrtp.offer => Keying::Optional,
        (Profile::Secure, Some(_)) => Keying::Clear,
        (Profile::Plain, Some(Transport { secure: true, .. })) => Keying::Required,
        // Keys beside media in clear are OSRTP.
        (Profile::Plain, _) if *has_keys => {
            let stay = !options.sdes.off && (wanted.is_none() || options.osrtp.offer);
            if stay { Keying::Passed } else { Keying::Clear }
        }
        (Profile::Plain, _) if options.osrtp.offer => Keying::Optional,
        (Profile::Plain, _) => Keying::Passed,
    })
}

/// RTP and RTCP on one port, in the offer for the other end and in its answer.
const fn mux(flags: RtcpMux) -> MuxRules {
    let offer = match flags {
        RtcpMux { require: true, .. } => MuxOffer::Required,
        RtcpMux { offer: true, .. } => MuxOffer::Added,
        RtcpMux { demux: true, .. } => MuxOffer::Removed,
        _ => MuxOffer::Passed,
    };
    let answer = match flags {
        RtcpMux { accept: true, .. } | RtcpMux { demux: true, .. } => MuxAnswer::Accepted,
        RtcpMux { reject: true, .. } => MuxAnswer::Rejected,
        _ => MuxAnswer::Passed,
    };
    MuxRules { offer, answer }
}

/// The changes of codecs in a request.
struct RequestedCodecs<'a> {
    transcode: Vec<Codec>,
    strip: Vec<&'a str>,
    mask: Vec<&'a str>,
    except: Vec<&'a str>,
}

impl<'a> RequestedCodecs<'a> {
    /// Reads the flags. Those of codecs that the relay does not have are noted.
    fn new(options: &mut Options<'a>) -> Self {
        let (codecs, unrecognized) = (&options.codecs, &mut options.unrecognized);
        // Clock rate, channels and bit rate may follow the name.
        let name = |text: &&'a str| text.split('/').next().unwrap_or_default();
        let names = |lists: &[&Names<'a>]| -> Vec<&'a str> {
            lists.iter().flat_map(|list| list.as_slice()).map(name).collect()
        };
        let mut transcode = Vec::new();
        for text in codecs.transcode.as_slice() {
            let is_it = |codec: &&Codec| codec.name().eq_ignore_ascii_case(name(text));
            match Codec::ALL.iter().find(is_it) {
                Some(codec) => transcode.push(*codec),
                // Events come with each codec.
                None if name(text).eq_ignore_ascii_case("telephone-event") => {}
                None => unrecognized.push(b"codec-transcode", Some(text.as_bytes())),
            }
        }
        Self {
            transcode,
            strip: names(&[&codecs.strip]),
            mask: names(&[&codecs.mask, &codecs.consume]),
            except: names(&[&codecs.except, &codecs.offer]),
        }
    }

    fn rules(&self) -> CodecRules<'_> {
        let mut rules = CodecRules::default();
        (rules.transcode, rules.strip) = (&self.transcode, &self.strip);
        (rules.mask, rules.except) = (&self.mask, &self.except);
        rules
    }
}
