//! Encrypted calls between barebell-phone and other phones, with each suite of the other phone.
//! Debian's Twinkle has no SRTP.

use peers::pair::{CallPath, Pair};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::Srtp::{self, Off, Optional, Required};
use peers::phone::{Action, Event};
use peers::process::despite_twinkle;

const AES_80: &str = "AES_CM_128_HMAC_SHA1_80";
const AES_32: &str = "AES_CM_128_HMAC_SHA1_32";

/// A phone: its kind, its encryption policy, and its suites.
type Side = (Kind, Srtp, &'static str);

fn pair(alice: Side, bob: Side) -> Pair {
    Pair::with(alice.0, bob.0, CallPath::Direct, |account| {
        let side = if account.user == "alice" { alice } else { bob };
        (account.srtp, account.suites) = (side.1, side.2);
    })
}

/// Alice calls bob, and both hear each other. barebell-phone reports `suite`.
fn agree_on(alice: Side, bob: Side, suite: Option<&str>) {
    let mut pair = pair(alice, bob);
    pair.connect();
    pair.hear();
    let ours = if pair.alice.kind == Barebell { &pair.alice } else { &pair.bob };
    assert_eq!(ours.suite().as_deref(), suite, "{alice:?} calls {bob:?}");
    pair.end(true);
}

/// Bob's phone rejects the call automatically.
fn is_rejected(alice: Side, bob: Side) {
    let mut pair = pair(alice, bob);
    pair.alice.act(&Action::Dial(pair.uri.clone()));
    pair.alice.wait_for(Event::Ended);
    pair.alice.wait_for_status("INVITE", &[488]);
}

#[test]
fn baresip_is_called_with_each_suite() {
    for suite in [AES_80, AES_32, "AEAD_AES_256_GCM"] {
        agree_on((Barebell, Required, suite), (Baresip, Required, ""), Some(suite));
    }
}

#[test]
fn baresip_calls_encrypted() {
    for theirs in [Optional, Required] {
        for ours in [Optional, Required] {
            agree_on((Baresip, theirs, ""), (Barebell, ours, ""), Some(AES_80));
        }
    }
}

#[test]
fn baresip_is_offered_optional_encryption() {
    agree_on((Barebell, Optional, ""), (Baresip, Required, ""), Some(AES_80));
    agree_on((Barebell, Optional, ""), (Baresip, Off, ""), None);
}

#[test]
fn linphone_is_called_with_each_suite() {
    for suite in [AES_80, AES_32] {
        agree_on((Barebell, Required, suite), (Linphone, Required, ""), Some(suite));
    }
}

#[test]
fn linphone_is_called_with_256_bits() {
    for suite in ["AES_256_CM_HMAC_SHA1_80", "AES_256_CM_HMAC_SHA1_32"] {
        agree_on((Barebell, Required, suite), (Linphone, Required, ""), Some(suite));
    }
}

/// One suite has its old name, which the answer has to repeat.
#[test]
fn linphone_calls_with_each_suite() {
    for (theirs, suite) in [
        (AES_80, AES_80),
        (AES_32, AES_32),
        ("AES_CM_256_HMAC_SHA1_80", "AES_256_CM_HMAC_SHA1_80"),
        ("AES_256_CM_HMAC_SHA1_80", "AES_256_CM_HMAC_SHA1_80"),
        ("AES_256_CM_HMAC_SHA1_32", "AES_256_CM_HMAC_SHA1_32"),
    ] {
        agree_on((Linphone, Required, theirs), (Barebell, Optional, ""), Some(suite));
    }
}

/// linphone ignores keys in RTP/AVP: if it requires them, it rejects the call, and is called again
/// with RTP/SAVP.
#[test]
fn linphone_is_offered_optional_encryption() {
    agree_on((Barebell, Optional, ""), (Linphone, Required, ""), Some(AES_80));
    agree_on((Barebell, Optional, ""), (Linphone, Off, ""), None);
}

#[test]
fn linphone_accepts_an_unencrypted_offer() {
    agree_on((Linphone, Optional, ""), (Barebell, Off, ""), None);
}

#[test]
fn twinkle_is_called_without_encryption_if_optional() {
    despite_twinkle(|| agree_on((Barebell, Optional, ""), (Twinkle, Off, ""), None));
    despite_twinkle(|| agree_on((Twinkle, Off, ""), (Barebell, Optional, ""), None));
}

#[test]
fn required_encryption_prevents_unencrypted_calls() {
    is_rejected((Barebell, Required, ""), (Twinkle, Off, ""));
    is_rejected((Twinkle, Off, ""), (Barebell, Required, ""));
    is_rejected((Baresip, Off, ""), (Barebell, Required, ""));
    is_rejected((Baresip, Required, ""), (Barebell, Off, ""));
    is_rejected((Linphone, Required, ""), (Barebell, Off, ""));
}
