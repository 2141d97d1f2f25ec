//! The validity of runs: the reasons why the figures may show the generator and not the system
//! under test (RFC 7502 section 4.9: the capacity of the tester has to exceed that of the system).

use super::sums::OfMachine;
use crate::record::{Ceiling, Run, Watch};
use sip::Duration;

/// The limits of a valid run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The 99th percentile of the delay from the scheduled to the actual sending.
    pub(crate) lag: Duration,
    /// The share of CPU time of a worker.
    pub(crate) busy: f64,
    /// The share of the generator's ceiling that may be offered.
    pub(crate) of_ceiling: f64,
    /// The share of CPU time of the watched machine that other programs may use.
    pub(crate) others: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { lag: Duration::from_millis(10), busy: 0.9, of_ceiling: 0.8, others: 0.1 }
    }
}

impl Limits {
    /// Returns the limits for a load that starts all at once: then a worker is busy, and late, by
    /// design.
    pub(crate) fn of_a_moment(&self) -> Self {
        Self { lag: Duration::from_secs(3600), busy: f64::INFINITY, ..*self }
    }

    /// Returns the doubts about a machine with the offered rate `rate`.
    pub(super) fn doubts_of_machine(
        &self,
        machine: &OfMachine,
        rate: f64,
        ceiling: Option<Ceiling>,
    ) -> Vec<String> {
        let mut doubts = Vec::new();
        let (_, lag) = machine.tally.offered_and_lag();
        let lag = lag.percentile(99.0);
        if lag > self.lag.as_micros() {
            doubts.push(format!(
                "the generator was late: one operation in a hundred started {} ms or more after its \
                 time, {} ms are allowed",
                lag / 1000,
                self.lag.as_millis()
            ));
        }
        if machine.busiest > self.busy {
            doubts.push(format!(
                "a thread of the generator was busy {:.0} % of the time, {:.0} % are allowed: take \
                 more workers or a lower rate",
                machine.busiest * 100.0,
                self.busy * 100.0
            ));
        }
        if machine.links.drops > 0 {
            doubts.push(format!(
                "the kernel dropped {} datagrams that the generator did not take in time",
                machine.links.drops
            ));
        }
        if machine.links.refused > 0 {
            doubts.push(format!(
                "nothing listened at the address of the server (connection refused, {} times)",
                machine.links.refused
            ));
        }
        if machine.links.unsent > 0 {
            doubts.push(format!(
                "{} messages of the generator could not be sent",
                machine.links.unsent
            ));
        }
        if let Some(ceiling) = ceiling
            && rate > ceiling.rate * self.of_ceiling
        {
            doubts.push(format!(
                "the generator alone reaches {:.0} operations a second against an ideal peer; {:.0} \
                 were offered, more than {:.0} % of that",
                ceiling.rate,
                rate,
                self.of_ceiling * 100.0
            ));
        }
        doubts
    }

    /// Returns the doubt about the machine of the system under test, observed as `watch`.
    pub(crate) fn doubt_of_others(&self, watch: Option<&Watch>) -> Option<String> {
        let others = watch?.others.filter(|&others| others > self.others)?;
        Some(format!(
            "other programs used {:.0} % of the processors' time beside the system under test, \
             {:.0} % are allowed",
            others * 100.0,
            self.others * 100.0
        ))
    }

    /// Returns the doubts about `run` as a whole.
    pub(super) fn doubts(run: &Run) -> Vec<String> {
        let mut doubts = Vec::new();
        if run.counts.offered == 0 {
            doubts.push("nothing was offered in the measured time".to_owned());
        }
        if run.load.authentication
            && run.counts.challenged + run.counts.reused == 0
            && run.counts.succeeded > 0
        {
            doubts.push("authentication was expected, and the server sent no challenge".to_owned());
        }
        if !run.load.authentication && run.counts.challenged > 0 {
            doubts.push(format!(
                "the server sent {} unexpected challenges: add --auth",
                run.counts.challenged
            ));
        }
        doubts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_programs_are_a_doubt_above_their_limit() {
        let doubt = |others| {
            let watch = Watch { others, ..Watch::default() };
            Limits::default().doubt_of_others(Some(&watch))
        };
        assert_eq!(doubt(None), None, "an older record");
        assert_eq!(doubt(Some(0.09)), None);
        assert!(doubt(Some(0.37)).unwrap().starts_with("other programs used 37 % "));
        assert_eq!(Limits::default().doubt_of_others(None), None, "no observed system");
    }
}
