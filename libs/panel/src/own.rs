//! The pages of a user: login with the SIP password, forwards, voicemail, calls, own password.
//!
//! A session of a user is apart from those of accounts, with a cookie of its own. Each question
//! that it asks is about its user: [`Panel::ask_own`] refuses all others.

use crate::acts::change;
use crate::form::Form;
use crate::http::{Method, Reply, Request};
use crate::pages::frame::{View, own_page};
use crate::pages::{login, own};
use crate::panel::{Panel, Problem};
use crate::password;
use crate::provision::Wish;
use crate::role::Role;
use crate::rows;
use crate::server::{Login, Mark, Question, RecordFilter};
use crate::sessions::Session;
use crate::tokens;
use maud::html;
use serde_json::Value;

/// The cookie of sessions of users.
const USER: &str = "barebell-user";
/// The number of rows of a page.
const PAGE: usize = 50;
/// The maximum length of the name of a user with its domain, in bytes.
const MAX_NAME: usize = 320;

impl Panel {
    /// The page or the form `rest` behind `/panel/me`.
    pub(crate) fn own_pages(&mut self, request: &Request, rest: &[&str], form: &Form) -> Reply {
        if !self.has_users {
            return self.failure(404);
        }
        let is_post = request.method == Method::Post;
        match (rest, is_post) {
            (["login"], false) => Reply::page(200, login::user_login(self.texts, None)),
            (["login"], true) => self.user_log_in(request, form),
            _ => self.with_user(request, rest, form),
        }
    }

    fn user_log_in(&mut self, request: &Request, form: &Form) -> Reply {
        let (name, given) = (form.get("name"), form.raw("password"));
        let texts = self.texts;
        let refuse =
            |text: &str| Reply::page(422, login::user_login(texts, Some(&(true, text.to_owned()))));
        if name.len() > MAX_NAME || given.len() > password::MAX_LENGTH {
            return refuse(texts.log_in_failed);
        }
        let login = match self.prove(request, name, given) {
            Ok(Some(login)) => login,
            Ok(None) => return refuse(texts.log_in_failed),
            Err(Problem::Refused(text)) => return refuse(&text),
            Err(_) => return Reply { status: 429, ..refuse(texts.log_in_wait) },
        };
        self.note(request, &account(&login.user), "log in", "", None);
        if let Some(id) = request.cookie(&request.cookie_name(USER)) {
            self.users.end(id);
        }
        let [id, csrf] = [(), ()].map(|()| tokens::text((self.random)()));
        let set = request.set_cookie(USER, &id);
        self.users.open(id, csrf, &login.user, login.mark, request.now);
        Reply::see("/panel/me/").with("set-cookie", set)
    }

    /// The user with this name and password, within the limits of attempts.
    ///
    /// # Errors
    /// [`Problem::NotAllowed`] after too many attempts, [`Problem::Refused`] if the users cannot be
    /// read.
    fn prove(
        &mut self,
        request: &Request,
        name: &str,
        given: &str,
    ) -> Result<Option<Login>, Problem> {
        // Each way to write a user is one name, and users of two domains are two.
        let counted = self.server.canonical(name).unwrap_or_else(|| name.to_lowercase());
        if !self.user_clients.may_try(request.source, &counted, request.now) {
            return Err(Problem::NotAllowed);
        }
        let login = self.server.log_in(name, given).map_err(Problem::Refused)?;
        match &login {
            Some(_) => self.user_clients.note_success(request.source, &counted),
            None => {
                self.user_clients.note_failure(request.source, &counted, request.now);
                let problem = Problem::Refused("wrong name or password".to_owned());
                self.note(request, &account(name), "log in", "", Some(&problem));
            }
        }
        Ok(login)
    }

    fn with_user(&mut self, request: &Request, rest: &[&str], form: &Form) -> Reply {
        let id = request.cookie(&request.cookie_name(USER)).unwrap_or_default().to_owned();
        let is_use = !request.is_poll;
        let found = self.users.find(&id, request.now, is_use).cloned();
        // A session ends with its user, and with the password that opened it.
        let is_valid = |session: &Session<Mark>| {
            self.server.mark(&session.account).is_ok_and(|mark| mark == Some(session.proof))
        };
        let Some(session) = found.filter(is_valid) else {
            self.users.end(&id);
            return Reply::see("/panel/me/login");
        };
        if request.method == Method::Post {
            if !tokens::is_equal(form.get("csrf"), &session.csrf) {
                return self.failure(403);
            }
            return self.own_act(request, &id, &session, rest, form);
        }
        if is_use && let Some(kept) = self.users.find(&id, request.now, true) {
            kept.notice = None;
        }
        let mut view = own_view(self, &session);
        match self.own_show(request, &session, &view, rest, form) {
            Ok(reply) => reply,
            Err(Problem::Refused(text)) => {
                view.notice = Some((true, text));
                let page = own_page(&view, "", self.texts.failed, &html! {});
                Reply::page(422, page)
            }
            Err(Problem::NotFound | Problem::NotAllowed) => self.failure(404),
        }
    }

    /// Asks the server about the user of `session`, and stores the action.
    fn ask_own(
        &self,
        request: &Request,
        session: &Session<Mark>,
        question: &Question,
    ) -> Result<Vec<Value>, Problem> {
        let user = &session.account;
        let answer = match question.is_of(user) {
            true => self.server.ask(question).map_err(Problem::Refused),
            false => Err(Problem::NotAllowed),
        };
        if let Some((action, object)) = question.action_with(&answer) {
            self.note(request, &account(user), action, object, answer.as_ref().err());
        }
        answer
    }

    fn own_show(
        &self,
        request: &Request,
        session: &Session<Mark>,
        view: &View<'_>,
        rest: &[&str],
        form: &Form,
    ) -> Result<Reply, Problem> {
        let user = session.account.clone();
        let ask = |question: &Question| self.ask_own(request, session, question);
        let one = |question: &Question| {
            ask(question).map(|rows| rows.into_iter().next().unwrap_or_default())
        };
        let page = match *rest {
            [] => return Ok(Reply::see("/panel/me/")),
            [""] => {
                let search = String::new();
                let of_user = Some(user.clone());
                let phones =
                    Question::Registrations { user: of_user, search, after: None, most: PAGE };
                let phones = ask(&phones)?;
                let data = own::Data {
                    links: self.link_rows(&user, &phones, request.now)?,
                    user: one(&Question::User(user.clone()))?,
                    phones,
                    messages: ask(&Question::Voicemail(user))?,
                    status: one(&Question::Status)?,
                };
                own::own(view, &data)
            }
            ["calls"] => {
                let before = form.get("before").parse().ok();
                let filter = RecordFilter {
                    user: Some(user),
                    before,
                    most: PAGE + 1,
                    ..RecordFilter::default()
                };
                let mut rows = ask(&Question::Records(filter))?;
                let has_more = rows.len() > PAGE;
                rows.truncate(PAGE);
                let next = rows.last().filter(|_| has_more).map(|row| rows::text(row, "id"));
                own::calls(view, &rows, before.is_none(), next.as_deref())
            }
            ["voicemail", file] => {
                let id = file.strip_suffix(".wav").and_then(|id| id.parse().ok());
                let id = id.ok_or(Problem::NotFound)?;
                let sound = self.server.sound(&user, id).map_err(|_| Problem::NotFound)?;
                return Ok(Reply::sound(sound));
            }
            _ => return Err(Problem::NotFound),
        };
        Ok(Reply::page(200, page))
    }

    fn own_act(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session<Mark>,
        rest: &[&str],
        form: &Form,
    ) -> Reply {
        let texts = self.texts;
        let user = session.account.clone();
        if *rest == ["logout"] {
            self.note(request, &account(&user), "log out", "", None);
            self.users.end(id);
            let ended = format!("{}; Max-Age=0", request.set_cookie(USER, ""));
            return Reply::see("/panel/me/login").with("set-cookie", ended);
        }
        if *rest == ["phone"] {
            return self.own_link(request, id, session, form);
        }
        let done = match *rest {
            ["services"] => {
                let question = Question::ChangeServices { user, change: change(form) };
                self.ask_own(request, session, &question).map(|_| texts.own_services_saved)
            }
            ["voicemail", "delete"] => match form.get("id").parse() {
                Ok(id) => self
                    .ask_own(request, session, &Question::DeleteMessage { user, id })
                    .map(|_| texts.message_deleted),
                Err(_) => Err(Problem::Refused(texts.no_such_message.to_owned())),
            },
            ["password"] => self
                .change_user_password(request, id, session, form)
                .map(|()| texts.own_password_saved),
            _ => return self.failure(404),
        };
        let notice = match done {
            Ok(text) => (false, text.to_owned()),
            Err(Problem::Refused(text)) => (true, text),
            Err(Problem::NotAllowed | Problem::NotFound) => (true, texts.failed.to_owned()),
        };
        if let Some(session) = self.users.find(id, request.now, true) {
            session.notice = Some(notice);
        }
        Reply::see("/panel/me/")
    }

    /// Makes a link for a phone of the user.
    fn own_link(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session<Mark>,
        form: &Form,
    ) -> Reply {
        let wish = Wish { kind: form.get("kind"), transport: form.get("transport"), server: "" };
        let user = &session.account;
        match self.make_link(request, &account(user), user, wish) {
            Ok(made) => Reply::page(200, own::link(&own_view(self, session), &made)),
            Err(problem) => {
                let text = match problem {
                    Problem::Refused(text) => text,
                    _ => self.texts.failed.to_owned(),
                };
                if let Some(session) = self.users.find(id, request.now, true) {
                    session.notice = Some((true, text));
                }
                Reply::see("/panel/me/")
            }
        }
    }

    fn change_user_password(
        &mut self,
        request: &Request,
        id: &str,
        session: &Session<Mark>,
        form: &Form,
    ) -> Result<(), Problem> {
        let texts = self.texts;
        let refused = |text: &str| Err(Problem::Refused(text.to_owned()));
        let user = session.account.clone();
        match self.prove(request, &user, form.raw("password")) {
            Ok(Some(_)) => {}
            Ok(None) => return refused(texts.wrong_password),
            Err(Problem::NotAllowed) => return refused(texts.log_in_wait),
            Err(problem) => return Err(problem),
        }
        let new = form.raw("new");
        if new != form.raw("again") {
            return refused(texts.passwords_differ);
        }
        if !password::is_good(new) {
            return refused(texts.bad_password);
        }
        let question = Question::PutUser { user: user.clone(), password: new.to_owned() };
        self.ask_own(request, session, &question)?;
        // Other sessions end, because their mark is an old one.
        let mark = self.server.mark(&user).map_err(Problem::Refused)?;
        if let (Some(session), Some(mark)) = (self.users.find(id, request.now, true), mark) {
            session.proof = mark;
        }
        Ok(())
    }
}

/// The name of a user in the record of actions.
fn account(user: &str) -> String {
    format!("user {user}")
}

fn own_view<'s>(panel: &Panel, session: &'s Session<Mark>) -> View<'s> {
    let Session { account, csrf, notice, .. } = session;
    // The role with the fewest rights: pages of users have no part that needs one.
    View { texts: panel.texts, account, role: Role::Reader, csrf, notice: notice.clone() }
}
