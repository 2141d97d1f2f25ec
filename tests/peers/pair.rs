//! Two phones that call each other.

use crate::exchange::Exchange;
use crate::kamailio::{Kamailio, Nat};
use crate::phone::Kind::{self, Barebell};
use crate::phone::{Account, Action, Event, Phone};
use crate::transport::Transport::{Tcp, Udp};

/// How two phones reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Without a server.
    Direct,
    /// By the server, which takes nobody's word.
    Server,
    /// Who calls sends to Kamailio, which forwards to the server and stays in the path.
    Kamailio,
}

/// Two phones: alice's calls, bob's is called.
pub struct Pair {
    /// Who calls.
    pub alice: Phone,
    /// Who is called.
    pub bob: Phone,
    /// Where bob is called.
    pub uri: String,
    _kamailio: Option<Kamailio>,
    _exchange: Exchange,
}

impl Pair {
    /// Alice's phone is a `from`, bob's a `to`; `fit` makes changes in their accounts.
    ///
    /// # Panics
    /// When something cannot be started, or registered.
    #[must_use]
    pub fn with(from: Kind, to: Kind, way: Way, fit: impl Fn(&mut Account)) -> Self {
        let exchange = Exchange::that_trusts_nobody();
        let account = |user, transport| {
            let mut account = exchange.account(user, transport);
            fit(&mut account);
            account
        };
        let mut kamailio = None;
        let (alice, bob, uri) = match way {
            Way::Direct => {
                let phone = |kind, user| Phone::direct(kind, account(user, Udp));
                let (alice, bob) = (phone(from, "alice"), phone(to, "bob"));
                let uri = bob.direct_uri();
                (alice, bob, uri)
            }
            Way::Server => {
                // Ours speaks TCP with the server.
                let phone = |kind, user| {
                    let transport = if kind == Barebell { Tcp } else { Udp };
                    Phone::registered(kind, account(user, transport))
                };
                (phone(from, "alice"), phone(to, "bob"), exchange.server.uri("bob"))
            }
            Way::Kamailio => {
                let proxy = Kamailio::start(exchange.server.address(), Nat::Ignored);
                let bob = Phone::registered(to, account("bob", Udp));
                let account = Account { proxy: Some(proxy.outside), ..account("alice", Udp) };
                kamailio = Some(proxy);
                (Phone::registered(from, account), bob, exchange.server.uri("bob"))
            }
        };
        Self { alice, bob, uri, _kamailio: kamailio, _exchange: exchange }
    }

    /// The same with accounts as they come.
    ///
    /// # Panics
    /// When something cannot be started, or registered.
    #[must_use]
    pub fn new(from: Kind, to: Kind, way: Way) -> Self {
        Self::with(from, to, way, |_| ())
    }

    /// Alice calls, and it rings.
    pub fn ring(&mut self) {
        self.alice.dial_until_it_rings(&self.uri);
        self.bob.wait_for(Event::Incoming);
    }

    /// Alice calls, and bob answers.
    pub fn connect(&mut self) {
        self.ring();
        self.bob.act(&Action::Answer);
        self.alice.wait_for(Event::Established);
        self.bob.wait_for(Event::Established);
    }

    /// One of them hangs up.
    pub fn end(&mut self, caller_hangs_up: bool) {
        let ends = if caller_hangs_up { &mut self.alice } else { &mut self.bob };
        ends.act(&Action::HangUp);
        self.alice.wait_for(Event::Ended);
        self.bob.wait_for(Event::Ended);
    }

    /// Each hears the other's tone as loud as it is sent.
    pub fn hear(&mut self) {
        let Self { alice, bob, .. } = self;
        alice.wait_until_it_hears_faithfully(bob);
        bob.wait_until_it_hears_faithfully(alice);
    }
}
