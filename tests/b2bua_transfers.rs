//! Transfers with one call through the B2BUA, since the callee refuses the keys of the caller, and
//! another one that passes the proxy.

use peers::pair::{Pair, Side};
use peers::phone::Kind::{Barebell, Linphone};
use peers::phone::Srtp::{Off, Optional, Required};
use peers::phone::{Action, Event, Phone};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use peers::transport::Transport::{Tcp, Udp};

/// Alice talks with bob. Carol has a phone.
struct Three {
    pair: Pair,
    carol: Phone,
}

impl Three {
    fn new(alice: Side, bob: Side, carol: Side) -> Self {
        let exchange = TestServer::with(
            &format!(
                "{TRUSTS_NOBODY}[calls]\nmode = \"needed\"\n[media]\nports = \"32700-32999\"\n"
            ),
            &[],
        );
        let mut account = exchange.account("carol", carol.2);
        account.srtp = carol.1;
        let carol = Phone::registered(carol.0, account);
        let mut pair = Pair::of_sides(exchange, alice, bob);
        pair.connect();
        pair.hear();
        Self { pair, carol }
    }

    /// The calls through the B2BUA so far.
    fn joined(&self) -> u64 {
        self.pair.exchange.server.counter("b2bua-calls")
    }

    fn transfer_blind(mut self, joined: [u64; 2]) {
        assert_eq!(self.joined(), joined[0]);
        let carol = self.pair.exchange.server.uri("carol");
        self.pair.bob.act(&Action::Transfer(carol));
        self.carol.wait_for(Event::Incoming);
        self.carol.act(&Action::Answer);
        self.carol.wait_for(Event::Established);
        self.continue_without_bob(joined[1]);
    }

    fn transfer_after_consultation(mut self, joined: [u64; 3]) {
        assert_eq!(self.joined(), joined[0]);
        let carol = self.pair.exchange.server.uri("carol");
        let bob = &mut self.pair.bob;
        bob.act(&Action::Consult(carol));
        self.carol.wait_for(Event::Incoming);
        self.carol.act(&Action::Answer);
        self.carol.wait_for(Event::Established);
        bob.wait_for(Event::Established);
        self.carol.wait_until_it_hears(bob.account.tone);
        assert_eq!(self.joined(), joined[1]);
        self.pair.bob.act(&Action::TransferToConsulted);
        // barebell-phone answers it automatically.
        self.carol.wait_for(Event::Incoming);
        self.carol.wait_for(Event::Established);
        self.continue_without_bob(joined[2]);
    }

    /// Alice talks with carol.
    fn continue_without_bob(mut self, joined: u64) {
        assert_eq!(self.joined(), joined);
        let Pair { alice, bob, exchange, .. } = &mut self.pair;
        bob.wait_for_status("REFER", &[202, 200]);
        alice.wait_until_it_hears(self.carol.account.tone);
        self.carol.wait_until_it_hears(alice.account.tone);
        alice.act(&Action::HangUp);
        self.carol.wait_for(Event::Ended);
        exchange.wait_for_ports(&(32_700..33_000), 0);
    }
}

/// The phone of bob refuses the offer of alice, that of carol takes any.
#[test]
fn the_party_of_a_joined_call_is_transferred_to_a_proxied_one() {
    let (alice, bob) = ((Barebell, Off, Tcp), (Linphone, Required, Udp));
    let carol = (Barebell, Optional, Tcp);
    Three::new(alice, bob, carol).transfer_blind([1, 1]);
    Three::new(alice, bob, carol).transfer_after_consultation([1, 1, 1]);
}

/// The INVITE that replaces a joined call goes to the B2BUA, too.
#[test]
fn the_party_of_a_proxied_call_is_transferred_to_a_joined_one() {
    let (alice, bob) = ((Barebell, Off, Tcp), (Linphone, Off, Udp));
    let carol = (Barebell, Required, Tcp);
    Three::new(alice, bob, carol).transfer_blind([0, 1]);
    Three::new(alice, bob, carol).transfer_after_consultation([0, 1, 2]);
}
