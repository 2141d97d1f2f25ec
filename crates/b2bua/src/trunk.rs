//! Trunks: the caller, the number and the credentials of a call to one. The proxy names the trunks
//! of a call in Route.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use sip::header::NameAddr;
use sip::uri::escape_user;
use sip::{Encode, HeaderName, Message, Status, Uri};
use sip_ua::{Account, Failure, Password};

/// A trunk: a connection to another telephone system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trunk {
    /// The name, for the log and the records.
    pub name: String,
    /// The host in the URIs of called numbers, with a port if it has one.
    pub domain: String,
    /// The host in the URIs of callers.
    pub caller_domain: String,
    /// The digits in front of each called number.
    pub prefix: String,
    /// The account, if the trunk has challenges.
    pub account: Option<TrunkAccount>,
    /// The caller in From.
    pub from: TrunkFrom,
    /// True if the number of the caller is asserted to the trunk (RFC 3325).
    pub is_trusted: bool,
    /// The maximum number of calls, in and out. Emergency calls are not limited.
    pub calls: usize,
}

/// The account of a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrunkAccount {
    /// The user part of its URI.
    pub user: String,
    /// The user name in credentials. If it is empty, that is `user`.
    pub username: String,
    /// The password.
    pub password: Option<Password>,
}

/// The caller in From of a call to a trunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrunkFrom {
    /// The number of the caller.
    #[default]
    Number,
    /// The account.
    Account,
}

impl Trunk {
    /// Returns a trunk without an account.
    #[must_use]
    pub fn new(name: &str, domain: &str) -> Self {
        Self {
            name: name.into(),
            domain: domain.into(),
            caller_domain: domain.into(),
            prefix: String::new(),
            account: None,
            from: TrunkFrom::default(),
            is_trusted: false,
            calls: usize::MAX,
        }
    }

    /// The account of the agent that answers challenges.
    pub(crate) fn credentials(&self) -> Account {
        let user = self.account.as_ref().map_or("", |account| account.user.as_str());
        let mut account = Account::new(&self.address(user));
        account.registers = false;
        account.any_realm = true;
        if let Some(of_trunk) = &self.account {
            account.username.clone_from(&of_trunk.username);
            if account.username.is_empty() {
                account.username.clone_from(&of_trunk.user);
            }
            account.password.clone_from(&of_trunk.password);
        }
        // The proxy beside this agent is in front of the trunk.
        account.proxy = Some("sip:proxy.invalid;lr".into());
        account
    }

    /// The URI of the caller `user` at the trunk.
    fn address(&self, user: &str) -> String {
        uri_of(user, &self.caller_domain)
    }

    /// The number of a call by `attempt`, if the caller has one.
    fn caller<'a>(&'a self, attempt: &'a Attempt) -> Option<&'a str> {
        let of_account = || self.account.as_ref().map(|account| account.user.as_str());
        attempt.identity.as_deref().or_else(of_account)
    }

    /// The value of From. A caller `is_private` if it has asked for that (RFC 3323).
    pub(crate) fn from(&self, attempt: &Attempt, is_private: bool) -> Vec<u8> {
        let account = self.account.as_ref().map(|account| account.user.as_str());
        let user = match self.from {
            TrunkFrom::Account if account.is_some() => account,
            _ if is_private => None,
            _ => self.caller(attempt),
        };
        match user {
            Some(user) => format!("<{}>", self.address(user)).into_bytes(),
            None => b"\"Anonymous\" <sip:anonymous@anonymous.invalid>".to_vec(),
        }
    }

    /// The lines that name the caller to the trunk (RFC 3325): a trunk that is not trusted is only
    /// asked to show another number than that in From.
    pub(crate) fn identity_lines(&self, attempt: &Attempt, is_private: bool) -> Vec<u8> {
        let mut lines = Vec::new();
        if let Some(caller) = self.caller(attempt).map(|caller| self.address(caller)) {
            if self.is_trusted {
                ("P-Asserted-Identity: <", &*caller, ">\r\n").encode(&mut lines);
            } else if self.from == TrunkFrom::Account && !is_private {
                ("P-Preferred-Identity: <", &*caller, ">\r\n").encode(&mut lines);
            }
        }
        if is_private {
            lines.extend_from_slice(b"Privacy: id\r\n");
        }
        lines
    }

    /// The URI of the number that `attempt` calls.
    pub(crate) fn uri(&self, attempt: &Attempt) -> Vec<u8> {
        uri_of(&[&self.prefix[..], &attempt.number].concat(), &self.domain).into_bytes()
    }
}

fn uri_of(user: &str, domain: &str) -> String {
    format!("sip:{}@{domain}", String::from_utf8_lossy(&escape_user(user.as_bytes())))
}

/// An attempt to reach the callee through a trunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    /// The place of the trunk in the configuration.
    pub(crate) trunk: usize,
    pub(crate) number: String,
    identity: Option<String>,
    pub(crate) is_emergency: bool,
    /// The user that the call counts for in limits of use.
    pub(crate) payer: Option<String>,
    /// The class of the number, for the limits of use.
    pub(crate) class: Option<String>,
    /// The source of a stranger, if the payer forwards the call of one.
    pub(crate) stranger: Option<String>,
    /// The value of Route, which has the pass of the proxy for it.
    pub(crate) route: Vec<u8>,
}

impl Attempt {
    /// Reads the attempt in the value `route` of Route. `None` if it has none.
    fn of_route(route: &[u8]) -> Option<Self> {
        let address = NameAddr::parse(HeaderName::Route, route).ok()?;
        let Ok(Uri::Sip(uri)) = address.uri() else { return None };
        let text = |name| {
            let value = sip::uri::unescape(uri.params.value(name)?);
            Some(String::from_utf8_lossy(&value).into_owned())
        };
        Some(Self {
            trunk: text("to-trunk")?.parse().ok()?,
            number: text("number")?,
            identity: text("identity"),
            is_emergency: uri.params.has("emergency"),
            payer: text("payer"),
            class: text("class"),
            stranger: text("stranger"),
            route: route.to_vec(),
        })
    }
}

/// Returns the attempts that the values `routes` of Route name, in order of preference.
pub(crate) fn attempts(routes: &[Vec<u8>]) -> Vec<Attempt> {
    routes.iter().filter_map(|route| Attempt::of_route(route)).collect()
}

/// Returns the place of the trunk that the call came from, by the first one of `routes`.
pub(crate) fn from_trunk(routes: &[Vec<u8>]) -> Option<usize> {
    let address = NameAddr::parse(HeaderName::Route, routes.first()?).ok()?;
    let Ok(Uri::Sip(uri)) = address.uri() else { return None };
    core::str::from_utf8(uri.params.value("from-trunk")?).ok()?.parse().ok()
}

/// Returns the value `from` of From with the host of the called `uri`, if the caller is a telephone
/// number: a call back to it then goes through the numbering plan of the house. `None` for other
/// callers, such as an anonymous one.
pub(crate) fn number_in_house(from: &[u8], uri: &[u8]) -> Option<Vec<u8>> {
    let address = NameAddr::parse(HeaderName::From, from).ok()?;
    let (Ok(Uri::Sip(caller)), Ok(Uri::Sip(called))) = (address.uri(), Uri::parse(uri)) else {
        return None;
    };
    let number = sip::uri::unescape(caller.user?).into_owned();
    let digits = number.strip_prefix(b"+").unwrap_or(&number);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut out = Vec::new();
    let display = address.display_name;
    let display = (!display.is_empty()).then_some((display, " "));
    (display, "<sip:", &number[..], "@", called.host, ">").encode(&mut out);
    Some(out)
}

/// Returns true if the caller of `invite` asks that its number is not shown (RFC 3323, RFC 3325).
pub(crate) fn is_private(invite: &Message<'_>) -> bool {
    let asks = [&b"id"[..], b"user", b"header", b"session", b"critical"];
    let values = invite.values(HeaderName::Privacy);
    let mut values = values.flat_map(|value| value.split(|byte| matches!(byte, b';' | b',')));
    values.any(|value| asks.iter().any(|asked| value.trim_ascii().eq_ignore_ascii_case(asked)))
}

/// Returns true if another trunk could not change the response `status` to a call: the callee is
/// known to be busy, to refuse or not to exist.
pub(crate) const fn is_final(status: u16) -> bool {
    matches!(status, 404 | 410 | 480 | 484 | 486 | 487 | 600..=699)
}

/// Returns the status for the caller of a call that all trunks have refused, the last one with
/// `status`. The caller can neither answer the challenge of a trunk nor follow its redirection, and
/// a 503 would keep it from all of this server (RFC 3261 section 16.7 step 6).
pub(crate) const fn status_for_caller(status: u16) -> u16 {
    match status {
        300..=399 => Status::TEMPORARILY_UNAVAILABLE.code(),
        401..=403 | 407 | 503 => Status::SERVER_INTERNAL_ERROR.code(),
        status => status,
    }
}

/// Returns a failure in words.
pub(crate) fn in_words(failure: &Failure) -> String {
    match failure {
        Failure::Refused { status: 408, .. } | Failure::TimedOut => "no response".into(),
        Failure::Refused { status, reason } => format!("{status} {reason}"),
        Failure::Unauthorized { realm, .. } => {
            format!("the account is not accepted for the realm {realm}")
        }
        other => format!("{} {}", other.status(), sip::message::reason_phrase(other.status())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempt(identity: Option<&str>) -> Attempt {
        let mut route = b"<sip:p@192.0.2.1;transport=tcp;lr;to-trunk=1;number=%23+49".to_vec();
        if let Some(identity) = identity {
            (";identity=", identity).encode(&mut route);
        }
        route.push(b'>');
        let attempts = attempts(&[route]);
        assert_eq!((attempts[0].trunk, attempts[0].number.as_str()), (1, "#+49"));
        attempts[0].clone()
    }

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn the_caller_is_named_as_the_trunk_expects() {
        let mut trunk = Trunk::new("a", "p.example");
        let (numbered, plain) = (attempt(Some("+4930")), attempt(None));
        let anonymous = "\"Anonymous\" <sip:anonymous@anonymous.invalid>";
        assert_eq!(text(trunk.uri(&plain)), "sip:#+49@p.example");
        assert_eq!(text(trunk.from(&numbered, false)), "<sip:+4930@p.example>");
        assert_eq!(text(trunk.from(&numbered, true)), anonymous);
        assert_eq!(text(trunk.from(&plain, false)), anonymous);
        assert_eq!(text(trunk.identity_lines(&numbered, false)), "");
        assert_eq!(text(trunk.identity_lines(&numbered, true)), "Privacy: id\r\n");
        trunk.is_trusted = true;
        let asserted = "P-Asserted-Identity: <sip:+4930@p.example>\r\n";
        assert_eq!(text(trunk.identity_lines(&numbered, false)), asserted);
        let private = [asserted, "Privacy: id\r\n"].concat();
        assert_eq!(text(trunk.identity_lines(&numbered, true)), private);
        assert_eq!(text(trunk.identity_lines(&plain, false)), "");
        trunk.is_trusted = false;
        trunk.from = TrunkFrom::Account;
        trunk.account =
            Some(TrunkAccount { user: "acc".into(), username: String::new(), password: None });
        assert_eq!(text(trunk.from(&numbered, true)), "<sip:acc@p.example>");
        let preferred = "P-Preferred-Identity: <sip:+4930@p.example>\r\n";
        assert_eq!(text(trunk.identity_lines(&numbered, false)), preferred);
        assert_eq!(trunk.credentials().username, "acc");
    }

    #[test]
    fn what_the_callee_says_is_final_and_what_the_trunk_says_is_not() {
        for status in [404, 480, 484, 486, 487, 600, 603, 604, 606] {
            assert!(is_final(status), "{status}");
        }
        for status in [302, 401, 403, 407, 408, 488, 500, 502, 503, 504] {
            assert!(!is_final(status), "{status}");
        }
        assert_eq!([302, 401, 403, 503].map(status_for_caller), [480, 500, 500, 500]);
    }

    #[test]
    fn a_caller_that_asks_for_privacy_is_private() {
        for (value, expected) in
            [("id", true), ("header;ID", true), ("user, none", true), ("none", false), ("", false)]
        {
            let invite = format!("INVITE sip:a@b SIP/2.0\r\nPrivacy: {value}\r\n\r\n");
            let invite = Message::parse(invite.as_bytes()).expect("a message");
            assert_eq!(is_private(&invite), expected, "{value}");
        }
    }
}
