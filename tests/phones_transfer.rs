//! Blind and attended transfers (RFC 5589), through a server without trusted networks: alice calls
//! bob, and he transfers her to carol.

use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Action, Event, Phone};
use peers::process::{despite_twinkle, wait_until};
use peers::test_server::TestServer;
use peers::transport::Transport::{self, Tcp, Udp};

struct Three {
    exchange: TestServer,
    alice: Phone,
    bob: Phone,
    carol: Phone,
}

/// Alice and bob talk. Each of the three has a phone of this kind.
fn talk(alice: (Kind, Transport), bob: (Kind, Transport), carol: (Kind, Transport)) -> Three {
    let exchange = TestServer::without_trusted_sources();
    let carol = exchange.phone(carol.0, "carol", carol.1);
    let mut bob = exchange.phone(bob.0, "bob", bob.1);
    let mut alice = exchange.phone(alice.0, "alice", alice.1);
    exchange.connect(&mut alice, &mut bob);
    Three { exchange, alice, bob, carol }
}

impl Three {
    /// Bob transfers the call to carol without consultation.
    fn transfer_blind(mut self) {
        self.bob.act(&Action::Transfer(self.exchange.server.uri("carol")));
        self.carol.wait_for(Event::Incoming);
        self.carol.act(&Action::Answer);
        self.carol.wait_for(Event::Established);
        self.continue_without_bob();
    }

    /// Bob consults carol, then transfers alice to her.
    fn transfer_attended(mut self) {
        self.bob.act(&Action::Consult(self.exchange.server.uri("carol")));
        self.carol.wait_for(Event::Incoming);
        self.carol.act(&Action::Answer);
        self.carol.wait_for(Event::Established);
        self.bob.wait_for(Event::Established);
        self.carol.wait_until_it_hears(self.bob.account.tone);
        self.bob.act(&Action::TransferToConsulted);
        self.carol.wait_for(Event::Incoming);
        match self.carol.kind {
            // linphone automatically answers an INVITE with Replaces and ends the replaced call,
            // but its recording also ends.
            Linphone => self.carol.wait_for(Event::Ended),
            // barebell-phone also answers it automatically, and then ends the replaced call.
            Barebell => {}
            _ => self.carol.act(&Action::Answer),
        }
        self.carol.wait_for(Event::Established);
        self.continue_without_bob();
    }

    fn continue_without_bob(mut self) {
        self.bob.wait_for_status("REFER", &[202, 200]);
        self.alice.wait_until_it_hears(self.carol.account.tone);
        if self.carol.kind != Linphone {
            self.carol.wait_until_it_hears(self.alice.account.tone);
        }
        // Bob's phone may reject a NOTIFY: Twinkle one without Contact, which linphone sends; all
        // phones one that precedes the 202 or follows the BYE.
        wait_until("bob to receive the state of the transfer", || {
            (!self.bob.statuses("NOTIFY").is_empty()).then_some(())
        });
        self.alice.act(&Action::HangUp);
        self.carol.wait_for(Event::Ended);
    }
}

#[test]
fn baresip_transfers_blind() {
    talk((Linphone, Udp), (Baresip, Udp), (Twinkle, Tcp)).transfer_blind();
}

#[test]
fn linphone_transfers_blind() {
    talk((Baresip, Udp), (Linphone, Tcp), (Twinkle, Udp)).transfer_blind();
}

#[test]
fn twinkle_transfers_blind() {
    talk((Baresip, Tcp), (Twinkle, Udp), (Linphone, Udp)).transfer_blind();
}

#[test]
fn linphone_transfers_after_consultation() {
    talk((Twinkle, Udp), (Linphone, Udp), (Baresip, Udp)).transfer_attended();
}

#[test]
fn twinkle_transfers_after_consultation() {
    despite_twinkle(|| {
        talk((Twinkle, Udp), (Twinkle, Udp), (Linphone, Udp)).transfer_attended();
    });
}

#[test]
fn barebell_phone_transfers_blind() {
    talk((Linphone, Udp), (Barebell, Tcp), (Twinkle, Udp)).transfer_blind();
}

#[test]
fn barebell_phone_is_transferred_blind_by_baresip() {
    talk((Barebell, Udp), (Baresip, Udp), (Linphone, Udp)).transfer_blind();
}

#[test]
fn barebell_phone_is_transferred_blind_by_linphone() {
    talk((Barebell, Tcp), (Linphone, Udp), (Baresip, Udp)).transfer_blind();
}

#[test]
fn barebell_phone_is_transferred_blind_by_twinkle() {
    talk((Barebell, Udp), (Twinkle, Udp), (Baresip, Udp)).transfer_blind();
}

#[test]
fn a_call_is_transferred_blind_to_barebell_phone() {
    talk((Baresip, Udp), (Twinkle, Udp), (Barebell, Tcp)).transfer_blind();
}

#[test]
fn barebell_phone_transfers_after_consultation() {
    talk((Twinkle, Udp), (Barebell, Tcp), (Linphone, Udp)).transfer_attended();
}

/// linphone omits the port in Refer-To. barebell-phone reaches the server through its proxy, which
/// it has for TCP.
#[test]
fn barebell_phone_is_transferred_by_linphone_after_consultation() {
    talk((Barebell, Tcp), (Linphone, Udp), (Linphone, Udp)).transfer_attended();
}

#[test]
fn barebell_phone_is_transferred_by_twinkle_after_consultation() {
    talk((Barebell, Udp), (Twinkle, Udp), (Linphone, Udp)).transfer_attended();
}

#[test]
fn a_call_is_transferred_to_barebell_phone_after_consultation() {
    talk((Twinkle, Udp), (Linphone, Udp), (Barebell, Tcp)).transfer_attended();
}
