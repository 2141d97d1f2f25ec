//! Reception statistics of a source (RFC 3550 sections 6.4, A.1, A.3 and A.8), and the spacing of
//! its packets as Wireshark shows it.

use crate::ntp::{NtpTime, to_ntp_short};
use crate::packet::Header;
use crate::rtcp::ReportBlock;
use core::time::Duration;

/// A sequence number this far ahead means that the source has restarted.
const MAX_DROPOUT: u16 = 3000;

/// The distance behind the highest sequence number up to which a packet counts as late.
const MAX_MISORDER: u16 = 100;

/// The number of consecutive packets that makes a source valid.
const MIN_SEQUENTIAL: u32 = 2;

/// The classification of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// One of the first packets of a source that is not valid yet.
    Probation,
    /// The next packet in sequence, possibly after lost ones; its extended sequence number.
    InOrder(u64),
    /// A late or duplicate packet; its extended sequence number.
    Late(u64),
    /// A packet far from the sequence. It is dropped, unless the next one follows it.
    Jump,
    /// The second of two packets far from the sequence: the source has restarted, with this
    /// extended sequence number.
    Restarted(u64),
}

/// The reception of one source.
///
/// Times are durations since an epoch that the caller chooses and keeps.
#[derive(Clone, Debug)]
pub struct ReceptionStats {
    ssrc: u32,
    clock_rate: u32,
    /// The number of consecutive packets that are missing before the source is valid.
    probation: u32,
    base: u64,
    /// The highest sequence number, extended by its cycles.
    highest: u64,
    /// The sequence number after that of a packet far from the sequence.
    after_jump: Option<u16>,
    received: u64,
    /// The expected and received packets at the time of the last report.
    prior: (u64, u64),
    /// The payload types of telephone events, one bit each.
    events: u128,
    spacing: ArrivalStats,
    /// The middle bits of the last sender report, and its arrival time.
    sender_report: Option<(u32, Duration)>,
}

impl ReceptionStats {
    /// Creates the statistics of a source at its first packet, which is then passed to
    /// [`ReceptionStats::receive`]. `clock_rate` is that of the payload, in Hz.
    #[must_use]
    pub fn new(header: &Header<'_>, clock_rate: u32) -> Self {
        Self {
            ssrc: header.ssrc(),
            clock_rate,
            probation: MIN_SEQUENTIAL,
            base: 0,
            highest: u64::from(header.sequence_number().wrapping_sub(1)),
            after_jump: None,
            received: 0,
            prior: (0, 0),
            events: 0,
            spacing: ArrivalStats::default(),
            sender_report: None,
        }
    }

    /// Declares a payload type, 0 to 127, as telephone events (RFC 4733). Their packets count as
    /// received or lost, but not for the jitter: their timestamp is the time of the key press, not
    /// of the packet.
    #[must_use]
    pub fn with_events(mut self, payload_type: u8) -> Self {
        self.events |= 1 << (payload_type & 0x7f);
        self
    }

    /// The SSRC of the source.
    #[must_use]
    pub const fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Ends the current run of packets, as a hold does: the time between the packets before and
    /// after it is no delta.
    pub const fn pause(&mut self) {
        (self.spacing.last, self.spacing.sampled) = (None, None);
    }

    /// The source goes on with a codec of another clock rate.
    pub const fn set_clock_rate(&mut self, clock_rate: u32) {
        self.clock_rate = clock_rate;
        self.pause();
    }

    /// Counts a packet received at `now`.
    pub fn receive(&mut self, header: &Header<'_>, now: Duration) -> Arrival {
        let arrival = self.place(header.sequence_number());
        if matches!(arrival, Arrival::InOrder(_) | Arrival::Late(_) | Arrival::Restarted(_)) {
            self.received += 1;
            let restarted = matches!(arrival, Arrival::Restarted(_));
            let is_event = self.events >> header.payload_type() & 1 == 1;
            let timestamp = (!is_event).then(|| header.timestamp());
            self.spacing.receive(timestamp, now, self.clock_rate, restarted);
        }
        arrival
    }

    fn place(&mut self, sequence_number: u16) -> Arrival {
        let ahead = sequence_number.wrapping_sub(self.highest as u16);
        if self.probation > 0 {
            if ahead == 1 {
                self.probation -= 1;
            } else {
                self.probation = MIN_SEQUENTIAL - 1;
            }
            self.highest = u64::from(sequence_number);
            if self.probation > 0 {
                return Arrival::Probation;
            }
            self.begin(sequence_number);
            return Arrival::InOrder(self.highest);
        }
        if ahead == 0 || ahead > u16::MAX - MAX_MISORDER {
            let behind = u64::from(ahead.wrapping_neg());
            // A packet before the first one counts as if the sequence had begun with it.
            let index = self.highest.saturating_sub(behind);
            self.after_jump = None;
            return Arrival::Late(index);
        }
        if ahead < MAX_DROPOUT {
            self.highest += u64::from(ahead);
            self.after_jump = None;
            return Arrival::InOrder(self.highest);
        }
        if self.after_jump == Some(sequence_number) {
            self.begin(sequence_number);
            return Arrival::Restarted(self.highest);
        }
        self.after_jump = Some(sequence_number.wrapping_add(1));
        Arrival::Jump
    }

    fn begin(&mut self, sequence_number: u16) {
        // The sequence begins in cycle 1, so that packets overtaken by the first one have a number.
        self.base = 1 << 16 | u64::from(sequence_number);
        self.highest = self.base;
        self.after_jump = None;
        self.received = 0;
        self.prior = (0, 0);
    }

    /// Returns true if enough consecutive packets have been received.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.probation == 0
    }

    /// The number of packets sent since the source became valid, by sequence number.
    #[must_use]
    pub fn expected(&self) -> u64 {
        if self.is_valid() { self.highest - self.base + 1 } else { 0 }
    }

    /// The number of received packets, including late and duplicate ones.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received
    }

    /// The number of lost packets. Negative if more packets were duplicated than lost.
    #[must_use]
    pub fn lost(&self) -> i64 {
        self.expected().cast_signed() - self.received.cast_signed()
    }

    /// The spacing of the packets.
    #[must_use]
    pub fn spacing(&self) -> &ArrivalStats {
        &self.spacing
    }

    /// Records a sender report of the source that arrived at `now`.
    pub fn receive_sender_report(&mut self, time: NtpTime, now: Duration) {
        self.sender_report = Some((time.compact(), now));
    }

    /// Returns the report block at `now`. The fraction lost is that since the previous call.
    pub fn report(&mut self, now: Duration) -> ReportBlock {
        let (expected, received) = (self.expected(), self.received);
        let (prior_expected, prior_received) =
            core::mem::replace(&mut self.prior, (expected, received));
        let interval = expected - prior_expected;
        let lost = interval.saturating_sub(received - prior_received);
        // Less than 256, because the last expected packet has arrived.
        let fraction = (lost << 8).checked_div(interval).unwrap_or(0).min(255);
        let (last, since) = self.sender_report.unwrap_or_default();
        ReportBlock {
            ssrc: self.ssrc,
            fraction_lost: fraction as u8,
            lost: self.lost().clamp(i32::MIN.into(), i32::MAX.into()) as i32,
            // Removes the cycle that `begin` has added.
            highest_sequence_number: (self.highest as u32).wrapping_sub(if self.is_valid() {
                1 << 16
            } else {
                0
            }),
            jitter: self.spacing.jitter_units() as u32,
            last_sender_report: last,
            delay_since_last_sender_report: match self.sender_report {
                Some(_) => to_ntp_short(now.saturating_sub(since)),
                None => 0,
            },
        }
    }
}

/// The spacing of packets: the delta between two packets, and the interarrival jitter.
///
/// A packet with the same timestamp as the one before it does not count for the jitter. A telephone
/// event is repeated with the timestamp of its beginning (RFC 4733 section 2.2.1), and a picture is
/// sent in many packets with one timestamp. Only the first packet was sent at the time of the
/// timestamp.
#[derive(Clone, Debug, Default)]
pub struct ArrivalStats {
    /// The arrival time of the last packet.
    last: Option<Duration>,
    /// The last timestamp, and the time of its first arrival.
    sampled: Option<(u32, Duration)>,
    /// The jitter in units of the payload's clock.
    jitter: f64,
    seconds_per_unit: f64,
    max_jitter: f64,
    sum_of_jitter: f64,
    samples: u64,
    deltas: u64,
    max_delta: Duration,
    sum_of_deltas: Duration,
}

impl ArrivalStats {
    /// Adds a packet. One without a timestamp does not count for the jitter.
    fn receive(&mut self, timestamp: Option<u32>, now: Duration, clock_rate: u32, restarted: bool) {
        if restarted {
            (self.last, self.sampled) = (None, None);
        }
        if let Some(last) = self.last.replace(now) {
            let delta = now.saturating_sub(last);
            self.deltas += 1;
            self.max_delta = self.max_delta.max(delta);
            self.sum_of_deltas += delta;
        }
        let Some(timestamp) = timestamp else { return };
        if let Some((last, _)) = self.sampled
            && last == timestamp
        {
            return;
        }
        let Some((last, then)) = self.sampled.replace((timestamp, now)) else { return };
        self.seconds_per_unit = 1.0 / f64::from(clock_rate.max(1));
        let sent = f64::from(timestamp.wrapping_sub(last).cast_signed());
        let difference = now.saturating_sub(then).as_secs_f64() * f64::from(clock_rate) - sent;
        let difference = if difference < 0.0 { -difference } else { difference };
        self.jitter += (difference - self.jitter) / 16.0;
        self.max_jitter = self.max_jitter.max(self.jitter);
        self.sum_of_jitter += self.jitter;
        self.samples += 1;
    }

    fn jitter_units(&self) -> f64 {
        self.jitter
    }

    fn span(&self, units: f64) -> Duration {
        Duration::try_from_secs_f64(units * self.seconds_per_unit).unwrap_or(Duration::MAX)
    }

    /// The current interarrival jitter (RFC 3550 section 6.4.1).
    #[must_use]
    pub fn jitter(&self) -> Duration {
        self.span(self.jitter)
    }

    /// The maximum jitter.
    #[must_use]
    pub fn max_jitter(&self) -> Duration {
        self.span(self.max_jitter)
    }

    /// The mean jitter over all packets that count for it.
    #[must_use]
    pub fn mean_jitter(&self) -> Duration {
        self.span(if self.samples == 0 { 0.0 } else { self.sum_of_jitter / self.samples as f64 })
    }

    /// The longest time between two consecutive packets.
    #[must_use]
    pub fn max_delta(&self) -> Duration {
        self.max_delta
    }

    /// The mean time between two consecutive packets.
    #[must_use]
    pub fn mean_delta(&self) -> Duration {
        let nanos = self.sum_of_deltas.as_nanos().checked_div(u128::from(self.deltas));
        Duration::from_nanos(nanos.unwrap_or(0) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::HeaderFields;
    use std::vec::Vec;

    /// Receives packets of 20 ms and returns the classification of each.
    fn feed(reception: &mut Option<ReceptionStats>, numbers: &[u16]) -> Vec<Arrival> {
        let mut arrivals = Vec::new();
        for &sequence_number in numbers {
            let timestamp = u32::from(sequence_number).wrapping_mul(160);
            let bytes =
                HeaderFields { sequence_number, timestamp, ssrc: 7, ..HeaderFields::default() }
                    .to_bytes();
            let header = Header::parse(&bytes).unwrap();
            let reception = reception.get_or_insert_with(|| ReceptionStats::new(&header, 8000));
            let now = Duration::from_millis(20) * u32::from(sequence_number);
            arrivals.push(reception.receive(&header, now));
        }
        arrivals
    }

    #[test]
    fn two_consecutive_packets_validate_a_source() {
        let mut reception = None;
        let arrivals = feed(&mut reception, &[5, 9, 10, 12]);
        let numbers = [0x1_000a, 0x1_000c].map(Arrival::InOrder);
        assert_eq!(arrivals[..2], [Arrival::Probation; 2]);
        assert_eq!(arrivals[2..], numbers);
        let reception = reception.unwrap();
        assert_eq!((reception.expected(), reception.received(), reception.lost()), (3, 2, 1));
    }

    #[test]
    fn a_restarted_source_is_followed() {
        let mut reception = None;
        feed(&mut reception, &[1, 2, 3]);
        assert_eq!(feed(&mut reception, &[30_000]), [Arrival::Jump]);
        assert_eq!(feed(&mut reception, &[4]), [Arrival::InOrder(0x1_0004)]);
        assert_eq!(feed(&mut reception, &[30_000]), [Arrival::Jump]);
        assert_eq!(feed(&mut reception, &[30_001]), [Arrival::Restarted(0x1_0000 + 30_001)]);
        assert_eq!(reception.unwrap().expected(), 1);
    }

    #[test]
    fn reports_contain_the_loss() {
        let mut reception = None;
        feed(&mut reception, &[65_533, 65_534, 65_535]);
        feed(&mut reception, &[0, 2, 4, 4, 3]);
        let mut reception = reception.unwrap();
        let report = reception.report(Duration::ZERO);
        // Seven were expected (65,534 to 4) and seven arrived, one of them twice.
        assert_eq!((report.lost, report.fraction_lost), (0, 0));
        assert_eq!(report.highest_sequence_number, 0x1_0004);
        assert_eq!(report.delay_since_last_sender_report, 0);
        let mut reception = Some(reception);
        feed(&mut reception, &[5, 9]);
        let mut reception = reception.unwrap();
        reception.receive_sender_report(NtpTime(0x1122_3344_5566_7788), Duration::from_secs(1));
        let report = reception.report(Duration::from_millis(1500));
        assert_eq!((report.lost, report.fraction_lost), (3, (3 * 256 / 5) as u8));
        assert_eq!(report.last_sender_report, 0x3344_5566);
        assert_eq!(report.delay_since_last_sender_report, 0x8000);
        let report = reception.report(Duration::from_secs(2));
        assert_eq!((report.lost, report.fraction_lost), (3, 0));
    }

    #[test]
    fn late_packets_before_the_first_count() {
        let mut reception = None;
        feed(&mut reception, &[0, 1]);
        assert_eq!(feed(&mut reception, &[0xffff]), [Arrival::Late(0xffff)]);
    }

    #[test]
    fn spacing_matches_rfc_3550() {
        let mut spacing = ArrivalStats::default();
        let mut jitter = 0.0;
        for (count, millis) in [0, 25, 38, 63, 80, 161].into_iter().enumerate() {
            let timestamp = Some(160 * count as u32);
            spacing.receive(timestamp, Duration::from_millis(millis), 8000, false);
        }
        for difference in [5.0, 7.0, 5.0, 3.0, 61.0] {
            jitter += (difference - jitter) / 16.0;
        }
        assert!((spacing.jitter().as_secs_f64() * 1e3 - jitter).abs() < 1e-6);
        assert_eq!(spacing.max_jitter(), spacing.jitter());
        assert!(spacing.mean_jitter() < spacing.jitter());
        assert_eq!(spacing.max_delta(), Duration::from_millis(81));
        assert_eq!(spacing.mean_delta(), Duration::from_micros(32_200));
    }

    /// A key press after two packets of speech: eight event packets, 20 ms apart, then speech.
    fn with_a_key(
        reception: impl FnOnce(ReceptionStats) -> ReceptionStats,
        start: u32,
    ) -> ReceptionStats {
        let packet = |payload_type, sequence_number: u16, timestamp| HeaderFields {
            payload_type,
            sequence_number,
            timestamp,
            ssrc: 7,
            ..HeaderFields::default()
        };
        let speech = |number: u16| packet(0, number, 160 * u32::from(number));
        let key = (2..10).map(|number| packet(101, number, start));
        let packets = [speech(0), speech(1)].into_iter().chain(key).chain((10..20).map(speech));
        let first = speech(0).to_bytes();
        let mut reception = reception(ReceptionStats::new(&Header::parse(&first).unwrap(), 8000));
        for packet in packets {
            let now = Duration::from_millis(20) * u32::from(packet.sequence_number);
            reception.receive(&Header::parse(&packet.to_bytes()).unwrap(), now);
        }
        reception
    }

    #[test]
    fn events_are_received_and_have_no_jitter() {
        let reception = with_a_key(|reception| reception, 320);
        assert_eq!((reception.received(), reception.lost()), (19, 0));
        assert_eq!(reception.spacing().max_jitter(), Duration::ZERO);
        assert_eq!(reception.spacing().max_delta(), Duration::from_millis(20));
        // The timestamp of a key is not aligned with that of speech.
        let unknown = with_a_key(|reception| reception, 400);
        assert!(unknown.spacing().max_jitter() > Duration::ZERO);
        let mut known = with_a_key(|reception| reception.with_events(101), 400);
        assert_eq!((known.received(), known.lost()), (19, 0));
        assert_eq!(known.spacing().max_jitter(), Duration::ZERO);
        assert_eq!(known.report(Duration::from_secs(1)).jitter, 0);
    }

    #[test]
    fn packets_of_one_picture_have_the_jitter_of_its_first() {
        let mut spacing = ArrivalStats::default();
        for picture in 0..10 {
            for packet in 0..5 {
                let now = Duration::from_millis(40 * picture + packet);
                spacing.receive(Some(3600 * picture as u32), now, 90_000, false);
            }
        }
        assert_eq!(spacing.max_jitter(), Duration::ZERO);
        assert_eq!(spacing.max_delta(), Duration::from_millis(36));
    }
}
