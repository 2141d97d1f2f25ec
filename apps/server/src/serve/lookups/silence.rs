//! Names for which the DNS did not answer. They are not queried for a while.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The number of remembered domains or names. A new one replaces the one in its slot.
const SLOTS: usize = 4096;
/// The pause after the first query without an answer. Each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(120);
/// The time for which a domain counts as answering, even if some of its names are not answered.
const ANSWERS_FOR: Duration = Duration::from_secs(600);

/// Names without an answer from the DNS, by domain, since name servers belong to domains. If other
/// names of the domain were answered recently, each name counts for itself.
pub(super) struct Silence<S = RandomState> {
    key: S,
    slots: Box<[Option<Slot>]>,
}

#[derive(Clone)]
struct Slot {
    /// The hash of the domain or name.
    name: u64,
    /// No query before this time.
    until: Option<Instant>,
    pause: Duration,
    /// True while one look-up is under way after a pause.
    is_probed: bool,
    answered: Option<Instant>,
}

impl Silence {
    pub(super) fn new() -> Self {
        Self::with_hasher(RandomState::new())
    }
}

impl<S: BuildHasher> Silence<S> {
    fn with_hasher(key: S) -> Self {
        Self { key, slots: vec![None; SLOTS].into() }
    }

    /// Returns true if `name` may be queried at `now`.
    pub(super) fn may_ask(&mut self, name: &str, now: Instant) -> bool {
        let key = self.key_of(name, now);
        let Some(slot) = self.slot(key) else { return true };
        match slot.until {
            Some(until) if until > now => false,
            Some(_) => {
                // One look-up at a time, until it is answered.
                (slot.until, slot.is_probed) = (Some(now + slot.pause), true);
                true
            }
            None => true,
        }
    }

    /// Notes the outcome of a look-up of `name`.
    pub(super) fn note(&mut self, name: &str, was_silent: bool, now: Instant) {
        let key = match was_silent {
            true => self.key_of(name, now),
            false => self.key.hash_one(domain_of(name)),
        };
        let known = self.slot(key).cloned();
        let new =
            Slot { name: key, until: None, pause: FIRST_PAUSE, is_probed: false, answered: None };
        let slot = match (known, was_silent) {
            (_, false) => Slot { answered: Some(now), ..new },
            // Of several concurrent look-ups only the first failure counts.
            (Some(known), true) if !known.is_probed && known.until.is_some_and(|it| it > now) => {
                known
            }
            (Some(known), true) if known.until.is_some() => {
                let pause = (2 * known.pause).min(LONGEST_PAUSE);
                Slot { until: Some(now + pause), pause, ..new }
            }
            (_, true) => Slot { until: Some(now + FIRST_PAUSE), ..new },
        };
        self.slots[key as usize % SLOTS] = Some(slot);
    }

    /// The key of `name`: its domain, or the name itself if the domain has answered recently.
    fn key_of(&mut self, name: &str, now: Instant) -> u64 {
        let domain = self.key.hash_one(domain_of(name));
        let answers = |slot: &mut Slot| {
            slot.answered.is_some_and(|then| now.saturating_duration_since(then) < ANSWERS_FOR)
        };
        match self.slot(domain).is_some_and(answers) {
            true => self.key.hash_one(("name", name.to_ascii_lowercase())),
            false => domain,
        }
    }

    fn slot(&mut self, key: u64) -> Option<&mut Slot> {
        self.slots[key as usize % SLOTS].as_mut().filter(|slot| slot.name == key)
    }
}

/// The part of `name` that is probably a registered domain: the last two labels, or three if the
/// last two resemble `co.uk`.
fn domain_of(name: &str) -> String {
    let labels: Vec<&str> = name.trim_end_matches('.').rsplit('.').collect();
    let is_public =
        matches!(labels[..], [last, second, ..] if last.len() == 2 && second.len() <= 3);
    let count = labels.len().min(if is_public { 3 } else { 2 });
    let mut labels: Vec<&str> = labels[..count].to_vec();
    labels.reverse();
    labels.join(".").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    /// With a fixed key: with a random one, a name replaces another one in few runs of many.
    fn silence() -> Silence<BuildHasherDefault<DefaultHasher>> {
        Silence::with_hasher(BuildHasherDefault::default())
    }

    #[test]
    fn a_domain_that_is_silent_is_asked_ever_more_seldom_until_it_answers() {
        let mut silence = silence();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(silence.may_ask("a.slow.test", at(0)));
        // Concurrent look-ups count once.
        (0..50).for_each(|_| silence.note("a.slow.test", true, at(10)));
        assert!(!silence.may_ask("b.SLOW.test.", at(14)));
        assert!(silence.may_ask("c.fast.test", at(14)));
        assert!(silence.may_ask("b.slow.test", at(15)));
        assert!(!silence.may_ask("c.slow.test", at(15)), "one is tried");
        silence.note("b.slow.test", true, at(25));
        assert!(!silence.may_ask("a.slow.test", at(34)));
        let mut now = 35;
        for _ in 0..10 {
            assert!(silence.may_ask("a.slow.test", at(now)));
            silence.note("a.slow.test", true, at(now));
            now += LONGEST_PAUSE.as_secs();
        }
        assert!(!silence.may_ask("a.slow.test", at(now - 1)));
        assert!(silence.may_ask("a.slow.test", at(now)));
        silence.note("a.slow.test", false, at(now));
        assert!(silence.may_ask("a.slow.test", at(now)) && silence.may_ask("b.slow.test", at(now)));
    }

    #[test]
    fn a_domain_that_answers_is_not_given_up_for_one_of_its_names() {
        let mut silence = silence();
        let now = Instant::now();
        silence.note("good.example.co.uk", false, now);
        (0..100).for_each(|number| silence.note(&format!("{number}.example.co.uk"), true, now));
        assert!(!silence.may_ask("7.example.co.uk", now));
        assert!(silence.may_ask("other.example.co.uk", now));
        silence.note("evil.co.uk", true, now);
        assert!(silence.may_ask("honest.co.uk", now), "they are not of one domain");
        assert!(!silence.may_ask("sub.evil.co.uk", now));
    }
}
