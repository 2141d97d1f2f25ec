//! Telephone events such as DTMF (RFC 4733).

/// The state of a telephone event, as one packet carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelephoneEvent {
    /// The event code: 0 to 9 are digits, 10 is `*`, 11 `#`, 12 to 15 are A to D (RFC 4733 section
    /// 3.2).
    pub event: u8,
    /// True if the event has ended (the E bit).
    pub end: bool,
    /// The power of a tone in dBm0 without its sign, 0 to 63.
    pub volume: u8,
    /// The duration so far since the packet's timestamp, in units of the timestamp.
    pub duration: u16,
}

impl TelephoneEvent {
    /// The length of an event in a payload, in bytes.
    pub const LENGTH: usize = 4;

    /// Parses the events of a payload. Trailing bytes that are not a whole event are ignored.
    pub fn parse_all(payload: &[u8]) -> impl Iterator<Item = Self> + '_ {
        payload.as_chunks().0.iter().map(|&[event, flags, high, low]| Self {
            event,
            end: flags & 0x80 != 0,
            volume: flags & 0x3f,
            duration: u16::from_be_bytes([high, low]),
        })
    }

    /// Writes the event as a payload.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::LENGTH] {
        let [high, low] = self.duration.to_be_bytes();
        [self.event, u8::from(self.end) << 7 | self.volume & 0x3f, high, low]
    }
}

const DIGITS: &[u8; 16] = b"0123456789*#ABCD";

/// The event of a DTMF key: a digit, `*`, `#`, or A to D in either case.
#[must_use]
pub fn from_digit(digit: char) -> Option<u8> {
    let digit = u8::try_from(digit).ok()?.to_ascii_uppercase();
    DIGITS.iter().position(|&key| key == digit).map(|event| event as u8)
}

/// Returns the DTMF key of an event code, if it is one.
#[must_use]
pub fn to_digit(event: u8) -> Option<char> {
    DIGITS.get(usize::from(event)).map(|&digit| char::from(digit))
}

/// Returns true if the payload format with this encoding name carries events or tones. Its
/// timestamp does not advance during an event, so it is not used for the jitter.
#[must_use]
pub fn is_event_format(name: &str) -> bool {
    ["telephone-event", "tone"].iter().any(|format| name.eq_ignore_ascii_case(format))
}

/// Reports each event of a source once.
///
/// All packets of an event have the timestamp of its beginning, unless a long event continues in a
/// further segment. The last packet is sent three times. Any packet may be lost.
#[derive(Clone, Debug, Default)]
pub struct EventReceiver {
    last: Option<Segment>,
}

/// The newest segment of an event.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u32,
    event: u8,
    duration: u16,
    has_ended: bool,
}

/// An event that began at most this many timestamp units before the newest one was overtaken. If
/// the timestamp is further behind, the source has restarted.
const OVERTAKEN: u32 = 1 << 19;

impl EventReceiver {
    /// Receives a payload and calls `each` at the first packet of each event.
    pub fn receive(
        &mut self,
        timestamp: u32,
        payload: &[u8],
        mut each: impl FnMut(TelephoneEvent),
    ) {
        let mut start = timestamp;
        // Several events in one payload follow one another (RFC 4733 section 2.5.1.5).
        for event in TelephoneEvent::parse_all(payload) {
            if self.is_new(start, event) {
                each(event);
            }
            start = start.wrapping_add(event.duration.into());
        }
    }

    fn is_new(&mut self, start: u32, event: TelephoneEvent) -> bool {
        let TelephoneEvent { event, end: has_ended, duration, .. } = event;
        let Some(last) = &mut self.last else {
            self.last = Some(Segment { start, event, duration, has_ended });
            return true;
        };
        if last.start == start && last.event == event {
            last.duration = last.duration.max(duration);
            last.has_ended |= has_ended;
            return false;
        }
        let behind = last.start.wrapping_sub(start);
        if behind != 0 && behind < OVERTAKEN {
            return false;
        }
        // RFC 4733 section 2.5.1.3: an event longer than the duration field allows.
        let goes_on = last.event == event
            && !last.has_ended
            && start == last.start.wrapping_add(last.duration.into());
        *last = Segment { start, event, duration, has_ended };
        !goes_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn keys_map_to_event_codes() {
        for (event, digit) in "0123456789*#ABCD".chars().enumerate() {
            assert_eq!(from_digit(digit), Some(event as u8));
            assert_eq!(from_digit(digit.to_ascii_lowercase()), Some(event as u8));
            assert_eq!(to_digit(event as u8), Some(digit));
        }
        assert_eq!((from_digit('E'), from_digit('é'), to_digit(16)), (None, None, None));
    }

    #[test]
    fn bytes_match_rfc_4733() {
        let event = TelephoneEvent { event: 11, end: true, volume: 10, duration: 800 };
        assert_eq!(event.to_bytes(), [11, 0x8a, 0x03, 0x20]);
        let two = [event.to_bytes(), event.to_bytes()].concat();
        assert_eq!(TelephoneEvent::parse_all(&two[..7]).collect::<Vec<_>>(), [event]);
        assert_eq!(TelephoneEvent::parse_all(&two).count(), 2);
    }

    #[test]
    fn each_event_is_reported_once() {
        let mut events = EventReceiver::default();
        let mut reported = Vec::new();
        let packet =
            |event, end, duration| TelephoneEvent { event, end, volume: 10, duration }.to_bytes();
        for (timestamp, event, end) in [
            (0, 1, false),
            (0, 1, false),
            (0, 1, true),
            (0, 1, true),
            (4000, 1, false),
            // Overtaken by the next event.
            (0, 1, true),
            (4000, 1, true),
            (u32::MAX - 5, 2, true),
            // Only the end of this event arrives.
            (8000, 3, true),
            (8000, 3, true),
            // A restarted source, with a timestamp behind or far ahead.
            (0x9000_0000, 4, false),
            (0x2000_0000, 5, false),
        ] {
            events.receive(timestamp, &packet(event, end, 160), |event| reported.push(event.event));
        }
        assert_eq!(reported, [1, 1, 3, 4, 5]);

        // A key held for longer than the duration field allows, then pressed again at once.
        let mut reported = Vec::new();
        let start = 0x3000_0000;
        for (timestamp, end, duration) in [
            (start, false, 160),
            (start, false, u16::MAX),
            (start + 65_535, false, 160),
            (start + 65_535, true, 800),
            (start + 65_535 + 800, false, 160),
        ] {
            events
                .receive(timestamp, &packet(6, end, duration), |event| reported.push(event.event));
        }
        assert_eq!(reported, [6, 6]);

        let two = [packet(7, true, 800), packet(8, true, 800)].concat();
        let mut reported = Vec::new();
        events.receive(0x4000_0000, &two, |event| reported.push(event.event));
        events.receive(0x4000_0000, &two, |event| reported.push(event.event));
        events.receive(0x4000_1000, &[1, 2, 3], |event| reported.push(event.event));
        assert_eq!(reported, [7, 8]);
    }
}
