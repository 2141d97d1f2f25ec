//! Our phone and others encrypt their calls, with each suite that the other knows. Twinkle, as
//! Debian has it, knows none.

use peers::pair::{Pair, Way};
use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::Srtp::{self, Off, Optional, Required};
use peers::phone::{Action, Event};

const AES_80: &str = "AES_CM_128_HMAC_SHA1_80";
const AES_32: &str = "AES_CM_128_HMAC_SHA1_32";

/// The phone of `who`: its kind, what it wants of encryption, and the suites that it is left with.
type Side = (Kind, Srtp, &'static str);

fn pair(alice: Side, bob: Side) -> Pair {
    Pair::with(alice.0, bob.0, Way::Direct, |account| {
        let side = if account.user == "alice" { alice } else { bob };
        (account.srtp, account.suites) = (side.1, side.2);
    })
}

/// Alice calls bob, and both hear each other; ours says that it is encrypted with `suite`.
fn agree_on(alice: Side, bob: Side, suite: Option<&str>) {
    let mut pair = pair(alice, bob);
    pair.connect();
    pair.hear();
    let ours = if pair.alice.kind == Barebell { &pair.alice } else { &pair.bob };
    assert_eq!(ours.suite().as_deref(), suite, "{alice:?} calls {bob:?}");
    pair.end(true);
}

/// Bob's phone refuses the call by itself.
fn do_not_agree(alice: Side, bob: Side) {
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
fn baresip_is_offered_both() {
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

/// One of them by the name of old, which the answer has to repeat.
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

/// It reads no keys in RTP/AVP: where it wants them, it refuses, and is called anew with RTP/SAVP.
#[test]
fn linphone_is_offered_both() {
    agree_on((Barebell, Optional, ""), (Linphone, Required, ""), Some(AES_80));
    agree_on((Barebell, Optional, ""), (Linphone, Off, ""), None);
}

#[test]
fn linphone_does_without_where_ours_does() {
    agree_on((Linphone, Optional, ""), (Barebell, Off, ""), None);
}

#[test]
fn twinkle_is_called_in_clear_where_that_may_be() {
    agree_on((Barebell, Optional, ""), (Twinkle, Off, ""), None);
    agree_on((Twinkle, Off, ""), (Barebell, Optional, ""), None);
}

#[test]
fn no_call_is_in_clear_where_that_may_not_be() {
    do_not_agree((Barebell, Required, ""), (Twinkle, Off, ""));
    do_not_agree((Twinkle, Off, ""), (Barebell, Required, ""));
    do_not_agree((Baresip, Off, ""), (Barebell, Required, ""));
    do_not_agree((Baresip, Required, ""), (Barebell, Off, ""));
    do_not_agree((Linphone, Required, ""), (Barebell, Off, ""));
}
