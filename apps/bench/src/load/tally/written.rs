//! The serialised form of a tally. It is complete, so the tallies of several machines merge
//! exactly.

use super::{METHODS, STATUSES, SecondTally, Tally};
use crate::record::{self, Counts, Delay, Histogram, Second};
use serde::{Deserialize, Serialize};
use sip::Instant;
use std::collections::BTreeMap;

/// The longest series that is accepted from another machine, in seconds: a month.
const LONGEST: usize = 31 * 24 * 3600;

/// The counts without their origin in time. The form can be merged but takes no further counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Written {
    counts: Counts,
    /// Final responses: the index of the method, the status, the count.
    finals: Vec<(usize, u16, u64)>,
    delays: BTreeMap<Delay, Histogram>,
    lag: Histogram,
    /// Each second with its histogram; the text is empty if the second has no delays.
    seconds: Vec<(Second, String)>,
    operations: u64,
}

impl TryFrom<&Tally> for Written {
    type Error = String;

    fn try_from(tally: &Tally) -> Result<Self, String> {
        let finals = tally.finals.iter().enumerate().flat_map(|(method, statuses)| {
            let counted = (0..).zip(statuses).filter(|&(_, &count)| count > 0);
            counted.map(move |(status, &count)| (method, status, count))
        });
        let delays = Delay::ALL.into_iter().zip(&tally.delays);
        let seconds = tally.seconds.iter().map(|tally| {
            let is_empty = tally.response.is_empty();
            let text = if is_empty { String::new() } else { record::encode(&tally.response)? };
            Ok((tally.second.clone(), text))
        });
        Ok(Self {
            counts: tally.counts.clone(),
            finals: finals.collect(),
            delays: delays
                .filter(|(_, histogram)| !histogram.is_empty())
                .map(|(delay, histogram)| (delay, histogram.clone()))
                .collect(),
            lag: tally.lag.clone(),
            seconds: seconds.collect::<Result<_, String>>()?,
            operations: tally.operations,
        })
    }
}

impl TryFrom<Written> for Tally {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        if written.seconds.len() > LONGEST {
            return Err(format!("a series of {} seconds", written.seconds.len()));
        }
        let mut tally = Self::new(Instant::ZERO, Instant::ZERO..Instant::ZERO);
        tally.counts = Counts { finals: BTreeMap::new(), ..written.counts };
        for (method, status, count) in written.finals {
            let known = method < METHODS.len() && usize::from(status) < STATUSES;
            if !known {
                return Err(format!("a response {status} to method {method}"));
            }
            tally.finals[method][usize::from(status)] += count;
        }
        for (delay, histogram) in written.delays {
            tally.delays[delay as usize] = histogram;
        }
        tally.lag = written.lag;
        for (second, text) in written.seconds {
            let mut of_second = SecondTally { second, ..SecondTally::new() };
            if !text.is_empty() {
                record::decode_into(&mut of_second.response, &text)?;
            }
            tally.seconds.push(of_second);
        }
        tally.operations = written.operations;
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::tally::Outcome;
    use sip::{Duration, Method};

    /// Returns a tally of operations with delays of 1 to 2999 times `step` microseconds.
    fn tally(step: u64) -> Tally {
        let origin = Instant::from_micros(1_000_000_000);
        let mut tally = Tally::new(origin, origin..Instant::MAX);
        for number in 1..3000 {
            let scheduled = origin + Duration::from_millis(number);
            let took = Duration::from_micros(number * step);
            tally.offered(scheduled);
            tally.started(scheduled, scheduled + Duration::from_micros(step));
            tally.delay(Delay::Response, took);
            tally.response(scheduled + took, took);
            tally.finished(Method::Register, if number % 10 == 0 { 503 } else { 200 });
            tally.ended(Outcome::Succeeded, true, scheduled + took);
        }
        tally
    }

    #[test]
    fn serialized_tallies_merge_to_the_same() {
        let mut here = tally(7);
        here.merge(&tally(113));
        let travelled = |tally: &Tally| -> Tally {
            let text = serde_json::to_string(&Written::try_from(tally).unwrap()).unwrap();
            serde_json::from_str::<Written>(&text).unwrap().try_into().unwrap()
        };
        let mut there = travelled(&tally(7));
        there.merge(&travelled(&tally(113)));
        assert_eq!(here.verdict(), there.verdict());
        let all = Duration::ZERO..Duration::from_secs(100);
        let (here, there) = (here.into_parts(all.clone()), there.into_parts(all));
        assert_eq!(here.counts, there.counts);
        assert_eq!(there.counts.offered, 2 * 2999);
        assert_eq!(here.delays, there.delays);
        assert_eq!(here.lag, there.lag);
        assert_eq!(here.series, there.series);
        assert_eq!(here.operations, there.operations);
    }

    #[test]
    fn invalid_tallies_are_refused() {
        let good = Written::try_from(&tally(7)).unwrap();
        let wrong: [fn(&mut Written); 4] = [
            |it| it.finals.push((0, 700, 1)),
            |it| it.finals.push((9, 200, 1)),
            |it| it.seconds[0].1 = "AAAA".to_owned(),
            |it| it.seconds.resize(LONGEST + 1, (Second::default(), String::new())),
        ];
        assert!(Tally::try_from(good.clone()).is_ok());
        for wrong in wrong {
            let mut written = good.clone();
            wrong(&mut written);
            assert!(Tally::try_from(written).is_err());
        }
        // Three digits, while a second has two.
        let mut written = good;
        written.seconds[0].1 = record::encode(&record::growing(3)).unwrap();
        assert!(Tally::try_from(written).is_err());
    }
}
