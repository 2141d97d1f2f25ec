//! The panel: sessions, and the way of a request to its page.

use crate::audit;
use crate::clients::Clients;
use crate::form::Form;
use crate::http::{Method, Reply, Request};
use crate::links::Links;
use crate::multipart;
use crate::pages::frame::{View, page};
use crate::pages::login;
use crate::password;
use crate::pending::Pending;
use crate::role::Role;
use crate::server::{Mark, Question, Server};
use crate::sessions::{MAX_SESSIONS, MAX_USER_SESSIONS, Session, Sessions, Standing};
use crate::texts::{ENGLISH, Texts};
use crate::tokens;
use maud::html;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use store::{PanelAccount, PanelData};

/// The settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// The time without use after which a session ends.
    pub idle: Duration,
    /// True if users have a page of their own.
    pub users: bool,
}

/// A source of random bytes that cannot be predicted.
pub type Random = Box<dyn FnMut() -> [u8; 32] + Send>;

/// The cookie of sessions of accounts.
const ACCOUNT: &str = "barebell";
/// The maximum length of an account name in bytes.
const MAX_NAME: usize = 64;

/// The panel of a server.
pub struct Panel {
    pub(crate) server: Arc<dyn Server>,
    pub(crate) data: Arc<dyn PanelData>,
    pub(crate) random: Random,
    pub(crate) sessions: Sessions,
    pub(crate) clients: Clients,
    /// True if users have a page of their own.
    pub(crate) has_users: bool,
    /// The sessions of users.
    pub(crate) users: Sessions<Mark>,
    /// The limits of the logins of users.
    pub(crate) user_clients: Clients,
    /// The links for phones.
    pub(crate) links: Links,
    /// The uploaded content that waits for its confirmation.
    pub(crate) pending: Option<Pending>,
    pub(crate) texts: &'static Texts,
    /// The key of the link that makes the first administrator.
    setup_key: Option<String>,
}

/// The reason why a request has no result.
#[derive(Debug)]
pub(crate) enum Problem {
    /// There is no such page or object.
    NotFound,
    /// The role does not suffice.
    NotAllowed,
    /// The server or the storage refuses it, with this message.
    Refused(String),
}

impl From<store::Error> for Problem {
    fn from(error: store::Error) -> Self {
        Self::Refused(error.to_string())
    }
}

/// The account or the token of a request.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pub(crate) name: String,
    pub(crate) role: Role,
}

impl std::fmt::Debug for Panel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Panel").finish_non_exhaustive()
    }
}

impl Panel {
    /// The panel of `server`, with its accounts in `data`.
    #[must_use]
    pub fn new(
        config: Config,
        server: Arc<dyn Server>,
        data: Arc<dyn PanelData>,
        random: Random,
    ) -> Self {
        Self {
            server,
            data,
            random,
            sessions: Sessions::new(config.idle, MAX_SESSIONS),
            clients: Clients::default(),
            has_users: config.users,
            users: Sessions::new(config.idle, MAX_USER_SESSIONS),
            user_clients: Clients::default(),
            links: Links::default(),
            pending: None,
            texts: &ENGLISH,
            setup_key: None,
        }
    }

    /// Takes the links for phones that an earlier run has stored, and removes those that have
    /// expired at `now`, the time since 1970.
    ///
    /// # Errors
    /// [`store::Error`] if the storage fails.
    pub fn load(&mut self, now: Duration) -> Result<(), store::Error> {
        let (links, ended) = Links::of_stored(self.data.phone_links()?, now);
        self.links = links;
        ended.iter().try_for_each(|hash| self.data.remove_phone_link(hash).map(drop))
    }

    /// The path of the page that makes the first administrator, with a new key. `None` if there is
    /// an account.
    ///
    /// # Errors
    /// [`store::Error`] if the accounts cannot be read.
    pub fn setup_path(&mut self) -> Result<Option<String>, store::Error> {
        if !self.data.panel_accounts()?.is_empty() {
            return Ok(None);
        }
        let key = tokens::text((self.random)());
        let path = format!("/panel/setup?key={key}");
        self.setup_key = Some(key);
        Ok(Some(path))
    }

    /// Answers a request.
    pub fn answer(&mut self, request: &Request) -> Reply {
        self.forget_pending(request.now);
        self.end_old_links(request.now);
        let Some(segments) = request.segments() else {
            return match request.path.starts_with("/api/") {
                true => Reply::json(400, &json!({ "error": "the path cannot be read" })),
                false => self.failure(400),
            };
        };
        let segments: Vec<_> = segments.iter().map(String::as_str).collect();
        match segments[..] {
            ["api", "v1", ref rest @ ..] => self.api(request, rest),
            _ if request.method == Method::Other => self.failure(405),
            ["" | "panel"] => Reply::see("/panel/"),
            ["panel", "panel.css"] => {
                Reply::file("text/css; charset=utf-8", include_str!("../assets/panel.css"))
            }
            ["panel", "panel.js"] => {
                Reply::file("text/javascript; charset=utf-8", include_str!("../assets/panel.js"))
            }
            ["panel", "icon.svg"] => {
                Reply::file("image/svg+xml", include_str!("../assets/icon.svg"))
            }
            ["panel", ref rest @ ..] => self.pages(request, rest),
            _ => self.failure(404),
        }
    }

    fn pages(&mut self, request: &Request, rest: &[&str]) -> Reply {
        let form = match request.method {
            Method::Get => Form::parse(&request.query),
            Method::Post => posted(request),
            _ => return self.failure(405),
        };
        let Some(form) = form else { return self.failure(400) };
        let is_post = request.method == Method::Post;
        if is_post && request.is_foreign() {
            return self.failure(403);
        }
        match (rest, is_post) {
            // A fetch uses up the link, and its content is the only copy of the new password.
            (["phone", ..], false) if request.is_head => {
                let page = login::message(self.texts, self.texts.bad_request);
                Reply::page(405, page).with("allow", "GET".to_owned())
            }
            (["phone", secret, ..], false) => self.fetch(request, secret),
            (["me", own @ ..], _) => self.own_pages(request, own, &form),
            (["login"], false) => Reply::page(200, login::login(self.texts, self.has_users, None)),
            (["login"], true) => self.log_in(request, &form),
            (["setup"], false) => self.setup_page(&form),
            (["setup"], true) => self.set_up(request, &form),
            _ => self.with_session(request, rest, &form),
        }
    }

    fn with_session(&mut self, request: &Request, rest: &[&str], form: &Form) -> Reply {
        let is_use = !request.is_poll;
        let id = request.cookie(&request.cookie_name(ACCOUNT)).unwrap_or_default().to_owned();
        let found = self.sessions.find(&id, request.now, is_use).cloned();
        let Some(session) = found.filter(|session| self.is_valid(session)) else {
            self.sessions.end(&id);
            return Reply::see("/panel/login");
        };
        if request.method == Method::Post {
            if !tokens::is_equal(form.get("csrf"), &session.csrf) {
                return self.failure(403);
            }
            return self.act(request, &id, &session, rest, form);
        }
        let mut session = session;
        if is_use && let Some(kept) = self.sessions.find(&id, request.now, true) {
            session.notice = kept.notice.take();
        }
        match self.show(request, &session, rest, form) {
            Ok(reply) => reply,
            Err(Problem::NotFound) => self.failure(404),
            Err(Problem::NotAllowed) => {
                Reply::page(403, login::message(self.texts, self.texts.not_allowed))
            }
            Err(Problem::Refused(text)) => {
                let view = View { notice: Some((true, text)), ..self.view(&session) };
                Reply::page(422, page(&view, "", self.texts.failed, &html! {}))
            }
        }
    }

    /// The role of the session of a request, if the request is not from another site.
    pub(crate) fn session_role(&mut self, request: &Request) -> Option<Role> {
        let id = request.cookie(&request.cookie_name(ACCOUNT))?.to_owned();
        let session = self.sessions.find(&id, request.now, false)?.clone();
        (!request.is_foreign() && self.is_valid(&session)).then(|| session.role())
    }

    /// Returns true if the account has the password and the role with which the session began.
    fn is_valid(&self, session: &Session) -> bool {
        let account =
            |it: &PanelAccount| it.name == session.account && standing(it) == Some(session.proof);
        self.data.panel_accounts().is_ok_and(|accounts| accounts.iter().any(account))
    }

    /// The circumstances of a page of `session`.
    pub(crate) fn view<'s>(&self, session: &'s Session) -> View<'s> {
        let Session { account, csrf, notice, .. } = session;
        let notice = notice.clone();
        View { texts: self.texts, account, role: session.role(), csrf, notice }
    }

    /// Asks the server, if the role of `client` suffices, and stores the action.
    pub(crate) fn ask(
        &self,
        request: &Request,
        client: &Client,
        question: &Question,
    ) -> Result<Vec<Value>, Problem> {
        let answer = match client.role >= question.role() {
            true => self.server.ask(question).map_err(Problem::Refused),
            false => Err(Problem::NotAllowed),
        };
        if let Some((action, object)) = question.action_with(&answer) {
            self.note(request, &client.name, action, object, answer.as_ref().err());
        }
        answer
    }

    /// Stores an action. A failure of the storage is no failure of the action.
    pub(crate) fn note(
        &self,
        request: &Request,
        account: &str,
        action: &str,
        object: &str,
        problem: Option<&Problem>,
    ) {
        let error = problem.map(|problem| match problem {
            Problem::NotFound => "not found",
            Problem::NotAllowed => "not allowed",
            Problem::Refused(text) => text,
        });
        let action = audit::action(request, account, action, object, error);
        let _ = self.data.add_panel_action(&action);
    }

    fn log_in(&mut self, request: &Request, form: &Form) -> Reply {
        let (name, given) = (form.get("name"), form.raw("password"));
        let (texts, has_users) = (self.texts, self.has_users);
        let refuse = |text: &str| {
            Reply::page(422, login::login(texts, has_users, Some(&(true, text.to_owned()))))
        };
        let is_plausible = name.len() <= MAX_NAME && given.len() <= password::MAX_LENGTH;
        if !is_plausible {
            return refuse(texts.log_in_failed);
        }
        if !self.clients.may_try(request.source, name, request.now) {
            return Reply { status: 429, ..refuse(texts.log_in_wait) };
        }
        let accounts = match self.data.panel_accounts() {
            Ok(accounts) => accounts,
            Err(error) => return refuse(&error.to_string()),
        };
        let account = accounts.into_iter().find(|account| account.name == name);
        let stored = account.as_ref().map(|account| account.password.as_str());
        let is_right = password::is_right(given, stored);
        let proof = account.as_ref().and_then(standing);
        let is_right = is_right && self.takes_code(name, form.get("code"), request.now);
        let (true, Some(proof)) = (is_right, proof) else {
            self.clients.note_failure(request.source, name, request.now);
            let problem = Problem::Refused("wrong name or password".to_owned());
            self.note(request, name, "log in", "", Some(&problem));
            return refuse(texts.log_in_failed);
        };
        self.clients.note_success(request.source, name);
        self.note(request, name, "log in", "", None);
        self.open_session(request, name, proof)
    }

    /// Opens a session with a new identifier, and ends the one of the request.
    fn open_session(&mut self, request: &Request, account: &str, proof: Standing) -> Reply {
        let cookie = request.cookie_name(ACCOUNT);
        if let Some(id) = request.cookie(&cookie) {
            self.sessions.end(id);
        }
        let [id, csrf] = [(), ()].map(|()| tokens::text((self.random)()));
        let set = request.set_cookie(ACCOUNT, &id);
        self.sessions.open(id, csrf, account, proof, request.now);
        Reply::see("/panel/").with("set-cookie", set)
    }

    /// Ends the session `id`.
    pub(crate) fn log_out(&mut self, request: &Request, id: &str) -> Reply {
        self.sessions.end(id);
        let ended = format!("{}; Max-Age=0", request.set_cookie(ACCOUNT, ""));
        Reply::see("/panel/login").with("set-cookie", ended)
    }

    fn has_setup_key(&self, form: &Form) -> bool {
        self.setup_key.as_ref().is_some_and(|key| tokens::is_equal(key, form.get("key")))
    }

    fn setup_page(&self, form: &Form) -> Reply {
        match self.has_setup_key(form) {
            true => Reply::page(200, login::setup(self.texts, form.get("key"), "", None)),
            false => Reply::page(403, login::message(self.texts, self.texts.setup_over)),
        }
    }

    fn set_up(&mut self, request: &Request, form: &Form) -> Reply {
        let texts = self.texts;
        let is_first = self.data.panel_accounts().is_ok_and(|accounts| accounts.is_empty());
        if !self.has_setup_key(form) || !is_first {
            return Reply::page(403, login::message(texts, texts.setup_over));
        }
        let name = form.get("name").to_owned();
        let stored = match form.raw("new") == form.raw("again") {
            true => self.put_account(request, &name, form.raw("new"), Role::Administrator),
            false => Err(Problem::Refused(texts.passwords_differ.to_owned())),
        };
        let proof = match stored {
            Ok(proof) => proof,
            Err(problem) => {
                let text = match problem {
                    Problem::Refused(text) => text,
                    _ => texts.failed.to_owned(),
                };
                let page = login::setup(texts, form.get("key"), &name, Some(&(true, text)));
                return Reply::page(422, page);
            }
        };
        self.setup_key = None;
        self.clients.note_success(request.source, &name);
        self.note(request, &name, "make the first administrator", &name, None);
        self.open_session(request, &name, proof)
    }

    /// Stores an account with a new password. Returns the proof of its next sessions.
    pub(crate) fn put_account(
        &mut self,
        request: &Request,
        name: &str,
        given: &str,
        role: Role,
    ) -> Result<Standing, Problem> {
        let refused = |text: &str| Problem::Refused(text.to_owned());
        if !is_account_name(name) {
            return Err(refused(self.texts.bad_account));
        }
        if !password::is_good(given) {
            return Err(refused(self.texts.bad_password));
        }
        let mut salt = [0; 16];
        salt.copy_from_slice(&(self.random)()[..16]);
        let password = password::hash(given, salt).ok_or_else(|| refused(self.texts.failed))?;
        let account = PanelAccount {
            name: name.to_owned(),
            role: role.name().to_owned(),
            password,
            created: request.now.as_secs(),
        };
        self.data.put_panel_account(&account)?;
        standing(&account).ok_or(Problem::NotAllowed)
    }

    /// A page about a failure, without a session.
    pub(crate) fn failure(&self, status: u16) -> Reply {
        let text = match status {
            403 => self.texts.bad_form,
            404 => self.texts.not_found,
            _ => self.texts.bad_request,
        };
        let reply = Reply::page(status, login::message(self.texts, text));
        match status {
            405 => reply.with("allow", "GET, HEAD, POST".to_owned()),
            _ => reply,
        }
    }
}

/// The proof of sessions of `account`. `None` if its role is not known.
fn standing(account: &PanelAccount) -> Option<Standing> {
    let mark = tokens::hash(&format!("{} {}", account.role, account.password));
    Some(Standing { role: Role::named(&account.role)?, mark })
}

/// Returns true if an account may have this name.
#[must_use]
pub fn is_account_name(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_of_name)
}

/// The fields of a form that was posted.
fn posted(request: &Request) -> Option<Form> {
    let kind = request.content_type.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("multipart/form-data") {
        return multipart::form(&request.content_type, &request.body);
    }
    let is_form = kind.eq_ignore_ascii_case("application/x-www-form-urlencoded");
    Form::parse(std::str::from_utf8(&request.body).ok().filter(|_| is_form)?)
}
