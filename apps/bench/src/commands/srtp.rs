//! `srtp`: floods of forged packets at rising rates, with SRTP alone and with each scheme of SRTP+.

use super::error::CommandError;
use crate::cli::SrtpArgs;
use crate::console::print;
use crate::flood::{self, Flood, Outcome};
use crate::report::{FloodLine, FloodPoint};
use srtp::plus::{Placement, Scheme, SrtpPlus};
use srtp::{Policy, Suite};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The compared protections of packets, in the order of the report.
fn protections(suite: Suite, sources: u32) -> Vec<(&'static str, Option<Policy>)> {
    let mut srtp = Policy::new(suite);
    srtp.max_sources = sources as usize;
    let plus = |scheme| {
        let mut policy = srtp.clone();
        policy.plus = Some(SrtpPlus { scheme, placement: Placement::Trailer });
        Some(policy)
    };
    vec![
        ("received only", None),
        ("SRTP alone", Some(srtp.clone())),
        ("SRTP+ scheme 1, pseudorandom sequence", plus(Scheme::SEQUENCE)),
        ("SRTP+ scheme 2, keyed hash", plus(Scheme::Hash)),
        ("SRTP+ scheme 3, chained numbers", plus(Scheme::CHAIN)),
        ("SRTP+ scheme 4, header block", plus(Scheme::Header)),
    ]
}

pub(crate) fn execute(args: &SrtpArgs, ending: &Arc<AtomicBool>) -> Result<bool, CommandError> {
    let suite = Suite::from_name(&args.suite).ok_or_else(|| {
        let names: Vec<&str> = Suite::ALL.iter().map(|suite| suite.name()).collect();
        CommandError::Usage(format!(
            "no suite {}: expected one of {}",
            args.suite,
            names.join(", ")
        ))
    })?;
    if !(8..=flood::MAX_PAYLOAD).contains(&args.payload) {
        let limit = flood::MAX_PAYLOAD;
        return Err(CommandError::Usage(format!(
            "--payload {}: expected 8 to {limit} bytes",
            args.payload
        )));
    }
    let rates = args.rates.all(args.steps, None).map_err(CommandError::Usage)?;
    let protections = protections(suite, args.sources);
    let mut outcomes = vec![vec![Vec::new(); rates.len()]; protections.len()];
    'all: for _ in 0..args.repeats {
        for (place, &rate) in rates.iter().enumerate() {
            for ((_, policy), outcomes) in protections.iter().zip(&mut outcomes) {
                if ending.load(Ordering::SeqCst) {
                    break 'all;
                }
                let flood = Flood {
                    policy: policy.clone(),
                    sources: args.sources,
                    payload: args.payload,
                    rate,
                    duration: args.duration.into(),
                };
                outcomes[place].push(flood::measure(&flood).map_err(CommandError::Flood)?);
            }
        }
    }
    let allowed = Duration::from(args.max_lag);
    let lines: Vec<FloodLine> = protections
        .iter()
        .zip(&outcomes)
        .map(|((name, _), outcomes)| FloodLine {
            name: (*name).to_owned(),
            points: outcomes
                .iter()
                .filter(|outcomes| !outcomes.is_empty())
                .map(|outcomes| point(outcomes, allowed))
                .collect(),
        })
        .collect();
    let about = format!(
        "{suite}, {} bytes of payload, {} sources at 50 packets a second, {} for each figure, medians of {}",
        args.payload,
        args.sources,
        humantime::format_duration(args.duration.into()),
        args.repeats,
    );
    for path in &args.output {
        crate::report::write_flood(&about, &lines, path)?;
    }
    print(&crate::report::flood_markdown(&about, &lines)).map_err(CommandError::Print)?;
    let is_valid = lines.iter().flat_map(|line| &line.points).all(|point| point.doubt.is_none());
    Ok(is_valid && !ending.load(Ordering::SeqCst))
}

/// Returns the medians of the outcomes at a rate: of the valid ones, if there are any. `allowed` is
/// the highest delay of the sender.
fn point(outcomes: &[Outcome], allowed: Duration) -> FloodPoint {
    let valid = outcomes.iter().filter(|outcome| outcome.doubt(allowed).is_none());
    let valid: Vec<Outcome> = valid.copied().collect();
    let doubt = outcomes.iter().find_map(|outcome| outcome.doubt(allowed));
    let (outcomes, doubt) = if valid.is_empty() { (outcomes, doubt) } else { (&valid[..], None) };
    let median = |figure: fn(&Outcome) -> f64| {
        let mut figures: Vec<f64> = outcomes.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
    };
    FloodPoint {
        forged_rate: median(|outcome| outcome.forged_rate),
        lost: median(Outcome::lost),
        busy: median(|outcome| outcome.busy),
        nanos: median(|outcome| outcome.nanos),
        doubt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_those_of_valid_floods_where_there_are_any() {
        let outcome = |nanos, lag| Outcome { nanos, lag, ..Outcome::default() };
        let allowed = Duration::from_millis(1);
        let (good, late) = (outcome(100.0, 1000), outcome(900.0, 2000));
        let some = point(&[late, good, late], allowed);
        assert_eq!((some.nanos, some.doubt), (100.0, None));
        let none = point(&[late, late], allowed);
        assert!(none.nanos == 900.0 && none.doubt.unwrap().contains("late"));
    }
}
