//! The packets of one medium between two legs.

use crate::announcement::{Announcement, Content};
use crate::bandwidth::Share;
use crate::codec::bit;
use crate::digits::{Digit, Pressed, Reports};
use crate::error::Drop;
use crate::feedback;
use crate::frame::{Ends, Entry};
use crate::keying::LegKeys;
use crate::leg::{Leg, index};
use crate::side::Side;
use crate::statistics::{Direction, Rewrites};
use crate::transcode::Conversion;
use crate::web::WebFault;
use alloc::sync::Arc;
use core::net::SocketAddr;
use core::time::Duration;
use lock_api::{Mutex, RawMutex};
use media::demultiplex::Kind;
use media::{Channel, DtlsPeer};
use rtp::Header;
use rtp::Packet;
use smallvec::SmallVec;
use srtp::{MasterKey, PolicyError, Suite};

/// The time after the beginning of a hold for which packets of before may arrive.
const LATE: Duration = Duration::from_secs(5);

/// A packet that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relayed {
    /// The destination. The packet leaves from the port of the other side.
    pub to: SocketAddr,
    /// The channel of that port.
    pub channel: Channel,
    /// The length of the packet in the buffer. Zero if no packet is to be sent: its sound waits for
    /// more.
    pub length: usize,
    /// True if [`Stream::next`] has another packet.
    pub has_more: bool,
    /// True if this packet has fixed the address of its side and channel. Later packets come from
    /// there only, until [`Ports::release`](crate::Ports::release).
    pub is_fixed: bool,
    /// The way of the packet.
    pub way: Way,
}

/// The way of a packet that a stream has processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// It leaves from the port of the other side.
    Across,
    /// It is the response to a check of a browser. It leaves from the port that the check came to.
    Back,
    /// It is a datagram of a DTLS handshake, unchanged. The host makes the handshake with the port
    /// that the datagram came to, and [sets](Stream::set_keys) its keys.
    Handshake,
}

/// One medium of a call: two legs, each with a port for RTP and one for RTCP. The owner of the
/// ports passes their packets to [`Stream::relay`].
pub struct Stream<R> {
    legs: Mutex<R, [Leg; 2]>,
    /// The bandwidth of the call.
    share: Arc<Share>,
    reporter: Reporter<R>,
}

/// The reports of the digits of a call, and its name in them.
pub(crate) struct Reporter<R> {
    pub(crate) reports: Arc<Reports<R>>,
    pub(crate) call_id: Arc<[u8]>,
    pub(crate) caller_tag: Arc<[u8]>,
}

impl<R> Clone for Reporter<R> {
    fn clone(&self) -> Self {
        let Self { reports, call_id, caller_tag } = self;
        Self {
            reports: Arc::clone(reports),
            call_id: Arc::clone(call_id),
            caller_tag: Arc::clone(caller_tag),
        }
    }
}

impl<R> core::fmt::Debug for Stream<R> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// The activity of the ends of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Activity {
    /// The time since which an end is to send, if one is.
    pub(crate) since: Option<Duration>,
    /// True if no packet is expected. An end that holds a call without music announces to send, and
    /// sends nothing more.
    pub(crate) is_on_hold: bool,
    /// The time of the last packet. Of RTCP that of an end counts which suppresses silence.
    pub(crate) last: Option<Duration>,
    /// The time of the last packet, RTCP and checks of browsers included.
    pub(crate) heard: Option<Duration>,
    /// True for each end that has sent an RTCP BYE and no packet since.
    pub(crate) has_left: [bool; 2],
}

impl Relayed {
    const fn on(way: Way, to: SocketAddr, channel: Channel, length: usize) -> Self {
        Self { to, channel, length, has_more: false, is_fixed: false, way }
    }
}

/// Both legs: that of `side`, and the other one.
const fn ordered(legs: &mut [Leg; 2], side: Side) -> (&mut Leg, &mut Leg) {
    let [caller, callee] = legs;
    match side {
        Side::Caller => (caller, callee),
        Side::Callee => (callee, caller),
    }
}

impl<R: RawMutex> Stream<R> {
    pub(crate) fn new(share: Arc<Share>, reporter: Reporter<R>) -> Self {
        Self { legs: Mutex::new(Default::default()), share, reporter }
    }

    /// Calls `act` with both legs, the caller's first.
    pub(crate) fn with<T>(&self, act: impl FnOnce(&mut [Leg; 2]) -> T) -> T {
        act(&mut self.legs.lock())
    }

    /// The packets that are expected, and the last ones.
    pub(crate) fn activity(&self) -> Activity {
        self.with(|legs| {
            let is_open = |one: &Leg, other: &Leg| {
                let announced = (one.announced.as_ref(), other.announced.as_ref());
                matches!(announced, (Some(one), Some(other)) if one.sends() && other.receives())
            };
            let sends = [is_open(&legs[0], &legs[1]), is_open(&legs[1], &legs[0])];
            let since = legs.iter().map(|leg| leg.since).max();
            let ends = legs.iter().map(|leg| &leg.statistics);
            let last = ends.filter_map(|end| end.last.max(end.in_silence)).max();
            let heard = legs.iter().filter_map(|leg| leg.statistics.heard).max().max(last);
            let has_left = legs.each_ref().map(|leg| leg.statistics.has_left);
            let has_music = |leg: &Leg| leg.statistics.last > since.map(|since| since + LATE);
            let is_on_hold = match sends {
                [false, false] => true,
                [true, true] => false,
                [is_caller, _] => !has_music(&legs[usize::from(!is_caller)]),
            };
            Activity {
                since: since.filter(|_| sends != [false; 2]),
                is_on_hold,
                last,
                heard,
                has_left,
            }
        })
    }

    /// The packets of the caller, and those of the callee.
    pub fn summary(&self) -> [Direction; 2] {
        self.with(|[caller, callee]| [caller.summary(callee), callee.summary(caller)])
    }

    /// The time of the first packet.
    pub(crate) fn first(&self) -> Option<Duration> {
        self.with(|legs| legs.iter().filter_map(|leg| leg.statistics.first).min())
    }

    /// Calls `install` with the rewrite of the RTP packets that come to the port of `side`, if that
    /// is all that is to be done with them: both ends have latched, and the relay has no keys.
    /// `locals` are the addresses of the ports of RTP, the caller's first. The entry holds until
    /// [`Host::withdraw`](crate::Host::withdraw). The stream is locked meanwhile: `install` must
    /// not call it.
    pub fn hand_over(&self, side: Side, locals: [SocketAddr; 2], install: impl FnOnce(Entry)) {
        let legs = self.legs.lock();
        let at = side.index();
        let (from_leg, to_leg) = (&legs[at], &legs[1 - at]);
        if let Some(entry) = entry([from_leg, to_leg], [locals[at], locals[1 - at]]) {
            install(entry);
        }
    }

    /// Counts an RTP `packet` of `side` that was rewritten, as it was received.
    pub fn count(&self, side: Side, packet: &[u8], now: Duration) {
        let leg = &mut self.legs.lock()[side.index()];
        if let (Ok(header), Some(announced)) = (Header::parse(packet), &leg.announced) {
            leg.statistics.receive(&header, packet.len(), announced, now);
        }
    }

    /// Adds packets of `side` that were rewritten where they cannot be [counted](Self::count),
    /// every second at least, for [`Calls::expire`](crate::Calls::expire).
    pub fn add(&self, side: Side, rewrites: Rewrites) {
        self.legs.lock()[side.index()].statistics.add(rewrites);
    }

    /// Returns the other end of the DTLS handshake of `side`, once its description is known. Keys
    /// are set only if its certificate has one of the fingerprints. Another peer than before asks
    /// for another handshake, unless it [is the same](media::DtlsPeer::is_same).
    pub fn dtls_peer(&self, side: Side) -> Option<DtlsPeer> {
        self.legs.lock()[side.index()].web.as_ref()?.peer().cloned()
    }

    /// The address that the first message of a DTLS handshake with the end of `side` is sent to, if
    /// the host is the client. `None` if it is not known yet.
    pub fn handshake_destination(&self, side: Side) -> Option<SocketAddr> {
        let leg = &self.legs.lock()[side.index()];
        leg.web.as_ref().and_then(|_| leg.destination(Channel::Rtp))
    }

    /// The address in the description of the end of `side`, if packets may be sent there. Messages
    /// of its handshake from there are more likely its own than those from other ports. `None` for
    /// a browser: its checks prove the address.
    pub fn named_source(&self, side: Side) -> Option<SocketAddr> {
        let leg = &self.legs.lock()[side.index()];
        let announced = leg.announced.as_ref().filter(|_| leg.ice().is_none());
        announced?.destinations[0]
    }

    /// Sets the keys that a handshake has yielded for the leg of `side`: those of packets to the
    /// end, and those of packets from it.
    ///
    /// # Errors
    /// The keys are unusable.
    pub fn set_keys(
        &self,
        side: Side,
        suite: Suite,
        local: MasterKey,
        remote: MasterKey,
    ) -> Result<(), PolicyError> {
        let keys = LegKeys::of_handshake(suite, local, remote)?;
        self.legs.lock()[side.index()].keys = Some(keys);
        Ok(())
    }

    /// Records that the handshake of `side` has failed: the call is over.
    pub fn refuse_keys(&self, side: Side) {
        if let Some(web) = &mut self.legs.lock()[side.index()].web {
            web.refuse_keys();
        }
    }

    /// The reason why a leg with a handshake is over at `now`, if it is.
    pub(crate) fn web_fault(&self, now: Duration) -> Option<WebFault> {
        let legs = self.legs.lock();
        let mut webs = legs.iter().filter_map(|leg| leg.web.as_ref());
        webs.find_map(|web| web.fault(now))
    }

    /// Processes a packet that came `from` an address to the port of `side` and `channel`, in the
    /// first `length` bytes of `buffer`. It is processed in place: SRTP makes it longer, by the
    /// overhead of its suite. `now` is the time since an epoch of the owner.
    ///
    /// # Errors
    /// [`Drop`]: the packet is not relayed.
    pub fn relay(
        &self,
        side: Side,
        channel: Channel,
        from: SocketAddr,
        buffer: &mut [u8],
        length: usize,
        now: Duration,
    ) -> Result<Relayed, Drop> {
        let mut legs = self.legs.lock();
        let (from_leg, to_leg) = ordered(&mut legs, side);
        let from = SocketAddr::new(from.ip().to_canonical(), from.port());
        let arrival = Arrival { channel, from, length, now };
        let mut pressed = SmallVec::new();
        let relayed = relay(from_leg, to_leg, &self.share, &arrival, buffer, &mut pressed);
        match &relayed {
            Ok(_) => {}
            Err(
                Drop::NoDestination
                | Drop::NoKeys
                | Drop::Unconfirmed
                | Drop::Protect(_)
                | Drop::Bandwidth,
            ) => {
                from_leg.statistics.unsent += 1;
            }
            Err(_) => from_leg.statistics.refused += 1,
        }
        for digit in pressed {
            let Reporter { reports, call_id, caller_tag } = &self.reporter;
            let (call_id, caller_tag) = (call_id[..].into(), caller_tag[..].into());
            reports.push(Pressed { call_id, caller_tag, side, digit });
        }
        relayed
    }

    /// Plays a digit that the end of `side` has sent by signalling to the other end. Returns false
    /// if that end has no telephone events, or gets no packets.
    pub(crate) fn press(&self, side: Side, digit: Digit, now: Duration) -> bool {
        let mut legs = self.legs.lock();
        let (from_leg, to_leg) = ordered(&mut legs, side);
        let receives = to_leg.announced.as_ref().is_some_and(Announcement::receives);
        let is_reachable = receives && to_leg.destination(Channel::Rtp).is_some();
        let digits = from_leg.digits.as_mut().filter(|_| is_reachable);
        digits.is_some_and(|digits| digits.press(digit, now))
    }

    /// The time of the next packet of a digit that is played to the other end of `side`.
    pub(crate) fn next_digit(&self, side: Side) -> Option<Duration> {
        self.legs.lock()[side.index()].digits.as_ref()?.next_time()
    }

    /// Writes the next packet of a digit that is played to the other end of `side` to `buffer`, if
    /// it is due at `now`. Its length is zero if it cannot be sent.
    pub(crate) fn play(&self, side: Side, buffer: &mut [u8], now: Duration) -> Option<Relayed> {
        let mut legs = self.legs.lock();
        let (from_leg, to_leg) = ordered(&mut legs, side);
        let digits = from_leg.digits.as_mut()?;
        let Some(to) = to_leg.destination(Channel::Rtp) else {
            digits.stop();
            return None;
        };
        let (fields, payload) = digits.next_packet(now)?;
        let channel = Channel::Rtp;
        let unsent = Relayed::on(Way::Across, to, channel, 0);
        let Ok(length) = fields.write(&payload, buffer) else { return Some(unsent) };
        let is_admitted =
            to_leg.admits() && self.share.admit(length, (&from_leg.traffic, None), now);
        let length = match &mut to_leg.keys {
            _ if !is_admitted => return Some(unsent),
            Some(keys) => keys.sender.protect(buffer, length),
            None => Ok(length),
        };
        Some(length.map_or(unsent, |length| Relayed { length, ..unsent }))
    }

    /// Writes the next packet that a packet of `side` yielded to `buffer`, which has room for what
    /// SRTP adds. To be called until it returns `None`, if [`Relayed::has_more`] says so. Packets
    /// that are not taken are lost with the next call of [`Stream::relay`].
    pub fn next(&self, side: Side, buffer: &mut [u8]) -> Option<Relayed> {
        let mut legs = self.legs.lock();
        let (from_leg, to_leg) = ordered(&mut legs, side);
        let channel = Channel::Rtp;
        let to = to_leg.destination(channel)?;
        let length = from_leg.conversion.as_mut()?.pop(buffer)?;
        let has_more = from_leg.conversion.as_ref().is_some_and(Conversion::is_ready);
        let now = from_leg.statistics.last.unwrap_or_default();
        if !from_leg.passes(to_leg, &mut buffer[..length], now) {
            return Some(Relayed { has_more, ..Relayed::on(Way::Across, to, channel, 0) });
        }
        let length = match &mut to_leg.keys {
            Some(keys) => keys.sender.protect(buffer, length),
            None => Ok(length),
        };
        let Ok(length) = length else {
            from_leg.statistics.unsent += 1;
            return Some(Relayed { has_more, ..Relayed::on(Way::Across, to, channel, 0) });
        };
        Some(Relayed { has_more, ..Relayed::on(Way::Across, to, channel, length) })
    }
}

/// The rewrite of RTP packets from the first leg to the second, if they need no other work.
fn entry([from_leg, to_leg]: [&Leg; 2], locals: [SocketAddr; 2]) -> Option<Entry> {
    let (announced, theirs) = (from_leg.announced.as_ref()?, to_leg.announced.as_ref()?);
    let (source, destination) = (from_leg.latched[0]?, to_leg.latched[0]?);
    let is_plain = announced.content != Content::Other
        && from_leg.conversion.is_none()
        && from_leg.digits.is_none()
        && [from_leg, to_leg].iter().all(|leg| leg.keys.is_none() && leg.web.is_none())
        && source.is_ipv4() == destination.is_ipv4();
    let payload_types = announced.payload_types | theirs.payload_types;
    let received = Ends { source: source.into(), destination: locals[0].into() };
    let sent = Ends { source: locals[1].into(), destination: destination.into() };
    is_plain.then(|| Entry::new(received, sent, payload_types))
}

/// The magic cookie of ZRTP (RFC 6189 section 5).
const ZRTP_COOKIE: &[u8] = b"ZRTP";

/// The arrival of a packet.
struct Arrival {
    channel: Channel,
    from: SocketAddr,
    /// Its length in the buffer.
    length: usize,
    now: Duration,
}

fn relay(
    from_leg: &mut Leg,
    to_leg: &mut Leg,
    share: &Share,
    arrival: &Arrival,
    buffer: &mut [u8],
    pressed: &mut SmallVec<[Digit; 1]>,
) -> Result<Relayed, Drop> {
    let Arrival { channel, from, length, now } = *arrival;
    let packet = buffer.get_mut(..length).ok_or(Drop::Kind(Kind::Unknown))?;
    if let Some(web) = &mut from_leg.web {
        // The other port is not described to a browser. A phone that uses it has other keys there.
        if channel == Channel::Rtcp {
            return Err(Drop::Source);
        }
        match Kind::of(packet) {
            kind @ Kind::Stun if web.has_ice() => {
                let length = web.check(now, from, buffer, length).ok_or(Drop::Kind(kind))?;
                from_leg.statistics.heard = Some(now);
                return Ok(Relayed::on(Way::Back, from, channel, length));
            }
            Kind::Dtls if web.has_ice() => {
                if !web.is_checked(from) {
                    return Err(Drop::Source);
                }
                return Ok(Relayed::on(Way::Handshake, from, channel, length));
            }
            Kind::Dtls => {
                let announced = from_leg.announced.as_ref().ok_or(Drop::Source)?;
                from_leg.check_source(announced, channel, from)?;
                return Ok(Relayed::on(Way::Handshake, from, channel, length));
            }
            _ => {}
        }
    }
    if from_leg.awaits_keys() || to_leg.awaits_keys() {
        return Err(Drop::NoKeys);
    }
    let packet = &mut buffer[..length];
    let announced = from_leg.announced.as_ref().ok_or(Drop::Source)?;
    let is_latched = from_leg.check_source(announced, channel, from)?;
    let kind = Kind::of(packet);
    match (announced.content, kind) {
        (Content::Rtp | Content::Dtls, Kind::Rtp | Kind::Rtcp)
        | (Content::Dtls, Kind::Dtls)
        | (Content::Other, _) => {}
        // The ends agree on keys of their own (RFC 6189).
        (Content::Rtp, Kind::Zrtp)
            if packet.get(4..8) == Some(ZRTP_COOKIE)
                && from_leg.keys.is_none()
                && to_leg.keys.is_none() => {}
        _ => return Err(Drop::Kind(kind)),
    }
    let is_rtp = kind == Kind::Rtp && announced.content != Content::Other;
    if is_rtp {
        let number = Header::parse(packet).map_err(Drop::Rtp)?.payload_type();
        let theirs = to_leg.announced.as_ref().map_or(0, |announced| announced.payload_types);
        let agreed = match from_leg.conversion.as_ref().and_then(Conversion::route) {
            Some(route) => route.accepted(),
            None => announced.payload_types | theirs,
        };
        if agreed & bit(number) == 0 {
            return Err(Drop::PayloadType(number));
        }
    }
    let plain = match (kind, &mut from_leg.keys) {
        (Kind::Rtp, Some(keys)) => keys.receiver.unprotect(packet),
        (Kind::Rtcp, Some(keys)) => keys.receiver.unprotect_rtcp(packet),
        _ => Ok(packet),
    };
    let mut plain_length = plain.map_err(Drop::Unprotect)?.len();
    let is_converted = announced.content != Content::Other
        && (from_leg.conversion.is_some() || to_leg.conversion.is_some());
    if is_converted && kind == Kind::Rtcp {
        let both = [from_leg.conversion.as_ref(), to_leg.conversion.as_ref()];
        let rewritten = Conversion::rewrite_reports(both, buffer, plain_length);
        plain_length = rewritten.unwrap_or_default();
    }
    if kind == Kind::Rtcp && to_leg.profile.lacks_feedback {
        plain_length = feedback::remove(buffer, plain_length);
    }
    let plain = &buffer[..plain_length];
    let mut is_digit = false;
    if is_rtp {
        let header = Header::parse(plain).map_err(Drop::Rtp)?;
        from_leg.statistics.receive(&header, plain.len(), announced, now);
        if let Some(digits) = &mut from_leg.digits {
            let packet = Packet::parse(plain).map_err(Drop::Rtp)?;
            digits.receive(&packet.header, packet.payload, |digit| pressed.push(digit));
            is_digit = digits.takes(header.payload_type());
        }
    } else {
        from_leg.statistics.receive_other(kind, plain, &mut to_leg.statistics, now);
    }
    let named = announced.destinations[index(channel)];
    if !is_latched {
        from_leg.latched[index(channel)] = Some(from);
    }
    // RTCP moves between the ports if the legs differ.
    let leaving = match (kind, from_leg.profile.is_muxed, to_leg.profile.is_muxed) {
        (Kind::Rtcp, true, false) => Channel::Rtcp,
        (Kind::Rtcp, false, true) => Channel::Rtp,
        _ => channel,
    };
    let to = to_leg.destination(leaving).filter(|_| to_leg.has_consent(now));
    let to = to.ok_or(Drop::NoDestination)?;
    if !to_leg.admits() {
        return Err(Drop::Unconfirmed);
    }
    let theirs = to_leg.announced.as_ref().and_then(|announced| announced.bandwidth);
    let bandwidth = announced.bandwidth.max(theirs);
    if !share.admit(length, (&from_leg.traffic, bandwidth), now) {
        return Err(Drop::Bandwidth);
    }
    // The address that the end names takes over from another one of its host.
    let is_sure = from_leg.keys.is_none() && named.is_none_or(|named| named == from);
    let (is_fixed, mut has_more) = (!is_latched && is_sure, false);
    if is_converted
        && let Some(conversion) = from_leg.conversion.as_mut().filter(|_| kind == Kind::Rtp)
    {
        plain_length = conversion.convert(buffer, plain_length, now)?;
        has_more = conversion.is_ready();
    }
    // A conversion has left it out itself.
    let is_left_out =
        from_leg.conversion.as_ref().is_some_and(|conversion| conversion.route().is_some());
    if is_digit && !is_left_out {
        if let (Some(digits), Ok(header)) = (&mut from_leg.digits, Header::parse(buffer)) {
            digits.remove(&header);
        }
        plain_length = 0;
    }
    if is_rtp && plain_length > 0 && !from_leg.passes(to_leg, &mut buffer[..plain_length], now) {
        plain_length = 0;
    }
    if plain_length == 0 {
        return Ok(Relayed { has_more, is_fixed, ..Relayed::on(Way::Across, to, leaving, 0) });
    }
    let length = match (kind, &mut to_leg.keys) {
        (Kind::Rtp, Some(keys)) => keys.sender.protect(buffer, plain_length),
        (Kind::Rtcp, Some(keys)) => keys.sender.protect_rtcp(buffer, plain_length),
        _ => Ok(plain_length),
    };
    let length = length.map_err(Drop::Protect)?;
    Ok(Relayed { has_more, is_fixed, ..Relayed::on(Way::Across, to, leaving, length) })
}
