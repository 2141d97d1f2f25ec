//! What the owner decides.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use sip::Duration;
use sip::transaction::Timers;
use zeroize::Zeroizing;

/// Which account, by its place in [`Config::accounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccountId(pub usize);

/// A password. It is not shown where the rest of an account is, and wiped when it is dropped.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Zeroizing<Vec<u8>>);

impl Password {
    /// The password `text`.
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

/// Who one is at a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The address of record, such as `sip:alice@example.com`.
    pub uri: String,
    /// The name shown to others; empty for none.
    pub display_name: String,
    /// The name to log in with; empty for the user part of `uri`.
    pub username: String,
    /// What proves who one is.
    pub password: Option<Password>,
    /// The realm that may ask for it; `None` for the one that the registrar, or the proxy at the
    /// first request, names.
    pub realm: Option<String>,
    /// Where all requests are sent, a URI such as `sip:proxy.example.com;lr`; `None`: where `uri`
    /// leads.
    pub proxy: Option<String>,
    /// Whether to register.
    pub registers: bool,
    /// How long a registration is asked for.
    pub expires: Duration,
}

impl Account {
    /// An account that registers `uri` for ten minutes at a time, without a password.
    #[must_use]
    pub fn new(uri: &str) -> Self {
        Self {
            uri: uri.into(),
            display_name: String::new(),
            username: String::new(),
            password: None,
            realm: None,
            proxy: None,
            registers: true,
            expires: Duration::from_secs(600),
        }
    }
}

/// Whether provisional responses are sent reliably (RFC 3262).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliable {
    /// Never; a caller who insists is refused.
    Off,
    /// Where the other end knows of it, and a session description is in them; or all, where it
    /// insists.
    Supported,
    /// Always: whoever does not know of it is not called, and refused.
    Required,
}

/// What an [`Agent`](crate::Agent) works by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The accounts.
    pub accounts: Vec<Account>,
    /// What calls without an account are from: a user part, at our own address.
    pub user: String,
    /// The SIP URI that they are from instead, if there is one. Its user part is that of our
    /// contact, too.
    pub from: Option<String>,
    /// The name of the program in User-Agent.
    pub user_agent: String,
    /// The URN that tells this device from others of the user (RFC 5626 section 4.1), such as
    /// `urn:uuid:00000000-0000-1000-8000-AABBCCDDEEFF`; empty for none.
    pub instance: String,
    /// The base values of all timers.
    pub timers: Timers,
    /// How often the way to a registrar is kept open by an empty message; `None`: it is not.
    pub keepalive: Option<Duration>,
    /// How long a call may ring, at either end.
    pub ringing: Duration,
    /// Whether calls and messages are taken that do not come by a server where an account is
    /// registered: anybody who finds the address can then call. Without such an account they always
    /// are.
    pub direct_calls: bool,
    /// Calls at a time that others have begun, whether they ring or stand; who calls beyond that
    /// hears 486.
    pub incoming_calls: usize,
    /// Whether provisional responses are sent reliably.
    pub reliable: Reliable,
    /// How long a call stands without being refreshed (RFC 4028); `None`: as long as it likes.
    pub session_expires: Option<Duration>,
    /// The least that the other end may ask for instead.
    pub min_se: Duration,
    /// How often a call may be sent elsewhere by those who are called (3xx); 0: it is not followed.
    pub redirects: usize,
    /// Requests of others that may be in progress or remembered at a time, and as many again within
    /// calls. Beyond that those that are answered are forgotten, and where there are none, more are
    /// not answered.
    pub server_transactions: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            accounts: Vec::new(),
            user: "anonymous".into(),
            from: None,
            user_agent: concat!("barebell-phone/", env!("CARGO_PKG_VERSION")).into(),
            instance: String::new(),
            timers: Timers::default(),
            keepalive: Some(Duration::from_secs(25)),
            ringing: Duration::from_secs(180),
            direct_calls: false,
            incoming_calls: 4,
            reliable: Reliable::Supported,
            redirects: 5,
            session_expires: Some(Duration::from_secs(1800)),
            min_se: Duration::from_secs(90),
            server_transactions: 1024,
        }
    }
}
