//! The HTTP hook that requests push notifications. Its URL is that of the configuration: nothing of
//! a phone or a caller is a part of it.

use super::breaker::Breaker;
use crate::failure::Failure;
use crate::log;
use parking_lot::Mutex;
use serde::Serialize;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::header::{CONTENT_TYPE, USER_AGENT};
use ureq::http::{HeaderValue, Request};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The value of the User-Agent header field.
const PRODUCT: HeaderValue =
    HeaderValue::from_static(concat!("barebell/", env!("CARGO_PKG_VERSION")));

/// The reason of a notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(in crate::serve) enum Reason {
    /// A call waits.
    Call,
    /// A message waits.
    Message,
    /// The registration of the phone ends soon.
    Refresh,
}

/// A notification of a phone.
#[derive(Clone, Debug)]
pub(in crate::serve) struct Notification {
    /// `name@domain`.
    pub(in crate::serve) user: Box<[u8]>,
    pub(in crate::serve) provider: Box<[u8]>,
    pub(in crate::serve) prid: Box<[u8]>,
    /// It may be empty.
    pub(in crate::serve) param: Box<[u8]>,
    pub(in crate::serve) reason: Reason,
}

/// The content of a request of the hook.
#[derive(Serialize)]
struct Content<'n> {
    user: &'n str,
    provider: &'n str,
    prid: &'n str,
    #[serde(skip_serializing_if = "str::is_empty")]
    param: &'n str,
    reason: Reason,
}

/// The failure of a request.
#[derive(Debug)]
enum HookError {
    Http(Box<ureq::Error>),
    Status(u16),
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(error) => write!(f, "{error}"),
            Self::Status(status) => write!(f, "it answers {status}, expected 200 to 299"),
        }
    }
}

/// The hook.
pub(super) struct Hook {
    agent: Agent,
    url: String,
    breaker: Mutex<Breaker>,
    sent: AtomicU64,
    failed: AtomicU64,
}

impl Hook {
    /// The hook at `url`, with a `timeout` of its requests. Over TLS the issuers of the system are
    /// trusted.
    ///
    /// # Errors
    /// [`Failure`] if the system has no issuers.
    pub(super) fn new(url: &str, timeout: Duration) -> Result<Self, Failure> {
        let issuers = net::tls::system_issuers();
        if url.starts_with("https") && issuers.is_empty() {
            return Err(Failure::said(
                "push.url: this system trusts no issuers: install ca-certificates",
            ));
        }
        let issuers: Vec<_> =
            issuers.iter().map(|issuer| Certificate::from_der(issuer).to_owned()).collect();
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(net::tls::provider())
            .root_certs(RootCerts::new_with_certs(&issuers))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(timeout));
        Ok(Self {
            agent: config.build().into(),
            url: url.to_owned(),
            breaker: Mutex::default(),
            sent: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// The numbers of notifications that the hook has accepted, and of others.
    pub(super) fn counts(&self) -> [u64; 2] {
        [&self.sent, &self.failed].map(|count| count.load(Ordering::Relaxed))
    }

    /// Requests `notification`, and blocks until the hook responds. Returns false if it fails.
    pub(super) fn request(&self, notification: &Notification) -> bool {
        let is_success = self.breaker.lock().permits(Instant::now()) && self.ask(notification);
        let count = if is_success { &self.sent } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
        is_success
    }

    fn ask(&self, notification: &Notification) -> bool {
        let result = self.post(notification);
        if let Err(error) = &result {
            log::warn("push", || {
                let user = String::from_utf8_lossy(&notification.user);
                format!("a phone of {user} is not notified: the hook {}: {error}", self.url)
            });
        }
        match self.breaker.lock().note(result.is_ok(), Instant::now()) {
            Some(true) => log::warn("push", || {
                format!("the hook {} fails: it is left alone for some seconds", self.url)
            }),
            Some(false) => log::info("push", || format!("the hook {} works again", self.url)),
            None => {}
        }
        result.is_ok()
    }

    fn post(&self, notification: &Notification) -> Result<(), HookError> {
        let Notification { user, provider, prid, param, reason } = notification;
        let texts = [user, provider, prid, param].map(|text| String::from_utf8_lossy(text));
        let [user, provider, prid, param] = &texts;
        let content = Content { user, provider, prid, param, reason: *reason };
        let body = serde_json::to_vec(&content).unwrap_or_default();
        let request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, PRODUCT)
            .body(body);
        let request = request.map_err(|error| HookError::Http(Box::new(error.into())))?;
        let response = self.agent.run(request).map_err(|error| HookError::Http(Box::new(error)))?;
        match response.status().is_success() {
            true => Ok(()),
            false => Err(HookError::Status(response.status().as_u16())),
        }
    }
}
