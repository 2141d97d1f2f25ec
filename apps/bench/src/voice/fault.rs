//! Faults of a network with known parameters, applied by the sending end to its own packets.

use crate::encode::micros;
use serde::{Deserialize, Serialize};
use sip::Duration;
use std::fmt;
use std::str::FromStr;

/// The additional delay of a reordered packet: between one and two intervals of packets, so that
/// exactly one packet overtakes it.
const HELD_BACK: Duration = Duration::from_millis(30);

/// The faults. All are independent from packet to packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Faults {
    /// The share of lost packets, 0 to 1.
    pub(crate) loss: f64,
    /// The share of packets that are sent twice.
    pub(crate) duplication: f64,
    /// The share of packets that are held back by 30 ms.
    pub(crate) reordering: f64,
    /// The delay of every packet.
    #[serde(with = "micros")]
    pub(crate) delay: Duration,
    /// The longest additional delay: it is between zero and this with equal probability.
    #[serde(with = "micros")]
    pub(crate) jitter: Duration,
}

/// The fate of a packet: the delay of each copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) first: Option<Duration>,
    pub(crate) second: Option<Duration>,
}

impl Fate {
    /// Yields the delays of the copies.
    pub(crate) fn copies(self) -> impl Iterator<Item = Duration> {
        self.first.into_iter().chain(self.second)
    }
}

impl Faults {
    /// Returns true if packets are unchanged.
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the fate of the next packet.
    pub(crate) fn fate(&self, random: &mut fastrand::Rng) -> Fate {
        if random.f64() < self.loss {
            return Fate { first: None, second: None };
        }
        let is_late = random.f64() < self.reordering;
        let is_double = random.f64() < self.duplication;
        let late = if is_late { HELD_BACK } else { Duration::ZERO };
        let mut delay = || {
            let extra = self.jitter.as_micros() as f64 * random.f64();
            self.delay + late + Duration::from_micros(extra as u64)
        };
        let first = Some(delay());
        Fate { first, second: is_double.then(delay) }
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for part in text.split(',') {
            let expected = || {
                format!(
                    "{part}: expected loss=SHARE%, duplicate=SHARE%, reorder=SHARE%, delay=TIME or \
                     jitter=TIME"
                )
            };
            let (name, value) = part.split_once('=').ok_or_else(expected)?;
            let share = || {
                let percent = value.strip_suffix('%').and_then(|value| value.parse::<f64>().ok());
                let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
                percent.map(|percent| percent / 100.0).ok_or_else(expected)
            };
            let time = || {
                let time = humantime::parse_duration(value).map_err(|_| expected())?;
                Ok::<_, String>(Duration::from(time))
            };
            match name {
                "loss" => faults.loss = share()?,
                "duplicate" => faults.duplication = share()?,
                "reorder" => faults.reordering = share()?,
                "delay" => faults.delay = time()?,
                "jitter" => faults.jitter = time()?,
                _ => return Err(expected()),
            }
        }
        Ok(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shares =
            [("loss", self.loss), ("duplicate", self.duplication), ("reorder", self.reordering)];
        let times = [("delay", self.delay), ("jitter", self.jitter)];
        let shares = shares.into_iter().filter(|(_, share)| *share > 0.0);
        let times = times.into_iter().filter(|(_, time)| *time > Duration::ZERO);
        let shares = shares.map(|(name, share)| format!("{name}={}%", share * 100.0));
        let times = times.map(|(name, time)| format!("{name}={}us", time.as_micros()));
        f.write_str(&shares.chain(times).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_and_written() {
        let faults: Faults =
            "loss=1%,jitter=10ms,reorder=0.5%,duplicate=2%,delay=5ms".parse().expect("faults");
        assert_eq!((faults.loss, faults.duplication, faults.reordering), (0.01, 0.02, 0.005));
        assert_eq!(
            (faults.delay, faults.jitter),
            (Duration::from_millis(5), Duration::from_millis(10))
        );
        assert_eq!(faults.to_string().parse(), Ok(faults));
        for text in ["", "loss", "loss=1", "loss=101%", "jitter=5", "speed=1%"] {
            assert!(text.parse::<Faults>().is_err(), "{text}");
        }
        assert!(Faults::default().is_none() && !faults.is_none());
    }
}
