//! The bindings of the users: their expiry and their refresh.

use sip::header::{HeaderName, NameAddr, delta_seconds};
use sip::{Duration, Instant, Message};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The wait after a failed refresh.
const RETRY: Duration = Duration::from_secs(2);

/// The binding of a user.
#[derive(Clone, Copy, Debug)]
struct Binding {
    /// The time of expiry.
    end: Instant,
    /// The time of the refresh.
    refresh: Instant,
    /// True if the user is in the queue.
    is_queued: bool,
}

/// The bindings of all users of a worker.
#[derive(Debug)]
pub(super) struct Bindings {
    all: Vec<Option<Binding>>,
    /// The requested expiry of each user in seconds.
    asked: Vec<u32>,
    /// Refresh times. Each user with a binding is in the queue at most once; an entry that comes up
    /// too early is inserted again.
    queue: BinaryHeap<Reverse<(Instant, u32)>>,
}

impl Bindings {
    /// Returns the empty state of `users` users that request `expires` seconds.
    pub(super) fn new(users: usize, expires: u32) -> Self {
        Self { all: vec![None; users], asked: vec![expires; users], queue: BinaryHeap::new() }
    }

    /// Returns the requested expiry of the user in seconds.
    pub(super) fn asked(&self, user: u32) -> u32 {
        self.asked[user as usize]
    }

    /// Handles a 423 response (RFC 3261 section 10.2.8): the user requests its Min-Expires from now
    /// on. Returns true if that is longer than `expires`.
    pub(super) fn too_brief(&mut self, user: u32, expires: u32, response: &Message<'_>) -> bool {
        let name = HeaderName::MinExpires;
        let least = response.value(name).and_then(|value| delta_seconds(name, value).ok());
        let least = least.unwrap_or_default();
        let asked = &mut self.asked[user as usize];
        *asked = least.max(*asked);
        least > expires
    }

    /// Records a binding of the user for `granted` from `now`.
    ///
    /// Its refresh is scheduled between one half and three quarters of that time, so the refreshes
    /// of users that registered together are spread.
    pub(super) fn granted(&mut self, user: u32, granted: Duration, now: Instant) {
        let users = self.all.len() as u64;
        let granted = granted.as_micros();
        let wait = granted / 2 + (granted / 4 / users.max(1)) * u64::from(user);
        let refresh = now + Duration::from_micros(wait);
        self.set(user, now + Duration::from_micros(granted), refresh);
    }

    /// Schedules another attempt after a failed refresh, while the binding lasts.
    pub(super) fn failed(&mut self, user: u32, now: Instant) {
        if let Some(binding) = self.all[user as usize] {
            self.set(user, binding.end, now + RETRY);
        }
    }

    fn set(&mut self, user: u32, end: Instant, refresh: Instant) {
        let binding = &mut self.all[user as usize];
        let is_queued = binding.is_some_and(|binding| binding.is_queued);
        *binding = Some(Binding { end, refresh, is_queued: true });
        if !is_queued {
            self.queue.push(Reverse((refresh, user)));
        }
    }

    /// Removes the binding of the user.
    pub(super) fn removed(&mut self, user: u32) {
        if let Some(binding) = &mut self.all[user as usize] {
            binding.end = Instant::ZERO;
            binding.refresh = Instant::MAX;
        }
    }

    /// Returns true if the user has a binding at `now`.
    pub(super) fn has(&self, user: u32, now: Instant) -> bool {
        self.all[user as usize].is_some_and(|binding| now < binding.end)
    }

    /// Returns a user whose binding is due for a refresh at `now`, and takes it from the queue.
    pub(super) fn due(&mut self, now: Instant) -> Option<u32> {
        while let Some(&Reverse((at, user))) = self.queue.peek() {
            if at > now {
                return None;
            }
            self.queue.pop();
            let Some(binding) = &mut self.all[user as usize] else { continue };
            if binding.refresh > now && binding.refresh < Instant::MAX {
                self.queue.push(Reverse((binding.refresh, user)));
                continue;
            }
            binding.is_queued = false;
            if now < binding.end {
                // The end of the refresh sets the next time.
                return Some(user);
            }
        }
        None
    }
}

/// Returns the expiry of the binding of `contact` in the 2xx to a REGISTER (RFC 3261 section
/// 10.2.4): the expires parameter, else the Expires header field, else the requested value.
pub(super) fn granted(response: &Message<'_>, contact: &[u8], asked: u32) -> Duration {
    let seconds = |value: &[u8]| std::str::from_utf8(value).ok()?.trim().parse::<u32>().ok();
    let contacts = || {
        let elements = response.elements(HeaderName::Contact);
        elements.filter_map(|value| NameAddr::parse(HeaderName::Contact, value).ok())
    };
    // An intermediary may have rewritten the address; then the only Contact counts.
    let ours = contacts().find(|found| found.uri_bytes.starts_with(contact));
    let ours = ours.or_else(|| contacts().next());
    let expires = ours
        .and_then(|found| found.params.value("expires").and_then(seconds))
        .or_else(|| response.value(HeaderName::Expires).and_then(seconds));
    Duration::from_secs(expires.unwrap_or(asked).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_micros(1_000_000_000 + seconds * 1_000_000)
    }

    #[test]
    fn bindings_are_refreshed_before_they_end_and_not_all_at_once() {
        let mut bindings = Bindings::new(4, 80);
        for user in 0..4 {
            bindings.granted(user, Duration::from_secs(80), at(0));
        }
        let mut seen = Vec::new();
        for second in 0..80 {
            while let Some(user) = bindings.due(at(second)) {
                seen.push((user, second));
                match user {
                    2 => bindings.failed(user, at(second)),
                    _ => bindings.granted(user, Duration::from_secs(3600), at(second)),
                }
            }
        }
        assert_eq!(seen[..5], [(0, 40), (1, 45), (2, 50), (2, 52), (2, 54)]);
        assert_eq!(seen.iter().filter(|(user, _)| *user == 3).collect::<Vec<_>>(), [&(3, 55)]);
        assert!((0..4).all(|user| bindings.has(user, at(79))));
        assert_eq!(bindings.due(at(90)), None, "it has ended, and is not refreshed any more");
        assert!(!bindings.has(2, at(80)) && bindings.has(1, at(80)));
        bindings.removed(1);
        assert!(!bindings.has(1, at(80)));
        bindings.granted(1, Duration::from_secs(8), at(3000));
        let due: Vec<_> = std::iter::from_fn(|| bindings.due(at(3005))).collect();
        assert_eq!(due, [0, 1, 3]);
    }

    #[test]
    fn users_in_the_queue_are_there_once() {
        let mut bindings = Bindings::new(1, 10);
        for second in 0..1000 {
            bindings.granted(0, Duration::from_secs(10), at(second));
            bindings.removed(0);
            assert_eq!(bindings.due(at(second)), None);
            bindings.granted(0, Duration::from_secs(10), at(second));
            assert_eq!(bindings.due(at(second + 1)), None);
            assert!(bindings.queue.len() <= 2, "{}", bindings.queue.len());
        }
    }

    #[test]
    fn the_time_that_is_granted_is_that_of_our_contact() {
        for (fields, expected) in [
            ("Contact: <sip:b@10.0.0.2:5060>;expires=7, <sip:a@10.0.0.1:5060;ob>;expires=30", 30),
            ("Contact: <sip:a@10.0.0.1:5060>\r\nExpires: 40", 40),
            ("Contact: <sip:a@198.51.100.1:9>;expires=50", 50),
            ("Expires: 60", 60),
            ("Contact: <sip:a@10.0.0.1:5060>", 600),
            ("Contact: <sip:a@10.0.0.1:5060>;expires=x", 600),
        ] {
            let text = format!("SIP/2.0 200 OK\r\n{fields}\r\nContent-Length: 0\r\n\r\n");
            let response = Message::parse(text.as_bytes()).unwrap();
            let granted = granted(&response, b"sip:a@10.0.0.1:5060", 600);
            assert_eq!(granted, Duration::from_secs(expected), "{fields}");
        }
    }
}
