//! A softphone, whichever it is: what it is told to do, what it is seen and heard to do.

use crate::bare_phone::BarePhone;
use crate::barebell_phone::BarebellPhone;
use crate::baresip::Baresip;
use crate::linphone::Linphone;
use crate::nat::Machine;
use crate::process::{DEADLINE, Process, poll, wait_until};
use crate::tone::Recording;
use crate::trace::{Tail, credential_algorithms, statuses};
use crate::transport::Transport;
use crate::twinkle::Twinkle;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Display, Formatter};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use test_support::ports::address_towards;

/// How much of the other side's tone must be heard, in milliseconds.
const HEARD_MS: u32 = 1000;
/// How long a tone must have been away to have ended.
const SILENCE: Duration = Duration::from_secs(1);

/// The softphones there are drivers for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// baresip, driven over its control connection.
    Baresip,
    /// linphonec, driven by its standard input.
    Linphone,
    /// twinkle-console, driven by its standard input.
    Twinkle,
    /// Our own, `barebell-phone control`, driven by its standard input.
    Barebell,
    /// Our own that boots without an operating system, driven by keys at its serial line. There is
    /// one at a time, on a network that has nothing but its machine (`image::lan`).
    Bare,
}

/// What a phone wants of encryption, with keys in the session description (SDES). Twinkle can do
/// without only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Srtp {
    /// None. linphone and baresip take it even so where they are called.
    Off,
    /// It is offered and taken; the call can do without.
    Optional,
    /// No call without it.
    Required,
}

impl Srtp {
    /// What our phones call it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// What a phone is set up with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name.
    pub user: String,
    /// The user's password.
    pub password: String,
    /// The server that it registers with, and sends everything to where there is no proxy before
    /// it.
    pub server: SocketAddr,
    /// The proxy that everything goes to first. Only ours and baresip take one here.
    pub proxy: Option<SocketAddr>,
    /// How it talks to the server.
    pub transport: Transport,
    /// A file with who is trusted, over TLS.
    pub issuers: Option<PathBuf>,
    /// Whether there is a server: else it calls and is called [directly](Phone::direct).
    pub has_server: bool,
    /// Whether it also takes connections on the port of its contact. Only linphone can do without,
    /// as every phone behind a NAT must.
    pub listens: bool,
    /// The seconds that it asks its registration to last.
    pub expires: u32,
    /// The frequency of the tone that it sends in a call, in Hz.
    pub tone: u32,
    /// Whether it encrypts what it sends.
    pub srtp: Srtp,
    /// The suites of SRTP that it offers and takes, separated by commas; empty for those that it
    /// has. baresip cannot choose: it offers AES_CM_128_HMAC_SHA1_80, and takes more.
    pub suites: &'static str,
    /// The codecs that ours offers and takes, separated by commas; empty for those that it has. The
    /// others have G.711.
    pub codecs: &'static str,
    /// Where it runs, if not here. Only ours can.
    pub machine: Option<Machine>,
    /// The STUN servers that it asks, addresses with ports. Only ours do.
    pub stun: Vec<String>,
    /// Further options, with spaces between. Only the bare phone has them.
    pub options: String,
}

impl Account {
    /// Where a phone is that runs here: the address from which the server is reached.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        address_towards(self.server)
    }
}

/// What a phone is told to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Register with the server, and keep registered.
    Register,
    /// Remove the registration.
    Unregister,
    /// Call a URI.
    Dial(String),
    /// Answer the call that is ringing.
    Answer,
    /// Refuse the call that is ringing.
    Reject,
    /// End the call, or give up calling.
    HangUp,
    /// Answer every call at once, or no longer.
    AutoAnswer(bool),
    /// Press a key in the call.
    Press(char),
    /// Put the call on hold.
    Hold,
    /// Take the call up again that is on hold.
    Resume,
    /// Have the other side of the call call a URI instead: blind transfer (RFC 5589 section 6).
    Transfer(String),
    /// Put the call on hold and call a URI, to which the call will be transferred. baresip 1.0.0
    /// cannot.
    Consult(String),
    /// Have the other side of the call on hold take the place of this phone in the call by which
    /// the other one was [consulted](Self::Consult): attended transfer (RFC 5589 section 7).
    /// baresip 1.0.0 cannot, nor does it know Replaces; twinkle-console hangs when it gets that.
    TransferToConsulted,
}

/// What a phone is seen to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server has taken its registration.
    Registered,
    /// The server has refused it.
    RegistrationFailed,
    /// The server has removed its registration.
    Unregistered,
    /// It rings.
    Incoming,
    /// The phone that it calls rings.
    Ringback,
    /// The call is answered.
    Established,
    /// The call, answered or not, is over.
    Ended,
    /// The other side of the call has pressed a key.
    Key(char),
}

impl Event {
    /// Whether a phone that was waited on to be `awaited` cannot become that any more.
    fn rules_out(self, awaited: Self) -> bool {
        match awaited {
            Self::Registered => self == Self::RegistrationFailed,
            Self::Ringback | Self::Established => self == Self::Ended,
            _ => false,
        }
    }
}

/// What differs from phone to phone.
pub trait Driver: Debug {
    /// Passes on what to do, without waiting for its effect.
    fn act(&mut self, action: &Action);
    /// The event that a line of the phone's event log tells of.
    fn event(&self, line: &str) -> Option<Event>;
    /// What it has heard so far.
    fn recording(&self) -> Option<Recording>;
    /// How loud its tone is that it sends: the peak of the samples. `None` while that is not known.
    fn loudness(&self) -> Option<f64>;
    /// The suite of SRTP that it names for its last call that was answered. Only ours tells.
    fn suite(&self) -> Option<String> {
        None
    }
    /// Types `keys`, and waits until its screen shows `text`.
    ///
    /// # Panics
    /// When it does not, or has no screen: only the bare phone has one.
    fn turn_to(&mut self, keys: &str, text: &str) {
        panic!("no screen that shows {text:?} after {keys:?}");
    }
    /// Where it is, if that is not the address of its account.
    fn address(&self) -> Option<Ipv4Addr> {
        None
    }
    /// The port that it takes calls at.
    fn port(&self) -> u16;
    /// The log that tells of events.
    fn event_log(&self) -> PathBuf;
    /// The log that shows SIP messages.
    fn sip_log(&self) -> PathBuf;
    /// The program.
    fn process(&mut self) -> &mut Process;
}

/// A running softphone. It is killed when dropped, with no message to anyone.
#[derive(Debug)]
pub struct Phone {
    /// Which one it is.
    pub kind: Kind,
    /// What it was set up with.
    pub account: Account,
    driver: Box<dyn Driver>,
    tail: Tail,
    events: VecDeque<Event>,
}

impl Display for Phone {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.kind, self.account.user)
    }
}

impl Phone {
    /// Starts a phone. It does nothing until it is told to.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(kind: Kind, account: Account) -> Self {
        let driver: Box<dyn Driver> = match kind {
            Kind::Baresip => Box::new(Baresip::start(&account)),
            Kind::Linphone => Box::new(Linphone::start(&account)),
            Kind::Twinkle => Box::new(Twinkle::start(&account)),
            Kind::Barebell => Box::new(BarebellPhone::start(&account)),
            Kind::Bare => Box::new(BarePhone::start(&account)),
        };
        let tail = Tail::new(driver.event_log());
        Self { kind, account, driver, tail, events: VecDeque::new() }
    }

    /// Starts a phone and waits until it is registered.
    ///
    /// # Panics
    /// When it cannot be started, or registered.
    #[must_use]
    pub fn registered(kind: Kind, account: Account) -> Self {
        let mut phone = Self::start(kind, account);
        phone.act(&Action::Register);
        phone.wait_for(Event::Registered);
        phone
    }

    /// Starts a phone that needs no server, and waits until it can be called.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn direct(kind: Kind, account: Account) -> Self {
        let phone = Self::start(kind, Account { has_server: false, ..account });
        // Whoever is elsewhere has listened since it was there.
        if phone.driver.address().is_none() {
            let (address, port) = (phone.account.address(), phone.driver.port());
            wait_until(&format!("{phone} to listen"), || {
                phone.account.transport.is_listening(address, port).then_some(())
            });
        }
        phone
    }

    /// Where it takes calls without a server.
    #[must_use]
    pub fn direct_address(&self) -> SocketAddr {
        let address = self.driver.address().unwrap_or_else(|| self.account.address());
        (address, self.driver.port()).into()
    }

    /// What it is called by without a server.
    #[must_use]
    pub fn direct_uri(&self) -> String {
        format!("sip:{}@{}", self.account.user, self.direct_address())
    }

    /// The ports of UDP that it has open, those of its calls' media among them.
    pub fn udp_ports(&mut self) -> Vec<u16> {
        self.driver.process().udp_ports()
    }

    /// The suite of SRTP of its last call that was answered; `None`: in clear.
    ///
    /// # Panics
    /// When it is not ours: others do not tell.
    #[must_use]
    pub fn suite(&self) -> Option<String> {
        assert_eq!(self.kind, Kind::Barebell, "only ours tells");
        self.driver.suite()
    }

    /// Tells it to do something, without waiting for the effect.
    pub fn act(&mut self, action: &Action) {
        self.driver.process().assert_running();
        self.driver.act(action);
    }

    /// Types `keys` at its screen, and waits until that shows `text`.
    ///
    /// # Panics
    /// When it does not, or has no screen: only the bare phone has one.
    pub fn turn_to(&mut self, keys: &str, text: &str) {
        self.driver.turn_to(keys, text);
    }

    /// Calls `uri` and waits until the other side rings.
    ///
    /// # Panics
    /// When it does not ring.
    pub fn dial_until_it_rings(&mut self, uri: &str) {
        self.act(&Action::Dial(uri.to_owned()));
        self.wait_for(Event::Ringback);
    }

    /// Waits until it is seen to do something, and forgets what it was seen to do before.
    ///
    /// # Panics
    /// When that does not happen, or can happen no more, or the phone ends.
    pub fn wait_for(&mut self, event: Event) {
        wait_until(&format!("{self} to be {event:?}"), || {
            self.driver.process().assert_running();
            self.collect();
            while let Some(seen) = self.events.pop_front() {
                if seen == event {
                    return Some(());
                }
                assert!(!seen.rules_out(event), "{self} is {seen:?}, expected {event:?}");
            }
            None
        });
    }

    /// Whether `event` has been seen since the last one that was waited for.
    pub fn has_seen(&mut self, event: Event) -> bool {
        self.collect();
        self.events.contains(&event)
    }

    /// Waits until it has heard a tone of `hertz` for a second in all.
    ///
    /// # Panics
    /// When it does not hear it.
    pub fn wait_until_it_hears(&mut self, hertz: u32) {
        self.wait_until_it_has_heard(hertz, HEARD_MS);
    }

    /// Waits until it hears the tone of `other` as loud as that sends it, within 1 dB.
    ///
    /// # Panics
    /// When it does not.
    pub fn wait_until_it_hears_faithfully(&mut self, other: &Self) {
        let (hertz, mut last) = (other.account.tone, None);
        self.wait_until_it_hears(hertz);
        let decibels = poll(DEADLINE, || {
            let sent = other.driver.loudness()?;
            let heard = self.driver.recording()?.loudness_of(hertz)?;
            last = Some((20.0 * (heard / sent).log10(), heard, sent));
            last.filter(|(decibels, ..)| decibels.abs() <= 1.0)
        });
        assert!(decibels.is_some(), "{self} hears {other} at {last:?} (dB, heard, sent)");
    }

    /// Waits until it has heard a tone of `hertz` for a second more than up to now. baresip 1.0.0
    /// hears it, but its recording ends with the first change of the session: there is nothing to
    /// wait for.
    ///
    /// # Panics
    /// When it does not hear it.
    pub fn wait_until_it_hears_more(&mut self, hertz: u32) {
        if self.kind != Kind::Baresip {
            let heard = self.heard(hertz);
            self.wait_until_it_has_heard(hertz, heard + HEARD_MS);
        }
    }

    /// Waits until it hears a tone of `hertz` no longer.
    ///
    /// # Panics
    /// When it goes on.
    pub fn wait_until_it_hears_no_more(&mut self, hertz: u32) {
        let (mut heard, mut since) = (self.heard(hertz), Instant::now());
        wait_until(&format!("{self} to hear {hertz} Hz no more"), || {
            self.driver.process().assert_running();
            let now = self.heard(hertz);
            if now != heard {
                (heard, since) = (now, Instant::now());
            }
            (since.elapsed() >= SILENCE).then_some(())
        });
    }

    fn wait_until_it_has_heard(&mut self, hertz: u32, ms: u32) {
        wait_until(&format!("{self} to hear {hertz} Hz for {ms} ms"), || {
            self.driver.process().assert_running();
            (self.heard(hertz) >= ms).then_some(())
        });
    }

    /// How long it has heard a tone of `hertz`, in milliseconds.
    fn heard(&self, hertz: u32) -> u32 {
        self.driver.recording().map_or(0, |heard| heard.tone_ms(hertz))
    }

    /// Waits until the last response to `method` that it received or sent has one of `expected`.
    ///
    /// # Panics
    /// When that does not happen.
    pub fn wait_for_status(&self, method: &str, expected: &[u16]) {
        wait_until(&format!("{self} to see {expected:?} to {method}"), || {
            let last = self.statuses(method).pop()?;
            expected.contains(&last).then_some(())
        });
    }

    /// Tells it to do something that makes it send or get a `method`, and waits for the 200 to
    /// that.
    ///
    /// # Panics
    /// When there is none.
    pub fn act_and_wait_for_ok(&mut self, action: &Action, method: &str) {
        let count =
            |phone: &Self| phone.statuses(method).iter().filter(|&&code| code == 200).count();
        let before = count(self);
        self.act(action);
        wait_until(&format!("{self} to see another 200 to {method}"), || {
            self.driver.process().assert_running();
            (count(self) > before).then_some(())
        });
    }

    /// The status codes of the responses to `method` that it received or sent, in their order.
    #[must_use]
    pub fn statuses(&self, method: &str) -> Vec<u16> {
        statuses(&self.driver.sip_log(), method)
    }

    /// The digest algorithm of each set of credentials that it gave; `None` where it named none,
    /// which means MD5.
    #[must_use]
    pub fn credential_algorithms(&self) -> Vec<Option<String>> {
        credential_algorithms(&self.driver.sip_log())
    }

    fn collect(&mut self) {
        let lines = self.tail.lines();
        self.events.extend(lines.iter().filter_map(|line| self.driver.event(line)));
    }
}
