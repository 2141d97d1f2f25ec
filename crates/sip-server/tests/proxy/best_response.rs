//! The choice of the response after all branches have failed (RFC 3261 section 16.7 step 6).

use crate::bench::{Bench, values};
use sip::HeaderName;

/// The response to alice after three phones of bob respond with `statuses`, in this order.
fn best(statuses: [u16; 3]) -> u16 {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1"), ("three", "1")]);
    bench.call("INVITE");
    let mut noted = Vec::new();
    for (end, status) in ["one", "two", "three"].into_iter().zip(statuses) {
        noted = bench.answer(end, status);
    }
    let best = noted.iter().find_map(|note| note.strip_prefix("alice ")).expect("an answer");
    let best = best.parse().unwrap();
    bench.follow("ACK");
    bench.rest();
    best
}

#[test]
fn the_best_response_is_chosen_in_whatever_order_they_come() {
    for (statuses, expected) in [
        ([486, 486, 486], &[486][..]),
        // A global failure comes before all others.
        ([486, 600, 302], &[600]),
        ([404, 486, 603], &[603]),
        // Then the lowest class.
        ([486, 302, 503], &[302]),
        ([500, 404, 501], &[404]),
        ([500, 503, 500], &[500]),
        // Within 4xx, those that say how to retry.
        ([486, 404, 401], &[401]),
        ([486, 407, 480], &[407]),
        ([486, 415, 408], &[415]),
        ([480, 420, 486], &[420]),
        ([480, 484, 408], &[484]),
        // A timeout says less than the response of a phone.
        ([408, 486, 408], &[486]),
        ([408, 404, 503], &[404]),
        // Equivalent responses: either may be chosen.
        ([404, 480, 408], &[404, 480]),
        // A 503 must not be forwarded, because it would refer to this server.
        ([503, 503, 503], &[500]),
    ] {
        let [a, b, c] = statuses;
        for order in [[a, b, c], [a, c, b], [b, a, c], [b, c, a], [c, a, b], [c, b, a]] {
            let chosen = best(order);
            assert!(expected.contains(&chosen), "{order:?}: {chosen} is not {expected:?}");
        }
    }
}

#[test]
fn the_challenges_of_all_branches_go_back() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("two", "1"), ("three", "1")]);
    bench.call("INVITE");
    bench.respond("one", "INVITE", 401, "WWW-Authenticate: Digest realm=\"1\",nonce=\"n\"\r\n");
    bench.respond("two", "INVITE", 407, "Proxy-Authenticate: Digest realm=\"2\",nonce=\"n\"\r\n");
    let noted = bench.respond(
        "three",
        "INVITE",
        401,
        "WWW-Authenticate: Digest realm=\"3\",nonce=\"n\"\r\n\
         WWW-Authenticate: Digest realm=\"4\",nonce=\"n\"\r\n",
    );
    assert!(
        noted.contains(&"alice 401".into()) || noted.contains(&"alice 407".into()),
        "{noted:?}"
    );
    let response = bench.last("alice", "response");
    let realms = |name| {
        values(&response, name)
            .iter()
            .filter_map(|value| Some(value.split_once("realm=")?.1.to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(realms(HeaderName::WwwAuthenticate), ["\"1\"", "\"3\"", "\"4\""]);
    assert_eq!(realms(HeaderName::ProxyAuthenticate), ["\"2\""]);
    bench.follow("ACK");
    bench.rest();
}

#[test]
fn one_silent_phone_does_not_hide_what_another_says() {
    let mut bench = Bench::with_bob(&[("one", "1"), ("silent", "1")]);
    bench.call("INVITE");
    bench.answer("one", 486);
    assert_eq!(bench.wait(32_000).last().unwrap(), "32000 alice 486");
    bench.follow("ACK");
    bench.rest();
}
