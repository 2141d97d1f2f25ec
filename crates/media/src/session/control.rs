//! The RTCP of a session: it sends reports when due, and accepts reports from the other end only.

use super::{AudioFlow, FRAME, MAX_PACKET, Received, Session};
use crate::error::SendError;
use crate::negotiation::ExtendedReports;
use crate::rtcp::{Channel, Report, ReportSeed};
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use rtp::quality::LossPattern;
use rtp::rtcp::extended::VoipMetrics;
use rtp::rtcp::{Compound, Packet};

/// The duration without a packet after which a failure is reported.
const SILENCE: Duration = Duration::from_secs(5);

impl Session {
    /// Sends reports from `now` on: see [`Session::poll`]. Without this call no RTCP is sent, but
    /// received RTCP is processed.
    pub fn start_reports(&mut self, now: Duration, seed: ReportSeed) {
        self.note_time(now);
        self.reports.start(now, seed);
    }

    /// Returns the time of the next call to [`Session::poll`].
    #[must_use]
    pub fn next_timer(&self) -> Option<Duration> {
        self.reports.next_timer()
    }

    /// Writes a report to `out` if one is due at `now`. Returns its socket and destination.
    ///
    /// # Errors
    /// [`SendError`] if the report cannot be written or encrypted. The next one is due later.
    pub fn poll(
        &mut self,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Channel, SocketAddr)>, SendError> {
        self.note_time(now);
        if !self.reports.is_due(now, self.last_arrival) {
            return Ok(None);
        }
        let written = self.write_report(now, false, out);
        self.reports.reported(now, out.len());
        written
    }

    /// Writes the report that ends the stream, with a BYE, to `out`. It is called when the call
    /// ends. `None` if a BYE is not allowed, since nothing was sent before. No further report is
    /// due after it.
    ///
    /// # Errors
    /// [`SendError`] if the report cannot be written or encrypted.
    pub fn bye(
        &mut self,
        now: Duration,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Channel, SocketAddr)>, SendError> {
        self.note_time(now);
        if !self.reports.may_leave() {
            return Ok(None);
        }
        self.write_report(now, true, out)
    }

    fn write_report(
        &mut self,
        now: Duration,
        bye: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<(Channel, SocketAddr)>, SendError> {
        out.clear();
        let Some(to) = self.control_destination() else { return Ok(None) };
        let wanted = self.reports.wanted(self.stream.extended_reports);
        let metrics = if wanted.voip_metrics { self.metrics() } else { None };
        let reception = self.reception.as_mut().filter(|reception| reception.is_valid());
        let block = reception.map(|reception| reception.report(now));
        out.resize(MAX_PACKET, 0);
        let ExtendedReports { reference_time, .. } = wanted;
        let ssrc = self.seed.ssrc;
        let report = Report { ssrc, block, metrics, reference_time, bye, buffer: out };
        let written = self.reports.write(now, report).map_err(SendError::Write);
        let written = match (written, &mut self.protection) {
            (Ok(Some(length)), Some(protection)) => {
                protection.sender.protect_rtcp(out, length).map(Some).map_err(SendError::Protect)
            }
            (written, _) => written,
        };
        out.truncate(written.ok().flatten().unwrap_or(0));
        let is_written = written.inspect_err(|_| self.statistics.unsent += 1)?.is_some();
        self.statistics.reports_sent += u64::from(is_written);
        Ok(is_written.then_some(to))
    }

    /// Returns the metrics of the received audio (RFC 3611 section 4.7). `None` until a stream is
    /// valid.
    fn metrics(&self) -> Option<VoipMetrics> {
        let reception = self.reception.as_ref().filter(|reception| reception.is_valid())?;
        let statistics = self.statistics();
        let counts = self.buffer.counts();
        let share = |part: u64| (part * 256 / statistics.expected.max(1)).min(255) as u8;
        let millis = |span: Duration| u16::try_from(span.as_millis()).unwrap_or(u16::MAX);
        let bursts = self.losses.burst_metrics();
        let density = |share: f64| (share * 256.0).clamp(0.0, 255.0) as u8;
        let packet = self.mean_packet_millis();
        let length = |packets: f64| (packets * packet).clamp(0.0, f64::from(u16::MAX)) as u16;
        let mos = (statistics.mos * 10.0 + 0.5).clamp(10.0, 50.0) as u8;
        let mut metrics = VoipMetrics::unknown(reception.ssrc());
        metrics.loss_rate = share(statistics.lost());
        metrics.discard_rate = share(counts.late + counts.discarded);
        metrics.burst_density = density(bursts.burst_density);
        metrics.gap_density = density(bursts.gap_density);
        metrics.burst_duration = length(bursts.burst_length);
        metrics.gap_duration = length(bursts.gap_length);
        metrics.minimum_gap = LossPattern::MINIMUM_GAP as u8;
        metrics.round_trip_delay = statistics.round_trip.map_or(0, millis);
        metrics.end_system_delay = millis(self.buffer.target() + 2 * FRAME);
        metrics.mos_listening = mos;
        metrics.mos_conversation = mos;
        metrics.r_factor = (self.rating() + 0.5) as u8;
        // Standard concealment and an adaptive jitter buffer.
        metrics.receiver_configuration = 0b1111_0000;
        metrics.jitter_buffer_nominal = millis(self.buffer.target());
        metrics.jitter_buffer_maximum = millis(self.longest_delay);
        metrics.jitter_buffer_absolute_maximum =
            millis(rtp::jitter_buffer::Config::new(self.stream.codec.clock_rate()).maximum);
        Some(metrics)
    }

    /// Returns the socket and the destination of reports.
    fn control_destination(&self) -> Option<(Channel, SocketAddr)> {
        // The keys of a handshake are those of its port (RFC 5764 section 4.1).
        if self.awaits_keys()
            || (self.stream.keying.dtls().is_some() && !self.stream.multiplexes_rtcp)
        {
            return None;
        }
        if self.stream.multiplexes_rtcp {
            return Some((Channel::Rtp, self.destination()?));
        }
        let named = self.stream.remote_rtcp?;
        if !self.may_follow() {
            return Some((Channel::Rtcp, named));
        }
        // Behind a NAT the port is another one: that of received RTCP, otherwise the port after
        // RTP's.
        let behind = self.source.filter(|source| source.ip() != named.ip());
        let behind = behind.and_then(|source| Some((source.ip(), source.port().checked_add(1)?)));
        let to = self.control_source.or(behind.map(SocketAddr::from)).unwrap_or(named);
        Some((Channel::Rtcp, to))
    }

    /// Processes a received RTCP datagram.
    pub(super) fn receive_reports(
        &mut self,
        now: Duration,
        channel: Channel,
        from: SocketAddr,
        datagram: &mut [u8],
    ) -> Received {
        let size = datagram.len();
        let is_proven = self.protection.is_some();
        let packet = match &mut self.protection {
            Some(protection) => match protection.receiver.unprotect_rtcp(datagram) {
                Ok(packet) => &*packet,
                Err(_) => {
                    self.statistics.refused += 1;
                    return Received::Nothing;
                }
            },
            None => &*datagram,
        };
        let is_exact = is_proven || self.is_control_address(channel, from);
        let is_near = || {
            let ips = [self.source, self.stream.remote, self.stream.remote_rtcp];
            ips.into_iter().flatten().any(|address| address.ip() == from.ip())
        };
        if !is_exact && !is_near() {
            self.statistics.strangers += 1;
            return Received::Nothing;
        }
        let Ok(compound) = Compound::parse(packet) else { return Received::Nothing };
        if !compound.begins_with_report() {
            return Received::Nothing;
        }
        if channel == Channel::Rtcp && (is_proven || self.control_source.is_none()) {
            self.control_source = Some(from);
        }
        self.reports.heard(now, size);
        self.statistics.reports_received += 1;
        let ours = self.seed.ssrc;
        let mut is_over = false;
        for packet in compound.packets() {
            match packet {
                Packet::SenderReport(report) => {
                    let reception = self.reception.as_mut();
                    if let Some(reception) = reception.filter(|known| known.ssrc() == report.ssrc) {
                        reception.receive_sender_report(report.sender.ntp_time, now);
                    }
                    self.reports.take_blocks(now, ours, report.blocks());
                }
                Packet::ReceiverReport(report) => {
                    self.reports.take_blocks(now, ours, report.blocks());
                }
                Packet::ExtendedReport(report) => self.reports.take_extended(now, ours, &report),
                Packet::Bye(bye) => {
                    let theirs = self.reception.as_ref().map(rtp::ReceptionStats::ssrc);
                    let is_theirs =
                        |ssrc: u32| theirs.map_or(ssrc != ours, |theirs| ssrc == theirs);
                    is_over |= is_exact && bye.sources().any(is_theirs);
                }
                _ => {}
            }
        }
        if is_over { Received::Bye } else { Received::Nothing }
    }

    /// Returns true if reports in clear from `from` have exactly the expected source: the address
    /// that the other end has named, or, if that is private, the source address of its audio, with
    /// the next port on the RTCP socket.
    fn is_control_address(&self, channel: Channel, from: SocketAddr) -> bool {
        let source = self.source.filter(|_| self.may_follow());
        let behind = |address: SocketAddr| {
            let port = address.port().checked_add(1);
            port.is_some_and(|port| from == SocketAddr::new(address.ip(), port))
        };
        match channel {
            Channel::Rtp => self.stream.remote == Some(from) || source == Some(from),
            Channel::Rtcp => self.stream.remote_rtcp == Some(from) || source.is_some_and(behind),
        }
    }

    /// Returns the time since the last packet, up to the latest time passed to the session. Without
    /// a packet it is the time since the start. `None` if the other end is not to send.
    #[must_use]
    pub fn silence(&self) -> Option<Duration> {
        let since = self.last_arrival.max(self.begun)?;
        self.stream.receives.then(|| self.clock.saturating_sub(since))
    }

    /// Returns the state of the audio in both directions, as far as known.
    #[must_use]
    pub fn flow(&self) -> AudioFlow {
        let arrives = self.silence().is_none_or(|silence| silence < SILENCE);
        let gets_through = !self.stream.sends || !self.reports.is_unheard();
        match (arrives, gets_through) {
            (true, true) => AudioFlow::Flowing,
            (false, true) => AudioFlow::NothingArrives,
            (true, false) => AudioFlow::NothingGetsThrough,
            (false, false) => AudioFlow::Nothing,
        }
    }

    /// Returns true if packets may go to the source address of the other end's packets instead of
    /// the named address: if SRTP authenticates them, or if the named address is private.
    #[must_use]
    pub fn may_follow(&self) -> bool {
        let is_hidden = |named: SocketAddr| is_private(named.ip());
        self.protection.is_some() || self.stream.remote.is_some_and(is_hidden)
    }

    /// Advances the clock. The first call sets the start of the session.
    pub(super) fn note_time(&mut self, now: Duration) {
        self.clock = self.clock.max(now);
        self.begun.get_or_insert(now);
    }
}

/// Returns true if `ip` is valid only in its own network (RFC 1918, RFC 3927, RFC 4193, RFC 6598).
fn is_private(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            ip.is_private() || ip.is_link_local() || (first == 100 && second & 0xc0 == 64)
        }
        IpAddr::V6(ip) => ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests;
