//! Telephone events with another clock rate (RFC 4733).

use rtp::event::TelephoneEvent;
use smallvec::SmallVec;

/// The maximum duration of a segment. A longer event goes on in another one (RFC 4733 section
/// 2.5.1.3).
const SEGMENT: u64 = u16::MAX as u64;

/// The maximum number of segments of an event. At 48 kHz it is some 80 seconds long.
const MAX_SEGMENTS: u64 = 60;

/// The mapping of the events of one direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EventMapper {
    current: Option<Current>,
}

/// The last event.
#[derive(Clone, Copy, Debug)]
struct Current {
    event: u8,
    /// The timestamp and the duration of its last segment, as received.
    start: u32,
    duration: u16,
    /// The duration of its earlier segments.
    earlier: u64,
    has_ended: bool,
    /// The timestamp as sent, and the number of segments before the last one.
    sent: u32,
    segment: u64,
}

impl EventMapper {
    /// Maps a packet with `event` that was received with `timestamp`, from one of two clock rates
    /// to the other. `start` is called for the timestamp of a new event. Returns the packets to
    /// send.
    pub(super) fn map(
        &mut self,
        timestamp: u32,
        event: TelephoneEvent,
        [from, to]: [u32; 2],
        start: impl FnOnce() -> u32,
    ) -> SmallVec<[(u32, TelephoneEvent); 2]> {
        let mut out = SmallVec::new();
        let is_known = |it: &Current| {
            let goes_on = !it.has_ended
                && [it.duration, u16::MAX]
                    .iter()
                    .any(|&duration| timestamp == it.start.wrapping_add(duration.into()));
            it.event == event.event && (it.start == timestamp || goes_on)
        };
        let mut current = self.current.filter(is_known).unwrap_or_else(|| Current {
            event: event.event,
            start: timestamp,
            duration: 0,
            earlier: 0,
            has_ended: false,
            sent: start(),
            segment: 0,
        });
        if current.start != timestamp {
            current.earlier += u64::from(timestamp.wrapping_sub(current.start));
            current.start = timestamp;
        }
        current.duration = event.duration;
        current.has_ended |= event.end;
        let total = current.earlier + u64::from(event.duration);
        let total = total * u64::from(to) / u64::from(from.max(1));
        let segment = (total.saturating_sub(1) / SEGMENT).max(current.segment);
        let Current { sent, segment: last, .. } = current;
        if segment > MAX_SEGMENTS {
            self.current = Some(current);
            return out;
        }
        self.current = Some(Current { segment, ..current });
        let place = |segment: u64| sent.wrapping_add((segment * SEGMENT) as u32);
        if segment > last {
            let full = TelephoneEvent { duration: u16::MAX, end: false, ..event };
            out.push((place(last), full));
        }
        let duration = total.saturating_sub(segment * SEGMENT).min(SEGMENT) as u16;
        out.push((place(segment), TelephoneEvent { duration, ..event }));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rtp::event::EventReceiver;
    use std::vec::Vec;

    /// Sends an event of `seconds` with packets of 20 ms from one clock rate to the other. Returns
    /// the received events and the duration of the last one in seconds, by its segments.
    fn press(
        mapper: &mut EventMapper,
        start: u32,
        event: u8,
        seconds: f64,
        rates: [u32; 2],
    ) -> (Vec<u8>, f64) {
        let (mut receiver, mut heard) = (EventReceiver::default(), Vec::new());
        let total = (seconds * f64::from(rates[0])) as u32;
        let (mut first, mut last) = (None, (0, 0));
        let mut send = |at: u32, end: bool, mapper: &mut EventMapper| {
            // Segments as the sender has them.
            let segment = at.saturating_sub(1) / 65_535;
            let duration = (at - segment * 65_535) as u16;
            let timestamp = start.wrapping_add(segment * 65_535);
            let event = TelephoneEvent { event, end, volume: 10, duration };
            for (timestamp, event) in mapper.map(timestamp, event, rates, || start / 7) {
                receiver.receive(timestamp, &event.to_bytes(), |event| heard.push(event.event));
                first.get_or_insert(timestamp);
                last = (timestamp, event.duration);
            }
        };
        for at in (0..total).step_by(rates[0] as usize / 50) {
            // The end of each segment is told.
            if at / 65_535 > at.saturating_sub(rates[0] / 50) / 65_535 {
                send(at / 65_535 * 65_535, false, mapper);
            }
            send(at, false, mapper);
        }
        (0..3).for_each(|_| send(total, true, mapper));
        let units = last.0.wrapping_sub(first.unwrap()) + u32::from(last.1);
        (heard, f64::from(units) / f64::from(rates[1]))
    }

    #[test]
    fn a_key_stays_one_key_with_its_duration() {
        for rates in [[8000, 48_000], [48_000, 8000], [8000, 8000], [48_000, 48_000]] {
            let mut mapper = EventMapper::default();
            let mut start = u32::MAX - 3000;
            for (event, seconds) in [(1, 0.1), (1, 0.1), (5, 1.5), (5, 4.0), (11, 9.5)] {
                let (heard, duration) = press(&mut mapper, start, event, seconds, rates);
                assert_eq!(heard, [event], "{rates:?} {seconds}");
                assert!((duration - seconds).abs() < 0.001, "{rates:?} {seconds} {duration}");
                start = start.wrapping_add(rates[0] * 12);
            }
        }
    }

    #[test]
    fn an_endless_event_ends() {
        let mut mapper = EventMapper::default();
        let event = TelephoneEvent { event: 1, end: false, volume: 0, duration: u16::MAX };
        let sent = (0..1000_u32).map(|segment| {
            let timestamp = segment.wrapping_mul(65_535);
            mapper.map(timestamp, event, [8000, 48_000], || 0).len()
        });
        assert!(sent.sum::<usize>() < 130);
    }
}
