//! barebell-phone and other phones without a server: calls are held, cancelled, transferred and
//! redirected. barebell-phone is also called behind a proxy.

use peers::pair::{CallPath, Pair, hold_and_resume};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone};
use peers::phone::{Action, Event, Phone};
use peers::process::wait_until;
use peers::sipp::Sipp;
use peers::test_server::TestServer;
use peers::transport::Transport::Udp;

/// Both phones hold the call, one after the other, in either direction of the call.
fn holds(other: Kind) {
    let mut pair = Pair::new(Barebell, other, CallPath::Direct);
    pair.connect();
    pair.hear();
    let Pair { alice, bob, .. } = &mut pair;
    hold_and_resume(alice, bob);
    hold_and_resume(bob, alice);
    pair.end(true);
}

#[test]
fn baresip_holds_and_is_held() {
    holds(Baresip);
}

#[test]
fn linphone_holds_and_is_held() {
    holds(Linphone);
}

/// The caller cancels while the phone rings.
fn is_cancelled(other: Kind) {
    for (from, to) in [(Barebell, other), (other, Barebell)] {
        let mut pair = Pair::new(from, to, CallPath::Direct);
        pair.ring();
        pair.alice.act(&Action::HangUp);
        pair.alice.wait_for(Event::Ended);
        pair.bob.wait_for(Event::Ended);
        pair.alice.wait_for_status("CANCEL", &[200]);
        pair.bob.wait_for_status("INVITE", &[487]);
    }
}

#[test]
fn a_call_with_baresip_is_cancelled() {
    is_cancelled(Baresip);
}

#[test]
fn a_call_with_linphone_is_cancelled() {
    is_cancelled(Linphone);
}

/// Bob transfers his call with alice to carol.
fn transfers(alice: Kind, bob: Kind, carol: Kind) {
    let mut pair = Pair::new(alice, bob, CallPath::Direct);
    let mut carol = Phone::direct(carol, pair.exchange.account("carol", Udp));
    pair.connect();
    let Pair { alice, bob, .. } = &mut pair;
    if bob.kind == Barebell {
        // It transfers no call before the ACK, which precedes the audio.
        bob.wait_until_it_hears(alice.account.tone);
    }
    bob.act(&Action::Transfer(carol.direct_uri()));
    carol.wait_for(Event::Incoming);
    carol.act(&Action::Answer);
    carol.wait_for(Event::Established);
    bob.wait_for_status("REFER", &[202, 200]);
    alice.wait_until_it_hears(carol.account.tone);
    carol.wait_until_it_hears(alice.account.tone);
    wait_until("bob to receive the state of the transfer", || {
        (!bob.statuses("NOTIFY").is_empty()).then_some(())
    });
    alice.act(&Action::HangUp);
    carol.wait_for(Event::Ended);
}

/// Without a server, linphone offers an IPv6 media address if the machine has one, which neither
/// baresip nor Twinkle accepts.
#[test]
fn barebell_phone_transfers_linphone_to_barebell_phone() {
    transfers(Linphone, Barebell, Barebell);
}

#[test]
fn barebell_phone_transfers_baresip_to_linphone() {
    transfers(Baresip, Barebell, Linphone);
}

#[test]
fn baresip_transfers_barebell_phone_to_linphone() {
    transfers(Barebell, Baresip, Linphone);
}

#[test]
fn linphone_transfers_barebell_phone_to_baresip() {
    transfers(Barebell, Linphone, Baresip);
}

#[test]
fn linphone_transfers_baresip_to_barebell_phone() {
    transfers(Baresip, Linphone, Barebell);
}

/// A phone answers 302, and barebell-phone calls the contact.
fn follows_a_redirect_of_a_phone(other: Kind) {
    let exchange = TestServer::open();
    let mut bob = Phone::direct(other, exchange.account("bob", Udp));
    let mut alice = Phone::direct(Barebell, exchange.account("alice", Udp));
    let carol = Sipp::new("callee_redirects").set("contact", bob.direct_uri()).calls(1);
    let uri = format!("sip:carol@127.0.0.1:{}", carol.port());
    let carol = carol.start(&exchange.server);
    alice.dial_until_it_rings(&uri);
    bob.wait_for(Event::Incoming);
    bob.act(&Action::Answer);
    alice.wait_for(Event::Established);
    alice.wait_until_it_hears(bob.account.tone);
    assert!(alice.statuses("INVITE").contains(&302), "{:?}", alice.statuses("INVITE"));
    alice.act(&Action::HangUp);
    bob.wait_for(Event::Ended);
    carol.finish();
}

#[test]
fn barebell_phone_follows_a_redirect_of_baresip() {
    follows_a_redirect_of_a_phone(Baresip);
}

#[test]
fn barebell_phone_follows_a_redirect_of_linphone() {
    follows_a_redirect_of_a_phone(Linphone);
}

/// barebell-phone is called through Kamailio, and either hangs up.
#[test]
fn barebell_phone_is_called_behind_kamailio() {
    for other in [Baresip, Linphone] {
        for caller_hangs_up in [true, false] {
            let mut pair = Pair::new(other, Barebell, CallPath::BehindKamailio);
            pair.connect();
            pair.hear();
            pair.end(caller_hangs_up);
        }
    }
}
