//! Every pair of phones, each in clear and with SRTP, talks through the media relay of the server.

use peers::pair::{Pair, Side};
use peers::phone::Kind::{Barebell, Baresip, Linphone, Twinkle};
use peers::phone::Srtp::{Off, Required};
use peers::test_server::TestServer;
use peers::transport::Transport::Udp;
use std::ops::Range;

/// The ports of the relay.
const PORTS: Range<u16> = 31_800..31_900;

/// The sockets of a call of two phones.
const SOCKETS: usize = 4;

/// The phones. Twinkle has no SRTP with keys in the session description.
const PHONES: [Side; 7] = [
    (Barebell, Off, Udp),
    (Barebell, Required, Udp),
    (Baresip, Off, Udp),
    (Baresip, Required, Udp),
    (Linphone, Off, Udp),
    (Linphone, Required, Udp),
    (Twinkle, Off, Udp),
];

/// `caller` calls each of the phones. They hear each other, and either hangs up.
fn calls_each(caller: Side) {
    for (number, callee) in PHONES.into_iter().enumerate() {
        // Twinkle ignores the Record-Route of linphone's answers, and would bypass the server.
        if (caller.0, callee.0) == (Twinkle, Linphone) {
            continue;
        }
        // The relay ends the keys of a phone that the other one does not share.
        let exchange = TestServer::relaying(&PORTS, "converted", "");
        let mut pair = Pair::of_sides(exchange, caller, callee);
        pair.connect();
        pair.exchange.wait_for_ports(&PORTS, SOCKETS);
        pair.hear();
        for (phone, (_, srtp, _)) in [(&pair.alice, caller), (&pair.bob, callee)] {
            if phone.kind == Barebell {
                assert_eq!(
                    phone.suite().is_some(),
                    srtp == Required,
                    "{caller:?} calls {callee:?}"
                );
            }
        }
        pair.end(number % 2 == 0);
        pair.exchange.wait_for_ports(&PORTS, 0);
    }
}

#[test]
fn barebell_phone_in_clear() {
    calls_each(PHONES[0]);
}

#[test]
fn barebell_phone_with_srtp() {
    calls_each(PHONES[1]);
}

#[test]
fn baresip_in_clear() {
    calls_each(PHONES[2]);
}

#[test]
fn baresip_with_srtp() {
    calls_each(PHONES[3]);
}

#[test]
fn linphone_in_clear() {
    calls_each(PHONES[4]);
}

#[test]
fn linphone_with_srtp() {
    calls_each(PHONES[5]);
}

#[test]
fn twinkle_in_clear() {
    calls_each(PHONES[6]);
}
