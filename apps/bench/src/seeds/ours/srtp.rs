//! The costs of SRTP and SRTP+.

use crate::report::FloodLine;
use crate::seeds::source::Figure;
use crate::seeds::srtp_steps::{Costs, SuiteCosts, Whole};
use crate::series::{Series, Value, named};

/// The share of lost legitimate packets above which a flood is no longer withstood.
pub(super) const LOSS: f64 = 0.001;

/// Returns by how much less CPU time a packet takes with each scheme of SRTP+ than with SRTP alone,
/// without the time of receiving, at the highest rate that both withstand. Without such a
/// rate it is the lowest, and not valid. Costs within the noise are left out.
pub(super) fn flood(lines: &[FloodLine]) -> Vec<Series> {
    let [received, alone, schemes @ ..] = lines else { return Vec::new() };
    let value = |scheme: &FloodLine| {
        let name = scheme.name.strip_prefix("SRTP+ ")?.split(',').next()?;
        let points = received.points.iter().zip(&alone.points).zip(&scheme.points);
        let withstood = points.clone().rev().find(|((received, alone), scheme)| {
            [received, alone, scheme].iter().all(|it| it.doubt.is_none() && it.lost <= LOSS)
        });
        let is_doubtful = withstood.is_none();
        let ((received, alone), scheme) = withstood.or_else(|| points.clone().next())?;
        let beyond = [alone, scheme].map(|it| it.nanos - received.nanos);
        // A protection that costs less than nothing is within the noise of the measurement.
        let is_known = beyond.iter().all(|nanos| *nanos > 0.0);
        is_known.then(|| Value { is_doubtful, ..Value::of(name, beyond[0] / beyond[1]) })
    };
    vec![Series { name: "here".to_owned(), values: schemes.iter().filter_map(value).collect() }]
}

/// Returns the steps of the suite of a figure, which its title names.
pub(super) fn srtp_steps(costs: &Costs, figure: &Figure) -> Vec<Series> {
    let is_it = |name: &str| {
        let key = if name.contains("192") {
            "192"
        } else if name.contains("256") {
            "256"
        } else {
            "128"
        };
        let tag = name.rsplit('_').next().unwrap_or_default();
        figure.title.contains(&format!("key of {key} bits, tag of {tag} bits"))
    };
    let found = costs.suites.iter().find(|(name, _)| is_it(name));
    let series = |steps: &SuiteCosts| {
        let values = [
            ("key derivation", steps.derivation),
            ("encryption", steps.encryption),
            ("decryption", steps.decryption),
            ("authentication", steps.authentication),
            ("check of the tag", steps.check),
            ("replay check", steps.replay),
            ("network headers, outgoing", steps.headers_out),
            ("network headers, incoming", steps.headers_in),
        ];
        vec![named("here", values)]
    };
    found.map(|(_, steps)| series(steps)).unwrap_or_default()
}

/// Returns the times of the tags alone, in nanoseconds.
pub(super) fn plus_alone(costs: &Costs) -> [(&'static str, f64); 4] {
    let [one, two, four] = costs.sha1;
    [("scheme 1", one), ("scheme 2", two), ("scheme 3", costs.aes[0]), ("SRTP", four)]
}

/// Returns ratios to SRTP of the tags alone, and of whole packets.
pub(super) fn plus_ratios(
    costs: &Costs,
    alone: impl Fn(f64, f64) -> f64,
    whole: impl Fn(Whole, Whole) -> f64,
) -> Vec<Series> {
    let tags = plus_alone(costs);
    let srtp = tags[3].1;
    let of_tags = tags[..3].iter().map(|(name, ns)| (*name, alone(*ns, srtp)));
    let mut all = vec![named("here, tag alone", of_tags)];
    if let Some(&srtp) = costs.plus.get("SRTP") {
        let of_packets = costs.plus.iter().filter(|(name, _)| *name != "SRTP");
        let of_packets = of_packets.map(|(name, costs)| (name.clone(), whole(*costs, srtp)));
        all.push(named("here, whole packets", of_packets));
    }
    all
}

/// Returns the time at arrival of a packet with scheme 1 beyond that of SRTP alone, and the time of
/// its number, which is computed ahead.
pub(super) fn ahead(costs: &Costs) -> Vec<Series> {
    let Some(srtp) = costs.plus.get("SRTP") else { return Vec::new() };
    let values = [
        ("at arrival, beyond SRTP", costs.ahead.arrival - srtp.unprotect),
        ("ahead of arrival", costs.ahead.numbers),
    ];
    vec![named("here", values)]
}

/// Returns the times of schemes without SRTP beyond those of a plain packet, in microseconds.
pub(super) fn without_srtp(costs: &Costs) -> Vec<Series> {
    let Some(plain) = costs.without_srtp.get("RTP") else { return Vec::new() };
    let schemes = || costs.without_srtp.iter().filter(|(name, _)| *name != "RTP");
    let beyond = |of: fn(&Whole) -> f64| {
        schemes().map(move |(name, whole)| (name.clone(), (of(whole) - of(plain)) / 1e3))
    };
    let refused = schemes().map(|(name, whole)| (name.clone(), whole.refuse / 1e3));
    vec![
        named("here, sending", beyond(|whole| whole.protect)),
        named("here, receiving", beyond(|whole| whole.unprotect)),
        named("here, refusal of a forged packet", refused),
    ]
}

/// Returns the times of tags in blocks of SHA-1: of the functions alone, and of the authentication
/// of a packet.
pub(super) fn model(costs: &Costs) -> Vec<Series> {
    let [one, two, four] = costs.sha1;
    let functions = [("scheme 1", 1.0), ("scheme 2", two / one), ("SRTP, 172 octets", four / one)];
    let mut all = vec![named("here, functions alone", functions)];
    if let Some(steps) = costs.suites.get("AES_CM_128_HMAC_SHA1_80") {
        let value = [("SRTP, 172 octets", steps.authentication / one)];
        all.push(named("here, authentication of a packet", value));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::FloodPoint;

    #[test]
    fn a_flood_has_no_ratio_of_costs_within_the_noise() {
        let line = |name: &str, nanos| {
            let (forged_rate, lost, busy) = (1e5, 0.0, 0.5);
            let points = vec![FloodPoint { forged_rate, lost, busy, nanos, doubt: None }];
            FloodLine { name: name.to_owned(), points }
        };
        let all = [
            line("received only", 1000.0),
            line("SRTP alone", 1400.0),
            line("SRTP+ scheme 1, pseudorandom sequence", 1100.0),
            line("SRTP+ scheme 2, keyed hash", 900.0),
        ];
        assert_eq!(flood(&all)[0].values, [Value::of("scheme 1", 4.0)]);
        // No scheme has a ratio if SRTP costs less than nothing.
        let alone = [&all[..1], &[line("SRTP alone", 990.0)], &all[2..]].concat();
        assert!(flood(&alone)[0].values.is_empty());
    }
}
