//! The second factor of accounts: turned on and off by its owner, and checked at the login.

use crate::form::Form;
use crate::http::{Reply, Request};
use crate::pages::access;
use crate::panel::{Panel, Problem};
use crate::sessions::Session;
use crate::totp;
use std::time::Duration;
use store::SecondFactor;

impl Panel {
    /// Returns true if the account has no second factor, or `code` is one that was not used before.
    /// A failure of the storage refuses it.
    pub(crate) fn takes_code(&self, account: &str, code: &str, now: Duration) -> bool {
        let SecondFactor { secret, used } = match self.data.second_factor(account) {
            Ok(Some(factor)) => factor,
            Ok(None) => return true,
            Err(_) => return false,
        };
        let Some(used) = totp::step_of(&secret, code, now, used) else { return false };
        self.data.put_second_factor(account, &SecondFactor { secret, used }).is_ok()
    }

    /// The page with a new secret for the account of `session`.
    pub(crate) fn new_second_factor(&mut self, session: &Session) -> Reply {
        let secret = &(self.random)()[..totp::SECRET_LENGTH];
        let uri = totp::uri(&session.account, secret);
        let view = self.view(session);
        Reply::page(200, access::second_factor(&view, &totp::base32(secret), &uri))
    }

    /// Turns the second factor of the account of the session `id` on, with the secret of the form.
    pub(crate) fn turn_on_second_factor(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session,
        form: &Form,
    ) -> Result<(), Problem> {
        let (name, texts) = (&session.account, self.texts);
        let refused = |text: &str| Problem::Refused(text.to_owned());
        self.check_own_password(request, session, form)?;
        if self.data.second_factor(name)?.is_some() {
            return Err(refused(texts.second_factor_there));
        }
        let secret = totp::secret_of(form.get("secret"));
        let secret = secret.ok_or_else(|| refused(texts.bad_request))?;
        let used = totp::step_of(&secret, form.get("code"), request.now, 0);
        let used = used.ok_or_else(|| refused(texts.wrong_code))?;
        self.data.put_second_factor(name, &SecondFactor { secret, used })?;
        self.sessions.end_of(name, Some(id));
        self.note(request, name, "turn on second factor", name, None);
        Ok(())
    }

    /// Turns the second factor of the account of `session` off.
    pub(crate) fn turn_off_second_factor(
        &mut self,
        request: &Request,
        session: &Session,
        form: &Form,
    ) -> Result<(), Problem> {
        let name = &session.account;
        self.check_own_password(request, session, form)?;
        if !self.takes_code(name, form.get("code"), request.now) {
            self.clients.note_failure(request.source, name, request.now);
            return Err(Problem::Refused(self.texts.wrong_code.to_owned()));
        }
        self.data.remove_second_factor(name)?;
        self.note(request, name, "turn off second factor", name, None);
        Ok(())
    }
}
