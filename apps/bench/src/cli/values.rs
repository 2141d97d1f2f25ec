//! Parsers of command line values.

use crate::load::arrivals::Segment;
use sip::{Duration, Transport};
use std::fmt;
use std::str::FromStr;

/// Parses a duration: `30s`, `1m 30s`, `500us`, `0`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text)
        .map(|span| Duration::from_micros(u64::try_from(span.as_micros()).unwrap_or(u64::MAX)))
        .map_err(|error| format!("{error}; expected a time such as 30s, 500ms or 1m 30s"))
}

/// Parses a rate per second: a positive number.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate.is_finite() => Ok(rate),
        _ => Err("expected a number of operations a second, above 0".to_owned()),
    }
}

/// Parses bits per second: `50M`, `1G`, `1000000`.
pub(crate) fn bits(text: &str) -> Result<u64, String> {
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'k') => (&text[..text.len() - 1], 1_000),
        Some(b'M') => (&text[..text.len() - 1], 1_000_000),
        Some(b'G') => (&text[..text.len() - 1], 1_000_000_000),
        _ => (text, 1),
    };
    let bits = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bits.filter(|&bits| bits > 0)
        .ok_or_else(|| "expected bits a second, such as 500k, 50M or 1G".to_owned())
}

/// The rates of a command with several steps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rates {
    /// A range from the lowest to the highest rate.
    Range(f64, f64),
    /// A list.
    List(Vec<f64>),
}

impl Rates {
    /// Returns the rates: of a range `steps` rates at equal distances or, with `factor`, in a
    /// geometric sequence.
    pub(crate) fn all(&self, steps: u32, factor: Option<f64>) -> Result<Vec<f64>, String> {
        match (self, factor) {
            (Self::List(rates), _) => Ok(rates.clone()),
            (Self::Range(from, to), None) => Ok((0..steps)
                .map(|step| from + (to - from) * f64::from(step) / f64::from(steps - 1))
                .collect()),
            (Self::Range(from, to), Some(factor)) if factor > 1.0 => {
                let steps = ((to / from).ln() / factor.ln() + 1e-9) as i32;
                Ok((0..=steps).map(|step| from * factor.powi(step)).collect())
            }
            (_, Some(factor)) => Err(format!("--factor {factor}: expected a number above 1")),
        }
    }
}

impl FromStr for Rates {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once("..") {
            Some((from, to)) => {
                let (from, to) = (rate(from)?, rate(to)?);
                if from >= to {
                    return Err("expected LOWEST..HIGHEST".to_owned());
                }
                Ok(Self::Range(from, to))
            }
            None => text.split(',').map(rate).collect::<Result<_, _>>().map(Self::List),
        }
    }
}

/// The numbers of users of a command with several steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counts(pub(crate) Vec<u32>);

impl Counts {
    /// The steps of the published measurement (see docs/sources.md).
    const STEPS: [u32; 9] = [1, 10, 50, 100, 200, 300, 500, 700, 1000];
}

impl FromStr for Counts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| {
            text.parse::<u32>()
                .ok()
                .filter(|&number| number > 0)
                .ok_or_else(|| format!("'{text}': expected a number of users, or FROM..TO"))
        };
        match text.split_once("..") {
            Some((from, to)) => {
                let (from, to) = (number(from)?, number(to)?);
                let between: Vec<u32> =
                    Self::STEPS.into_iter().filter(|step| (from..=to).contains(step)).collect();
                if between.is_empty() {
                    return Err(format!("no step of {:?} is in {text}", Self::STEPS));
                }
                Ok(Self(between))
            }
            None => text.split(',').map(number).collect::<Result<_, _>>().map(Self),
        }
    }
}

/// The rate over the measured time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Shape {
    /// A constant rate.
    #[default]
    Constant,
    /// A linear ramp from this rate to the given one.
    Ramp(f64),
    /// Each of these rates for an equal time, in place of the given rate.
    Steps(Vec<f64>),
    /// Periodic bursts: a number of operations at the given rate, then a pause.
    Burst {
        /// Operations in a burst.
        operations: f64,
        /// The time from the start of a burst to the start of the next.
        every: Duration,
    },
}

impl Shape {
    /// Returns the rate segments over `seconds` with `rate`.
    pub(crate) fn segments(&self, rate: f64, seconds: f64) -> Vec<Segment> {
        match self {
            Self::Constant => vec![Segment::constant(rate, seconds)],
            Self::Ramp(from) => vec![Segment { seconds, from: *from, to: rate }],
            Self::Steps(rates) => {
                let each = seconds / rates.len() as f64;
                rates.iter().map(|&rate| Segment::constant(rate, each)).collect()
            }
            Self::Burst { operations, every } => {
                let every = every.as_micros() as f64 / 1e6;
                let burst = (operations / rate).min(every);
                let count = (seconds / every).ceil().max(1.0) as usize;
                let one = [
                    Segment::constant(operations / burst, burst),
                    Segment::constant(0.0, every - burst),
                ];
                let all = std::iter::repeat_n(one, count).flatten();
                all.filter(|segment| segment.seconds > 0.0).collect()
            }
        }
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').unwrap_or((text, ""));
        match (name, value) {
            ("constant", "") => Ok(Self::Constant),
            ("ramp", from) if !from.is_empty() => rate(from).map(Self::Ramp),
            ("steps", rates) if !rates.is_empty() => {
                rates.split(',').map(rate).collect::<Result<_, _>>().map(Self::Steps)
            }
            ("burst", burst) => {
                let (operations, every) = burst
                    .split_once('/')
                    .ok_or("expected burst:OPERATIONS/EVERY, such as burst:1000/10s")?;
                let every = duration(every)?;
                if every == Duration::ZERO {
                    return Err("bursts need some time between them".to_owned());
                }
                Ok(Self::Burst { operations: rate(operations)?, every })
            }
            _ => Err("expected constant, ramp:FROM, steps:RATE,RATE,... or burst:OPERATIONS/EVERY"
                .to_owned()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant => f.write_str("constant"),
            Self::Ramp(from) => write!(f, "ramp:{from}"),
            Self::Steps(rates) => {
                let rates: Vec<_> = rates.iter().map(f64::to_string).collect();
                write!(f, "steps:{}", rates.join(","))
            }
            Self::Burst { operations, every } => {
                write!(f, "burst:{operations}/{}ms", every.as_millis())
            }
        }
    }
}

/// Parses a SIP or SIPS URI and returns it unchanged.
///
/// # Errors
/// A message if the text is not such a URI.
pub(crate) fn uri(text: &str) -> Result<String, String> {
    let is_sip = sip::Uri::parse(text.as_bytes()).is_ok_and(|uri| uri.as_sip().is_some());
    match is_sip && !text.contains(['?', '<', '>']) {
        true => Ok(text.to_owned()),
        false => Err("expected a SIP URI such as sip:service@192.0.2.5:5060".to_owned()),
    }
}

/// Returns the transport with this name.
///
/// # Errors
/// A message with the known names.
pub(crate) fn transport(name: &str) -> Result<Transport, String> {
    let known = Transport::ALL.map(Transport::uri_name).join(", ");
    Transport::parse(name.as_bytes()).ok_or_else(|| format!("expected one of {known}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_list_or_steps_of_a_range() {
        let rates = |text: &str, steps, factor| text.parse::<Rates>().unwrap().all(steps, factor);
        assert_eq!(rates("5,7", 9, None), Ok(vec![5.0, 7.0]));
        assert_eq!(rates("10..40", 4, None), Ok(vec![10.0, 20.0, 30.0, 40.0]));
        assert_eq!(rates("10..80", 4, Some(2.0)), Ok(vec![10.0, 20.0, 40.0, 80.0]));
        assert!(rates("10..80", 4, Some(1.0)).is_err());
        for text in ["", "0", "5..5", "9..5", "..", "1,x"] {
            assert!(text.parse::<Rates>().is_err(), "{text}");
        }
        assert_eq!("5..250".parse(), Ok(Counts(vec![10, 50, 100, 200])));
        assert_eq!("3,4".parse(), Ok(Counts(vec![3, 4])));
        assert!("2..9".parse::<Counts>().is_err());
        assert_eq!((bits("50M"), bits("7")), (Ok(50_000_000), Ok(7)));
        assert!(bits("0").is_err() && bits("5X").is_err() && bits("").is_err());
    }

    #[test]
    fn shapes_are_rates_over_time() {
        let segments = |text: &str| text.parse::<Shape>().unwrap().segments(100.0, 10.0);
        assert_eq!(segments("constant"), [Segment::constant(100.0, 10.0)]);
        assert_eq!(segments("ramp:20"), [Segment { seconds: 10.0, from: 20.0, to: 100.0 }]);
        assert_eq!(
            segments("steps:1,2"),
            [Segment::constant(1.0, 5.0), Segment::constant(2.0, 5.0)]
        );
        let burst = [Segment::constant(100.0, 0.5), Segment::constant(0.0, 4.5)];
        assert_eq!(segments("burst:50/5s"), [burst, burst].concat());
        for text in ["", "ramp", "ramp:", "steps:", "steps:1,x", "burst:5", "burst:5/0", "x:1"] {
            assert!(text.parse::<Shape>().is_err(), "{text}");
        }
    }
}
