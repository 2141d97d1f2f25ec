//! The reports of both ends of a stream (RFC 3550 section 6, RFC 3611).

use crate::negotiation::ExtendedReports;
use core::time::Duration;
use rtp::ntp::{NtpTime, round_trip, to_ntp_short};
use rtp::rtcp::extended::{Block, ExtendedReport, LastReceiverReport, VoipMetrics};
use rtp::rtcp::{ReportBlock, ReportSchedule, SdesItem, Writer};
use rtp::{SenderStats, WriteError};

/// The bandwidth of a G.711 stream with its headers, in bits per second.
const BANDWIDTH: f64 = 80_000.0;
/// The length of the UDP and IP headers in bytes.
const LOWER_HEADERS: usize = 28;
/// The assumed size of the first report in bytes.
const FIRST_SIZE: usize = 100;
/// The duration for which an end counts as a sender after its last packet: two intervals (RFC 3550
/// section 6.4).
const SENDER_FOR: Duration = Duration::from_secs(10);
/// The number of stored report times. A response to any other time is ignored.
const REMEMBERED: usize = 8;
/// The number of packets sent since the other end's previous report that is enough to conclude from
/// the next report that no packet arrives.
const ENOUGH: u32 = 50;
/// The number of conclusive reports in a row that is required.
const STALLED: u32 = 2;

/// The socket on which a packet is sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// The socket of RTP, and also of RTCP if they share the port.
    Rtp,
    /// The socket of RTCP only.
    Rtcp,
}

/// The start values of the reports of a session.
#[derive(Clone, Copy, Debug)]
pub struct ReportSeed {
    /// Random bytes. The first sixteen make the canonical name (RFC 7022), which identifies no
    /// person or host.
    pub random: [u8; 24],
    /// The Unix time at the zero of the session's clock. Zero if unknown.
    pub time_of_day: Duration,
    /// True if extended reports are sent without a request of the other end.
    pub extended: bool,
}

/// The last report of the other end about the local stream.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Far {
    pub(crate) round_trip: Option<Duration>,
    /// The fraction of packets lost since its previous report, 0 to 1.
    pub(crate) loss: Option<f64>,
    /// In timestamp units.
    pub(crate) jitter: Option<u32>,
    pub(crate) mos: Option<f64>,
    /// The highest sequence number it has received.
    highest: Option<u32>,
    /// The number of packets sent at the time of its last report.
    sent: u32,
    /// The number of reports in a row without a newly received packet.
    stalled: u32,
}

/// The state of the local reports and of those of the other end. Times are on the session's clock.
pub(crate) struct Reports {
    seed: Option<ReportSeed>,
    schedule: Option<ReportSchedule>,
    transmission: SenderStats,
    clock_rate: u32,
    sent_packets: u32,
    last_sent: Option<Duration>,
    numbers: u64,
    /// The middle 32 bits of the times in the last local reports.
    times: [u32; REMEMBERED],
    written: u64,
    is_over: bool,
    /// The time of the other end's last report.
    last_heard: Option<Duration>,
    /// A receiver reference time of the other end, and its arrival time.
    reference: Option<(u32, u32, Duration)>,
    pub(crate) far: Far,
}

/// The content of a report in addition to the state of [`Reports`].
pub(crate) struct Report<'r> {
    pub(crate) ssrc: u32,
    pub(crate) block: Option<ReportBlock>,
    pub(crate) metrics: Option<VoipMetrics>,
    pub(crate) reference_time: bool,
    /// True if the report ends the stream.
    pub(crate) bye: bool,
    pub(crate) buffer: &'r mut [u8],
}

impl Reports {
    pub(crate) fn new(clock_rate: u32) -> Self {
        Self {
            seed: None,
            schedule: None,
            transmission: SenderStats::new(clock_rate),
            clock_rate,
            sent_packets: 0,
            last_sent: None,
            numbers: 0,
            times: [0; REMEMBERED],
            written: 0,
            is_over: false,
            last_heard: None,
            reference: None,
            far: Far::default(),
        }
    }

    pub(crate) fn start(&mut self, now: Duration, seed: ReportSeed) {
        let mut numbers = [0; 8];
        numbers.copy_from_slice(&seed.random[16..]);
        // A xorshift generator with a zero state would return only zeros.
        self.numbers = u64::from_le_bytes(numbers) | 1;
        let random = self.random();
        self.schedule = Some(ReportSchedule::with_reduced_minimum(
            now,
            BANDWIDTH,
            FIRST_SIZE + LOWER_HEADERS,
            random,
        ));
        self.seed = Some(seed);
    }

    /// Sets the clock rate of the sent stream.
    pub(crate) fn set_clock_rate(&mut self, clock_rate: u32) {
        if clock_rate != self.clock_rate {
            self.clock_rate = clock_rate;
            self.transmission = SenderStats::new(clock_rate);
        }
    }

    /// Returns a number from 0 to 1, by xorshift. It spreads the reports in time, and need not be
    /// unpredictable.
    fn random(&mut self) -> f64 {
        self.numbers ^= self.numbers << 13;
        self.numbers ^= self.numbers >> 7;
        self.numbers ^= self.numbers << 17;
        (self.numbers >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn time_of_day(&self, now: Duration) -> Duration {
        self.seed.map_or(Duration::ZERO, |seed| seed.time_of_day) + now
    }

    pub(crate) fn is_extended(&self) -> bool {
        self.seed.is_some_and(|seed| seed.extended)
    }

    pub(crate) fn next_timer(&self) -> Option<Duration> {
        self.schedule.as_ref().filter(|_| !self.is_over).map(ReportSchedule::next)
    }

    /// Returns true if a report is due. `heard` is the time of the other end's last packet.
    pub(crate) fn is_due(&mut self, now: Duration, heard: Option<Duration>) -> bool {
        if self.next_timer().is_none_or(|next| now < next) {
            return false;
        }
        let random = self.random();
        let is_sender =
            |last: Option<Duration>| last.is_some_and(|last| now.saturating_sub(last) < SENDER_FOR);
        let (we_sent, they_sent) = (is_sender(self.last_sent), is_sender(heard));
        let members = 1 + u32::from(heard.is_some() || self.last_heard.is_some());
        let senders = u32::from(we_sent) + u32::from(they_sent);
        let Some(schedule) = &mut self.schedule else { return false };
        schedule.set_members(now, members, senders, we_sent);
        schedule.is_due(now, random)
    }

    /// Records an RTP packet that was sent.
    pub(crate) fn sent(&mut self, timestamp: u32, payload: usize, now: Duration) {
        let time = self.time_of_day(now);
        self.transmission.sent(timestamp, payload, time);
        self.sent_packets = self.sent_packets.wrapping_add(1);
        self.last_sent = Some(now);
    }

    /// Records that a report of this size was sent, or could not be sent.
    pub(crate) fn reported(&mut self, now: Duration, size: usize) {
        let random = self.random();
        if let Some(schedule) = &mut self.schedule {
            schedule.sent(now, size + LOWER_HEADERS, random);
        }
    }

    /// Returns true if a BYE is allowed: the local end has sent RTP or RTCP (RFC 3550 section
    /// 6.3.7).
    pub(crate) const fn may_leave(&self) -> bool {
        self.seed.is_some() && !self.is_over && (self.sent_packets > 0 || self.written > 0)
    }

    /// Writes a compound packet and returns its length. `None` before the start of the reports.
    pub(crate) fn write(
        &mut self,
        now: Duration,
        report: Report<'_>,
    ) -> Result<Option<usize>, WriteError> {
        let Some(seed) = self.seed else { return Ok(None) };
        let Report { ssrc, block, metrics, reference_time, bye, buffer } = report;
        let time = NtpTime::from_unix(self.time_of_day(now));
        let mut writer = Writer::new(buffer);
        let is_sender = self.last_sent.is_some_and(|last| now.saturating_sub(last) < SENDER_FOR);
        let sender = self.transmission.report(self.time_of_day(now)).filter(|_| is_sender);
        match sender {
            Some(sender) => writer.sender_report(ssrc, &sender, block.as_slice()),
            None => writer.receiver_report(ssrc, block.as_slice()),
        }?;
        let name: [u8; 16] = core::array::from_fn(|place| letter(seed.random[place]));
        writer.description(ssrc, &[SdesItem { kind: SdesItem::CNAME, text: &name }])?;
        let answer = self.reference.map(|(ssrc, last, came)| LastReceiverReport {
            ssrc,
            last,
            delay: to_ntp_short(now.saturating_sub(came)),
        });
        if reference_time || metrics.is_some() || answer.is_some() {
            writer.extended_report(ssrc, |blocks| {
                if reference_time {
                    blocks.receiver_reference_time(time)?;
                }
                if let Some(answer) = answer {
                    blocks.delay_since_last_receiver_report(&[answer])?;
                }
                metrics.map_or(Ok(()), |metrics| blocks.voip_metrics(&metrics))
            })?;
        }
        if bye {
            writer.bye(&[ssrc], None)?;
            self.is_over = true;
        }
        self.times[(self.written % REMEMBERED as u64) as usize] = time.compact();
        self.written += 1;
        Ok(Some(writer.len()))
    }

    /// Records a received compound packet of this size.
    pub(crate) fn heard(&mut self, now: Duration, size: usize) {
        self.last_heard = Some(now);
        if let Some(schedule) = &mut self.schedule {
            schedule.received(size + LOWER_HEADERS);
        }
    }

    /// Processes a report of the other end: the block about the local stream, if present.
    pub(crate) fn take_blocks(
        &mut self,
        now: Duration,
        ssrc: u32,
        mut blocks: impl Iterator<Item = ReportBlock>,
    ) {
        let block = blocks.find(|block| block.ssrc == ssrc);
        let highest = block.map(|block| block.highest_sequence_number);
        if self.sent_packets.wrapping_sub(self.far.sent) >= ENOUGH {
            let has_arrived = highest.is_some() && highest != self.far.highest;
            self.far.stalled = if has_arrived { 0 } else { self.far.stalled.saturating_add(1) };
        }
        self.far.sent = self.sent_packets;
        let Some(block) = block else { return };
        self.far.highest = highest;
        self.far.loss = Some(f64::from(block.fraction_lost) / 256.0);
        self.far.jitter = Some(block.jitter);
        let (last, delay) = (block.last_sender_report, block.delay_since_last_sender_report);
        self.take_round_trip(now, last, delay);
    }

    /// Computes the round-trip time from a report. A time that is in no local report is ignored.
    fn take_round_trip(&mut self, now: Duration, last: u32, delay: u32) {
        let arrival = NtpTime::from_unix(self.time_of_day(now));
        if last != 0 && self.times.contains(&last) {
            self.far.round_trip = round_trip(arrival, last, delay).or(self.far.round_trip);
        }
    }

    /// Processes an extended report.
    pub(crate) fn take_extended(&mut self, now: Duration, ssrc: u32, report: &ExtendedReport<'_>) {
        for block in report.blocks() {
            match block {
                Block::ReceiverReferenceTime(time) => {
                    self.reference = Some((report.ssrc, time.compact(), now));
                }
                Block::DelaySinceLastReceiverReport(receivers) => {
                    if let Some(ours) = receivers.iter().find(|receiver| receiver.ssrc == ssrc) {
                        self.take_round_trip(now, ours.last, ours.delay);
                    }
                }
                Block::VoipMetrics(metrics) if metrics.ssrc == ssrc => {
                    // From 1.0 to 5.0 in tenths. 127 is unknown (RFC 3611 section 4.7.5).
                    let score = match metrics.mos_conversation {
                        10..=50 => Some(metrics.mos_conversation),
                        _ => Some(metrics.mos_listening).filter(|score| (10..=50).contains(score)),
                    };
                    self.far.mos = score.map(|score| f64::from(score) / 10.0).or(self.far.mos);
                }
                _ => {}
            }
        }
    }

    /// Returns true if several reports of the other end say that no local packet arrives.
    pub(crate) const fn is_unheard(&self) -> bool {
        self.far.stalled >= STALLED
    }

    /// Returns the extended reports to send if the other end requests these.
    pub(crate) fn wanted(&self, theirs: ExtendedReports) -> ExtendedReports {
        if self.is_extended() { ExtendedReports::ALL } else { theirs }
    }
}

/// Returns a base64 character for a random byte.
fn letter(byte: u8) -> u8 {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    LETTERS[usize::from(byte & 63)]
}
