//! Phones call one another through the B2BUA of the server.

use peers::pair::{Pair, Side, hold_and_resume, press};
use peers::phone::Kind::{Barebell, Baresip, Linphone, Twinkle};
use peers::phone::Srtp::{Off, Required};
use peers::phone::{Action, Event};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use peers::transport::Transport::{Tcp, Tls, Udp};
use std::ops::Range;

/// The ports of the relay.
const PORTS: Range<u16> = 32_400..32_700;

/// The sockets of a call of two phones. The relay is on one leg of a call.
const SOCKETS: usize = 4;

/// A server with this `mode` of calls, and the keys `media` of `[media]`.
fn server(mode: &str, media: &str) -> TestServer {
    let ports = format!("ports = \"{}-{}\"\n", PORTS.start, PORTS.end - 1);
    let calls = format!("[calls]\nmode = \"{mode}\"\n");
    TestServer::with(&format!("{TRUSTS_NOBODY}{calls}[media]\n{ports}{media}"), &[])
}

/// Starts the phones of alice and bob at a server with this `mode` of calls.
fn pair(mode: &str, alice: Side, bob: Side) -> Pair {
    Pair::of_sides(server(mode, ""), alice, bob)
}

/// The value of a counter of the server.
fn count(pair: &Pair, counter: &str) -> u64 {
    pair.exchange.server.counter(counter)
}

/// Alice calls bob. Each hears the other, also after a hold of either side. Alice or bob hangs up.
fn talks(mode: &str, alice: Side, bob: Side, caller_hangs_up: bool) {
    talk(pair(mode, alice, bob), caller_hangs_up);
}

fn talk(mut pair: Pair, caller_hangs_up: bool) {
    pair.connect();
    pair.exchange.wait_for_ports(&PORTS, SOCKETS);
    assert_eq!(count(&pair, "b2bua-calls"), 1);
    pair.hear();
    if [pair.alice.kind, pair.bob.kind].contains(&Barebell) {
        press(&mut pair.alice, &mut pair.bob);
        press(&mut pair.bob, &mut pair.alice);
    }
    hold_and_resume(&mut pair.alice, &mut pair.bob);
    hold_and_resume(&mut pair.bob, &mut pair.alice);
    pair.end(caller_hangs_up);
    pair.exchange.wait_for_ports(&PORTS, 0);
}

#[test]
fn phones_talk_through_the_b2bua() {
    talks("b2bua", (Barebell, Off, Tcp), (Baresip, Off, Udp), true);
    talks("b2bua", (Linphone, Off, Tcp), (Barebell, Off, Udp), false);
    talks("b2bua", (Baresip, Off, Udp), (Twinkle, Off, Udp), true);
}

#[test]
fn phones_with_encrypted_signalling_talk_through_the_b2bua() {
    talks("b2bua", (Barebell, Required, Tls), (Linphone, Required, Tls), false);
}

#[test]
fn the_b2bua_joins_a_phone_that_encrypts_with_one_that_does_not() {
    for mode in ["b2bua", "needed"] {
        talks(mode, (Barebell, Required, Tcp), (Twinkle, Off, Udp), true);
        talks(mode, (Twinkle, Off, Udp), (Barebell, Required, Tcp), false);
    }
    talks("needed", (Baresip, Off, Udp), (Linphone, Required, Udp), true);
}

#[test]
fn the_b2bua_joins_phones_without_a_common_codec() {
    for (transcode, alice, bob) in [
        ("\"GSM\"", (Baresip, ""), (Barebell, "GSM")),
        ("\"PCMU\", \"PCMA\"", (Barebell, "opus"), (Linphone, "")),
    ] {
        let exchange = server("needed", &format!("transcode = [{transcode}]\n"));
        let pair = Pair::at(exchange, alice.0, bob.0, |account| {
            account.codecs = if account.user == "alice" { alice.1 } else { bob.1 };
        });
        talk(pair, true);
    }
}

#[test]
fn a_call_that_needs_no_b2bua_passes_the_proxy_alone() {
    let mut pair = pair("needed", (Barebell, Off, Tcp), (Baresip, Off, Udp));
    pair.connect();
    pair.hear();
    assert_eq!(count(&pair, "b2bua-calls"), 0);
    pair.end(true);
}

#[test]
fn a_cancelled_call_ends_on_both_legs() {
    let mut pair = pair("b2bua", (Barebell, Off, Tcp), (Baresip, Off, Udp));
    pair.ring();
    pair.alice.act(&Action::HangUp);
    pair.bob.wait_for(Event::Ended);
    pair.bob.wait_for_status("INVITE", &[487]);
    pair.alice.wait_for(Event::Ended);
    pair.exchange.wait_for_ports(&PORTS, 0);
}

#[test]
fn a_busy_callee_is_busy_for_the_caller() {
    let mut pair = pair("b2bua", (Linphone, Off, Udp), (Barebell, Off, Tcp));
    pair.ring();
    pair.bob.act(&Action::Reject);
    pair.alice.wait_for(Event::Ended);
    pair.alice.wait_for_status("INVITE", &[486, 603]);
    pair.exchange.wait_for_ports(&PORTS, 0);
}

#[test]
fn the_calls_of_the_b2bua_end_with_the_server() {
    let mut pair = pair("b2bua", (Barebell, Off, Tcp), (Baresip, Off, Udp));
    pair.connect();
    pair.exchange.server.stop();
    pair.alice.wait_for(Event::Ended);
    pair.bob.wait_for(Event::Ended);
}

#[test]
fn a_server_that_was_killed_ends_its_calls_at_the_next_start() {
    let mut pair = pair("b2bua", (Barebell, Off, Udp), (Baresip, Off, Udp));
    pair.connect();
    pair.hear();
    pair.exchange.server.crash();
    pair.exchange.server.restart();
    pair.alice.wait_for(Event::Ended);
    pair.bob.wait_for(Event::Ended);
    pair.exchange.wait_for_ports(&PORTS, 0);
}
