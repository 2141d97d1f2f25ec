//! Credentials in messages of a scenario, and their verification.

use super::dialog::Dialog;
use super::message;
use sip::digest::{Challenge, Credentials, DigestInput, Ha1Set, unquote};

/// Returns the header field line with the credentials for the stored challenge of a call, or `None`
/// without a challenge. `message` is the message without that line.
pub(super) fn authorize(
    dialog: &mut Dialog,
    user: &[u8],
    password: &[u8],
    message: &[u8],
    cnonce: &[u8],
) -> Option<Vec<u8>> {
    let (value, is_proxy) = dialog.challenge.as_ref()?;
    let challenge = Challenge::parse(value).ok().flatten()?;
    dialog.nonce_count += 1;
    let set = Ha1Set::new(user, &unquote(challenge.realm), password);
    let first = message::first_line(message);
    let request = DigestInput {
        method: message::method(message),
        uri: first.split(|&octet| octet == b' ').nth(1).unwrap_or_default(),
        body: message::split(message).1,
    };
    let ha1 = set.get(challenge.algorithm);
    let credentials = challenge.credentials_for(user, ha1, &request, cnonce, dialog.nonce_count);
    let name: &[u8] = if *is_proxy { b"Proxy-Authorization: " } else { b"Authorization: " };
    let mut line = name.to_vec();
    credentials.write(&mut line);
    Some(line)
}

/// Returns true if a request has valid credentials of `user`.
pub(super) fn verify(request: &[u8], user: &[u8], password: &[u8]) -> bool {
    ["Authorization", "Proxy-Authorization"].iter().any(|name| {
        message::values(request, name).any(|value| {
            let Ok(Some(credentials)) = Credentials::parse(value) else { return false };
            let set = Ha1Set::new(user, &unquote(credentials.realm), password);
            credentials.username[..] == *user
                && credentials.verify(&set, message::method(request), message::split(request).1)
        })
    })
}
