//! The digits in the packets of one direction: events that are reported, and events that are
//! played.

use super::{Digit, EventTypes};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::time::Duration;
use rtp::Header;
use rtp::event::{TelephoneEvent, from_digit, to_digit};
use rtp::packet::HeaderFields;

/// The interval of the packets of a played event, and of the three packets at its end.
const INTERVAL: Duration = Duration::from_millis(20);
const ENDS: u8 = 3;

/// The duration of a played digit, and the pause before the next one.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(60);

/// The power of a played tone in dBm0 without its sign.
const VOLUME: u8 = 10;

/// The maximum number of digits that wait to be played to one end.
const MAX_QUEUE: usize = 16;

/// The maximum number of events that are played at once, after a delay of the owner.
const MAX_LATE: Duration = Duration::from_millis(100);

/// An event whose end was lost has ended if sound follows it by this time.
const LOST_END: Duration = Duration::from_millis(120);

/// The digits in the packets of one direction.
#[derive(Debug, Default)]
pub(crate) struct Digits {
    /// The events of the sender, if they are reported.
    received: EventTypes,
    /// The events that the receiver gets, if digits are played to it.
    sent: EventTypes,
    numbers: Numbers,
    heard: Option<ReceivedEvent>,
    queue: VecDeque<(u8, Duration)>,
    playing: Option<Playing>,
    /// The time from which the next digit may be played.
    free_at: Duration,
}

/// An event that was received.
#[derive(Debug)]
struct ReceivedEvent {
    event: u8,
    rate: u32,
    /// The timestamp and the duration of its last segment, and the duration of the earlier ones.
    start: u32,
    duration: u16,
    earlier: u64,
    is_reported: bool,
}

/// An event that is played.
#[derive(Debug)]
struct Playing {
    payload_type: u8,
    event: u8,
    start: u32,
    /// The durations of a step, of the event so far, and of all of it.
    step: u16,
    done: u16,
    total: u16,
    /// The number of packets that end it and are not sent yet.
    ends: u8,
    next: Duration,
}

/// The numbers of the packets as they are sent.
#[derive(Debug, Default)]
struct Numbers {
    ssrc: u32,
    /// False before the first packet of a source.
    has_source: bool,
    /// The difference to the received sequence numbers.
    offset: u16,
    /// The last received number. Packets up to `late` are too late: their numbers are taken.
    newest: u16,
    late: Option<u16>,
    /// The last sent number.
    sent: u16,
    /// The timestamp of the last sound, its time and its clock rate.
    timestamp: u32,
    at: Duration,
    rate: u32,
}

const fn is_after(one: u16, other: u16) -> bool {
    one != other && one.wrapping_sub(other) < 1 << 15
}

impl Numbers {
    /// Continues with the source of `header`.
    fn follow(&mut self, header: &Header<'_>) {
        if !self.has_source || self.ssrc != header.ssrc() {
            let number = header.sequence_number();
            (self.ssrc, self.has_source) = (header.ssrc(), true);
            (self.offset, self.late) = (0, None);
            (self.newest, self.sent) = (number.wrapping_sub(1), number.wrapping_sub(1));
        }
    }

    /// Removes a packet from the stream.
    fn remove(&mut self, header: &Header<'_>) {
        self.follow(header);
        let number = header.sequence_number();
        if is_after(number, self.newest) {
            (self.newest, self.late) = (number, Some(number));
            self.offset = self.offset.wrapping_sub(1);
        }
    }

    /// Writes the number of a packet that passes. Returns false if it is too late.
    fn pass(&mut self, packet: &mut [u8], rate: u32, now: Duration) -> bool {
        let Ok(header) = Header::parse(packet) else { return false };
        self.follow(&header);
        let number = header.sequence_number();
        if self.late.is_some_and(|late| !is_after(number, late)) {
            return false;
        }
        let sent = number.wrapping_add(self.offset);
        if is_after(number, self.newest) {
            self.newest = number;
            self.sent = sent;
            (self.timestamp, self.at, self.rate) = (header.timestamp(), now, rate);
            // The numbers wrap.
            self.late = self.late.filter(|late| number.wrapping_sub(*late) < 1 << 14);
        }
        packet[2..4].copy_from_slice(&sent.to_be_bytes());
        true
    }

    /// Returns the number of an additional packet.
    const fn insert(&mut self) -> u16 {
        self.sent = self.sent.wrapping_add(1);
        self.offset = self.offset.wrapping_add(1);
        self.late = Some(self.newest);
        self.sent
    }

    /// Returns the timestamp of the time `now`.
    fn timestamp_at(&self, now: Duration) -> u32 {
        self.timestamp.wrapping_add(units(now.saturating_sub(self.at), self.rate) as u32)
    }
}

/// `time` in units of `rate`.
const fn units(time: Duration, rate: u32) -> u64 {
    (time.as_micros() as u64).saturating_mul(rate as u64) / 1_000_000
}

impl Digits {
    /// Changes the translation of one direction: events of the types `received` are reported, and
    /// digits are played as those of `sent`. The numbers of the packets go on. `random` fills the
    /// numbers of a stream that begins with a digit.
    pub(crate) fn update(
        slot: &mut Option<Box<Self>>,
        received: EventTypes,
        sent: EventTypes,
        random: &mut dyn FnMut(&mut [u8]),
    ) {
        if slot.is_none() && received.is_empty() && sent.is_empty() {
            return;
        }
        let digits = slot.get_or_insert_with(|| {
            let mut bytes = [0; 10];
            random(&mut bytes);
            let [a, b, c, d, e, f, g, h, i, j] = bytes;
            let numbers = Numbers {
                ssrc: u32::from_be_bytes([a, b, c, d]),
                timestamp: u32::from_be_bytes([e, f, g, h]),
                sent: u16::from_be_bytes([i, j]),
                ..Numbers::default()
            };
            Box::new(Self { numbers, ..Self::default() })
        });
        if digits.sent != sent {
            digits.stop();
        }
        (digits.received, digits.sent) = (received, sent);
    }

    /// Ends the digit that is played, and removes those that wait.
    pub(crate) fn stop(&mut self) {
        self.queue.clear();
        self.playing = None;
    }

    /// True if packets of `payload_type` do not pass.
    pub(crate) fn takes(&self, payload_type: u8) -> bool {
        self.received.iter().any(|(number, _)| *number == payload_type)
    }

    /// Receives a packet. `report` is called for each digit that has ended.
    pub(crate) fn receive(
        &mut self,
        header: &Header<'_>,
        payload: &[u8],
        mut report: impl FnMut(Digit),
    ) {
        let number = header.payload_type();
        let timestamp = header.timestamp();
        let Some(&(_, rate)) = self.received.iter().find(|(known, _)| *known == number) else {
            if let Some(heard) = &mut self.heard
                && heard.is_followed_by(timestamp)
            {
                heard.report(&mut report);
            }
            return;
        };
        let Some(event) = TelephoneEvent::parse_all(payload).next() else { return };
        let heard = match &mut self.heard {
            Some(heard) if heard.goes_on(timestamp, event) => heard,
            Some(heard) if heard.is_later_than(timestamp) => return,
            heard => {
                if let Some(before) = heard {
                    before.report(&mut report);
                }
                heard.insert(ReceivedEvent {
                    event: event.event,
                    rate,
                    start: timestamp,
                    duration: 0,
                    earlier: 0,
                    is_reported: false,
                })
            }
        };
        if heard.start != timestamp {
            heard.earlier += u64::from(heard.duration);
            (heard.start, heard.duration) = (timestamp, 0);
        }
        heard.duration = heard.duration.max(event.duration);
        if event.end {
            heard.report(&mut report);
        }
    }

    /// Removes a packet from the stream.
    pub(crate) fn remove(&mut self, header: &Header<'_>) {
        self.numbers.remove(header);
    }

    /// Writes the number of a packet. Returns false if it does not pass: a digit is played in its
    /// place. `rate` is its clock rate.
    pub(crate) fn pass(&mut self, packet: &mut [u8], rate: u32, now: Duration) -> bool {
        if self.playing.is_none() {
            return self.numbers.pass(packet, rate, now);
        }
        let Ok(header) = Header::parse(packet) else { return false };
        self.numbers.remove(&header);
        (self.numbers.timestamp, self.numbers.at) = (header.timestamp(), now);
        self.numbers.rate = rate;
        false
    }

    /// Adds a digit to be played. Returns false if that is not possible.
    pub(crate) fn press(&mut self, digit: Digit, now: Duration) -> bool {
        let Some(event) = from_digit(digit.key).filter(|_| !self.sent.is_empty()) else {
            return false;
        };
        if self.queue.len() >= MAX_QUEUE {
            return false;
        }
        if self.queue.is_empty() && self.playing.is_none() {
            self.free_at = self.free_at.max(now);
        }
        self.queue.push_back((event, digit.duration.clamp(SHORTEST, LONGEST)));
        true
    }

    /// The time of the next packet of a played digit. `None` if there is none.
    pub(crate) fn next_time(&self) -> Option<Duration> {
        match &self.playing {
            Some(playing) => Some(playing.next),
            None => (!self.queue.is_empty()).then_some(self.free_at),
        }
    }

    /// Returns the next packet of a played digit, if it is due at `now`.
    pub(crate) fn next_packet(
        &mut self,
        now: Duration,
    ) -> Option<(HeaderFields, [u8; TelephoneEvent::LENGTH])> {
        if self.next_time().is_none_or(|at| at > now) {
            return None;
        }
        let is_first = self.playing.is_none();
        if is_first {
            self.begin(now)?;
        }
        let playing = self.playing.as_mut()?;
        playing.next = (playing.next + INTERVAL).max(now.saturating_sub(MAX_LATE));
        playing.done = playing.done.saturating_add(playing.step).min(playing.total);
        let end = playing.done == playing.total;
        let event =
            TelephoneEvent { event: playing.event, end, volume: VOLUME, duration: playing.done };
        let fields = HeaderFields {
            marker: is_first,
            payload_type: playing.payload_type,
            sequence_number: self.numbers.insert(),
            timestamp: playing.start,
            ssrc: self.numbers.ssrc,
        };
        if end {
            playing.ends -= 1;
            if playing.ends == 0 {
                self.finish(now);
            }
        }
        Some((fields, event.to_bytes()))
    }

    /// Begins to play the next digit.
    fn begin(&mut self, now: Duration) -> Option<()> {
        let (event, duration) = self.queue.pop_front()?;
        let rate = self.numbers.rate;
        let fits = |(_, known): &&(u8, u32)| *known == rate;
        let &(payload_type, event_rate) =
            self.sent.iter().find(fits).or_else(|| self.sent.first())?;
        if rate == 0 {
            (self.numbers.rate, self.numbers.at) = (event_rate, now);
        }
        let rate = self.numbers.rate;
        let total = units(duration, rate).clamp(1, u16::MAX.into()) as u16;
        let step = units(INTERVAL, rate).clamp(1, u16::MAX.into()) as u16;
        let start = self.numbers.timestamp_at(now);
        let playing =
            Playing { payload_type, event, start, step, done: 0, total, ends: ENDS, next: now };
        self.playing = Some(playing);
        Some(())
    }

    fn finish(&mut self, now: Duration) {
        let Some(Playing { start, total, .. }) = self.playing.take() else { return };
        self.free_at = now + PAUSE;
        // The next event begins after this one.
        let end = start.wrapping_add(total.into());
        let behind = end.wrapping_sub(self.numbers.timestamp_at(now)).cast_signed();
        if behind > 0 {
            (self.numbers.timestamp, self.numbers.at) = (end, now);
        }
    }
}

impl ReceivedEvent {
    /// True if a packet with this timestamp belongs to the event, in its last segment or the next
    /// one (RFC 4733 section 2.5.1.3).
    fn goes_on(&self, timestamp: u32, event: TelephoneEvent) -> bool {
        let next = self.start.wrapping_add(self.duration.into());
        let is_next = timestamp == next && self.duration > 0 && !self.is_reported;
        self.event == event.event && (timestamp == self.start || is_next)
    }

    /// True if a packet with this timestamp belongs to an earlier event.
    const fn is_later_than(&self, timestamp: u32) -> bool {
        // A source that has stepped back further has begun anew.
        let behind = self.start.wrapping_sub(timestamp);
        behind != 0 && behind < 1 << 19
    }

    /// True if sound with this timestamp shows that the end of the event was lost.
    const fn is_followed_by(&self, timestamp: u32) -> bool {
        let end = self.start.wrapping_add(self.duration as u32);
        let ahead = timestamp.wrapping_sub(end).cast_signed();
        ahead > 0 && ahead as u64 >= units(LOST_END, self.rate)
    }

    fn report(&mut self, report: &mut impl FnMut(Digit)) {
        if core::mem::replace(&mut self.is_reported, true) {
            return;
        }
        let Some(key) = to_digit(self.event) else { return };
        let total = self.earlier + u64::from(self.duration);
        let micros = total.saturating_mul(1_000_000) / u64::from(self.rate.max(1));
        report(Digit { key, duration: Duration::from_micros(micros) });
    }
}
