//! The interface to all softphones: actions, events and audio.

use crate::bare_phone::BarePhone;
use crate::barebell_phone::BarebellPhone;
use crate::baresip::Baresip;
use crate::linphone::Linphone;
use crate::nat::Machine;
use crate::process::{DEADLINE, Process, Program, poll, wait_until};
use crate::tone::Recording;
use crate::trace::{Tail, credential_algorithms, statuses};
use crate::transport::Transport;
use crate::twinkle::Twinkle;
use std::collections::VecDeque;
use std::fmt::{self, Debug, Display, Formatter};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use test_support::ports::address_towards;

/// The required duration of the other side's tone, in milliseconds.
const HEARD_MS: u32 = 1000;
/// The duration of silence after which a tone has ended.
const SILENCE: Duration = Duration::from_secs(1);

/// The supported softphones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// baresip, controlled by its control connection.
    Baresip,
    /// linphonec, controlled by its standard input.
    Linphone,
    /// twinkle-console, controlled by its standard input.
    Twinkle,
    /// `barebell-phone control`, controlled by its standard input.
    Barebell,
    /// The phone without an operating system, controlled by keys on its serial line. Only one at a
    /// time, on a network with only its machine (`image::lan`).
    Bare,
}

/// The encryption policy of a phone, with SDES keys unless noted. Twinkle only supports `Off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Srtp {
    /// Not offered. linphone and baresip accept it anyway in an incoming call.
    Off,
    /// Offered and accepted; calls without it are possible.
    Optional,
    /// Required.
    Required,
    /// Required, with keys by ZRTP. Only for barebell-phone and linphone.
    Zrtp,
    /// Required, with keys by DTLS. Only for barebell-phone and linphone.
    Dtls,
}

impl Srtp {
    /// The name in the options of Barebell's phones.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Optional => "optional",
            Self::Required | Self::Zrtp | Self::Dtls => "required",
        }
    }
}

/// The settings of a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user name.
    pub user: String,
    /// The password.
    pub password: String,
    /// The registrar, which is also the first hop without a proxy.
    pub server: SocketAddr,
    /// The outbound proxy. Only supported for barebell-phone and baresip.
    pub proxy: Option<SocketAddr>,
    /// The transport to the server.
    pub transport: Transport,
    /// A file with trusted TLS certificates.
    pub issuers: Option<PathBuf>,
    /// True if there is a server. Otherwise the phone is used [directly](Phone::direct).
    pub has_server: bool,
    /// True if the phone accepts connections at the port of its contact. Only linphone can be set
    /// not to, like any phone behind a NAT.
    pub listens: bool,
    /// The requested duration of the registration in seconds.
    pub expires: u32,
    /// The frequency of the sent tone in Hz.
    pub tone: u32,
    /// The encryption policy.
    pub srtp: Srtp,
    /// The SRTP suites to offer and accept, separated by commas; empty for the default. baresip
    /// always offers AES_CM_128_HMAC_SHA1_80, and accepts others.
    pub suites: &'static str,
    /// The codecs of barebell-phone, separated by commas; empty for the default. The others use
    /// G.711.
    pub codecs: &'static str,
    /// The machine of the phone, if not this one. For barebell-phone, baresip and linphone.
    pub machine: Option<Machine>,
    /// The STUN servers with ports. Only for barebell-phone.
    pub stun: Vec<String>,
    /// Additional options, separated by spaces. Only for Barebell's phones. `mwi`: baresip
    /// subscribes to its messages.
    pub options: String,
}

impl Account {
    /// The address of the phone, from which the server is reached.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.machine.as_ref().map_or_else(|| address_towards(self.server), |it| it.address)
    }

    /// A command that runs `program` on the machine of the phone.
    pub(crate) fn command(&self, program: Program) -> Command {
        self.machine.as_ref().map_or_else(|| program.command(), |it| it.command(program.name))
    }
}

/// An action of a phone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Registers, and keeps the registration refreshed.
    Register,
    /// Removes the registration.
    Unregister,
    /// Calls a URI.
    Dial(String),
    /// Answers the ringing call.
    Answer,
    /// Rejects the ringing call.
    Reject,
    /// Ends or cancels the call.
    HangUp,
    /// Enables or disables automatic answers.
    AutoAnswer(bool),
    /// Sends a DTMF key.
    Press(char),
    /// Holds the call.
    Hold,
    /// Resumes the held call.
    Resume,
    /// Transfers the call to a URI: blind transfer (RFC 5589 section 6).
    Transfer(String),
    /// Holds the call, and calls the URI of the transfer target. Not supported by baresip 1.0.0.
    Consult(String),
    /// Transfers the held call to the [consulted](Self::Consult) party: attended transfer (RFC 5589
    /// section 7). Not supported by baresip 1.0.0, which also lacks Replaces; twinkle-console hangs
    /// when it receives Replaces.
    TransferToConsulted,
}

/// An observed event of a phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The registration succeeded.
    Registered,
    /// The registration was rejected.
    RegistrationFailed,
    /// The registration was removed.
    Unregistered,
    /// An incoming call rings.
    Incoming,
    /// The called phone rings.
    Ringback,
    /// The call was answered.
    Established,
    /// The call has ended, answered or not.
    Ended,
    /// The other side has sent a DTMF key.
    Key(char),
    /// Media go through a TURN server. Only barebell-phone reports it.
    ThroughTurn,
}

impl Event {
    /// Returns true if `awaited` cannot occur after this event.
    fn rules_out(self, awaited: Self) -> bool {
        match awaited {
            Self::Registered => self == Self::RegistrationFailed,
            Self::Ringback | Self::Established => self == Self::Ended,
            _ => false,
        }
    }
}

/// The specific driver of a phone.
pub trait Driver: Debug {
    /// Starts an action without waiting for its effect.
    fn act(&mut self, action: &Action);
    /// Parses a line of the event log.
    fn event(&self, line: &str) -> Option<Event>;
    /// The audio received so far.
    fn recording(&self) -> Option<Recording>;
    /// The amplitude of the sent tone, if known.
    fn loudness(&self) -> Option<f64>;
    /// The SRTP suite of the last answered call. Only barebell-phone reports it.
    fn suite(&self) -> Option<String> {
        None
    }
    /// The short authentication string of ZRTP in a line of the event log.
    fn sas(&self, _line: &str) -> Option<String> {
        None
    }
    /// Types `keys`, and waits until the screen shows `text`.
    ///
    /// # Panics
    /// The text does not appear, or there is no screen: only the bare-machine phone has one.
    fn turn_to(&mut self, keys: &str, text: &str) {
        panic!("no screen that shows {text:?} after {keys:?}");
    }
    /// The address of the phone, if not that of its account.
    fn address(&self) -> Option<Ipv4Addr> {
        None
    }
    /// The port for incoming calls.
    fn port(&self) -> u16;
    /// The log with events.
    fn event_log(&self) -> PathBuf;
    /// The log with SIP messages.
    fn sip_log(&self) -> PathBuf;
    /// The process.
    fn process(&mut self) -> &mut Process;
}

/// A running softphone. It is killed on drop without sending a message.
#[derive(Debug)]
pub struct Phone {
    /// The type of phone.
    pub kind: Kind,
    /// The settings.
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
    /// Starts a phone. It stays idle until the first action.
    ///
    /// # Panics
    /// The phone cannot be started.
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

    /// Starts a phone and waits for its registration.
    ///
    /// # Panics
    /// The phone cannot be started or registered.
    #[must_use]
    pub fn registered(kind: Kind, account: Account) -> Self {
        let mut phone = Self::start(kind, account);
        phone.act(&Action::Register);
        phone.wait_for(Event::Registered);
        phone
    }

    /// Starts a phone without a server, and waits until it listens.
    ///
    /// # Panics
    /// The phone cannot be started.
    #[must_use]
    pub fn direct(kind: Kind, account: Account) -> Self {
        let phone = Self::start(kind, Account { has_server: false, ..account });
        // A phone at another address listens since it was started.
        if phone.driver.address().is_none() {
            let (address, port) = (phone.account.address(), phone.driver.port());
            wait_until(&format!("{phone} to listen"), || {
                phone.account.transport.is_listening(address, port).then_some(())
            });
        }
        phone
    }

    /// The address for calls without a server.
    #[must_use]
    pub fn direct_address(&self) -> SocketAddr {
        let address = self.driver.address().unwrap_or_else(|| self.account.address());
        (address, self.driver.port()).into()
    }

    /// The URI for calls without a server.
    #[must_use]
    pub fn direct_uri(&self) -> String {
        format!("sip:{}@{}", self.account.user, self.direct_address())
    }

    /// The open UDP ports, including those of media.
    pub fn udp_ports(&mut self) -> Vec<u16> {
        self.driver.process().udp_ports()
    }

    /// The SRTP suite of the last answered call; `None` for an unencrypted one.
    ///
    /// # Panics
    /// The phone is not barebell-phone.
    #[must_use]
    pub fn suite(&self) -> Option<String> {
        assert_eq!(self.kind, Kind::Barebell, "only barebell-phone reports the suite");
        self.driver.suite()
    }

    /// The last short authentication string of ZRTP.
    ///
    /// # Panics
    /// The phone shows no string.
    #[must_use]
    pub fn sas(&self) -> String {
        wait_until(&format!("{self} to have a short authentication string"), || {
            let log = std::fs::read(self.driver.event_log()).unwrap_or_default();
            String::from_utf8_lossy(&log).lines().rev().find_map(|line| self.driver.sas(line))
        })
    }

    /// Stops the phone, which neither ends its connection nor answers.
    pub fn pause(&mut self) {
        self.driver.process().pause();
    }

    /// Kills the phone, which sends nothing any more.
    pub fn kill(&mut self) {
        self.driver.process().kill();
    }

    /// Starts an action without waiting for its effect.
    pub fn act(&mut self, action: &Action) {
        self.driver.process().assert_running();
        self.driver.act(action);
    }

    /// Types `keys`, and waits until the screen shows `text`.
    ///
    /// # Panics
    /// The text does not appear, or there is no screen: only the bare-machine phone has one.
    pub fn turn_to(&mut self, keys: &str, text: &str) {
        self.driver.turn_to(keys, text);
    }

    /// Calls `uri` and waits for ringing.
    ///
    /// # Panics
    /// The other side does not ring.
    pub fn dial_until_it_rings(&mut self, uri: &str) {
        self.act(&Action::Dial(uri.to_owned()));
        self.wait_for(Event::Ringback);
    }

    /// Waits for an event, and discards the events before it.
    ///
    /// # Panics
    /// The event does not occur or has become impossible, or the phone ends.
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

    /// Waits for each of these events, in any order, and discards the other ones.
    ///
    /// # Panics
    /// An event does not occur, or the phone ends.
    pub fn wait_for_all(&mut self, events: &[Event]) {
        let mut awaited = events.to_vec();
        let what = format!("{self} to be {events:?}");
        wait_until(&what, || {
            self.driver.process().assert_running();
            self.collect();
            while let Some(seen) = self.events.pop_front() {
                if let Some(at) = awaited.iter().position(|event| *event == seen) {
                    awaited.swap_remove(at);
                }
            }
            awaited.is_empty().then_some(())
        });
    }

    /// Returns true if `event` has occurred at any time.
    #[must_use]
    pub fn has_logged(&self, event: Event) -> bool {
        let log = std::fs::read_to_string(self.driver.event_log()).unwrap_or_default();
        log.lines().any(|line| self.driver.event(line) == Some(event))
    }

    /// Returns true if `event` occurred after the last awaited one.
    pub fn has_seen(&mut self, event: Event) -> bool {
        self.collect();
        self.events.contains(&event)
    }

    /// Waits for these DTMF keys, one after another.
    ///
    /// # Panics
    /// Another key is received, or one twice.
    pub fn wait_for_keys(&mut self, keys: &str) {
        let mut seen = String::new();
        wait_until(&format!("{self} to receive the keys {keys}"), || {
            self.collect();
            seen.extend(self.events.drain(..).filter_map(|event| match event {
                Event::Key(key) => Some(key),
                _ => None,
            }));
            assert!(keys.starts_with(&seen), "{self} receives {seen}, expected {keys}");
            (seen == keys).then_some(())
        });
    }

    /// Waits until a tone of `hertz` was received for a second in total.
    ///
    /// # Panics
    /// The tone is not received.
    pub fn wait_until_it_hears(&mut self, hertz: u32) {
        self.wait_until_it_has_heard(hertz, HEARD_MS);
    }

    /// Waits until these tones were received at the same time, for a second in total.
    ///
    /// # Panics
    /// They are not received.
    pub fn wait_until_it_hears_all(&mut self, hertz: &[u32]) {
        wait_until(&format!("{self} to hear {hertz:?} Hz"), || {
            self.driver.process().assert_running();
            let heard = self.driver.recording().map_or(0, |heard| heard.chord_ms(hertz));
            (heard >= HEARD_MS).then_some(())
        });
    }

    /// Waits until a tone of `hertz` was received for `ms` milliseconds in total.
    ///
    /// # Panics
    /// The tone is not received.
    pub fn wait_until_it_hears_part(&mut self, hertz: u32, ms: u32) {
        self.wait_until_it_has_heard(hertz, ms);
    }

    /// Waits until the tone of `other` is received with its original level, within 1 dB.
    ///
    /// # Panics
    /// The level differs.
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

    /// Waits until a tone of `hertz` was received for another second. Does nothing for baresip
    /// 1.0.0: its recording ends with the first change of the session.
    ///
    /// # Panics
    /// The tone is not received.
    pub fn wait_until_it_hears_more(&mut self, hertz: u32) {
        if self.kind != Kind::Baresip {
            let heard = self.heard(hertz);
            self.wait_until_it_has_heard(hertz, heard + HEARD_MS);
        }
    }

    /// Waits until a tone of `hertz` has ended.
    ///
    /// # Panics
    /// The tone continues.
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

    /// The received duration of a tone of `hertz` in milliseconds.
    fn heard(&self, hertz: u32) -> u32 {
        self.driver.recording().map_or(0, |heard| heard.tone_ms(hertz))
    }

    /// Waits until the last sent or received response to `method` has one of the `expected` status
    /// codes.
    ///
    /// # Panics
    /// There is no such response.
    pub fn wait_for_status(&self, method: &str, expected: &[u16]) {
        wait_until(&format!("{self} to see {expected:?} to {method}"), || {
            let last = self.statuses(method).pop()?;
            expected.contains(&last).then_some(())
        });
    }

    /// Starts an action that sends or causes a request `method`, and waits for its 200.
    ///
    /// # Panics
    /// There is no 200.
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

    /// The status codes of sent and received responses to `method`, in order.
    #[must_use]
    pub fn statuses(&self, method: &str) -> Vec<u16> {
        statuses(&self.driver.sip_log(), method)
    }

    /// True if a SIP message that was sent or received has this line.
    #[must_use]
    pub fn has_line(&self, line: &str) -> bool {
        let log = std::fs::read(self.driver.sip_log()).unwrap_or_default();
        String::from_utf8_lossy(&log).lines().any(|logged| logged.trim() == line)
    }

    /// The digest algorithm of each sent set of credentials; `None` for the default MD5.
    #[must_use]
    pub fn credential_algorithms(&self) -> Vec<Option<String>> {
        credential_algorithms(&self.driver.sip_log())
    }

    fn collect(&mut self) {
        let lines = self.tail.lines();
        self.events.extend(lines.iter().filter_map(|line| self.driver.event(line)));
    }
}
