//! The settings of the media relay.

use crate::ng::NgSettings;
use relay::Limits;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The ports of a stream: one for RTP and one for RTCP on each side.
pub(crate) const PORTS_PER_STREAM: usize = 4;

/// The ports and the limits of the media relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MediaSettings {
    /// The UDP ports of the relay.
    pub(crate) ports: PortRange,
    /// The maximum number of relayed calls, unless it is one for every four ports.
    pub(crate) max_calls: Option<usize>,
    /// The other limits.
    pub(crate) limits: Limits,
    /// The NG protocol.
    pub(crate) ng: NgSettings,
}

impl Default for MediaSettings {
    fn default() -> Self {
        Self {
            ports: PortRange { first: 20_000, pairs: 5_000 },
            max_calls: None,
            limits: Limits::default(),
            ng: NgSettings::default(),
        }
    }
}

impl MediaSettings {
    /// The limits of the relay, with `pairs` pairs of ports.
    pub(crate) fn limits(&self, pairs: usize) -> Limits {
        let most = pairs * 2 / PORTS_PER_STREAM;
        Limits { calls: self.max_calls.map_or(most, |calls| calls.min(most)), ..self.limits }
    }

    /// The maximum number of calls, if the system sets no other limit.
    pub(crate) fn max_calls(&self) -> usize {
        self.limits(self.ports.pairs()).calls
    }
}

/// A range of UDP ports, in pairs of an even port and the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    /// An even number.
    first: u16,
    pairs: u16,
}

impl PortRange {
    /// The number of pairs.
    pub(crate) fn pairs(self) -> usize {
        self.pairs.into()
    }

    /// The even port of the pair at `index`.
    pub(crate) const fn port(self, index: usize) -> u16 {
        self.first + 2 * index as u16
    }

    /// All ports.
    pub(crate) const fn ports(self) -> RangeInclusive<u16> {
        self.first..=self.first + (2 * self.pairs - 1)
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ports().start(), self.ports().end())
    }
}

impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ports = || {
            let (first, last) = text.split_once('-')?;
            let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            // Pairs begin at an even port (RFC 3550 section 11).
            let first = first.checked_next_multiple_of(2)?;
            let pairs = last.checked_sub(first)?.checked_add(1)? / 2;
            let is_usable = first >= 1024 && usize::from(pairs) * 2 >= PORTS_PER_STREAM;
            is_usable.then_some(Self { first, pairs })
        };
        ports().ok_or_else(|| {
            format!(
                "`{text}` is no range of ports; expected one such as 20000-29999, from 1024 on, \
                 with at least {PORTS_PER_STREAM} ports"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_pairs_that_begin_at_an_even_port() {
        let read = |text: &str| text.parse::<PortRange>().ok().map(|range| range.to_string());
        assert_eq!(read("20000-29999").as_deref(), Some("20000-29999"));
        assert_eq!(read("20001 - 20010").as_deref(), Some("20002-20009"));
        assert_eq!(read("1024-65535").as_deref(), Some("1024-65535"));
        for text in
            ["", "20000", "20000-20002", "20001-20004", "29999-20000", "1022-2000", "1-70000"]
        {
            assert_eq!(read(text), None, "{text}");
        }
        let range: PortRange = "20001-20010".parse().unwrap();
        assert_eq!((range.pairs(), range.port(0), range.port(3)), (4, 20002, 20008));
    }

    #[test]
    fn the_ports_bound_the_calls() {
        let settings = MediaSettings::default();
        assert_eq!((settings.max_calls(), settings.limits(100).calls), (2_500, 50));
        let settings = MediaSettings { max_calls: Some(20), ..settings };
        assert_eq!((settings.max_calls(), settings.limits(30).calls), (20, 15));
    }
}
