//! Requests with content, for the panel, and its replies.

use super::reply::Reply;
use ::panel::Method;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Response, StatusCode};
use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

/// The header field of a request that a script repeats.
const POLL: HeaderName = HeaderName::from_static("x-poll");
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The header fields of each reply: no cache keeps it, no other site sees or frames it, and the
/// address of a page stays here.
const FIELDS: [(HeaderName, &str); 6] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The request without its content.
///
/// # Errors
/// The reply to a request that cannot be served.
pub(super) fn head(
    head: &Parts,
    source: IpAddr,
    is_secure: bool,
) -> Result<::panel::Request, Reply> {
    let method = match head.method {
        hyper::Method::GET | hyper::Method::HEAD => Method::Get,
        hyper::Method::POST => Method::Post,
        hyper::Method::PUT => Method::Put,
        hyper::Method::PATCH => Method::Patch,
        hyper::Method::DELETE => Method::Delete,
        _ => Method::Other,
    };
    let fields = &head.headers;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(::panel::Request {
        method,
        is_head: head.method == hyper::Method::HEAD,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        host: text(fields, &header::HOST).unwrap_or_default(),
        origin: text(fields, &header::ORIGIN),
        fetch_site: text(fields, &FETCH_SITE),
        cookie: cookies(fields),
        authorization: text(fields, &header::AUTHORIZATION),
        content_type: text(fields, &header::CONTENT_TYPE).unwrap_or_default(),
        is_poll: fields.contains_key(POLL),
        body: Vec::new(),
        source,
        is_secure,
        now,
    })
}

/// The content of a request, at most `most` bytes.
///
/// # Errors
/// The reply to a request that cannot be served.
pub(super) async fn content(body: Incoming, most: usize) -> Result<Vec<u8>, Reply> {
    let refusal =
        || Reply::text(413, format!("the content has more than {most} bytes, or is broken\n"));
    // A length that is too large is refused before the content comes.
    if body.size_hint().lower() > most as u64 {
        return Err(refusal());
    }
    let body = Limited::new(body, most).collect().await.map_err(|_| refusal())?;
    Ok(body.to_bytes().to_vec())
}

/// The value of a header field. One that is not ASCII is read as a text that equals nothing.
fn text(fields: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(fields.get(name)?.to_str().unwrap_or("?").to_owned())
}

fn cookies(fields: &HeaderMap) -> String {
    let values = fields.get_all(header::COOKIE).iter();
    let values: Vec<_> = values.filter_map(|value| value.to_str().ok()).collect();
    values.join("; ")
}

/// The HTTP response, without content if the request was HEAD.
pub(super) fn response(reply: ::panel::Reply, is_head: bool) -> Response<Full<Bytes>> {
    let length = reply.body.len();
    let body = if is_head { Bytes::new() } else { Bytes::from(reply.body) };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(reply.kind));
    fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    for (name, value) in FIELDS {
        fields.insert(name, HeaderValue::from_static(value));
    }
    for (name, value) in reply.fields {
        // Values of the panel are encoded, so that they are valid.
        if let Ok(value) = HeaderValue::from_str(&value) {
            fields.insert(HeaderName::from_static(name), value);
        }
    }
    response
}
