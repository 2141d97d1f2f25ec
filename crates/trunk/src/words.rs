//! The reasons of failures in words, and their meaning for the server that was asked.

use alloc::format;
use alloc::string::{String, ToString};
use sip_ua::{Denial, Failure};

/// The longest text of a peer in a reason, in characters.
const MAX_QUOTED: usize = 80;

/// The status with which the proxy reports that a request could not be delivered (RFC 5626 section
/// 11.5).
const FLOW_FAILED: u16 = 430;

/// The reason of `failure` in words.
pub(crate) fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Refused { status: 408, .. } | Failure::TimedOut => "no answer".into(),
        Failure::Refused { status: FLOW_FAILED, .. } | Failure::Unreachable => {
            "not reachable: the connection failed, or no server listens there".into()
        }
        Failure::NoRoute => "no route to the address".into(),
        Failure::Untrusted => "the certificate is not trusted".into(),
        Failure::NotLocated => "no server of the trunk works".into(),
        Failure::Refused { status, reason } => format!("{status} {}", printable(reason)),
        Failure::Unauthorized { realm, denial } => {
            let realm = printable(realm);
            match denial {
                Denial::NoPassword => format!("a password is needed for the realm \"{realm}\""),
                Denial::Wrong => "the user name or the password is wrong".into(),
                _ => format!("the challenge for the realm \"{realm}\" is not answered"),
            }
        }
        Failure::Protocol(violation) => violation.to_string(),
        _ => "it failed".into(),
    }
}

/// Returns true if `failure` is one of the server that was asked, and not of the account: another
/// server may answer.
pub(crate) const fn is_of_server(failure: &Failure) -> bool {
    match failure {
        Failure::TimedOut | Failure::Unreachable | Failure::NoRoute | Failure::Untrusted => true,
        Failure::Refused { status, .. } => {
            matches!(*status, 408 | FLOW_FAILED | 500 | 502 | 503 | 504)
        }
        _ => false,
    }
}

/// The beginning of `text` without control characters.
fn printable(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '?' } else { c };
    text.chars().take(MAX_QUOTED).map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_peer_stays_one_short_line() {
        let text = |reason: &str| Failure::Refused { status: 503, reason: reason.into() };
        assert_eq!(reason(&text("Busy\r\n\u{1b}[1m")), "503 Busy???[1m");
        assert_eq!(reason(&text(&"x".repeat(1000))).len(), 4 + MAX_QUOTED);
    }

    #[test]
    fn only_failures_of_the_server_lead_to_another_one() {
        let refused = |status| Failure::Refused { status, reason: String::new() };
        for status in [408, 430, 500, 502, 503, 504] {
            assert!(is_of_server(&refused(status)), "{status}");
        }
        for status in [400, 401, 403, 404, 405, 423, 480, 486, 501, 603] {
            assert!(!is_of_server(&refused(status)), "{status}");
        }
        assert!(!is_of_server(&Failure::NotLocated) && is_of_server(&Failure::TimedOut));
    }
}
