//! What one end of a stream reports, and what the other end has reported (RFC 3550 section 6, RFC
//! 3611).

use crate::negotiation::ExtendedReports;
use core::time::Duration;
use rtp::Transmission;
use rtp::ntp::{NtpTime, round_trip, short_span};
use rtp::rtcp::extended::{Block, ExtendedReport, LastReceiverReport, VoipMetrics};
use rtp::rtcp::{Item, ReportBlock, Schedule, Writer};

/// The bandwidth of a stream with its headers, in bits a second: that of G.711.
const BANDWIDTH: f64 = 80_000.0;
/// The headers of UDP and IP.
const LOWER_HEADERS: usize = 28;
/// The size of the first report, before one was sent.
const FIRST_SIZE: usize = 100;
/// For how long an end that has sent is a sender: two intervals (RFC 3550 section 6.4).
const SENDER_FOR: Duration = Duration::from_secs(10);
/// How many of our reports may be answered: what names another time is not believed.
const REMEMBERED: usize = 8;
/// How many packets between two reports of the other end are enough to say that none has arrived.
const ENOUGH: u32 = 50;
/// How many such reports in a row are believed.
const STALLED: u32 = 2;

/// The socket of a stream that a packet leaves or comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// That of RTP, and of RTCP too where it shares the port.
    Rtp,
    /// That of RTCP alone.
    Rtcp,
}

/// What the reports of a session begin with.
#[derive(Clone, Copy, Debug)]
pub struct ReportSeed {
    /// Random bytes: the first sixteen become the canonical name (RFC 7022), which says nothing of
    /// anybody.
    pub random: [u8; 24],
    /// The time since the Unix epoch at the time zero of the session's clock. Without a clock that
    /// knows it, zero.
    pub time_of_day: Duration,
    /// Whether extended reports are sent, whatever the other end says of them.
    pub extended: bool,
}

/// What the other end has reported of us.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Far {
    pub(crate) round_trip: Option<Duration>,
    /// The share lost since its last report, 0 to 1.
    pub(crate) loss: Option<f64>,
    /// In units of the clock.
    pub(crate) jitter: Option<u32>,
    pub(crate) mos: Option<f64>,
    /// The highest sequence number that it has received.
    highest: Option<u32>,
    /// How many packets had been sent when it last reported.
    sent: u32,
    /// How many reports in a row say that nothing has arrived.
    stalled: u32,
}

/// Reports, ours and the other end's. Times are on the session's clock.
pub(crate) struct Reports {
    seed: Option<ReportSeed>,
    schedule: Option<Schedule>,
    transmission: Transmission,
    clock_rate: u32,
    sent_packets: u32,
    last_sent: Option<Duration>,
    numbers: u64,
    /// The middle bits of the times in our last reports.
    times: [u32; REMEMBERED],
    written: u64,
    is_over: bool,
    /// When the other end last reported anything.
    last_heard: Option<Duration>,
    /// A receiver reference time of the other end, and when it came.
    reference: Option<(u32, u32, Duration)>,
    pub(crate) far: Far,
}

/// What a report is made of beside what [`Reports`] knows.
pub(crate) struct Report<'r> {
    pub(crate) ssrc: u32,
    pub(crate) block: Option<ReportBlock>,
    pub(crate) metrics: Option<VoipMetrics>,
    pub(crate) reference_time: bool,
    /// Whether it ends the stream.
    pub(crate) bye: bool,
    pub(crate) buffer: &'r mut [u8],
}

impl Reports {
    pub(crate) fn new(clock_rate: u32) -> Self {
        Self {
            seed: None,
            schedule: None,
            transmission: Transmission::new(clock_rate),
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
        // A generator of zero would give nothing else.
        self.numbers = u64::from_le_bytes(numbers) | 1;
        let random = self.random();
        self.schedule = Some(Schedule::reduced(now, BANDWIDTH, FIRST_SIZE + LOWER_HEADERS, random));
        self.seed = Some(seed);
    }

    /// The clock of what is sent has another rate.
    pub(crate) fn set_clock_rate(&mut self, clock_rate: u32) {
        if clock_rate != self.clock_rate {
            self.clock_rate = clock_rate;
            self.transmission = Transmission::new(clock_rate);
        }
    }

    /// Up to 1, by xorshift: it spreads reports in time, and nobody has to be kept from guessing
    /// it.
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
        self.schedule.as_ref().filter(|_| !self.is_over).map(Schedule::next)
    }

    /// Whether a report is due. `heard` is when the last packet of the other end came.
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

    /// Takes note of a packet of RTP that was sent.
    pub(crate) fn sent(&mut self, timestamp: u32, payload: usize, now: Duration) {
        let time = self.time_of_day(now);
        self.transmission.sent(timestamp, payload, time);
        self.sent_packets = self.sent_packets.wrapping_add(1);
        self.last_sent = Some(now);
    }

    /// Takes note that a report of this size was sent, or could not be.
    pub(crate) fn reported(&mut self, now: Duration, size: usize) {
        let random = self.random();
        if let Some(schedule) = &mut self.schedule {
            schedule.sent(now, size + LOWER_HEADERS, random);
        }
    }

    /// Whether anything was sent to which a BYE could belong (RFC 3550 section 6.3.7).
    pub(crate) const fn may_leave(&self) -> bool {
        self.seed.is_some() && !self.is_over && (self.sent_packets > 0 || self.written > 0)
    }

    /// Writes a compound packet; its length.
    pub(crate) fn write(&mut self, now: Duration, report: Report<'_>) -> Option<usize> {
        let seed = self.seed?;
        let Report { ssrc, block, metrics, reference_time, bye, buffer } = report;
        let time = NtpTime::from_unix(self.time_of_day(now));
        let mut writer = Writer::new(buffer);
        let is_sender = self.last_sent.is_some_and(|last| now.saturating_sub(last) < SENDER_FOR);
        let sender = self.transmission.report(self.time_of_day(now)).filter(|_| is_sender);
        match sender {
            Some(sender) => writer.sender_report(ssrc, &sender, block.as_slice())?,
            None => writer.receiver_report(ssrc, block.as_slice())?,
        }
        let name: [u8; 16] = core::array::from_fn(|place| letter(seed.random[place]));
        writer.description(ssrc, &[Item { kind: Item::CNAME, text: &name }])?;
        let answer = self.reference.map(|(ssrc, last, came)| LastReceiverReport {
            ssrc,
            last,
            delay: short_span(now.saturating_sub(came)),
        });
        if reference_time || metrics.is_some() || answer.is_some() {
            writer.extended_report(ssrc, |blocks| {
                if reference_time {
                    blocks.receiver_reference_time(time)?;
                }
                if let Some(answer) = answer {
                    blocks.delay_since_last_receiver_report(&[answer])?;
                }
                metrics.map_or(Some(()), |metrics| blocks.voip_metrics(&metrics))
            })?;
        }
        if bye {
            writer.bye(&[ssrc], None)?;
            self.is_over = true;
        }
        self.times[(self.written % REMEMBERED as u64) as usize] = time.middle();
        self.written += 1;
        Some(writer.len())
    }

    /// Takes note that a compound packet of this size came.
    pub(crate) fn heard(&mut self, now: Duration, size: usize) {
        self.last_heard = Some(now);
        if let Some(schedule) = &mut self.schedule {
            schedule.received(size + LOWER_HEADERS);
        }
    }

    /// Takes a report of the other end: the block that is of us, if there is one.
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

    /// What is said of a time that we have named, and only of such a one.
    fn take_round_trip(&mut self, now: Duration, last: u32, delay: u32) {
        let arrival = NtpTime::from_unix(self.time_of_day(now));
        if last != 0 && self.times.contains(&last) {
            self.far.round_trip = round_trip(arrival, last, delay).or(self.far.round_trip);
        }
    }

    /// Takes an extended report.
    pub(crate) fn take_extended(&mut self, now: Duration, ssrc: u32, report: &ExtendedReport<'_>) {
        for block in report.blocks() {
            match block {
                Block::ReceiverReferenceTime(time) => {
                    self.reference = Some((report.ssrc, time.middle(), now));
                }
                Block::DelaySinceLastReceiverReport(receivers) => {
                    if let Some(ours) = receivers.iter().find(|receiver| receiver.ssrc == ssrc) {
                        self.take_round_trip(now, ours.last, ours.delay);
                    }
                }
                Block::VoipMetrics(metrics) if metrics.ssrc == ssrc => {
                    // From 1.0 to 5.0 in tenths; 127 is unknown (RFC 3611 section 4.7.5).
                    let score = match metrics.mos_conversation {
                        10..=50 => Some(metrics.mos_conversation),
                        _ => Some(metrics.mos_listening).filter(|score| (10..=50).contains(score)),
                    };
                    self.far.mos = score.map(|score| f64::from(score) / 10.0).or(self.far.mos);
                }
                Block::VoipMetrics(_) | Block::Other { .. } => {}
            }
        }
    }

    /// Whether the other end has said in several reports that nothing of ours arrives.
    pub(crate) const fn is_unheard(&self) -> bool {
        self.far.stalled >= STALLED
    }

    /// Which extended reports are sent where the other end wants these.
    pub(crate) fn wanted(&self, theirs: ExtendedReports) -> ExtendedReports {
        if self.is_extended() { ExtendedReports::ALL } else { theirs }
    }
}

/// A letter of base64 for a random byte.
fn letter(byte: u8) -> u8 {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    LETTERS[usize::from(byte & 63)]
}
