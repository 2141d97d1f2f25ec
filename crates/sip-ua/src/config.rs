//! The configuration of an agent.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sip::Duration;
use sip::transaction::Timers;
use zeroize::Zeroizing;

/// The index of an account in [`Config::accounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub usize);

/// A password. Its `Debug` output does not show it, and it is zeroed when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// Returns the password `text`.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(Zeroizing::new(text.as_bytes().to_vec()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password")
    }
}

/// The identity of a user at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The address-of-record, such as `sip:alice@example.com`.
    pub uri: String,
    /// The display name. It may be empty.
    pub display_name: String,
    /// The user name for authentication. If empty, the user part of `uri` is used.
    pub username: String,
    /// The password.
    pub password: Option<Password>,
    /// The realm of the credentials. `None` for the realm of the first challenge of the registrar
    /// or of the proxy.
    pub realm: Option<String>,
    /// True if any realm gets credentials: all requests of the account go to servers of one
    /// provider, which may differ in their realms.
    pub any_realm: bool,
    /// The user part of the local contact, without escapes. `None`: that of `uri`.
    pub contact: Option<String>,
    /// The host of the local contact, such as `x7.invalid` for an end that does not know its
    /// address (RFC 7118 section 5). `None`: the local address.
    #[cfg(feature = "web")]
    pub contact_host: Option<String>,
    /// The request URI of a REGISTER, such as `sip:registrar.example.com`. `None`: the domain of
    /// `uri`.
    pub registrar: Option<String>,
    /// The outbound proxy of all requests, a URI such as `sip:proxy.example.com;lr`. `None`: the
    /// domain of `uri`.
    pub proxy: Option<String>,
    /// True if the account registers.
    pub registers: bool,
    /// The requested duration of a registration.
    pub expires: Duration,
}

impl Account {
    /// Returns an account that registers `uri` for ten minutes at a time, without a password.
    #[must_use]
    pub fn new(uri: &str) -> Self {
        Self {
            uri: uri.into(),
            display_name: String::new(),
            username: String::new(),
            password: None,
            realm: None,
            any_realm: false,
            contact: None,
            #[cfg(feature = "web")]
            contact_host: None,
            registrar: None,
            proxy: None,
            registers: true,
            expires: Duration::from_secs(600),
        }
    }
}

/// The reason why an account is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AccountError {
    /// The address-of-record is not a SIP URI.
    Uri,
}

impl fmt::Display for AccountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uri => f.write_str("expected a SIP URI such as sip:alice@example.org"),
        }
    }
}

impl core::error::Error for AccountError {}

/// The policy for reliable provisional responses (RFC 3262).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliable {
    /// Never. A call that requires them is rejected.
    Off,
    /// For responses with a session description if the other end supports them, and for all if it
    /// requires them.
    Supported,
    /// Always. Outgoing calls require it, and incoming calls without support for it are rejected.
    Required,
}

/// The configuration of an [`Agent`](crate::Agent).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The accounts.
    pub accounts: Vec<Account>,
    /// The user part of From in calls without an account. The host is the local address.
    pub user: String,
    /// The SIP URI for From instead, if set. Its user part is also that of Contact.
    pub from: Option<String>,
    /// The product name in User-Agent.
    pub user_agent: String,
    /// The instance URN of this device (RFC 5626 section 4.1), such as
    /// `urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF`. It may be empty.
    pub instance: String,
    /// The parameters of a push notification service in the Contact URI of registrations (RFC 8599
    /// section 6.1), such as `;pn-provider=fcm;pn-prid=TOKEN`. It may be empty.
    #[cfg(feature = "push")]
    pub push: String,
    /// The base values of all timers.
    pub timers: Timers,
    /// True if registered accounts subscribe to their message counts (RFC 3842).
    #[cfg(feature = "messages")]
    pub subscribes: bool,
    /// The interval of keep-alive messages to a registrar. `None` disables them.
    pub keepalive: Option<Duration>,
    /// The maximum ringing time at either end.
    pub ringing: Duration,
    /// True if calls and messages are accepted from other sources than the servers where accounts
    /// are registered: then every peer that knows the address can call. Without such an account
    /// they are always accepted.
    pub direct_calls: bool,
    /// The maximum number of incoming calls at a time, ringing or established. Further calls are
    /// rejected with 486.
    pub incoming_calls: usize,
    /// The policy for reliable provisional responses.
    pub reliable: Reliable,
    /// The session interval without a refresh (RFC 4028). `None`: unlimited.
    pub session_expires: Option<Duration>,
    /// The minimum session interval that is accepted.
    pub min_se: Duration,
    /// The interval in which the other end of an established call that sends no request is checked
    /// by an OPTIONS within the dialog. `None` disables it.
    pub probe: Option<Duration>,
    /// The maximum number of followed redirections (3xx) of a call. 0 disables them.
    pub redirects: usize,
    /// The maximum number of server transactions outside of dialogs, and as many again within
    /// dialogs. Above it answered ones are removed. If there are none, further requests are not
    /// answered.
    pub server_transactions: usize,
    /// True for the agent of a back-to-back user agent: its owner is given the messages of its
    /// calls as they came ([`Event::Received`](crate::Event::Received)) and the requests that
    /// concern neither the session nor the call ([`Event::Request`](crate::Event::Request)).
    pub passes: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            accounts: Vec::new(),
            user: "anonymous".into(),
            from: None,
            user_agent: concat!("barebell-phone/", env!("CARGO_PKG_VERSION")).into(),
            instance: String::new(),
            #[cfg(feature = "push")]
            push: String::new(),
            timers: Timers::default(),
            #[cfg(feature = "messages")]
            subscribes: false,
            keepalive: Some(Duration::from_secs(25)),
            ringing: Duration::from_secs(180),
            direct_calls: false,
            incoming_calls: 4,
            reliable: Reliable::Supported,
            redirects: 5,
            session_expires: Some(Duration::from_secs(1800)),
            min_se: Duration::from_secs(90),
            probe: None,
            server_transactions: 1024,
            passes: false,
        }
    }
}
