//! A panel with a server and a storage in memory, and a browser without scripts.

use panel::{Config, Login, Mark, Method, Panel, Question, Reply, Request, Role, Server};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sip::digest::Ha1Set;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use store::{Error, PanelAccount, PanelAction, PanelData, PanelToken, PhoneLink, SecondFactor};

/// A server that records the questions.
#[derive(Default)]
pub(crate) struct FakeServer {
    pub(crate) asked: Mutex<Vec<Question>>,
    /// The text that strangers choose, in each row.
    pub(crate) text: Mutex<String>,
    /// The number of records that further questions get, at least 51 for each question.
    pub(crate) records: Mutex<usize>,
    /// The passwords of users, by `name@domain`.
    pub(crate) passwords: Mutex<BTreeMap<String, String>>,
}

/// The mark of a password.
fn mark(password: &str) -> Mark {
    let mut mark = [0; 32];
    mark.iter_mut().zip(password.bytes()).for_each(|(place, byte)| *place = byte);
    mark
}

impl Server for FakeServer {
    fn ask(&self, question: &Question) -> Result<Vec<Value>, String> {
        self.asked.lock().push(question.clone());
        let text = self.text.lock().clone();
        let stream = json!({ "from_caller": { "mos": 4.4 }, "from_callee": { "mos": null } });
        let call = json!({
            "id": 7, "call_id": text, "caller": format!("sip:{text}@x"), "callee": text,
            "trunk": text, "duration": 61.0, "no_media": true, "streams": [stream],
            "created": text, "status": 486, "phrase": text, "ended_by": "caller",
        });
        Ok(match question {
            Question::Status => vec![json!({
                "version": "1", "uptime": 5, "users": 2, "domains": ["a.com", text],
                "listens": ["udp:0.0.0.0:5060", "tls:0.0.0.0:5061"],
                "problems": [text], "counters": { "requests": 5 },
            })],
            Question::Users { most, .. } => (0..*most)
                .map(|i| json!({ "name": format!("{i}{text}"), "domain": "a.com" }))
                .collect(),
            Question::User(user) if user.starts_with("nobody") => Vec::new(),
            Question::User(user) => vec![json!({
                "name": user, "domain": text,
                "services": { "always": text, "do_not_disturb": true },
            })],
            Question::PutUser { password, .. } if password == "bad" => {
                return Err(format!("the password is bad {text}"));
            }
            Question::PutUser { user, password } => {
                self.passwords.lock().insert(user.clone(), password.clone());
                vec![json!({ "added": 1, "uri": user })]
            }
            Question::Registrations { .. } => vec![json!({
                "address_of_record": text, "contact": text, "flow": text, "expires_in": 60,
                "user_agent": text,
            })],
            Question::Refusals { .. } => vec![json!({
                "at": 1_800_000_000_000_000_u64, "method": text, "from": text, "to": text,
                "call_id": text, "source": text, "status": 486, "phrase": text, "count": 2,
                "reasons": [{ "rule": text, "counter": "x", "see": text }], "answered_by": text,
            })],
            Question::Trace(_) => vec![json!({
                "begun": text, "call_ids": [text], "ladder": text,
                "messages": [{ "time": text, "from": text, "to": text, "message": text }],
            })],
            Question::Calls | Question::EndCall(_) => vec![call],
            Question::Records(filter) => {
                let mut records = self.records.lock();
                let rows = filter.most.min((*records).max(51));
                *records = records.saturating_sub(rows);
                vec![call; rows]
            }
            Question::Trunks => vec![json!({
                "name": text, "usable": false, "lookup": text,
                "servers": [{ "name": text, "state": "failed", "reason": text, "seconds": 5 }],
                "accounts": [],
            })],
            Question::Route { .. } => vec![json!({ "steps": [text], "lines": [text] })],
            Question::Voicemail(_) => vec![json!({
                "id": 7, "caller": text, "proved": false, "at": 1_800_000_000, "seconds": 5,
                "heard": false,
            })],
            Question::Bans => vec![json!({ "source": text, "until": text })],
            Question::Certificates => vec![json!({ "file": text, "fingerprint": text })],
            Question::Check | Question::Reload => vec![json!({ "ok": true, "lines": [text] })],
            Question::Doctor => {
                vec![json!({ "check": text, "severity": "warning", "text": text, "remedy": text })]
            }
            Question::Backup { .. } => vec![json!("{\"backup\":{}}"), json!(text)],
            Question::Restore { content, .. } if content.starts_with(b"bad") => {
                return Err(format!("the backup is bad {text}"));
            }
            Question::Restore { is_trial, .. } => {
                let names = json!({ "count": 30, "first": [text] });
                let changes =
                    json!({ "added": names, "changed": names, "removed": names, "unchanged": 2 });
                vec![json!({
                    "dry_run": is_trial, "made": 5, "users": changes, "accounts": changes,
                    "records": 4, "messages": 5, "certificates": [text], "notes": [text],
                })]
            }
            Question::ImportUsers { text: lines, .. } if lines.starts_with(b"bad") => {
                let mistake = json!({ "line": 1, "column": 4, "text": text });
                vec![json!({
                    "added": 0, "domain": text, "served": true, "mistakes": [mistake],
                    "mistake_count": 1,
                })]
            }
            Question::ImportUsers { .. } => vec![json!({
                "added": 3, "changed": 1, "unchanged": 2, "domain": text, "served": false,
            })],
            Question::ChangeServices { change, .. } => {
                vec![json!({ "changed": change["busy"] == "carol" })]
            }
            Question::RemoveUser(_)
            | Question::EndRegistration { .. }
            | Question::DeleteMessage { .. }
            | Question::Unban(_) => vec![json!({})],
        })
    }

    fn canonical(&self, user: &str) -> Option<String> {
        let user = user.strip_prefix("sip:").unwrap_or(user);
        let is_name = !user.is_empty() && !user.contains(' ');
        let domain = if user.contains('@') { "" } else { "@a.com" };
        is_name.then(|| format!("{user}{domain}"))
    }

    fn log_in(&self, user: &str, password: &str) -> Result<Option<Login>, String> {
        let user = self.canonical(user).unwrap_or_default();
        let is_right = self.passwords.lock().get(&user).is_some_and(|right| right == password);
        Ok(is_right.then(|| Login { user, mark: mark(password) }))
    }

    fn mark(&self, user: &str) -> Result<Option<Mark>, String> {
        Ok(self.passwords.lock().get(user).map(|password| mark(password)))
    }

    fn sound(&self, user: &str, id: u64) -> Result<Vec<u8>, String> {
        match (user, id) {
            ("alice@a.com", 7) => Ok(b"the voice of alice".to_vec()),
            _ => Err("there is no such message".to_owned()),
        }
    }
}

/// A storage in memory.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) accounts: Mutex<Vec<PanelAccount>>,
    pub(crate) tokens: Mutex<Vec<PanelToken>>,
    pub(crate) actions: Mutex<Vec<PanelAction>>,
    pub(crate) second_factors: Mutex<BTreeMap<String, SecondFactor>>,
    pub(crate) links: Mutex<Vec<PhoneLink>>,
}

impl PanelData for Memory {
    fn panel_accounts(&self) -> Result<Vec<PanelAccount>, Error> {
        Ok(self.accounts.lock().clone())
    }

    fn put_panel_account(&self, account: &PanelAccount) -> Result<(), Error> {
        let mut accounts = self.accounts.lock();
        accounts.retain(|it| it.name != account.name);
        accounts.push(account.clone());
        Ok(())
    }

    fn remove_panel_account(&self, name: &str) -> Result<bool, Error> {
        let mut accounts = self.accounts.lock();
        let before = accounts.len();
        accounts.retain(|it| it.name != name);
        Ok(accounts.len() < before)
    }

    fn second_factor(&self, account: &str) -> Result<Option<SecondFactor>, Error> {
        Ok(self.second_factors.lock().get(account).cloned())
    }

    fn put_second_factor(&self, account: &str, factor: &SecondFactor) -> Result<(), Error> {
        self.second_factors.lock().insert(account.to_owned(), factor.clone());
        Ok(())
    }

    fn remove_second_factor(&self, account: &str) -> Result<bool, Error> {
        Ok(self.second_factors.lock().remove(account).is_some())
    }

    fn panel_tokens(&self) -> Result<Vec<PanelToken>, Error> {
        Ok(self.tokens.lock().clone())
    }

    fn put_panel_token(&self, token: &PanelToken) -> Result<(), Error> {
        self.tokens.lock().push(token.clone());
        Ok(())
    }

    fn remove_panel_token(&self, name: &str) -> Result<bool, Error> {
        let mut tokens = self.tokens.lock();
        let before = tokens.len();
        tokens.retain(|it| it.name != name);
        Ok(tokens.len() < before)
    }

    fn phone_links(&self) -> Result<Vec<PhoneLink>, Error> {
        Ok(self.links.lock().clone())
    }

    fn put_phone_link(&self, link: &PhoneLink) -> Result<(), Error> {
        let mut links = self.links.lock();
        links.retain(|it| it.hash != link.hash);
        links.push(link.clone());
        Ok(())
    }

    fn remove_phone_link(&self, hash: &[u8; 32]) -> Result<bool, Error> {
        let mut links = self.links.lock();
        let before = links.len();
        links.retain(|it| it.hash != *hash);
        Ok(links.len() < before)
    }

    fn add_panel_action(&self, action: &PanelAction) -> Result<(), Error> {
        self.actions.lock().push(action.clone());
        Ok(())
    }

    fn panel_actions(&self, _: i64, most: usize) -> Result<Vec<(i64, PanelAction)>, Error> {
        let actions = self.actions.lock();
        Ok((0..).zip(actions.iter().rev().take(most).cloned()).collect())
    }

    fn find_users(
        &self,
        _: &str,
        _: Option<(&str, &str)>,
        _: usize,
    ) -> Result<Vec<(String, String)>, Error> {
        Ok(Vec::new())
    }

    fn services_of(&self, _: &str, _: &str) -> Result<sip_server::CallServices, Error> {
        Ok(sip_server::CallServices::default())
    }

    fn auth_name_of(&self, _: &str, _: &str) -> Result<Option<String>, Error> {
        Ok(None)
    }

    fn login_of(&self, _: &str, _: &str) -> Result<Option<Ha1Set>, Error> {
        Ok(None)
    }
}

/// A password of accounts in tests.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// A panel and a browser.
pub(crate) struct Rig {
    pub(crate) panel: Panel,
    pub(crate) server: Arc<FakeServer>,
    pub(crate) data: Arc<Memory>,
    pub(crate) cookie: String,
    pub(crate) now: Duration,
    pub(crate) source: [u8; 4],
    pub(crate) is_secure: bool,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let (server, data) = (Arc::<FakeServer>::default(), Arc::<Memory>::default());
        Self {
            panel: new_panel(&server, &data, 0),
            server,
            data,
            cookie: String::new(),
            now: Duration::from_secs(1_800_000_000),
            source: [192, 0, 2, 1],
            is_secure: false,
        }
    }

    /// Replaces the panel by one that begins with the stored data.
    pub(crate) fn restart(&mut self) {
        self.panel = new_panel(&self.server, &self.data, 150);
        self.panel.load(self.now).unwrap();
    }

    /// A rig with a session of the administrator `eve`.
    pub(crate) fn of_administrator() -> Self {
        let mut rig = Self::new();
        let path = rig.panel.setup_path().unwrap().unwrap();
        let key = path.split_once("key=").unwrap().1.to_owned();
        let form = format!("key={key}&name=eve&new={PASSWORD}&again={PASSWORD}");
        let reply = rig.post("/panel/setup", &form);
        assert_eq!(reply.status, 303, "{}", text(&reply));
        rig
    }

    /// A rig with an account of this role that is logged in.
    pub(crate) fn of_role(role: Role) -> Self {
        let mut rig = Self::of_administrator();
        let form = format!("name=joe&new={PASSWORD}&role={role}");
        rig.post_form("/panel/access/accounts", &form);
        rig.cookie.clear();
        rig.log_in("joe", PASSWORD);
        rig
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> Request {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        Request {
            method,
            is_head: false,
            path: path.to_owned(),
            query: query.to_owned(),
            host: "pbx.example".to_owned(),
            origin: None,
            fetch_site: None,
            cookie: self.cookie.clone(),
            authorization: None,
            content_type: String::new(),
            is_poll: false,
            body: Vec::new(),
            source: self.source.into(),
            is_secure: self.is_secure,
            now: self.now,
        }
    }

    /// Sends a request, and keeps the cookie of the reply.
    pub(crate) fn send(&mut self, request: &Request) -> Reply {
        let reply = self.panel.answer(request);
        if let Some(set) = field(&reply, "set-cookie") {
            self.cookie = set.split(';').next().unwrap().to_owned();
        }
        reply
    }

    pub(crate) fn get(&mut self, path: &str) -> Reply {
        self.send(&self.request(Method::Get, path))
    }

    pub(crate) fn post(&mut self, path: &str, form: &str) -> Reply {
        let mut request = self.request(Method::Post, path);
        request.content_type = "application/x-www-form-urlencoded".to_owned();
        request.body = form.replace(' ', "+").into_bytes();
        self.send(&request)
    }

    /// A request that uploads `content` as a file, with the value that the pages of the session
    /// have.
    pub(crate) fn upload(&mut self, path: &str, content: &str) -> Request {
        let csrf = self.csrf();
        let mut request = self.request(Method::Post, path);
        request.content_type = "multipart/form-data; boundary=x".to_owned();
        request.body = format!(
            "--x\r\nContent-Disposition: form-data; name=\"csrf\"\r\n\r\n{csrf}\r\n--x\r\n\
             Content-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n{content}\r\n\
             --x--\r\n"
        )
        .into_bytes();
        request
    }

    /// Sends a form with the value that the pages of the session have.
    pub(crate) fn post_form(&mut self, path: &str, form: &str) -> Reply {
        let csrf = self.csrf();
        self.post(path, &format!("csrf={csrf}&{form}"))
    }

    pub(crate) fn csrf(&mut self) -> String {
        let mut request = self.request(Method::Get, "/panel/calls");
        // The message of the session stays.
        request.is_poll = true;
        csrf_of(&text(&self.send(&request)))
    }

    pub(crate) fn log_in(&mut self, name: &str, password: &str) -> Reply {
        self.post("/panel/login", &format!("name={name}&password={password}"))
    }

    /// A rig with the users `alice` and `bob` of `a.com`, and a session of `alice`.
    pub(crate) fn of_user() -> Self {
        let mut rig = Self::of_administrator();
        for user in ["alice", "bob"] {
            let password = format!("the password of {user}");
            rig.server.passwords.lock().insert(format!("{user}@a.com"), password);
        }
        let reply = rig.user_log_in("alice", "the password of alice");
        assert_eq!(reply.status, 303, "{}", text(&reply));
        rig
    }

    pub(crate) fn user_log_in(&mut self, name: &str, password: &str) -> Reply {
        self.post("/panel/me/login", &format!("name={name}&password={password}"))
    }

    /// Sends a form with the value that the pages of the user have.
    pub(crate) fn post_own(&mut self, path: &str, form: &str) -> Reply {
        let mut request = self.request(Method::Get, "/panel/me/calls");
        request.is_poll = true;
        let csrf = csrf_of(&text(&self.send(&request)));
        self.post(path, &format!("csrf={csrf}&{form}"))
    }

    /// A request of the HTTP API with `token` and the JSON `body`.
    pub(crate) fn api(&mut self, token: &str, method: Method, path: &str, body: &str) -> Reply {
        let mut request = self.request(method, path);
        request.cookie.clear();
        request.authorization = Some(format!("Bearer {token}"));
        request.content_type = "application/json".to_owned();
        request.body = body.into();
        self.send(&request)
    }

    /// A token of this role.
    pub(crate) fn token(&self, role: Role) -> String {
        let token = panel::new_token(role.name(), role, [role as u8 + 100; 32], 0);
        self.data.put_panel_token(&token.stored).unwrap();
        token.text
    }
}

/// A panel with random bytes that begin with `count`.
fn new_panel(server: &Arc<FakeServer>, data: &Arc<Memory>, mut count: u8) -> Panel {
    let random = Box::new(move || {
        count += 1;
        [count; 32]
    });
    let config = Config { idle: Duration::from_secs(1800), users: true };
    Panel::new(config, Arc::<FakeServer>::clone(server), Arc::<Memory>::clone(data), random)
}

/// The value in the forms of a page.
fn csrf_of(page: &str) -> String {
    let rest = page.split_once("name=\"csrf\" value=\"").expect("a page of a session").1;
    rest.split('"').next().unwrap().to_owned()
}

/// The value of a header field.
pub(crate) fn field<'r>(reply: &'r Reply, name: &str) -> Option<&'r str> {
    let mut fields = reply.fields.iter();
    fields.find_map(|(found, value)| (*found == name).then_some(&**value))
}

/// The content of a reply.
pub(crate) fn text(reply: &Reply) -> String {
    String::from_utf8(reply.body.clone()).unwrap()
}

/// The questions so far, which are forgotten.
pub(crate) fn asked(rig: &Rig) -> Vec<Question> {
    std::mem::take(&mut *rig.server.asked.lock())
}
