//! Requests and replies of pages.

use http_body_util::Full;
use hyper::body::{Body, Bytes};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Response, StatusCode};

/// The pages of the listener.
pub(crate) trait Pages: Send + Sync {
    /// Answers a GET.
    fn answer(&self, request: &Request<'_>) -> Reply;
}

/// The request of a page.
pub(crate) struct Request<'r> {
    /// The path, without the query.
    pub(crate) path: &'r str,
}

/// The reply with a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    /// The media type.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// The header fields of each response: no cache keeps it, and no page uses it.
const FIELDS: [(HeaderName, &str); 4] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
    (header::REFERRER_POLICY, "no-referrer"),
];

impl Reply {
    /// A reply of plain text.
    pub(crate) fn text(status: u16, text: impl Into<String>) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", text: text.into() }
    }

    /// The HTTP response, without content if the request was HEAD. `is_last` closes the connection.
    pub(super) fn into_response(self, is_head: bool, is_last: bool) -> Response<Full<Bytes>> {
        let Self { status, kind, text } = self;
        let length = text.len();
        let body = if is_head { Bytes::new() } else { Bytes::from(text) };
        let mut response = Response::new(Full::new(body));
        *response.status_mut() =
            StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let fields = response.headers_mut();
        fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
        fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        for (name, value) in FIELDS {
            fields.insert(name, HeaderValue::from_static(value));
        }
        if status == StatusCode::METHOD_NOT_ALLOWED.as_u16() {
            fields.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        if is_last {
            fields.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}

/// The reply to a request that no page answers: its method is not GET or HEAD, it has a body, or
/// it names another host than `hosts`, as in an attack by DNS rebinding.
pub(super) fn refusal(
    method: &Method,
    fields: &HeaderMap,
    body: &impl Body,
    hosts: &[String],
) -> Option<Reply> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some(Reply::text(405, "only GET and HEAD are served\n"));
    }
    if !body.is_end_stream() {
        return Some(Reply::text(413, "a request must have no content\n"));
    }
    foreign_host(fields, hosts)
}

/// The reply to a request that names another host than `hosts`.
pub(super) fn foreign_host(fields: &HeaderMap, hosts: &[String]) -> Option<Reply> {
    let host = fields.get(header::HOST).map(|host| host.to_str().unwrap_or_default());
    match host {
        Some(host) if !is_own(host, hosts) => Some(Reply::text(
            421,
            "this server has another name: use its address or one of its domains\n",
        )),
        _ => None,
    }
}

/// Returns true if the value of the Host header field is an address or one of `hosts`.
fn is_own(host: &str, hosts: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    address.parse::<std::net::IpAddr>().is_ok()
        || hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_own_names_are_hosts() {
        let hosts = ["example.com".to_owned(), "localhost".to_owned()];
        for host in ["127.0.0.1", "127.0.0.1:80", "[::1]:80", "[::1]", "Example.com:8080"] {
            assert!(is_own(host, &hosts), "{host}");
        }
        for host in ["", "evil.example", "example.com.evil.example:80", "x:y", ":80"] {
            assert!(!is_own(host, &hosts), "{host}");
        }
    }

    #[test]
    fn the_response_to_head_has_the_length_but_no_content() {
        let response = Reply::text(200, "ok\n").into_response(true, true);
        assert_eq!(response.headers()[header::CONTENT_LENGTH], "3");
        assert_eq!(response.headers()[header::CONNECTION], "close");
        assert!(response.body().is_end_stream());
    }
}
