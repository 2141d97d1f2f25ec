//! Two phones that call each other.

use crate::kamailio::{Kamailio, Nat};
use crate::phone::Kind::{self, Barebell, Linphone};
use crate::phone::{Account, Action, Event, Phone, Srtp};
use crate::test_server::TestServer;
use crate::transport::Transport::{self, Tcp, Udp};

/// The path between two phones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPath {
    /// Without a server.
    Direct,
    /// Through a server without trusted networks.
    Server,
    /// The caller uses Kamailio, which forwards to the server and stays in the path.
    Kamailio,
    /// The callee is behind Kamailio, which forwards only to it.
    BehindKamailio,
}

/// A phone: its kind, its encryption policy, and its transport to the server.
pub type Side = (Kind, Srtp, Transport);

/// Two phones: alice's calls, bob's is called.
pub struct Pair {
    /// The caller.
    pub alice: Phone,
    /// The callee.
    pub bob: Phone,
    /// The URI of bob.
    pub uri: String,
    /// The server, if used, and the accounts.
    pub exchange: TestServer,
    _kamailio: Option<Kamailio>,
}

impl Pair {
    /// Starts the phone `from` for alice and `to` for bob. `fit` changes their accounts.
    ///
    /// # Panics
    /// A program cannot be started or registered.
    #[must_use]
    pub fn with(from: Kind, to: Kind, way: CallPath, fit: impl Fn(&mut Account)) -> Self {
        let exchange = TestServer::without_trusted_sources();
        let account = |user, transport| {
            let mut account = exchange.account(user, transport);
            fit(&mut account);
            account
        };
        let mut kamailio = None;
        let (alice, bob, uri) = match way {
            CallPath::Direct | CallPath::BehindKamailio => {
                let phone = |kind, user| Phone::direct(kind, account(user, Udp));
                let (alice, bob) = (phone(from, "alice"), phone(to, "bob"));
                let mut uri = bob.direct_uri();
                if way == CallPath::BehindKamailio {
                    let proxy = Kamailio::start(bob.direct_address(), Nat::Ignored);
                    uri = format!("sip:bob@{}", proxy.outside);
                    kamailio = Some(proxy);
                }
                (alice, bob, uri)
            }
            CallPath::Server => return Self::at(exchange, from, to, fit),
            CallPath::Kamailio => {
                let proxy = Kamailio::start(exchange.server.address(), Nat::Ignored);
                let bob = Phone::registered(to, account("bob", Udp));
                let account = Account { proxy: Some(proxy.outside), ..account("alice", Udp) };
                kamailio = Some(proxy);
                (Phone::registered(from, account), bob, exchange.server.uri("bob"))
            }
        };
        Self { alice, bob, uri, exchange, _kamailio: kamailio }
    }

    /// Starts both phones at the server `exchange`. `fit` changes their accounts.
    ///
    /// # Panics
    /// A program cannot be started or registered.
    #[must_use]
    pub fn at(exchange: TestServer, from: Kind, to: Kind, fit: impl Fn(&mut Account)) -> Self {
        // barebell-phone uses TCP to the server.
        let phone = |kind, user| {
            let transport = if kind == Barebell { Tcp } else { Udp };
            let mut account = exchange.account(user, transport);
            fit(&mut account);
            Phone::registered(kind, account)
        };
        let (alice, bob, uri) =
            (phone(from, "alice"), phone(to, "bob"), exchange.server.uri("bob"));
        Self { alice, bob, uri, exchange, _kamailio: None }
    }

    /// Starts both phones at the server `exchange`, as `alice` and `bob` say.
    ///
    /// # Panics
    /// A program cannot be started or registered.
    #[must_use]
    pub fn of_sides(exchange: TestServer, alice: Side, bob: Side) -> Self {
        let account = |user, (_, srtp, transport): Side| {
            let mut account = exchange.account(user, transport);
            account.srtp = srtp;
            account
        };
        let accounts = [account("alice", alice), account("bob", bob)];
        Self::at(exchange, alice.0, bob.0, |account| {
            let [alice, bob] = &accounts;
            *account = if account.user == "alice" { alice.clone() } else { bob.clone() };
        })
    }

    /// Starts both phones with default accounts.
    ///
    /// # Panics
    /// A program cannot be started or registered.
    #[must_use]
    pub fn new(from: Kind, to: Kind, way: CallPath) -> Self {
        Self::with(from, to, way, |_| ())
    }

    /// Alice calls, and bob's phone rings.
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

    /// Waits until each hears the other's tone with the original level.
    pub fn hear(&mut self) {
        let Self { alice, bob, .. } = self;
        alice.wait_until_it_hears_faithfully(bob);
        bob.wait_until_it_hears_faithfully(alice);
    }
}

/// One phone holds the call, so that the other hears nothing, and resumes it.
///
/// # Panics
/// A step fails or is rejected.
pub fn hold_and_resume(holder: &mut Phone, held: &mut Phone) {
    let before = [&*holder, &*held].map(|phone| phone.statuses("INVITE").len());
    holder.act_and_wait_for_ok(&Action::Hold, "INVITE");
    // linphone keeps playing its file on hold; baresip and Twinkle play nothing when held,
    // barebell-phone does.
    if (holder.kind, held.kind) != (Linphone, Barebell) {
        held.wait_until_it_hears_no_more(holder.account.tone);
    }
    holder.act_and_wait_for_ok(&Action::Resume, "INVITE");
    held.wait_until_it_hears_more(holder.account.tone);
    holder.wait_until_it_hears_more(held.account.tone);
    for (phone, before) in [holder, held].into_iter().zip(before) {
        let statuses = phone.statuses("INVITE").into_iter().skip(before);
        let failed: Vec<_> = statuses.filter(|&status| status > 407).collect();
        assert!(failed.is_empty(), "{phone}: {failed:?} to INVITE");
    }
}

/// A key pressed at one phone is one key at the other.
pub fn press(here: &mut Phone, there: &mut Phone) {
    for key in ['1', '1', '#', '0'] {
        here.act(&Action::Press(key));
        there.wait_for_keys(&key.to_string());
    }
}
