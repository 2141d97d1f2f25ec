//! Judges ended calls by the expectations.

use crate::impression::Expectation;
use crate::junit::{self, Case, Judged};
use crate::outcome::Outcome;
use crate::report::{PhoneEvent, Report};
use media::audio_meter::AudioMeter;
use std::path::PathBuf;
use std::time::Duration;

/// The expectations and the verdicts so far.
pub(crate) struct Judge {
    expectations: Vec<Expectation>,
    junit: Option<PathBuf>,
    report: Report,
    cases: Vec<Case>,
    /// True if an answered call was judged.
    has_judged: bool,
    /// The first unmet expectation.
    unmet: Option<String>,
}

impl Judge {
    pub(crate) const fn new(
        expectations: Vec<Expectation>,
        junit: Option<PathBuf>,
        report: Report,
    ) -> Self {
        Self { expectations, junit, report, cases: Vec::new(), has_judged: false, unmet: None }
    }

    /// A detector of the expected sound.
    pub(crate) fn ear(&self) -> AudioMeter {
        let mut ear = AudioMeter::default();
        for expectation in &self.expectations {
            if let Expectation::Tone(hertz) = expectation {
                ear.listen_for(*hertz);
            }
        }
        ear
    }

    /// Keeps a verdict for JUnit. Without a JUnit file nothing is kept, so that memory does not
    /// grow.
    fn note(&mut self, name: String, time: Duration, judged: Judged) {
        if self.junit.is_some() {
            self.cases.push(Case { name, time, judged });
        }
    }

    /// Judges calls that end.
    pub(crate) fn hear(&mut self, told: &PhoneEvent) {
        let PhoneEvent::Ended { call, cause, outcome, seconds, totals, heard, .. } = told else {
            return;
        };
        let time = Duration::from_secs_f64(seconds.unwrap_or(0.0).max(0.0));
        let judged = match outcome {
            Outcome::Done => Judged::Passed,
            _ => Judged::Failed(cause.clone()),
        };
        self.note(format!("call {call}"), time, judged);
        self.has_judged |= seconds.is_some();
        let heard = heard.clone().unwrap_or_default();
        for expectation in self.expectations.clone() {
            let name = format!("call {call}: {expectation}");
            if seconds.is_none() {
                self.note(name, Duration::ZERO, Judged::Skipped);
                continue;
            }
            let verdict = expectation.judge(&heard, totals.as_ref());
            let judged = match verdict.is_met {
                true => Judged::Passed,
                false => Judged::Failed(verdict.to_string()),
            };
            if !verdict.is_met {
                self.unmet.get_or_insert(verdict.to_string());
            }
            // The time belongs to the case of the call.
            self.note(name, Duration::ZERO, judged);
            let (expected, heard) = (verdict.expected, verdict.heard);
            self.report.tell(&PhoneEvent::Expected {
                call: *call,
                met: verdict.is_met,
                expected,
                heard,
            });
        }
    }

    /// The outcome of the program, given its `outcome` without expectations. Writes the JUnit file.
    pub(crate) fn end(&mut self, outcome: Outcome) -> Outcome {
        let outcome = match (outcome, self.unmet.take()) {
            (Outcome::Done, Some(unmet)) => Outcome::Unmet(unmet),
            (Outcome::Done, None) if !self.has_judged && !self.expectations.is_empty() => {
                Outcome::Unmet("there was no call to check".into())
            }
            (outcome, _) => outcome,
        };
        if self.cases.is_empty() && outcome != Outcome::Done {
            let judged = Judged::Failed(outcome.to_string());
            self.note("call".into(), Duration::ZERO, judged);
        }
        junit::finish(self.junit.as_deref(), &self.cases, outcome)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(call: u64) -> PhoneEvent {
        PhoneEvent::Ended {
            call,
            cause: String::new(),
            status: 0,
            by_peer: true,
            sip_status: None,
            seconds: Some(1.0),
            totals: None,
            heard: None,
            pcm: None,
            outcome: Outcome::Done,
        }
    }

    #[test]
    fn the_time_of_a_call_counts_once() {
        let expected = vec![Expectation::Audio, Expectation::Mos(3.0)];
        let junit = Some(PathBuf::from("result.xml"));
        let mut judge = Judge::new(expected, junit, Report::new(true, true));
        judge.hear(&ended(1));
        let times: Vec<Duration> = judge.cases.iter().map(|case| case.time).collect();
        assert_eq!(times, [Duration::from_secs(1), Duration::ZERO, Duration::ZERO]);
    }

    #[test]
    fn calls_are_kept_for_junit_alone() {
        let kept = |junit| {
            let mut judge = Judge::new(Vec::new(), junit, Report::new(true, true));
            (1..=3).for_each(|call| judge.hear(&ended(call)));
            judge.cases.len()
        };
        assert_eq!((kept(None), kept(Some(PathBuf::from("result.xml")))), (0, 3));
    }
}
