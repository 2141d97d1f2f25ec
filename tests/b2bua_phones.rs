//! Phones call one another through the B2BUA of the server.

use peers::pair::{Pair, Side, hold_and_resume, press};
use peers::phone::Kind::{Barebell, Baresip, Linphone, Twinkle};
use peers::phone::Srtp::{Off, Required};
use peers::phone::{Action, Event, Kind, Phone};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use peers::transport::Transport::{Tcp, Tls, Udp};
use std::net::UdpSocket;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

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

/// Sends silence in PCMU until the flag is set.
fn send_silence(socket: &UdpSocket, to: &str, is_over: &AtomicBool) {
    let mut packet = [0xff; 172];
    packet[..12].copy_from_slice(&[0x80, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    for number in 0_u16.. {
        if is_over.load(Relaxed) {
            break;
        }
        packet[2..4].copy_from_slice(&number.to_be_bytes());
        packet[4..8].copy_from_slice(&(u32::from(number) * 160).to_be_bytes());
        socket.send_to(&packet, to).expect("the relay receives");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The port in a session description.
fn port_in(description: &str) -> &str {
    let medium = description.split("m=audio ").nth(1).expect("an audio medium");
    medium.split(' ').next().expect("a port")
}

/// Alice has no telephone events, only INFO. The keys of both come once to the other one.
fn digits_are_translated(kind: Kind) {
    const DIGITS: &str = "application/dtmf-relay";
    let exchange = server("b2bua", "");
    let mut alice = exchange.agent("alice");
    let mut bob = Phone::registered(kind, exchange.account("bob", Udp));
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
    let port = socket.local_addr().expect("the socket is bound").port();
    let offer = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
         m=audio {port} RTP/AVP 0\r\n"
    );
    let mut dialog = alice.dialog(&exchange.server.uri("bob"));
    alice.ask(&mut dialog, "INVITE", "Allow: INVITE, ACK, BYE, CANCEL, INFO\r\n", &offer);
    bob.wait_for(Event::Incoming);
    bob.act(&Action::Answer);
    let answer = alice.final_response("INVITE");
    assert_eq!(answer.status(), Some(200), "{answer}");
    let mut dialog = answer.dialog();
    alice.acknowledge(&dialog, &answer);
    bob.wait_for(Event::Established);
    let description = answer.body();
    assert!(!description.contains("telephone-event"), "{description}");
    let to = format!("127.0.0.1:{}", port_in(&description));
    let is_over = Arc::new(AtomicBool::new(false));
    let sender = std::thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || send_silence(&socket, &to, &is_over)
    });
    alice.body_type = DIGITS;
    for key in ['5', '5', '#', '0'] {
        let body = format!("Signal={key}\r\nDuration=160\r\n");
        alice.send(&mut dialog, "INFO", "", &body);
        alice.response("INFO", 200);
        bob.wait_for_keys(&key.to_string());
    }
    for key in ['1', '1', '*'] {
        bob.act(&Action::Press(key));
        let info = alice.request("INFO");
        assert_eq!(info.value(sip::HeaderName::ContentType), DIGITS);
        let body = info.body();
        assert!(body.starts_with(&format!("Signal={key}\r\nDuration=")), "{body}");
        alice.answer(&info, &dialog, 200, "", "");
    }
    assert!(alice.request_if_any("INFO").is_none(), "each key comes once");
    alice.send(&mut dialog, "BYE", "", "");
    alice.response("BYE", 200);
    bob.wait_for(Event::Ended);
    is_over.store(true, Relaxed);
    sender.join().expect("the thread ends");
}

#[test]
fn digits_are_translated_between_info_and_telephone_events() {
    digits_are_translated(Barebell);
    digits_are_translated(Baresip);
}
