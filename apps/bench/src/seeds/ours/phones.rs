//! The regularity of phones' packets.

use crate::seeds::phones::{Call, OTHER, OURS, Stream};
use crate::series::{Series, Value, named};

/// A figure of a stream, and true if the higher one of two streams counts, false for the mean.
type Figure = (fn(&Stream) -> f64, bool);

/// The figures by the ends of the names of derivations.
const FIGURES: [(&str, Figure); 5] = [
    ("max-delta", (|stream| stream.max_delta, true)),
    ("mean-delta", (|stream| stream.mean_delta, false)),
    ("max-jitter", (|stream| stream.max_jitter, true)),
    ("mean-jitter", (|stream| stream.mean_jitter, false)),
    ("rate", (|stream| stream.kbit_per_s, false)),
];

/// The derivation of a figure from a group of calls.
type Group = fn(&[Call], Figure) -> Vec<Series>;

/// The groups of calls by the beginnings of the names of derivations.
const GROUPS: [(&str, Group); 4] = [
    ("phone-alike-", alike),
    ("phone-pair-", pair),
    ("phone-keys-", keys),
    ("phone-throughput-", throughput),
];

/// Returns the derivation with this name, if there is one.
pub(super) fn derivation(name: &str) -> Option<impl Fn(&[Call]) -> Vec<Series> + use<>> {
    GROUPS.iter().find_map(|(group, derive)| {
        let figure = name.strip_prefix(group)?;
        let (_, figure) = FIGURES.iter().find(|(known, _)| *known == figure)?;
        Some(move |calls: &[Call]| derive(calls, *figure))
    })
}

/// Returns the call of two phones with or without SRTP; of several suites the first.
fn call<'c>(calls: &'c [Call], caller: &str, callee: &str, is_secure: bool) -> Option<&'c Call> {
    calls.iter().find(|call| {
        call.caller == caller && call.callee == callee && call.suite.is_some() == is_secure
    })
}

/// Returns a series without and one with SRTP.
fn both(values: impl Fn(bool) -> Vec<Value>) -> Vec<Series> {
    let series = |(is_secure, name): (bool, &str)| Series {
        name: format!("here, {name}"),
        values: values(is_secure),
    };
    [(false, "without SRTP"), (true, "with SRTP")].map(series).to_vec()
}

/// Returns the figure of calls between two phones of a kind.
fn alike(calls: &[Call], (figure, is_highest): Figure) -> Vec<Series> {
    both(|is_secure| {
        let value = |phone: &str| {
            let [one, other] = &call(calls, phone, phone, is_secure)?.streams;
            let (one, other) = (figure(one), figure(other));
            let value = if is_highest { one.max(other) } else { (one + other) / 2.0 };
            Some(Value::of(phone, value))
        };
        [OURS, OTHER].into_iter().filter_map(value).collect()
    })
}

/// Returns the figure of both directions of the calls between unlike phones.
fn pair(calls: &[Call], (figure, _): Figure) -> Vec<Series> {
    both(|is_secure| {
        let Some(call) = call(calls, OURS, OTHER, is_secure) else { return Vec::new() };
        let [ours, other] = &call.streams;
        vec![
            Value::of(format!("from {OURS}"), figure(ours)),
            Value::of(format!("from {OTHER}"), figure(other)),
        ]
    })
}

/// Returns the figure of both phones by the length of the key.
fn keys(calls: &[Call], (figure, _): Figure) -> Vec<Series> {
    let series = |(end, name): (usize, &str)| {
        let values = ["128", "192", "256"].into_iter().filter_map(|bits| {
            let is_it = |call: &&Call| {
                let suite = call.suite.as_deref().unwrap_or_default();
                call.caller == OURS && call.callee == OURS && suite.contains(bits)
            };
            let call = calls.iter().find(is_it)?;
            Some((format!("{bits} bits"), figure(&call.streams[end])))
        });
        named(&format!("here, {name}"), values.collect::<Vec<_>>())
    };
    [(0, "caller"), (1, "callee")].map(series).to_vec()
}

/// Returns the figure of our phone without SRTP and with a tag of 32 bits.
fn throughput(calls: &[Call], (figure, _): Figure) -> Vec<Series> {
    let value = |(is_secure, name): (bool, &str)| {
        let [one, other] = &call(calls, OURS, OURS, is_secure)?.streams;
        Some((name.to_owned(), (figure(one) + figure(other)) / 2.0))
    };
    let values = [(false, "without SRTP"), (true, "with SRTP, tag of 32 bits")];
    vec![named("here", values.into_iter().filter_map(value).collect::<Vec<_>>())]
}
