//! The answers to challenges (RFC 3261 section 22, RFC 8760).

use crate::client_transaction::{Cancel, Client, State};
use crate::config::{Account, Config};
use crate::event::{Denial, Failure};
use crate::token::Token;
use alloc::string::String;
use alloc::vec::Vec;
use sip::digest::{Challenge, DigestInput, Ha1Set};
use sip::{Encode, HeaderName, Message};

/// The maximum number of challenges answered for one request: one of the registrar or proxy, and
/// one more if the nonce was stale.
const MAX_CHALLENGES: u8 = 2;

/// Returns the header fields of challenge and credentials: of a server for 401, of a proxy for 407.
const fn fields(status: u16) -> (HeaderName, HeaderName) {
    match status {
        401 => (HeaderName::WwwAuthenticate, HeaderName::Authorization),
        _ => (HeaderName::ProxyAuthenticate, HeaderName::ProxyAuthorization),
    }
}

/// Returns the failure of a request for which `realm` requires credentials.
fn refused(realm: &[u8], denial: Denial) -> Failure {
    Failure::Unauthorized { realm: String::from_utf8_lossy(realm).into_owned(), denial }
}

impl Client {
    /// Adds the credentials that answer the challenge `response` to the request, which is then sent
    /// again. `is_own` is true if the challenge came from a server where an account is registered.
    ///
    /// # Errors
    /// [`Failure::Unauthorized`] if there are no credentials, or none for this challenger.
    pub(crate) fn authorize(
        &mut self,
        config: &mut Config,
        response: &Message<'_>,
        is_own: bool,
        cnonce: Token,
    ) -> Result<(), Failure> {
        let State::Sent(sent) = &self.state else { return Ok(()) };
        let account = self.draft.account.and_then(|id| config.accounts.get_mut(id.0));
        let request = DigestInput {
            method: self.draft.method.as_bytes(),
            uri: self.draft.dialog.request_uri(),
            body: &self.draft.body,
        };
        let Answer { line, realm, stale } = answer(account.as_deref(), response, &request, cnonce)?;
        // A server that rejects the credentials for another reason than the nonce rejects them
        // always (RFC 3261 section 22.2).
        let (_, answers) = fields(response.status().unwrap_or_default());
        if !stale && self.authorization.starts_with(answers.as_str().as_bytes()) {
            return Err(refused(&realm, Denial::Wrong));
        }
        // A proxy in front of the account's own server sends 100 and forwards the request. Then the
        // own server sends the challenge.
        let has_proxy = account.as_ref().is_some_and(|account| account.proxy.is_some());
        let may_be_hop = has_proxy && self.challenges == 0 && !sent.is_passed_on;
        let is_passed_on = sent.is_proceeding && !may_be_hop;
        let is_new_realm = account.as_ref().is_none_or(|account| account.realm.is_none());
        // Any peer can name any realm: the target of a redirection could forward a challenge of the
        // account's own server, and authenticate there with the local answer.
        if self.is_redirected && (is_new_realm || !is_own) {
            return Err(refused(&realm, Denial::Stranger));
        }
        // After a provisional response the challenge is not from the local proxy, which has
        // forwarded the request, but from an element behind it. An answer would let that element
        // authenticate as the local user (RFC 3261 section 22.3 leaves this open).
        let is_taken_back = sent.cancel != Cancel::No;
        if self.challenges == MAX_CHALLENGES || is_passed_on || is_taken_back {
            return Err(refused(&realm, Denial::Stranger));
        }
        self.challenges += 1;
        self.authorization = line;
        self.draft.cseq = self.draft.dialog.next_cseq().max(self.draft.cseq + 1);
        self.draft.dialog.raise_local_cseq(self.draft.cseq);
        if let Some(account) = account.filter(|account| !account.any_realm) {
            account.realm.get_or_insert_with(|| String::from_utf8_lossy(&realm).into_owned());
        }
        Ok(())
    }
}

/// The answer to a challenge.
struct Answer {
    /// The header field line with the credentials.
    line: Vec<u8>,
    /// The realm of the credentials.
    realm: Vec<u8>,
    /// True if only the previous nonce was stale.
    stale: bool,
}

/// Returns the credentials of `account` for the challenge in `response`. Of several challenges the
/// first one with a known algorithm is answered.
///
/// # Errors
/// If the realm is not that of the account, or there is no password.
fn answer(
    account: Option<&Account>,
    response: &Message<'_>,
    request: &DigestInput<'_>,
    cnonce: Token,
) -> Result<Answer, Failure> {
    let (asks, answers) = fields(response.status().unwrap_or_default());
    let mut challenges =
        response.values(asks).filter_map(|value| Challenge::parse(value).ok().flatten());
    let challenge = challenges.next().ok_or_else(|| refused(b"", Denial::NoPassword))?;
    let unanswered = || refused(challenge.realm, Denial::NoPassword);
    let account = account.ok_or_else(unanswered)?;
    let password = account.password.as_ref().ok_or_else(unanswered)?;
    if let Some(known) = account.realm.as_ref().filter(|known| known.as_bytes() != challenge.realm)
    {
        let denial = Denial::OtherRealm { known: known.clone() };
        return Err(refused(challenge.realm, denial));
    }
    let uri = sip::Uri::parse(account.uri.as_bytes()).ok();
    let own = uri.as_ref().and_then(|uri| uri.as_sip()).and_then(|uri| uri.user);
    let own = sip::uri::unescape(own.unwrap_or_default());
    let user = match account.username.as_str() {
        "" => &own,
        name => name.as_bytes(),
    };
    let mut nonce = Vec::new();
    cnonce.encode(&mut nonce);
    let ha1 = Ha1Set::new(user, challenge.realm, password.as_bytes());
    let credentials =
        challenge.credentials_for(user, ha1.get(challenge.algorithm), request, &nonce, 1);
    let mut line = Vec::new();
    (answers.as_str(), ": ", &credentials, "\r\n").encode(&mut line);
    Ok(Answer { line, realm: challenge.realm.to_vec(), stale: challenge.stale })
}
