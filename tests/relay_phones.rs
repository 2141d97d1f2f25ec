//! Phones call one another through the media relay of the server: in clear and encrypted, with
//! hold, keys and transfers.

use peers::pair::{Pair, Side, hold_and_resume, press};
use peers::phone::Kind::{Barebell, Baresip, Linphone, Twinkle};
use peers::phone::Srtp::{Dtls, Off, Optional, Required, Zrtp};
use peers::phone::{Action, Event, Phone};
use peers::test_server::TestServer;
use peers::transport::Transport::{Tcp, Tls, Udp};
use std::ops::Range;
use std::thread;
use std::time::Duration;

/// The ports of the relay.
const PORTS: Range<u16> = 32_000..32_300;

/// The sockets of a call of two phones.
const SOCKETS: usize = 4;

/// A server that relays all calls, with this rule for keys, and further lines of `[media]`.
fn relay(keys: &str, more: &str) -> TestServer {
    TestServer::relaying(&PORTS, keys, more)
}

/// Waits until the relay has this number of open ports.
fn wait_for_sockets(exchange: &TestServer, count: usize) {
    exchange.wait_for_ports(&PORTS, count);
}

/// Starts the phones of alice and bob at a relay with this rule for `keys`.
fn pair(keys: &str, alice: Side, bob: Side) -> Pair {
    Pair::of_sides(relay(keys, ""), alice, bob)
}

/// Alice calls bob. Each hears the other, also after a hold of either side. barebell-phone and the
/// other phone receive each other's keys.
fn talks(keys: &str, alice: Side, bob: Side) {
    let mut pair = pair(keys, alice, bob);
    pair.connect();
    wait_for_sockets(&pair.exchange, SOCKETS);
    pair.hear();
    if [alice.0, bob.0].contains(&Barebell) {
        press(&mut pair.alice, &mut pair.bob);
        press(&mut pair.bob, &mut pair.alice);
    }
    hold_and_resume(&mut pair.alice, &mut pair.bob);
    hold_and_resume(&mut pair.bob, &mut pair.alice);
    pair.end(true);
    wait_for_sockets(&pair.exchange, 0);
}

/// Alice calls bob, and each hears the other. barebell-phone reports if it encrypts.
fn is_encrypted(keys: &str, alice: Side, bob: Side, expected: bool) {
    let mut pair = pair(keys, alice, bob);
    pair.connect();
    wait_for_sockets(&pair.exchange, SOCKETS);
    pair.hear();
    for phone in [&pair.alice, &pair.bob].into_iter().filter(|phone| phone.kind == Barebell) {
        assert_eq!(phone.suite().is_some(), expected, "{phone}: {:?}", phone.suite());
    }
    pair.end(false);
    wait_for_sockets(&pair.exchange, 0);
}

#[test]
fn barebell_phone_and_baresip_in_clear() {
    talks("passed", (Barebell, Off, Tcp), (Baresip, Off, Udp));
}

#[test]
fn linphone_and_twinkle_in_clear() {
    talks("passed", (Linphone, Off, Tcp), (Twinkle, Off, Udp));
}

#[test]
fn encrypted_calls_keep_their_keys() {
    talks("passed", (Linphone, Required, Udp), (Barebell, Required, Tcp));
    talks("converted", (Baresip, Required, Udp), (Linphone, Required, Udp));
}

#[test]
fn an_encrypting_phone_calls_one_in_clear() {
    talks("converted", (Barebell, Required, Tcp), (Twinkle, Off, Udp));
}

#[test]
fn a_phone_in_clear_calls_an_encrypting_one() {
    // Twinkle ignores the Record-Route of linphone's answers, and would bypass the server.
    talks("converted", (Twinkle, Off, Udp), (Barebell, Required, Tcp));
    is_encrypted("converted", (Baresip, Off, Udp), (Linphone, Required, Udp), true);
}

#[test]
fn keys_are_offered_to_every_callee() {
    is_encrypted("offered", (Twinkle, Off, Udp), (Barebell, Optional, Tcp), true);
    is_encrypted("offered", (Barebell, Off, Udp), (Linphone, Off, Udp), false);
    is_encrypted("offered", (Barebell, Required, Udp), (Baresip, Off, Udp), true);
}

#[test]
fn audio_of_phones_with_encrypted_signalling_is_encrypted() {
    talks("required", (Twinkle, Off, Udp), (Barebell, Required, Tls));
    is_encrypted("required", (Linphone, Required, Tls), (Barebell, Optional, Tls), true);
}

/// Alice holds the call for longer than a call without packets lasts. Phones that hold play
/// nothing.
#[test]
fn a_call_on_hold_outlives_the_time_without_packets() {
    for kinds in [[Baresip, Twinkle], [Twinkle, Baresip], [Linphone, Baresip]] {
        let [alice, bob] = kinds.map(|kind| (kind, Off, Udp));
        let mut pair = Pair::of_sides(relay("passed", "timeout = \"6s\"\n"), alice, bob);
        pair.connect();
        pair.hear();
        pair.alice.act_and_wait_for_ok(&Action::Hold, "INVITE");
        thread::sleep(Duration::from_secs(12));
        pair.alice.act_and_wait_for_ok(&Action::Resume, "INVITE");
        pair.bob.wait_until_it_hears_more(pair.alice.account.tone);
        pair.alice.wait_until_it_hears_more(pair.bob.account.tone);
        pair.end(true);
        wait_for_sockets(&pair.exchange, 0);
    }
}

/// The handshake ends at the relay. A callee without keys, or with another agreement, is called
/// again by the B2BUA.
#[test]
fn a_phone_with_dtls_calls_one_in_clear() {
    talks("converted", (Baresip, Dtls, Udp), (Barebell, Off, Udp));
    is_encrypted("converted", (Linphone, Dtls, Tcp), (Baresip, Off, Udp), false);
    // It answers 400 to the profile of a handshake.
    is_encrypted("converted", (Baresip, Dtls, Udp), (Twinkle, Off, Udp), false);
}

#[test]
fn a_phone_in_clear_calls_one_with_dtls() {
    talks("converted", (Barebell, Off, Udp), (Baresip, Dtls, Udp));
    is_encrypted("converted", (Twinkle, Off, Udp), (Baresip, Dtls, Udp), false);
    // It refuses an offer with keys in the description, too.
    is_encrypted("converted", (Baresip, Off, Udp), (Linphone, Dtls, Tcp), false);
}

#[test]
fn a_handshake_is_offered_to_every_callee() {
    is_encrypted("offered", (Baresip, Off, Udp), (Barebell, Dtls, Udp), true);
    is_encrypted("offered", (Barebell, Dtls, Udp), (Baresip, Off, Udp), true);
}

/// Both phones show the same string: the relay has no part in their keys.
#[test]
fn zrtp_passes() {
    let mut pair = pair("converted", (Barebell, Zrtp, Udp), (Linphone, Zrtp, Udp));
    pair.connect();
    wait_for_sockets(&pair.exchange, SOCKETS);
    pair.hear();
    let sas = pair.alice.sas();
    assert_eq!((sas.len(), &sas), (4, &pair.bob.sas()));
    pair.end(false);
    wait_for_sockets(&pair.exchange, 0);
}

/// Three phones, of which alice talks with bob.
struct Three {
    pair: Pair,
    carol: Phone,
}

impl Three {
    fn new(keys: &str, alice: Side, bob: Side, carol: Side) -> Self {
        let mut pair = pair(keys, alice, bob);
        let mut account = pair.exchange.account("carol", carol.2);
        account.srtp = carol.1;
        let carol = Phone::registered(carol.0, account);
        pair.connect();
        pair.hear();
        Self { pair, carol }
    }

    /// Carol answers, and talks with alice.
    fn continues(mut self) {
        let Pair { alice, bob, exchange, .. } = &mut self.pair;
        self.carol.wait_for(Event::Established);
        bob.wait_for_status("REFER", &[202, 200]);
        alice.wait_until_it_hears(self.carol.account.tone);
        self.carol.wait_until_it_hears(alice.account.tone);
        wait_for_sockets(exchange, SOCKETS);
        alice.act(&Action::HangUp);
        self.carol.wait_for(Event::Ended);
        wait_for_sockets(exchange, 0);
    }
}

#[test]
fn a_call_is_transferred_blind() {
    let phones = ((Baresip, Off, Udp), (Barebell, Required, Tcp), (Linphone, Off, Udp));
    let mut three = Three::new("converted", phones.0, phones.1, phones.2);
    let carol = three.pair.exchange.server.uri("carol");
    three.pair.bob.act(&Action::Transfer(carol));
    three.carol.wait_for(Event::Incoming);
    three.carol.act(&Action::Answer);
    three.continues();
}

/// Bob consults carol, then transfers alice to her.
fn is_transferred_after_consultation(keys: &str, alice: Side, bob: Side, carol: Side) {
    let mut three = Three::new(keys, alice, bob, carol);
    let carol = three.pair.exchange.server.uri("carol");
    three.pair.bob.act(&Action::Consult(carol));
    three.carol.wait_for(Event::Incoming);
    three.carol.act(&Action::Answer);
    three.carol.wait_for(Event::Established);
    three.pair.bob.wait_for(Event::Established);
    three.carol.wait_until_it_hears(three.pair.bob.account.tone);
    wait_for_sockets(&three.pair.exchange, 2 * SOCKETS);
    three.pair.bob.act(&Action::TransferToConsulted);
    // barebell-phone answers it automatically.
    three.carol.wait_for(Event::Incoming);
    three.continues();
}

#[test]
fn a_call_is_transferred_after_consultation() {
    let phones = ((Barebell, Off, Tcp), (Linphone, Off, Udp), (Barebell, Off, Tcp));
    is_transferred_after_consultation("passed", phones.0, phones.1, phones.2);
}

/// Keys end at the relay in the first call, and pass it in that to which alice is transferred.
#[test]
fn an_encrypted_call_is_transferred_after_consultation() {
    let phones = ((Barebell, Required, Tcp), (Linphone, Off, Udp), (Barebell, Optional, Tcp));
    is_transferred_after_consultation("converted", phones.0, phones.1, phones.2);
}
