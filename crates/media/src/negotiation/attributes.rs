//! The attributes of a description other than codecs and keys: the addresses of RTP and RTCP,
//! telephone events and comfort noise, requested reports, packet durations.

use codec::Codec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use sdp::MediaDescription;

/// The payload type of comfort noise and its clock rate (RFC 3389). It goes with codecs of that
/// rate.
pub(super) const NOISE: (u8, u32) = (13, 8000);
/// The default packet duration.
const PACKET_TIME: Duration = Duration::from_millis(20);

/// The extended reports that an end requests (RFC 3611 section 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtendedReports {
    /// VoIP metrics of the call at the receiver.
    pub voip_metrics: bool,
    /// Receiver reference times, from which an end that only receives computes the round-trip time.
    pub reference_time: bool,
}

impl ExtendedReports {
    /// All supported reports.
    pub const ALL: Self = Self { voip_metrics: true, reference_time: true };
    /// The attribute of a local description.
    pub(super) const LINE: &str = "a=rtcp-xr:rcvr-rtt=all voip-metrics\r\n";

    /// Returns the reports that a description requests.
    pub(super) fn of(session: &sdp::SessionDescription<'_>, media: &MediaDescription<'_>) -> Self {
        let mut wanted = Self::default();
        let words = media.attributes("rtcp-xr").chain(session.attributes("rtcp-xr"));
        for word in words.flat_map(str::split_ascii_whitespace) {
            let name = word.split('=').next().unwrap_or_default();
            wanted.voip_metrics |= name.eq_ignore_ascii_case("voip-metrics");
            wanted.reference_time |= name.eq_ignore_ascii_case("rcvr-rtt");
        }
        wanted
    }

    /// Returns true if any report is requested.
    pub(super) const fn is_any(self) -> bool {
        self.voip_metrics || self.reference_time
    }
}

/// Returns the address of the other end for RTCP on a port of its own: the one named (RFC 3605),
/// otherwise the port after RTP's.
pub(super) fn remote_rtcp(
    remote: Option<SocketAddr>,
    media: &MediaDescription<'_>,
) -> Option<SocketAddr> {
    let remote = remote?;
    let behind = || Some(SocketAddr::new(remote.ip(), remote.port().checked_add(1)?));
    let Some((port, address)) = media.rtcp() else { return behind() };
    match address.map(str::parse::<IpAddr>) {
        None => Some(SocketAddr::new(remote.ip(), port)),
        Some(Ok(ip)) => somebody(ip, port),
        Some(Err(_)) => behind(),
    }
}

/// Returns the packet duration that the other end requests, in steps of 10 ms: 20 ms unless it
/// names 10 to 60 ms, and no more than its maximum.
pub(super) fn packet_time(media: &MediaDescription<'_>) -> Duration {
    let step = |time: Duration| time.as_millis() as u64 / 10 * 10;
    let wanted = media.packet_time().map(step).filter(|millis| (10..=60).contains(millis));
    let most = media.maximum_packet_time().map_or(60, |most| step(most).max(10));
    Duration::from_millis(wanted.unwrap_or(PACKET_TIME.as_millis() as u64).min(most))
}

/// Returns the payload type and the clock rate of the telephone events for `codec`: those with its
/// clock rate, otherwise those with 8000 Hz, the only ones that many phones know.
pub(super) fn events_of(media: &MediaDescription<'_>, codec: Codec) -> Option<(u8, u32)> {
    let at = |rate: u32| {
        let mut maps = media.rtpmaps().filter(|map| map.clock_rate == rate);
        let map = maps.find(|map| map.name.eq_ignore_ascii_case("telephone-event"))?;
        Some((map.payload_type, rate))
    };
    at(codec.clock_rate()).or_else(|| at(8000))
}

/// Returns the payload type of comfort noise for `codec`, if it is among the formats.
pub(super) fn noise_of(media: &MediaDescription<'_>, codec: Codec) -> Option<u8> {
    let (number, rate) = NOISE;
    let is_named = media.formats().any(|format| format.parse() == Ok(number));
    (is_named && codec.clock_rate() == rate).then_some(number)
}

/// Returns the address of the other end for RTP. `None` for an address that cannot receive, such as
/// the unspecified address by which old phones hold (RFC 3264 section 8.4).
pub(super) fn remote_of(
    session: &sdp::SessionDescription<'_>,
    media: &MediaDescription<'_>,
) -> Option<SocketAddr> {
    somebody(session.address(media)?.parse().ok()?, media.port)
}

/// Returns the address if a packet can be sent to it.
fn somebody(ip: IpAddr, port: u16) -> Option<SocketAddr> {
    let ip = ip.to_canonical();
    let is_broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    let is_somebody = !ip.is_unspecified() && !ip.is_multicast() && !is_broadcast && port != 0;
    is_somebody.then_some(SocketAddr::new(ip, port))
}
