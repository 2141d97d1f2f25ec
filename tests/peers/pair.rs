//! Two phones that call each other.

use crate::exchange::Exchange;
use crate::kamailio::{Kamailio, Nat};
use crate::phone::Kind::{self, Barebell, Linphone};
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
    /// Who is called has Kamailio before it, which forwards what comes there to it alone.
    BehindKamailio,
}

/// Two phones: alice's calls, bob's is called.
pub struct Pair {
    /// Who calls.
    pub alice: Phone,
    /// Who is called.
    pub bob: Phone,
    /// Where bob is called.
    pub uri: String,
    /// The server, where there is one between, and the accounts.
    pub exchange: Exchange,
    _kamailio: Option<Kamailio>,
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
            Way::Direct | Way::BehindKamailio => {
                let phone = |kind, user| Phone::direct(kind, account(user, Udp));
                let (alice, bob) = (phone(from, "alice"), phone(to, "bob"));
                let mut uri = bob.direct_uri();
                if way == Way::BehindKamailio {
                    let proxy = Kamailio::start(bob.direct_address(), Nat::Ignored);
                    uri = format!("sip:bob@{}", proxy.outside);
                    kamailio = Some(proxy);
                }
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
        Self { alice, bob, uri, exchange, _kamailio: kamailio }
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

/// One puts the call on hold, so that the other one hears nothing, and takes it up again.
///
/// # Panics
/// When that fails, or is refused.
pub fn hold_and_resume(holder: &mut Phone, held: &mut Phone) {
    holder.act_and_wait_for_ok(&Action::Hold, "INVITE");
    // linphone goes on to play its file to whom it holds; baresip and Twinkle play nothing then,
    // ours does.
    if (holder.kind, held.kind) != (Linphone, Barebell) {
        held.wait_until_it_hears_no_more(holder.account.tone);
    }
    holder.act_and_wait_for_ok(&Action::Resume, "INVITE");
    held.wait_until_it_hears_more(holder.account.tone);
    holder.wait_until_it_hears_more(held.account.tone);
    for phone in [holder, held] {
        let failed: Vec<_> =
            phone.statuses("INVITE").into_iter().filter(|&status| status > 407).collect();
        assert!(failed.is_empty(), "{phone}: {failed:?} to INVITE");
    }
}
