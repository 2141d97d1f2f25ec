//! Answers to challenges (RFC 3261 section 22, RFC 8760).

use crate::config::Account;
use alloc::vec::Vec;
use sip::digest::{Challenge, Ha1Set, Request};
use sip::{Emit, HeaderName, Message};

/// Who asks: a server by 401, a proxy by 407.
const fn fields(status: u16) -> (HeaderName, HeaderName) {
    match status {
        401 => (HeaderName::WwwAuthenticate, HeaderName::Authorization),
        _ => (HeaderName::ProxyAuthenticate, HeaderName::ProxyAuthorization),
    }
}

/// Why there are no credentials: the realm that asks for them.
pub(crate) struct NoCredentials {
    pub(crate) realm: Vec<u8>,
}

/// The header field line with the credentials of `account` that answer what `response` asks, and
/// the realm that they are for. Of several challenges the first is taken whose algorithm is known.
///
/// # Errors
/// Where nothing is known for the realm: it is not that of the account, or there is no password.
pub(crate) fn answer(
    account: Option<&Account>,
    realm: Option<&[u8]>,
    response: &Message<'_>,
    request: &Request<'_>,
    cnonce: &[u8],
) -> Result<(Vec<u8>, Vec<u8>), NoCredentials> {
    let (asks, answers) = fields(response.status().unwrap_or_default());
    let mut challenges =
        response.values(asks).filter_map(|value| Challenge::parse(value).ok().flatten());
    let Some(challenge) = challenges.next() else {
        return Err(NoCredentials { realm: Vec::new() });
    };
    let refused = || NoCredentials { realm: challenge.realm.to_vec() };
    let account = account.ok_or_else(refused)?;
    let password = account.password.as_ref().ok_or_else(refused)?;
    if realm.is_some_and(|realm| realm != challenge.realm) {
        return Err(refused());
    }
    let uri = sip::Uri::parse(account.uri.as_bytes()).ok();
    let own = uri.as_ref().and_then(|uri| uri.as_sip()).and_then(|uri| uri.user);
    let own = sip::uri::unescape(own.unwrap_or_default());
    let user = match account.username.as_str() {
        "" => &own,
        name => name.as_bytes(),
    };
    let ha1 = Ha1Set::new(user, challenge.realm, password.as_bytes());
    let credentials = challenge.answer(user, ha1.get(challenge.algorithm), request, cnonce, 1);
    let mut line = Vec::new();
    (answers.as_str(), ": ", &credentials, "\r\n").emit(&mut line);
    Ok((line, challenge.realm.to_vec()))
}
