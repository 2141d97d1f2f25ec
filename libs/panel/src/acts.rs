//! The forms of a session.

use crate::form::{Form, encoded};
use crate::http::{Reply, Request};
use crate::pages::frame::{View, page};
use crate::pages::{calls, users};
use crate::panel::{Client, Panel, Problem};
use crate::password;
use crate::provision::Wish;
use crate::role::Role;
use crate::server::Question;
use crate::sessions::Session;
use crate::texts::fill;
use crate::tokens::new_token;
use maud::html;
use serde_json::{Map, Value, json};

/// The members of a change of call services that are targets of forwards.
const FORWARDS: [&str; 4] = ["always", "busy", "no_answer", "unreachable"];

impl Panel {
    /// Carries out the form `rest` of the session `id`, and leads to the page that shows the
    /// result.
    pub(crate) fn act(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session,
        rest: &[&str],
        form: &Form,
    ) -> Reply {
        if *rest == ["logout"] {
            self.note(request, &session.account, "log out", "", None);
            return self.log_out(request, id);
        }
        if let ["users", user, "phone"] = *rest {
            return self.link_for(request, session, user, form);
        }
        match *rest {
            ["access", "second-factor"] => return self.new_second_factor(session),
            ["backup", "download"] => return self.download(request, session, form),
            ["backup", "restore"] => return self.try_restore(request, id, session, form),
            ["import"] => return self.try_import(request, id, session, form),
            _ => {}
        }
        let (notice, path) = match self.carry_out(request, id, session, rest, form) {
            Ok((text, path)) => ((false, text), path),
            Err(Problem::NotFound) => return self.failure(404),
            Err(Problem::NotAllowed) => ((true, self.texts.not_allowed.to_owned()), page_of(rest)),
            Err(Problem::Refused(text)) => ((true, text), page_of(rest)),
        };
        if let Some(session) = self.sessions.find(id, request.now, true) {
            session.notice = Some(notice);
        }
        Reply::see(path)
    }

    /// Makes a link for a phone of `user`, and shows it.
    fn link_for(&mut self, request: &Request, session: &Session, user: &str, form: &Form) -> Reply {
        let client = Client { name: session.account.clone(), role: session.role() };
        let wish = Wish {
            kind: form.get("kind"),
            transport: form.get("transport"),
            server: form.get("server"),
        };
        let view = self.view(session);
        match self.link_of(request, &client, user, wish) {
            Ok((address, made)) => Reply::page(200, users::link(&view, &address, &made)),
            Err(Problem::NotFound) => self.failure(404),
            Err(problem) => {
                let text = match problem {
                    Problem::Refused(text) => text,
                    _ => self.texts.not_allowed.to_owned(),
                };
                let view = View { notice: Some((true, text)), ..view };
                Reply::page(422, page(&view, "/panel/users", user, &html! {}))
            }
        }
    }

    /// Carries out a form. Returns a message, and the path of the page that shows it.
    fn carry_out(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session,
        rest: &[&str],
        form: &Form,
    ) -> Result<(String, String), Problem> {
        let client = Client { name: session.account.clone(), role: session.role() };
        let texts = self.texts;
        let here = || page_of(rest);
        let said = |text: &str, value: &str| fill(text, &[value]);
        Ok(match *rest {
            ["users"] => {
                let user = form.get("user").to_owned();
                if let Err(problem) = self.check_new_user(&client, &user) {
                    self.note(request, &client.name, "put user", &user, Some(&problem));
                    return Err(problem);
                }
                let password = match form.raw("new") {
                    "" => self.new_password(),
                    given => given.to_owned(),
                };
                let rows = self.ask(request, &client, &Question::PutUser { user, password })?;
                (self.stored(&rows), page_of(&["users", &stored_user(&rows), ""]))
            }
            ["users", user, "password"] => {
                let password = form.raw("new").to_owned();
                let question = Question::PutUser { user: user.to_owned(), password };
                let rows = self.ask(request, &client, &question)?;
                (self.stored(&rows), here())
            }
            ["users", user, "services"] => {
                let (change, object) = (change(form), user.to_owned());
                let question = Question::ChangeServices { user: object, change };
                self.ask(request, &client, &question)?;
                (said(texts.services_saved, user), here())
            }
            ["users", user, "remove"] => {
                self.ask(request, &client, &Question::RemoveUser(user.to_owned()))?;
                (said(texts.user_removed, user), "/panel/users".to_owned())
            }
            ["registrations", "end"] => {
                let (user, contact) = (form.get("user"), form.some("contact"));
                let contact = contact.map(str::to_owned);
                let question = Question::EndRegistration { user: user.to_owned(), contact };
                self.ask(request, &client, &question)?;
                (said(texts.registration_ended, user), here())
            }
            ["calls", "end"] => {
                let question = Question::EndCall(form.get("id").to_owned());
                let rows = self.ask(request, &client, &question)?;
                (calls::ended(&self.view(session), &rows), here())
            }
            ["bans", "lift"] => {
                let source = form.get("source");
                self.ask(request, &client, &Question::Unban(source.to_owned()))?;
                (said(texts.ban_lifted, source), here())
            }
            ["system", "reload"] => {
                self.ask(request, &client, &Question::Reload)?;
                (texts.reloaded.to_owned(), here())
            }
            ["backup", "restore", "apply"] => (self.apply_restore(request, id, &client)?, here()),
            ["import", "apply"] => {
                (self.apply_import(request, id, &client)?, "/panel/users".to_owned())
            }
            ["access", "password"] => {
                self.change_own_password(request, id, session, form)?;
                (texts.password_saved.to_owned(), here())
            }
            ["access", "second-factor", "on"] => {
                self.turn_on_second_factor(request, id, session, form)?;
                (texts.second_factor_on.to_owned(), here())
            }
            ["access", "second-factor", "off"] => {
                self.turn_off_second_factor(request, session, form)?;
                (texts.second_factor_off.to_owned(), here())
            }
            ["access", ref change @ ..] => {
                if session.role() < Role::Administrator {
                    self.note(
                        request,
                        &client.name,
                        "change accounts",
                        "",
                        Some(&Problem::NotAllowed),
                    );
                    return Err(Problem::NotAllowed);
                }
                let changed = self.change_access(request, change, form);
                let action = format!("change {}", change.join(" "));
                self.note(request, &client.name, &action, form.get("name"), changed.as_ref().err());
                (changed?, here())
            }
            _ => return Err(Problem::NotFound),
        })
    }

    /// Refuses a new user that exists, or has a domain that the server does not serve.
    fn check_new_user(&self, client: &Client, user: &str) -> Result<(), Problem> {
        // The change itself is refused without the role, and for a name that no user can have.
        let name = self.server.canonical(user).filter(|_| client.role >= Role::Operator);
        let Some(name) = name else { return Ok(()) };
        let texts = self.texts;
        if self.server.mark(&name).map_err(Problem::Refused)?.is_some() {
            return Err(Problem::Refused(fill(texts.user_there, &[&name])));
        }
        let status = self.server.ask(&Question::Status).map_err(Problem::Refused)?;
        let domains = status.first().and_then(|row| row["domains"].as_array());
        let served: Vec<_> = domains.into_iter().flatten().filter_map(Value::as_str).collect();
        let (_, domain) = name.rsplit_once('@').unwrap_or_default();
        match served.contains(&domain) {
            true => Ok(()),
            false => {
                Err(Problem::Refused(fill(texts.user_not_served, &[domain, &served.join(", ")])))
            }
        }
    }

    /// The message about the stored user in `rows`.
    fn stored(&self, rows: &[Value]) -> String {
        let row = rows.first().unwrap_or(&Value::Null);
        let text = match (row["added"] == 1, row["changed"] == 1) {
            (true, _) => self.texts.user_added,
            (false, true) => self.texts.user_changed,
            (false, false) => self.texts.user_same,
        };
        fill(text, &[&stored_user(rows)])
    }

    fn change_own_password(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session,
        form: &Form,
    ) -> Result<(), Problem> {
        let texts = self.texts;
        let refused = |text: &str| Err(Problem::Refused(text.to_owned()));
        let name = &session.account;
        self.check_own_password(request, session, form)?;
        if form.raw("new") != form.raw("again") {
            return refused(texts.passwords_differ);
        }
        let proof = self.put_account(request, name, form.raw("new"), session.role())?;
        self.sessions.end_of(name, Some(id));
        if let Some(session) = self.sessions.find(id, request.now, true) {
            session.proof = proof;
        }
        self.note(request, name, "change the own password", "", None);
        Ok(())
    }

    /// Checks the present password of the account of `session` in `form`, within the limits of
    /// attempts.
    pub(crate) fn check_own_password(
        &mut self,
        request: &Request,
        session: &Session,
        form: &Form,
    ) -> Result<(), Problem> {
        let texts = self.texts;
        let refused = |text: &str| Err(Problem::Refused(text.to_owned()));
        let name = &session.account;
        if !self.clients.may_try(request.source, name, request.now) {
            return refused(texts.log_in_wait);
        }
        let account = self.data.panel_accounts()?.into_iter().find(|it| it.name == *name);
        let stored = account.map(|account| account.password);
        if !password::is_right(form.raw("password"), stored.as_deref()) {
            self.clients.note_failure(request.source, name, request.now);
            return refused(texts.wrong_password);
        }
        Ok(())
    }

    /// Changes accounts and tokens.
    fn change_access(
        &mut self,
        request: &Request,
        change: &[&str],
        form: &Form,
    ) -> Result<String, Problem> {
        let (texts, name) = (self.texts, form.get("name"));
        let refused = |text: &str| Problem::Refused(text.to_owned());
        let role = || Role::named(form.get("role")).ok_or_else(|| refused(texts.bad_request));
        match change {
            ["accounts"] => {
                let role = role()?;
                if role < Role::Administrator && self.is_last_administrator(name)? {
                    return Err(refused(texts.last_administrator));
                }
                self.put_account(request, name, form.raw("new"), role)?;
                self.sessions.end_of(name, None);
                Ok(fill(texts.account_saved, &[name]))
            }
            ["accounts", "remove"] => {
                if self.is_last_administrator(name)? {
                    return Err(refused(texts.last_administrator));
                }
                if !self.data.remove_panel_account(name)? {
                    return Err(Problem::NotFound);
                }
                self.sessions.end_of(name, None);
                Ok(fill(texts.account_removed, &[name]))
            }
            ["tokens"] => {
                let is_good = (1..=64).contains(&name.len());
                if !is_good {
                    return Err(refused(texts.bad_account));
                }
                if self.data.panel_tokens()?.iter().any(|token| token.name == name) {
                    return Err(refused(texts.token_there));
                }
                let token = new_token(name, role()?, (self.random)(), request.now.as_secs());
                self.data.put_panel_token(&token.stored)?;
                Ok(fill(texts.token_added, &[name, &token.text]))
            }
            ["tokens", "remove"] => match self.data.remove_panel_token(name)? {
                true => Ok(fill(texts.token_removed, &[name])),
                false => Err(Problem::NotFound),
            },
            _ => Err(Problem::NotFound),
        }
    }

    /// Returns true if `name` is the only administrator.
    fn is_last_administrator(&self, name: &str) -> Result<bool, Problem> {
        let accounts = self.data.panel_accounts()?;
        let mut administrators = accounts.iter().filter(|it| it.role == Role::Administrator.name());
        let is_one = administrators.clone().count() == 1;
        Ok(is_one && administrators.any(|account| account.name == name))
    }
}

/// The stored user in `rows`, `name@domain`.
fn stored_user(rows: &[Value]) -> String {
    let uri = rows.first().and_then(|row| row["uri"].as_str()).unwrap_or_default();
    uri.strip_prefix("sip:").unwrap_or(uri).to_owned()
}

/// The change of call services by a form: it removes the forwards without a target, and sets the
/// others.
pub(crate) fn change(form: &Form) -> Value {
    let mut set = Map::new();
    set.insert("off".to_owned(), json!("all"));
    for name in FORWARDS {
        form.some(name).map(|target| set.insert(name.to_owned(), json!(target)));
    }
    let seconds = form.get("after").parse::<u64>().ok();
    if let Some(seconds) = seconds.filter(|_| form.some("no_answer").is_some()) {
        set.insert("after".to_owned(), json!(seconds.saturating_mul(1000)));
    }
    let is_on = !form.get("do_not_disturb").is_empty();
    set.insert("do_not_disturb".to_owned(), json!(is_on));
    Value::Object(set)
}

/// The page of the form `rest`.
fn page_of(rest: &[&str]) -> String {
    match rest {
        ["users", user, _] => format!("/panel/users/{}", encoded(user)),
        [first, ..] => format!("/panel/{first}"),
        [] => "/panel/".to_owned(),
    }
}
