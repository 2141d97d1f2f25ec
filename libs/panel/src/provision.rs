//! The making of links for phones, and the fetch of the settings by such a link.

use crate::http::{Reply, Request};
use crate::links::{LIFE, Link, Made, listen};
use crate::pages::login;
use crate::pages::users::address;
use crate::panel::{Client, Panel, Problem};
use crate::role::Role;
use crate::rows;
use crate::server::{Question, RecordFilter};
use crate::templates::{Template, Values, is_plain};
use crate::tokens;
use serde_json::{Value, json};
use std::net::IpAddr;
use std::time::Duration;

/// The number of records that are searched for a call of a new phone.
const LOOKED_AT: usize = 20;

/// The values of a form or a request of the API: empty texts for the usual values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish<'w> {
    pub(crate) kind: &'w str,
    pub(crate) transport: &'w str,
    pub(crate) server: &'w str,
}

impl Panel {
    /// Makes a link for a phone of the user `name@domain`, and stores the action of `account`.
    pub(crate) fn make_link(
        &mut self,
        request: &Request,
        account: &str,
        user: &str,
        wish: Wish<'_>,
    ) -> Result<Made, Problem> {
        let made = self.new_link(request, user, wish);
        self.note(request, account, "make phone link", user, made.as_ref().err());
        made
    }

    /// Makes a link for a phone of `user`, if the role of `client` suffices. Returns the address of
    /// the user, too.
    pub(crate) fn link_of(
        &mut self,
        request: &Request,
        client: &Client,
        user: &str,
        wish: Wish<'_>,
    ) -> Result<(String, Made), Problem> {
        if client.role < Role::Operator {
            let problem = Problem::NotAllowed;
            self.note(request, &client.name, "make phone link", user, Some(&problem));
            return Err(problem);
        }
        let rows = self.ask(request, client, &Question::User(user.to_owned()))?;
        let row = rows.into_iter().next().ok_or(Problem::NotFound)?;
        let user = address(&row);
        let made = self.make_link(request, &client.name, &user, wish)?;
        Ok((user, made))
    }

    fn new_link(&mut self, request: &Request, user: &str, wish: Wish<'_>) -> Result<Made, Problem> {
        let texts = self.texts;
        let refused = |text: &str| Problem::Refused(text.to_owned());
        let template = Template::named(wish.kind).ok_or_else(|| refused(texts.bad_phone_kind))?;
        let status = self.server.ask(&Question::Status).map_err(Problem::Refused)?;
        let status = status.into_iter().next().unwrap_or_default();
        let (transport, port) =
            listen(&status, wish.transport).ok_or_else(|| refused(texts.bad_transport))?;
        let server = match wish.server {
            "" => host(&request.host).to_owned(),
            server => server.to_owned(),
        };
        let mark = self.server.mark(user).map_err(Problem::Refused)?;
        let link = Link {
            user: user.to_owned(),
            template,
            server,
            transport,
            port,
            mark: mark.unwrap_or_default(),
            made: request.now,
            fetched: None,
        };
        // The values of the file and the link can be written without an escape.
        let authority = authority(&request.host, wish.server);
        let is_plain = is_plain(&host(&authority).trim_matches(['[', ']']).replace(':', "."));
        file(&link, "x").filter(|_| is_plain).ok_or_else(|| refused(texts.bad_phone_values))?;
        if mark.is_none() {
            return Err(Problem::NotFound);
        }
        let secret = tokens::text((self.random)());
        self.data.put_phone_link(&link.stored(&secret))?;
        if let Some(surplus) = self.links.add(&secret, link) {
            self.data.remove_phone_link(&surplus)?;
        }
        let scheme = if request.is_secure { "https" } else { "http" };
        let url = format!("{scheme}://{authority}/panel/phone/{secret}/{}", template.file);
        let until = (request.now + LIFE).as_secs();
        Ok(Made { url, until, is_local: is_loopback(host(&authority)), template })
    }

    /// A random password of a user.
    pub(crate) fn new_password(&mut self) -> String {
        // 24 random bytes: 32 letters.
        let mut password = tokens::text((self.random)());
        password.truncate(32);
        password
    }

    /// The answer to a fetch by a link that is not valid.
    fn no_link(&self) -> Reply {
        Reply::page(404, login::message(self.texts, self.texts.phone_link_over))
    }

    /// The settings of a phone by the link with `secret`. The user gets a new password.
    pub(crate) fn fetch(&mut self, request: &Request, secret: &str) -> Reply {
        let Some(link) = self.links.find(secret, request.source, request.now) else {
            return self.no_link();
        };
        let first = link.fetched.map_or(request.now, |(at, _)| at);
        let link = link.clone();
        // The user may have been removed, or the password changed because the link was seen.
        if self.server.mark(&link.user) != Ok(Some(link.mark)) {
            return self.no_link();
        }
        let password = self.new_password();
        let Some(text) = file(&link, &password) else { return self.failure(404) };
        // A link that is used is not stored any more, whatever follows.
        if self.data.remove_phone_link(&tokens::hash(secret)).is_err() {
            return self.failure(422);
        }
        let question = Question::PutUser { user: link.user.clone(), password };
        let stored = self.server.ask(&question).map_err(Problem::Refused);
        let account = format!("phone link of {}", link.user);
        self.note(request, &account, "put user", &link.user, stored.as_ref().err());
        if stored.is_err() {
            return self.failure(422);
        }
        let mark = self.server.mark(&link.user).ok().flatten();
        if let Some(link) = self.links.find(secret, request.source, request.now) {
            link.fetched = Some((first, request.source));
            link.mark = mark.unwrap_or_default();
        }
        Reply::settings(link.template.kind, text)
    }

    /// Ends the links that have expired.
    pub(crate) fn end_old_links(&mut self, now: Duration) {
        for hash in self.links.end_old(now) {
            // One that stays stored ends at the next start.
            let _ = self.data.remove_phone_link(&hash);
        }
    }

    /// The links of a user with their states, by the registrations `phones` of the user: `waits`,
    /// `fetched`, `registered`, `heard`, `replaced` by a later fetch, or `ended` by another
    /// password.
    pub(crate) fn link_rows(
        &self,
        user: &str,
        phones: &[Value],
        now: Duration,
    ) -> Result<Vec<Value>, Problem> {
        let links = self.links.of(user, now);
        // The last fetch ended the registrations with earlier passwords.
        let last = links.iter().filter_map(|link| link.fetched).map(|it| it.0).max();
        let is_heard = match last {
            Some(since) if !phones.is_empty() => self.is_heard(user, since.as_secs())?,
            _ => false,
        };
        let mark = self.server.mark(user).map_err(Problem::Refused)?;
        let state = |link: &Link| match link.fetched {
            None if mark != Some(link.mark) => "ended",
            None => "waits",
            Some((at, _)) if Some(at) != last => "replaced",
            Some(_) if is_heard => "heard",
            Some(_) if !phones.is_empty() => "registered",
            Some(_) => "fetched",
        };
        let row = |link: &&Link| {
            json!({
                "kind": link.template.name,
                "made": link.made.as_secs(),
                "until": (link.made + LIFE).as_secs(),
                "fetched": link.fetched.map(|(at, _)| at.as_secs()),
                "state": state(link),
            })
        };
        Ok(links.iter().map(row).collect())
    }

    /// Returns true if a call of the user since then has or had sound from both ends.
    fn is_heard(&self, user: &str, since: u64) -> Result<bool, Problem> {
        let filter = RecordFilter {
            user: Some(user.to_owned()),
            since: Some(since),
            most: LOOKED_AT,
            ..RecordFilter::default()
        };
        let ask = |question: &Question| self.server.ask(question).map_err(Problem::Refused);
        let is_of = |call: &&Value| {
            ["caller", "callee"].iter().any(|name| crate::pages::calls::party(call, name) == user)
        };
        let has_both = |call: &Value| {
            let streams = call["streams"].as_array();
            streams.into_iter().flatten().any(|stream| {
                let sent = |end: &str| rows::number(&stream[end], "packets").unwrap_or_default();
                sent("from_caller") > 0 && sent("from_callee") > 0
            })
        };
        Ok(ask(&Question::Calls)?.iter().filter(is_of).any(has_both)
            || ask(&Question::Records(filter))?.iter().any(has_both))
    }
}

/// The authority of a link: that of the request, `requested`, or with `server` in place of a
/// loopback address, which no phone on another machine reaches.
fn authority(requested: &str, server: &str) -> String {
    let (host, server) = (host(requested), server.trim_matches(['[', ']']));
    if server.is_empty() || !is_loopback(host) {
        return requested.to_owned();
    }
    let port = &requested[host.len()..];
    match server.contains(':') {
        true => format!("[{server}]{port}"),
        false => format!("{server}{port}"),
    }
}

/// True if `host` is a loopback address.
fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The host of `authority`, without the port.
fn host(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

/// The file of `link` with this password.
fn file(link: &Link, password: &str) -> Option<String> {
    let (user, domain) = link.user.rsplit_once('@')?;
    link.template.filled(&Values {
        user,
        domain,
        password,
        server: &link.server,
        port: link.port,
        transport: link.transport,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_no_port() {
        assert_eq!([host("pbx.example:8443"), host("pbx.example")], ["pbx.example"; 2]);
        assert_eq!([host("[2001:db8::1]:80"), host("[2001:db8::1]")], ["[2001:db8::1]"; 2]);
    }

    #[test]
    fn a_named_server_replaces_a_loopback_address_in_a_link() {
        for (requested, server, expected) in [
            ("127.0.0.1:8080", "", "127.0.0.1:8080"),
            ("127.0.0.1:8080", "192.0.2.1", "192.0.2.1:8080"),
            ("localhost", "pbx.example", "pbx.example"),
            ("[::1]:80", "2001:db8::1", "[2001:db8::1]:80"),
            ("[::1]:80", "[2001:db8::1]", "[2001:db8::1]:80"),
            ("panel.example:443", "192.0.2.1", "panel.example:443"),
        ] {
            assert_eq!(authority(requested, server), expected, "{requested} {server}");
        }
    }
}
