//! The HTTP API: the data of the pages as JSON, for programs with a token. `assets/openapi.json`
//! describes it.

use crate::form::Form;
use crate::http::{Method, Reply, Request};
use crate::panel::{Client, Panel, Problem};
use crate::provision::Wish;
use crate::role::Role;
use crate::rows;
use crate::server::{Question, RecordFilter};
use crate::tokens;
use serde_json::{Value, json};
use std::sync::Arc;

/// The default and the maximum number of rows of a list.
const LIMITS: (usize, usize) = (50, 500);

/// The shape of an answer.
enum Shape {
    /// One object. No row means that there is no such object.
    One,
    /// A list.
    List,
    /// A part of a list, with the value of `after` for the next one.
    Page(usize, fn(&Value) -> String),
}

/// A request that is not served: status and message.
struct Refusal(u16, String);

fn refused<T>(status: u16, text: &str) -> Result<T, Refusal> {
    Err(Refusal(status, text.to_owned()))
}

impl Panel {
    /// Answers a request of the API. `rest` is its path behind `/api/v1`.
    pub(crate) fn api(&mut self, request: &Request, rest: &[&str]) -> Reply {
        if *rest == ["openapi.json"] && request.method == Method::Get {
            return Reply::file("application/json", include_str!("../assets/openapi.json"));
        }
        let reply = match (request.method, rest) {
            (Method::Get, ["backup"]) => self.api_backup(request),
            _ => self.api_answer(request, rest).map(|answer| Reply::json(200, &answer)),
        };
        match reply {
            Ok(reply) => reply,
            Err(Refusal(status, text)) => {
                let reply = Reply::json(status, &json!({ "error": text }));
                match status {
                    401 => reply.with("www-authenticate", "Bearer".to_owned()),
                    405 => reply.with("allow", allowed(request, rest)),
                    _ => reply,
                }
            }
        }
    }

    fn api_backup(&mut self, request: &Request) -> Result<Reply, Refusal> {
        let client = self.api_client(request)?;
        let Some(query) = Form::parse(&request.query) else {
            return refused(400, "the query cannot be read");
        };
        let (parts, mut on) = (["certificates", "records", "voicemail"], Vec::new());
        only(query.names(), &parts)?;
        for name in parts {
            on.extend(flag(&query, name)?.then_some(name));
        }
        let lines = self.backup(request, &client, &|name| on.contains(&name));
        let lines = lines.map_err(|problem| refusal(problem, Role::Administrator))?;
        Ok(Reply::lines("backup.jsonl", lines))
    }

    fn api_answer(&mut self, request: &Request, rest: &[&str]) -> Result<Value, Refusal> {
        let client = self.api_client(request)?;
        if let ["users", user, "phone-links"] = *rest {
            return self.api_links(request, &client, user);
        }
        let (question, kind) = match question(request, rest) {
            Err(Refusal(404, _)) if !allowed(request, rest).is_empty() => return not_so(),
            question => question?,
        };
        let mut rows = self
            .ask(request, &client, &question)
            .map_err(|problem| refusal(problem, question.role()))?;
        match kind {
            Shape::One => match rows.into_iter().next() {
                Some(row) => Ok(row),
                None => refused(404, "there is no such object"),
            },
            Shape::List => Ok(json!({ "items": rows })),
            Shape::Page(most, key) => {
                let has_more = rows.len() > most;
                rows.truncate(most);
                let next = rows.last().filter(|_| has_more).map(key);
                Ok(json!({ "items": rows, "next": next }))
            }
        }
    }

    /// The links for phones of `user`, or a new one.
    fn api_links(
        &mut self,
        request: &Request,
        client: &Client,
        user: &str,
    ) -> Result<Value, Refusal> {
        let problem = |problem| refusal(problem, Role::Operator);
        match request.method {
            Method::Get => {
                let question = Question::User(user.to_owned());
                let rows = self.ask(request, client, &question).map_err(problem)?;
                let Some(row) = rows.first() else {
                    return refused(404, "there is no such object");
                };
                let user = user_key(row);
                let phones = Question::Registrations {
                    user: Some(user.clone()),
                    search: String::new(),
                    after: None,
                    most: 1,
                };
                let phones = self.ask(request, client, &phones).map_err(problem)?;
                let rows = self.link_rows(&user, &phones, request.now).map_err(problem)?;
                Ok(json!({ "items": rows }))
            }
            Method::Post => {
                let body = body(request)?;
                let text = |name: &str| match &body[name] {
                    Value::Null => Ok(""),
                    Value::String(text) => Ok(&**text),
                    _ => refused(422, &format!("the member `{name}` is no text")),
                };
                let wish = Wish {
                    kind: text("kind")?,
                    transport: text("transport")?,
                    server: text("server")?,
                };
                let (_, made) = self.link_of(request, client, user, wish).map_err(problem)?;
                Ok(json!({ "kind": made.template.name, "url": made.url, "until": made.until }))
            }
            _ => not_so(),
        }
    }

    /// The client with the token of a request, if the token is right.
    pub(crate) fn token_client(&self, request: &Request) -> Result<Option<Client>, store::Error> {
        let given = request.authorization.as_deref().unwrap_or_default();
        let Some((scheme, token)) = given.split_once(' ') else { return Ok(None) };
        let hash = tokens::hash(token.trim());
        let stored = self.data.panel_tokens()?.into_iter();
        let found = stored.into_iter().find(|stored| stored.hash == hash);
        let client = found.and_then(|token| {
            Some(Client { role: Role::named(&token.role)?, name: format!("token {}", token.name) })
        });
        Ok(client.filter(|_| scheme.eq_ignore_ascii_case("bearer")))
    }

    /// The token of a request.
    fn api_client(&mut self, request: &Request) -> Result<Client, Refusal> {
        if self.clients.must_wait(request.source, request.now) {
            return refused(429, "too many wrong tokens: wait ten minutes");
        }
        let given = request.authorization.as_deref().unwrap_or_default();
        if !given.contains(' ') {
            return refused(401, "the header field Authorization: Bearer TOKEN is missing");
        }
        match self.token_client(request).map_err(|it| Refusal(500, it.to_string()))? {
            Some(client) => Ok(client),
            None => {
                self.clients.note_failure(request.source, "", request.now);
                let problem = Problem::Refused("wrong token".to_owned());
                self.note(request, "", "use the HTTP API", "", Some(&problem));
                refused(401, "the token is wrong, or was removed")
            }
        }
    }
}

/// The answer to a request that failed. `role` is the one that it needs.
fn refusal(problem: Problem, role: Role) -> Refusal {
    match problem {
        Problem::NotFound => Refusal(404, "there is no such object".to_owned()),
        Problem::NotAllowed => Refusal(403, format!("this needs a token with the role {role}")),
        Problem::Refused(text) => Refusal(422, text),
    }
}

/// The question of a request, and the shape of its answer.
fn question(request: &Request, rest: &[&str]) -> Result<(Question, Shape), Refusal> {
    use Method::{Delete, Get, Patch, Post, Put};
    let Some(query) = Form::parse(&request.query) else {
        return refused(400, "the query cannot be read");
    };
    let search = query.get("search").to_owned();
    let after = query.some("after").map(str::to_owned);
    let most = limit(&query)?;
    Ok(match (request.method, rest) {
        (Get, ["status"]) => (Question::Status, Shape::One),
        (Get, ["users"]) => {
            (Question::Users { search, after, most: most + 1 }, Shape::Page(most, user_key))
        }
        (Get, ["users", user]) => (Question::User((*user).to_owned()), Shape::One),
        (Put, ["users", user]) => {
            let body = body(request)?;
            let Some(password) = body["password"].as_str() else {
                return refused(422, "the member `password` is missing: expected a text");
            };
            let (user, password) = ((*user).to_owned(), password.to_owned());
            (Question::PutUser { user, password }, Shape::One)
        }
        (Post, ["users"]) => {
            let body = body(request)?;
            let members = body.as_object().into_iter().flat_map(|it| it.keys());
            only(members.map(String::as_str), &["text", "domain", "dry_run"])?;
            let Some(text) = body["text"].as_str() else {
                return refused(422, "the member `text` is missing: expected lines name:password");
            };
            let domain = match &body["domain"] {
                Value::Null => None,
                Value::String(domain) => Some(domain.clone()),
                _ => return refused(422, "the member `domain` is no text"),
            };
            let is_trial = match &body["dry_run"] {
                Value::Null => false,
                Value::Bool(is_trial) => *is_trial,
                _ => return refused(422, "the member `dry_run` is neither true nor false"),
            };
            (Question::ImportUsers { text: text.as_bytes().into(), domain, is_trial }, Shape::One)
        }
        (Post, ["restore"]) => {
            only(query.names(), &["dry_run"])?;
            let (content, is_trial) = (Arc::from(&*request.body), flag(&query, "dry_run")?);
            (Question::Restore { content, is_trial }, Shape::One)
        }
        (Delete, ["users", user]) => (Question::RemoveUser((*user).to_owned()), Shape::One),
        (Patch, ["users", user, "services"]) => {
            let (user, change) = ((*user).to_owned(), body(request)?);
            (Question::ChangeServices { user, change }, Shape::One)
        }
        (Get, ["registrations"]) => {
            let user = query.some("user").map(str::to_owned);
            let pair = after.as_deref().and_then(|after| after.split_once(' '));
            let after = pair.map(|(user, contact)| (user.to_owned(), contact.to_owned()));
            let question = Question::Registrations { user, search, after, most: most + 1 };
            (question, Shape::Page(most, registration_key))
        }
        (Delete, ["registrations", user]) => {
            let contact = query.some("contact").map(str::to_owned);
            (Question::EndRegistration { user: (*user).to_owned(), contact }, Shape::List)
        }
        (Get, ["refusals"]) => {
            let target = query.get("target").to_owned();
            (Question::Refusals { target, most }, Shape::List)
        }
        (Get, ["traces", target]) => (Question::Trace((*target).to_owned()), Shape::List),
        (Get, ["calls"]) => (Question::Calls, Shape::List),
        (Delete, ["calls", id]) => (Question::EndCall((*id).to_owned()), Shape::One),
        (Get, ["records"]) => {
            let filter = RecordFilter {
                user: query.some("user").map(str::to_owned),
                since: whole(&query, "since")?,
                until: whole(&query, "until")?,
                is_failed: flag(&query, "failed")?,
                before: whole(&query, "after")?.map(u64::cast_signed),
                most: most + 1,
            };
            (Question::Records(filter), Shape::Page(most, record_key))
        }
        (Get, ["trunks"]) => (Question::Trunks, Shape::List),
        (Get, ["routes", number]) => {
            let [from, trunk] = ["from", "trunk"].map(|it| query.some(it).map(str::to_owned));
            (Question::Route { number: (*number).to_owned(), from, trunk }, Shape::One)
        }
        (Get, ["bans"]) => (Question::Bans, Shape::List),
        (Delete, ["bans", source]) => (Question::Unban((*source).to_owned()), Shape::One),
        (Get, ["certificates"]) => (Question::Certificates, Shape::List),
        (Get, ["check"]) => (Question::Check, Shape::One),
        (Post, ["reload"]) => (Question::Reload, Shape::One),
        (Get, ["doctor"]) => (Question::Doctor, Shape::List),
        _ => return refused(404, "there is no such resource"),
    })
}

/// The refusal of a method that a resource does not have.
fn not_so<T>() -> Result<T, Refusal> {
    refused(405, "this resource is not served with this method")
}

/// The methods of a resource, as in Allow. Empty if there is no such resource.
fn allowed(request: &Request, rest: &[&str]) -> String {
    let methods = [
        (Method::Get, "GET, HEAD"),
        (Method::Post, "POST"),
        (Method::Put, "PUT"),
        (Method::Patch, "PATCH"),
        (Method::Delete, "DELETE"),
    ];
    let has = |method| match *rest {
        ["openapi.json" | "backup"] => method == Method::Get,
        ["users", _, "phone-links"] => matches!(method, Method::Get | Method::Post),
        _ => {
            let (query, body) = (String::new(), Vec::new());
            let bare = Request { method, query, body, ..request.clone() };
            !matches!(question(&bare, rest), Err(Refusal(404, _)))
        }
    };
    let names = methods.into_iter().filter(|(method, _)| has(*method)).map(|it| it.1);
    names.collect::<Vec<_>>().join(", ")
}

fn user_key(row: &Value) -> String {
    format!("{}@{}", rows::text(row, "name"), rows::text(row, "domain"))
}

fn registration_key(row: &Value) -> String {
    format!("{} {}", rows::text(row, "address_of_record"), rows::text(row, "contact"))
}

fn record_key(row: &Value) -> String {
    rows::text(row, "id")
}

/// The value of the parameter `name`.
fn whole(query: &Form, name: &str) -> Result<Option<u64>, Refusal> {
    let given = query.has(name).then(|| query.get(name));
    let parsed = given.map(str::parse::<u64>).transpose();
    let is_small = |value: &u64| i64::try_from(*value).is_ok();
    match parsed {
        Ok(value) if value.as_ref().is_none_or(is_small) => Ok(value),
        _ => refused(422, &format!("the parameter `{name}` is not a whole number")),
    }
}

/// Refuses names beside the `known` ones: a misspelt dry run must not change anything.
fn only<'n>(mut names: impl Iterator<Item = &'n str>, known: &[&str]) -> Result<(), Refusal> {
    match names.find(|name| !known.contains(name)) {
        None => Ok(()),
        Some(other) => refused(422, &format!("`{other}` is not one of {}", known.join(", "))),
    }
}

/// The parameter `name`, which is `true` or `false`.
fn flag(query: &Form, name: &str) -> Result<bool, Refusal> {
    match query.get(name) {
        "true" => Ok(true),
        "false" => Ok(false),
        "" if !query.has(name) => Ok(false),
        _ => refused(422, &format!("the parameter `{name}` is not true or false")),
    }
}

fn limit(query: &Form) -> Result<usize, Refusal> {
    let (usual, most) = LIMITS;
    let wanted = whole(query, "limit")?.map_or(usual, |it| usize::try_from(it).unwrap_or(most));
    match (1..=most).contains(&wanted) {
        true => Ok(wanted),
        false => refused(422, &format!("the parameter `limit` is not from 1 to {most}")),
    }
}

/// The JSON object in the content of a request.
fn body(request: &Request) -> Result<Value, Refusal> {
    let kind = request.content_type.split(';').next().unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/json") {
        return refused(415, "the content is not application/json");
    }
    match serde_json::from_slice::<Value>(&request.body) {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => refused(422, "the content is not an object"),
        Err(error) => refused(400, &format!("the content is not JSON: {error}")),
    }
}
