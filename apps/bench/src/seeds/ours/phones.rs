//! The regularity of phones' packets, and the cost of their exchanges of keys.

use crate::seeds::phones::{Call, Exchange, Stream};
use crate::seeds::softphone::{Keys, Kind};
use crate::series::{Series, Value, named};

/// Our phone.
const OURS: &str = Kind::Barebell.name();

/// A figure of a stream, and true if the higher one of two streams counts, false for the mean.
type Figure = (fn(&Stream) -> f64, bool);

/// The figures by the ends of the names of derivations.
const FIGURES: [(&str, Figure); 6] = [
    ("max-delta", (|stream| stream.max_delta, true)),
    ("mean-delta", (|stream| stream.mean_delta, false)),
    ("max-jitter", (|stream| stream.max_jitter, true)),
    ("mean-jitter", (|stream| stream.mean_jitter, false)),
    ("rate", (|stream| stream.kbit_per_s, false)),
    ("frame", (frame, false)),
];

/// The bytes of an Ethernet header.
const ETHERNET: f64 = 14.0;

/// Returns the bytes of a frame, without the checksum: those of its IP packet, and its header.
fn frame(stream: &Stream) -> f64 {
    (stream.kbit_per_s * stream.mean_delta / 8.0).round() + ETHERNET
}

/// The derivation of a figure from a group of calls.
type Group = fn(&[Call], Figure) -> Vec<Series>;

/// The groups of calls by the beginnings of the names of derivations.
const GROUPS: [(&str, Group); 4] = [
    ("phone-alike-", alike),
    ("phone-pair-", pair),
    ("phone-keys-", keys),
    ("phone-throughput-", throughput),
];

/// A figure of an exchange of keys; `None` without packets.
type ExchangeFigure = fn(&Exchange) -> Option<f64>;

/// The figures of an exchange of keys by the ends of the names of derivations.
const EXCHANGES: [(&str, ExchangeFigure); 4] = [
    ("packets", |exchange| Some(exchange.packets as f64)),
    ("octets", |exchange| Some(exchange.octets as f64)),
    ("size", |exchange| {
        (exchange.packets > 0).then(|| exchange.octets as f64 / exchange.packets as f64)
    }),
    ("time", |exchange| Some(exchange.ms)),
];

/// A figure of calls.
type Derivation = Box<dyn Fn(&[Call]) -> Vec<Series>>;

/// The beginning of the names of derivations of the exchange of keys.
const EXCHANGE: &str = "phone-exchange-";

/// Returns the derivation with this name, if there is one.
pub(super) fn derivation(name: &str) -> Option<Derivation> {
    if let Some(end) = name.strip_prefix(EXCHANGE) {
        if let Some((_, value)) = EXCHANGES.iter().find(|(known, _)| *known == end) {
            return Some(Box::new(|calls| by_keys(calls, |call| value(&call.exchange))));
        }
        let (_, figure) = FIGURES.iter().find(|(known, _)| *known == end)?;
        return Some(Box::new(|calls| by_keys(calls, |call| Some(of_both(call, *figure)))));
    }
    GROUPS.iter().find_map(|(group, derive)| {
        let figure = name.strip_prefix(group)?;
        let (_, figure) = FIGURES.iter().find(|(known, _)| *known == figure)?;
        let derivation: Derivation = Box::new(move |calls| derive(calls, *figure));
        Some(derivation)
    })
}

/// Returns a figure of both streams of a call.
fn of_both(call: &Call, (figure, is_highest): Figure) -> f64 {
    let [one, other] = &call.streams;
    let (one, other) = (figure(one), figure(other));
    if is_highest { one.max(other) } else { (one + other) / 2.0 }
}

/// Returns a figure of the calls between two phones of a kind by the protocol of keys, for each
/// phone.
fn by_keys(calls: &[Call], value: impl Fn(&Call) -> Option<f64>) -> Vec<Series> {
    let of_phone = |phone: &str| {
        let values = Keys::ALL.into_iter().map(Keys::name).filter_map(|keys| {
            let is_it = |call: &&Call| {
                let of_phone = call.caller == phone && call.callee == phone;
                of_phone && call.keys.as_deref() == Some(keys)
            };
            Some((keys.to_owned(), value(calls.iter().find(is_it)?)?))
        });
        named(phone, values.collect::<Vec<_>>())
    };
    Kind::ALL.into_iter().map(Kind::name).map(of_phone).collect()
}

/// Returns true for a call without SRTP.
fn is_clear(call: &Call) -> bool {
    call.suite.is_none() && call.keys.is_none()
}

/// Returns the call of two phones without SRTP, or with keys by SDES; of several suites the first.
fn call<'c>(calls: &'c [Call], caller: &str, callee: &str, is_secure: bool) -> Option<&'c Call> {
    calls.iter().find(|call| {
        let is_it = if is_secure { call.suite.is_some() } else { is_clear(call) };
        call.caller == caller && call.callee == callee && is_it
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
fn alike(calls: &[Call], figure: Figure) -> Vec<Series> {
    both(|is_secure| {
        let value = |phone: &str| {
            let call = call(calls, phone, phone, is_secure)?;
            Some(Value::of(phone, of_both(call, figure)))
        };
        Kind::ALL.into_iter().map(Kind::name).filter_map(value).collect()
    })
}

/// Returns the figure of both directions of the calls between unlike phones.
fn pair(calls: &[Call], (figure, _): Figure) -> Vec<Series> {
    both(|is_secure| {
        let others = Kind::ALL.into_iter().map(Kind::name).filter(|name| *name != OURS);
        let values = others.filter_map(|name| {
            let [ours, other] = &call(calls, OURS, name, is_secure)?.streams;
            Some([
                Value::of(format!("from {OURS} to {name}"), figure(ours)),
                Value::of(format!("from {name}"), figure(other)),
            ])
        });
        values.flatten().collect()
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

/// Returns the figure of our phone without SRTP, and with each length of the tag and the shortest
/// key.
fn throughput(calls: &[Call], (figure, _): Figure) -> Vec<Series> {
    let value = |(end, name): (Option<&str>, &str)| {
        let is_it = |call: &&Call| {
            let suite = call.suite.as_deref();
            let is_known = match (suite, end) {
                (Some(suite), Some(end)) => suite.contains("128") && suite.ends_with(end),
                (_, end) => is_clear(call) && end.is_none(),
            };
            is_known && call.caller == OURS && call.callee == OURS
        };
        let [one, other] = &calls.iter().find(is_it)?.streams;
        Some((name.to_owned(), (figure(one) + figure(other)) / 2.0))
    };
    let values = [
        (None, "without SRTP"),
        (Some("_32"), "with SRTP, tag of 32 bits"),
        (Some("_80"), "with SRTP, tag of 80 bits"),
    ];
    vec![named("here", values.into_iter().filter_map(value).collect::<Vec<_>>())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_those_of_the_source_by_the_length_of_the_tag() {
        let call = |suite: Option<&str>, kbit_per_s| {
            let stream = Stream { mean_delta: 20.01, kbit_per_s, ..Stream::default() };
            let (caller, callee) = (OURS.to_owned(), OURS.to_owned());
            let keys = suite.map(|_| Keys::Sdes.name().to_owned());
            let (suite, streams) = (suite.map(str::to_owned), [stream; 2]);
            Call { caller, callee, suite, keys, streams, ..Call::default() }
        };
        let calls = [
            call(None, 79.96),
            call(Some("AES_256_CM_HMAC_SHA1_80"), 99.0),
            call(Some("AES_CM_128_HMAC_SHA1_80"), 83.96),
            call(Some("AES_CM_128_HMAC_SHA1_32"), 81.56),
        ];
        let derive = derivation("phone-throughput-frame").expect("a derivation");
        let values: Vec<f64> = derive(&calls)[0].values.iter().map(|value| value.value).collect();
        assert_eq!(values, [214.0, 218.0, 224.0]);
    }
    #[test]
    fn an_exchange_of_keys_has_its_packets_beside_those_of_none() {
        let call = |keys: Keys, packets, octets| Call {
            caller: OURS.to_owned(),
            callee: OURS.to_owned(),
            suite: (keys == Keys::Sdes).then(|| "AES_CM_128_HMAC_SHA1_80".to_owned()),
            keys: Some(keys.name().to_owned()),
            exchange: Exchange { packets, octets, ms: 0.0 },
            ..Call::default()
        };
        let calls = [call(Keys::Sdes, 0, 0), call(Keys::Zrtp, 5, 1005)];
        let values = |name: &str| {
            let series = derivation(name).expect("a derivation")(&calls).swap_remove(0);
            assert_eq!(series.name, OURS);
            series.values.into_iter().map(|value| value.value).collect::<Vec<_>>()
        };
        assert_eq!(values("phone-exchange-packets"), [0.0, 5.0]);
        assert_eq!(values("phone-exchange-size"), [201.0]);
        // A call with such keys is no call without SRTP.
        let clear = derivation("phone-alike-max-delta").expect("a derivation")(&calls);
        assert!(clear[0].values.is_empty() && clear[1].values.len() == 1, "{clear:?}");
    }
}
