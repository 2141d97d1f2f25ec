//! Our phone and others call one another, directly and through the server.

use peers::exchange::Exchange;
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Action, Event, Phone};
use peers::transport::Transport::{Tcp, Udp};

/// How two phones reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    /// By the server, which takes nobody's word.
    Server,
}

/// Two phones: alice's calls, bob's is called.
struct Pair {
    alice: Phone,
    bob: Phone,
    /// Where bob is called.
    uri: String,
    _exchange: Exchange,
}

impl Pair {
    fn new(from: Kind, to: Kind, way: Way) -> Self {
        let exchange = Exchange::that_trusts_nobody();
        let (alice, bob, uri) = match way {
            Way::Direct => {
                let phone = |kind, user| Phone::direct(kind, exchange.account(user, Udp));
                let (alice, bob) = (phone(from, "alice"), phone(to, "bob"));
                let uri = bob.direct_uri();
                (alice, bob, uri)
            }
            Way::Server => {
                // Ours speaks TCP with the server.
                let phone = |kind, user| {
                    let transport = if kind == Barebell { Tcp } else { Udp };
                    exchange.phone(kind, user, transport)
                };
                (phone(from, "alice"), phone(to, "bob"), exchange.server.uri("bob"))
            }
        };
        Self { alice, bob, uri, _exchange: exchange }
    }

    fn ring(&mut self) {
        self.alice.dial_until_it_rings(&self.uri);
        self.bob.wait_for(Event::Incoming);
    }

    fn connect(&mut self) {
        self.ring();
        self.bob.act(&Action::Answer);
        self.alice.wait_for(Event::Established);
        self.bob.wait_for(Event::Established);
    }

    fn end(&mut self, caller_hangs_up: bool) {
        let ends = if caller_hangs_up { &mut self.alice } else { &mut self.bob };
        ends.act(&Action::HangUp);
        self.alice.wait_for(Event::Ended);
        self.bob.wait_for(Event::Ended);
    }

    /// Each hears the other's tone as loud as it is sent.
    fn hear(&mut self) {
        let Self { alice, bob, .. } = self;
        alice.wait_until_it_hears_faithfully(bob);
        bob.wait_until_it_hears_faithfully(alice);
    }
}

/// One call in each direction, in which each hears the other; either hangs up.
fn talks(other: Kind, way: Way) {
    for (from, to) in [(Barebell, other), (other, Barebell)] {
        let mut pair = Pair::new(from, to, way);
        pair.connect();
        pair.hear();
        pair.end(from == Barebell);
    }
}

#[test]
fn baresip_directly() {
    talks(Baresip, Way::Direct);
}

#[test]
fn linphone_directly() {
    talks(Linphone, Way::Direct);
}

#[test]
fn twinkle_directly() {
    talks(Twinkle, Way::Direct);
}

#[test]
fn baresip_through_the_server() {
    talks(Baresip, Way::Server);
}

#[test]
fn linphone_through_the_server() {
    talks(Linphone, Way::Server);
}

#[test]
fn twinkle_through_the_server() {
    talks(Twinkle, Way::Server);
}
