//! Outcomes of a command. The exit statuses are documented in docs/phone.md and are stable.

use media::Refusal;
use sip_ua::{Denial, End, Failure};
use std::fmt;
use std::process::ExitCode;

/// The outcome of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The task is done.
    Done,
    /// Another failure, with a description.
    Failed(String),
    /// The command line or the configuration is invalid.
    Usage(String),
    Busy(String),
    Declined(String),
    NoAnswer(String),
    NotFound(String),
    Unauthorized(String),
    NotLocated(String),
    Unreachable(String),
    NoCommonCodec(String),
    NothingHeard(String),
    /// The sent media do not arrive.
    OneWay(String),
    NotSecured(String),
    /// An expectation was not met.
    Unmet(String),
    /// The certificate of the server or peer is not trusted.
    Untrusted(String),
    /// There is no route to the remote end, or no network.
    NoRoute(String),
    /// The server knows the account, or needs none, and does not permit the request (403).
    Forbidden(String),
}

/// The reason of a server's 403 for a domain that it does not have.
const DOMAIN_NOT_SERVED: &str = "Domain Not Served";

impl Outcome {
    pub(crate) const fn code(&self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed(_) => 1,
            Self::Usage(_) => 2,
            Self::Busy(_) => 10,
            Self::Declined(_) => 11,
            Self::NoAnswer(_) => 12,
            Self::NotFound(_) => 13,
            Self::Unauthorized(_) => 14,
            Self::NotLocated(_) => 15,
            Self::Unreachable(_) => 16,
            Self::NoCommonCodec(_) => 17,
            Self::NothingHeard(_) => 18,
            Self::OneWay(_) => 19,
            Self::NotSecured(_) => 20,
            Self::Unmet(_) => 21,
            Self::Untrusted(_) => 22,
            Self::NoRoute(_) => 23,
            Self::Forbidden(_) => 24,
        }
    }

    /// The same outcome, with `place` in front of its text.
    #[must_use]
    pub(crate) fn after(self, place: &str) -> Self {
        let with: fn(String) -> Self = match self {
            Self::Done => return self,
            Self::Failed(_) => Self::Failed,
            Self::Usage(_) => Self::Usage,
            Self::Busy(_) => Self::Busy,
            Self::Declined(_) => Self::Declined,
            Self::NoAnswer(_) => Self::NoAnswer,
            Self::NotFound(_) => Self::NotFound,
            Self::Unauthorized(_) => Self::Unauthorized,
            Self::NotLocated(_) => Self::NotLocated,
            Self::Unreachable(_) => Self::Unreachable,
            Self::NoCommonCodec(_) => Self::NoCommonCodec,
            Self::NothingHeard(_) => Self::NothingHeard,
            Self::OneWay(_) => Self::OneWay,
            Self::NotSecured(_) => Self::NotSecured,
            Self::Unmet(_) => Self::Unmet,
            Self::Untrusted(_) => Self::Untrusted,
            Self::NoRoute(_) => Self::NoRoute,
            Self::Forbidden(_) => Self::Forbidden,
        };
        with(format!("{place}: {self}"))
    }

    /// The outcome of a call that ended with `end`; `party` is the remote end.
    pub(crate) fn of_end(end: &End, party: &str) -> Self {
        match end {
            End::HungUp | End::HungUpByPeer { .. } | End::Replaced { .. } => Self::Done,
            End::Cancelled { .. } => Self::NoAnswer(format!("{party} has taken the call back")),
            End::NotAnswered => Self::NoAnswer(format!("{party} does not answer")),
            End::Declined => Self::Declined(format!("the call of {party} was declined here")),
            End::Failed(failure) => Self::of_failure(failure, party),
            other => Self::Failed(format!("{party}: {other:?}")),
        }
    }

    fn of_failure(failure: &Failure, party: &str) -> Self {
        match failure {
            Failure::Refused { status, reason } => Self::of_status(*status, reason, party),
            Failure::NotLocated => Self::NotLocated(format!(
                "{party} is not found: the DNS has no address for it, or it requires a transport \
                 that is not available"
            )),
            Failure::TimedOut => {
                Self::Unreachable(format!("there is no answer from the address of {party}"))
            }
            Failure::Unreachable => Self::Unreachable(format!(
                "{party} cannot be reached: nothing listens there, or connections are refused"
            )),
            Failure::NoRoute => Self::NoRoute(format!(
                "there is no route to {party}: no network, or none with its address family"
            )),
            Failure::Untrusted => Self::Untrusted(format!(
                "the certificate of the next server or phone towards {party} is not trusted (--trust)"
            )),
            Failure::Unauthorized { realm, denial } => {
                Self::Unauthorized(of_denial(realm, denial, party))
            }
            Failure::Protocol(what) => Self::Failed(format!("{party}: {what}")),
            other => Self::Failed(format!("{party}: {other:?}")),
        }
    }

    /// The outcome of the failed registration of `account`.
    pub(crate) fn of_registration(failure: &Failure, account: &str) -> Self {
        match failure {
            Failure::Refused { status: 403, reason } if reason == DOMAIN_NOT_SERVED => {
                Self::Forbidden(format!(
                    "the registrar of {account} answers 403 {reason}: its operator knows the \
                     domains (`barebell status`)"
                ))
            }
            Failure::Refused { status, reason } => {
                Self::of_status(*status, reason, &format!("the registrar of {account}"))
            }
            failure => Self::of_failure(failure, account),
        }
    }

    fn of_status(status: u16, reason: &str, party: &str) -> Self {
        let text = format!("{party} answers {status} {reason}");
        match status {
            401 | 407 => Self::Unauthorized(text),
            // A wrong password is answered with another challenge.
            403 => Self::Forbidden(text),
            404 | 410 | 484 | 604 => Self::NotFound(text),
            408 | 480 => Self::NoAnswer(text),
            415 | 488 | 606 => Self::NoCommonCodec(text),
            486 | 600 => Self::Busy(text),
            603 | 607 | 608 => Self::Declined(text),
            _ => Self::Failed(text),
        }
    }

    /// The outcome of incompatible session descriptions.
    pub(crate) fn of_refusal(refusal: &Refusal) -> Self {
        let text = refusal.to_string();
        match refusal {
            Refusal::NoCommonCodec { .. } | Refusal::NoAudio | Refusal::Refused => {
                Self::NoCommonCodec(text)
            }
            Refusal::NotSecured
            | Refusal::OnlySecured { .. }
            | Refusal::Keys
            | Refusal::Session(_) => Self::NotSecured(text),
            _ => Self::Failed(text),
        }
    }
}

/// Describes why `realm` gets no password, or rejects it.
fn of_denial(realm: &str, denial: &Denial, party: &str) -> String {
    match denial {
        Denial::NoPassword => format!(
            "{realm} asks for a password, and the account has none: set BAREBELL_PHONE_PASSWORD, or \
             use --password-fd, or password_file or password_command in the file of --config"
        ),
        Denial::Wrong => {
            format!("{party}: the user name or the password is wrong for the realm {realm}")
        }
        Denial::OtherRealm { known } => format!(
            "{realm} asks for a password, and that of the account is for the realm {known} (`realm`)"
        ),
        Denial::Stranger => format!(
            "{realm} asks for a password, which goes to the account's own server alone ({party})"
        ),
        other => format!("{realm} asks for a password, which is not sent: {other:?}"),
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Failed(text)
            | Self::Usage(text)
            | Self::Busy(text)
            | Self::Declined(text)
            | Self::NoAnswer(text)
            | Self::NotFound(text)
            | Self::Unauthorized(text)
            | Self::NotLocated(text)
            | Self::Unreachable(text)
            | Self::NoCommonCodec(text)
            | Self::NothingHeard(text)
            | Self::OneWay(text)
            | Self::NotSecured(text)
            | Self::Unmet(text)
            | Self::Untrusted(text)
            | Self::NoRoute(text)
            | Self::Forbidden(text) => f.write_str(text),
        }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        Self::from(outcome.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_have_exit_statuses() {
        let status = |status| {
            let failure = Failure::Refused { status, reason: "x".into() };
            Outcome::of_end(&End::Failed(failure), "bob").code()
        };
        let codes = [486, 600, 603, 480, 404, 403, 488, 500].map(status);
        assert_eq!(codes, [10, 10, 11, 12, 13, 24, 17, 1]);
        assert_eq!(Outcome::of_end(&End::HungUp, "bob").code(), 0);
        let failed = |failure| Outcome::of_end(&End::Failed(failure), "bob").code();
        let codes = [Failure::Unreachable, Failure::Untrusted, Failure::NoRoute].map(failed);
        assert_eq!(codes, [16, 22, 23]);
    }

    #[test]
    fn a_login_that_fails_names_its_cause() {
        let cause = |failure| Outcome::of_registration(&failure, "sip:a@b").to_string();
        let denied = |denial| cause(Failure::Unauthorized { realm: "home".into(), denial });
        let refused = Failure::Refused { status: 500, reason: "Oops".into() };
        assert_eq!(cause(refused), "the registrar of sip:a@b answers 500 Oops");
        let refused = Failure::Refused { status: 403, reason: "Domain Not Served".into() };
        let refused = Outcome::of_registration(&refused, "sip:a@b");
        assert_eq!(refused.code(), 24);
        assert!(
            refused.to_string().contains("403 Domain Not Served: its operator knows the domains")
        );
        let missing = denied(Denial::NoPassword);
        assert!(missing.contains("BAREBELL_PHONE_PASSWORD") && missing.contains("--password-fd"));
        assert!(denied(Denial::Wrong).contains("password is wrong"));
        let wrong = Failure::Unauthorized { realm: "home".into(), denial: Denial::Wrong };
        assert_eq!(Outcome::of_registration(&wrong, "sip:a@b").code(), 14);
        let other = denied(Denial::OtherRealm { known: "work".into() });
        assert!(other.contains("home asks") && other.contains("realm work"), "{other}");
    }
}
