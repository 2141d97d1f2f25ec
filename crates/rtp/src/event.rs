//! Telephone events, DTMF above all (RFC 4733).

/// A state of a telephone event, as each packet of it carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TelephoneEvent {
    /// The event: 0 to 9 are digits, 10 is `*`, 11 `#`, 12 to 15 are A to D (RFC 4733 section 3.2).
    pub event: u8,
    /// Whether it has ended.
    pub end: bool,
    /// The power of a tone in dBm0 without its sign, 0 to 63.
    pub volume: u8,
    /// How long it has lasted since the packet's timestamp, in units of that.
    pub duration: u16,
}

impl TelephoneEvent {
    /// The bytes of one in a payload.
    pub const LENGTH: usize = 4;

    /// The events in a payload; bytes that are no whole event are left out.
    pub fn parse_all(payload: &[u8]) -> impl Iterator<Item = Self> + '_ {
        payload.as_chunks().0.iter().map(|&[event, flags, high, low]| Self {
            event,
            end: flags & 0x80 != 0,
            volume: flags & 0x3f,
            duration: u16::from_be_bytes([high, low]),
        })
    }

    /// The payload that says it.
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

/// The DTMF key of an event, if it is one.
#[must_use]
pub fn to_digit(event: u8) -> Option<char> {
    DIGITS.get(usize::from(event)).map(|&digit| char::from(digit))
}

/// Follows the events of a source, and tells each once.
///
/// All packets of an event have the timestamp of its beginning; the last one is sent three times, and
/// any may be lost.
#[derive(Clone, Debug, Default)]
pub struct Events {
    /// Timestamp and event of the last one told.
    last: Option<(u32, u8)>,
}

impl Events {
    /// Takes a payload; gives the event that begins with it, as it is first heard of.
    pub fn receive(&mut self, timestamp: u32, payload: &[u8]) -> Option<TelephoneEvent> {
        let event = TelephoneEvent::parse_all(payload).next()?;
        let behind = self.last.map(|(last, _)| last.wrapping_sub(timestamp));
        let is_older = behind.is_some_and(|behind| behind != 0 && behind < 1 << 31);
        if is_older || self.last == Some((timestamp, event.event)) {
            return None;
        }
        self.last = Some((timestamp, event.event));
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn keys_are_events() {
        for (event, digit) in "0123456789*#ABCD".chars().enumerate() {
            assert_eq!(from_digit(digit), Some(event as u8));
            assert_eq!(from_digit(digit.to_ascii_lowercase()), Some(event as u8));
            assert_eq!(to_digit(event as u8), Some(digit));
        }
        assert_eq!((from_digit('E'), from_digit('é'), to_digit(16)), (None, None, None));
    }

    #[test]
    fn bytes_are_those_of_rfc_4733() {
        let event = TelephoneEvent { event: 11, end: true, volume: 10, duration: 800 };
        assert_eq!(event.to_bytes(), [11, 0x8a, 0x03, 0x20]);
        let two = [event.to_bytes(), event.to_bytes()].concat();
        assert_eq!(TelephoneEvent::parse_all(&two[..7]).collect::<Vec<_>>(), [event]);
        assert_eq!(TelephoneEvent::parse_all(&two).count(), 2);
    }

    #[test]
    fn each_event_is_told_once() {
        let mut events = Events::default();
        let mut told = Vec::new();
        let packet =
            |event, end| TelephoneEvent { event, end, volume: 10, duration: 160 }.to_bytes();
        for (timestamp, event, end) in [
            (0, 1, false),
            (0, 1, false),
            (0, 1, true),
            (0, 1, true),
            // Overtaken by the next one.
            (4000, 1, false),
            (0, 1, true),
            (4000, 1, true),
            // Only its end arrives.
            (u32::MAX - 5, 2, true),
            (8000, 3, true),
            (8000, 3, true),
        ] {
            told.extend(events.receive(timestamp, &packet(event, end)).map(|event| event.event));
        }
        assert_eq!(told, [1, 1, 3]);
        assert_eq!(events.receive(9000, &[1, 2, 3]), None);
    }
}
