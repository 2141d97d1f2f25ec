//! The second factor of accounts (RFC 6238).

use crate::rig::{PASSWORD, Rig, text};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use std::time::Duration;

/// The code of `secret` at `now`, as an app makes it.
fn code(secret: &[u8], now: Duration) -> String {
    let mut hmac = Hmac::<Sha1>::new_from_slice(secret).unwrap();
    hmac.update(&(now.as_secs() / 30).to_be_bytes());
    let hash = hmac.finalize().into_bytes();
    let offset = usize::from(hash[19] & 15);
    let word = u32::from_be_bytes(hash[offset..offset + 4].try_into().unwrap());
    format!("{:06}", (word & 0x7fff_ffff) % 1_000_000)
}

/// A session of `eve`, with a second factor, and the secret of that factor.
fn rig() -> (Rig, Vec<u8>) {
    let mut rig = Rig::of_administrator();
    let page = text(&rig.post_form("/panel/access/second-factor", ""));
    let shown = page.split("name=\"secret\" value=\"").nth(1).unwrap();
    let shown = shown.split('"').next().unwrap().to_owned();
    assert!(page.contains("<svg") && rig.data.second_factors.lock().is_empty());
    let wrong = format!("secret={shown}&password={PASSWORD}&code=000000");
    rig.post_form("/panel/access/second-factor/on", &wrong);
    let unproved = format!("secret={shown}&password=wrong password&code=000000");
    rig.post_form("/panel/access/second-factor/on", &unproved);
    assert!(rig.data.second_factors.lock().is_empty());
    // The random bytes of the rig are all alike: the secret is 20 of one.
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bits: String =
        shown.chars().map(|letter| format!("{:05b}", alphabet.find(letter).unwrap())).collect();
    let secret: Vec<u8> = (0..20)
        .map(|place| u8::from_str_radix(&bits[8 * place..8 * place + 8], 2).unwrap())
        .collect();
    let form = format!("secret={shown}&password={PASSWORD}&code={}", code(&secret, rig.now));
    rig.post_form("/panel/access/second-factor/on", &form);
    assert_eq!(rig.data.second_factors.lock()["eve"].secret, secret);
    (rig, secret)
}

fn log_in(rig: &mut Rig, password: &str, code: &str) -> panel::Reply {
    rig.post("/panel/login", &format!("name=eve&password={password}&code={code}"))
}

#[test]
fn a_login_needs_a_code_that_was_not_used() {
    let (mut rig, secret) = rig();
    rig.cookie.clear();
    let used = code(&secret, rig.now);
    let wrong = text(&log_in(&mut rig, "not the password", "000000"));
    // A right password without a code has the answer of a wrong one.
    for code in ["", "000000", &used] {
        let reply = log_in(&mut rig, PASSWORD, code);
        assert_eq!((reply.status, text(&reply)), (422, wrong.clone()), "{code}");
    }
    rig.now += Duration::from_secs(30);
    let fresh = code(&secret, rig.now);
    assert_eq!(log_in(&mut rig, "not the password", &fresh).status, 422);
    assert_eq!(log_in(&mut rig, PASSWORD, &fresh).status, 303);
    rig.now += Duration::from_secs(1);
    assert_eq!(log_in(&mut rig, PASSWORD, &fresh).status, 422, "it was used");
}

#[test]
fn codes_cannot_be_guessed() {
    let (mut rig, secret) = rig();
    rig.cookie.clear();
    rig.source = [192, 0, 2, 66];
    for number in 0..20 {
        log_in(&mut rig, PASSWORD, &format!("{number:06}"));
        rig.now += Duration::from_secs(1);
    }
    let code = code(&secret, rig.now);
    assert_eq!(log_in(&mut rig, PASSWORD, &code).status, 429);
}

#[test]
fn it_is_turned_off_with_password_and_code_and_stays_at_a_new_password() {
    let (mut rig, secret) = rig();
    let form = format!("password={PASSWORD}&new=another password&again=another password");
    rig.post_form("/panel/access/password", &form);
    assert!(rig.data.second_factors.lock().contains_key("eve"));
    rig.now += Duration::from_secs(60);
    let fresh = code(&secret, rig.now);
    for form in [
        format!("password=wrong password&code={fresh}"),
        "password=another password&code=000000".to_owned(),
        "password=another password".to_owned(),
    ] {
        rig.post_form("/panel/access/second-factor/off", &form);
        assert!(rig.data.second_factors.lock().contains_key("eve"), "{form}");
    }
    let form = format!("password=another password&code={fresh}");
    rig.post_form("/panel/access/second-factor/off", &form);
    assert!(rig.data.second_factors.lock().is_empty());
    rig.cookie.clear();
    assert_eq!(rig.log_in("eve", "another password").status, 303);
    let actions = rig.data.actions.lock();
    for action in ["turn on second factor", "turn off second factor"] {
        assert!(actions.iter().any(|it| it.action == action), "{action}");
    }
    let shown = format!("{actions:?}");
    assert!(!shown.contains(&fresh), "{shown}");
}
