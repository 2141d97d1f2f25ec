//! Requests and replies of HTTP, as far as the panel needs them.

use crate::form;
use serde_json::Value;
use std::net::IpAddr;
use std::time::Duration;

/// A method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET, also for HEAD.
    Get,
    /// POST.
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
    /// DELETE.
    Delete,
    /// A method that no resource is served with, such as OPTIONS.
    Other,
}

/// A request. The owner has checked that Host names this server.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: Method,
    /// True if the method is HEAD: the client gets no content.
    pub is_head: bool,
    /// The path, not decoded.
    pub path: String,
    /// The query, not decoded.
    pub query: String,
    /// The value of Host.
    pub host: String,
    /// The value of Origin.
    pub origin: Option<String>,
    /// The value of Sec-Fetch-Site.
    pub fetch_site: Option<String>,
    /// The values of Cookie, joined by `; `.
    pub cookie: String,
    /// The value of Authorization.
    pub authorization: Option<String>,
    /// The value of Content-Type.
    pub content_type: String,
    /// True if a script repeats the request to show changes. It is no use of the session.
    pub is_poll: bool,
    /// The content.
    pub body: Vec<u8>,
    /// The address of the client.
    pub source: IpAddr,
    /// True if the connection has TLS.
    pub is_secure: bool,
    /// The time since 1970.
    pub now: Duration,
}

impl Request {
    /// The segments of the path, decoded. `None` if one is not UTF-8, or has a control character.
    pub(crate) fn segments(&self) -> Option<Vec<String>> {
        let path = self.path.strip_prefix('/')?;
        path.split('/').map(|segment| form::decoded(segment, false)).collect()
    }

    /// The value of the cookie `name`.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        self.cookie.split(';').find_map(|pair| {
            let (found, value) = pair.trim().split_once('=')?;
            (found == name).then_some(value)
        })
    }

    /// The name of the cookie `name`. Browsers take one that begins with `__Host-` from this host
    /// only, over TLS.
    pub(crate) fn cookie_name(&self, name: &str) -> String {
        if self.is_secure { format!("__Host-{name}") } else { name.to_owned() }
    }

    /// The value of Set-Cookie that gives the cookie `name` the value `id`.
    pub(crate) fn set_cookie(&self, name: &str, id: &str) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let name = self.cookie_name(name);
        format!("{name}={id}; Path=/; HttpOnly; SameSite=Strict{secure}")
    }

    /// True if a page of another origin may have caused the request. Browsers name the origin of
    /// each POST.
    pub(crate) fn is_foreign(&self) -> bool {
        let scheme = if self.is_secure { "https" } else { "http" };
        let is_other = |origin: &String| *origin != format!("{scheme}://{}", self.host);
        self.origin.as_ref().is_some_and(is_other)
            || self.fetch_site.as_ref().is_some_and(|it| it != "same-origin" && it != "none")
    }
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The media type.
    pub kind: &'static str,
    /// The content.
    pub body: Vec<u8>,
    /// Further header fields.
    pub fields: Vec<(&'static str, String)>,
}

/// The rules for the content of a page: files of this server only, no script in the page, no frame.
const CONTENT_RULES: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
                             connect-src 'self'; img-src 'self'; media-src 'self'; form-action 'self'; \
                             base-uri 'none'; frame-ancestors 'none'";

impl Reply {
    fn new(status: u16, kind: &'static str, body: Vec<u8>) -> Self {
        let rules = ("content-security-policy", CONTENT_RULES.to_owned());
        Self { status, kind, body, fields: vec![rules] }
    }

    pub(crate) fn page(status: u16, text: String) -> Self {
        Self::new(status, "text/html; charset=utf-8", text.into_bytes())
    }

    pub(crate) fn file(kind: &'static str, text: &'static str) -> Self {
        Self::new(200, kind, text.as_bytes().to_vec())
    }

    pub(crate) fn json(status: u16, value: &Value) -> Self {
        Self::new(status, "application/json", format!("{value}\n").into_bytes())
    }

    pub(crate) fn csv(name: &str, text: String) -> Self {
        Self::new(200, "text/csv; charset=utf-8", text.into_bytes())
            .with("content-disposition", format!("attachment; filename=\"{name}\""))
    }

    /// A file of lines of JSON.
    pub(crate) fn lines(name: &str, text: String) -> Self {
        Self::new(200, "application/x-ndjson", text.into_bytes())
            .with("content-disposition", format!("attachment; filename=\"{name}\""))
    }

    /// A sound file (WAV).
    pub(crate) fn sound(bytes: Vec<u8>) -> Self {
        Self::new(200, "audio/wav", bytes)
    }

    /// A file of settings of a phone.
    pub(crate) fn settings(kind: &'static str, text: String) -> Self {
        Self::new(200, kind, text.into_bytes())
    }

    /// Leads the browser to `path` by a GET.
    pub(crate) fn see(path: impl Into<String>) -> Self {
        Self::new(303, "text/plain; charset=utf-8", Vec::new()).with("location", path.into())
    }

    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.fields.push((name, value));
        self
    }
}
