//! The HTTP hooks of the operator. A hook has a timeout, and a breaker that leaves it alone after
//! failures. Its URL is that of the configuration: nothing of a phone or a caller is a part of it.

mod breaker;

use crate::failure::Failure;
use crate::http_client::{self, PRODUCT};
use crate::log;
use breaker::Breaker;
use parking_lot::Mutex;
use serde::Serialize;
use std::fmt;
use std::time::{Duration, Instant};
use ureq::Agent;
use ureq::http::Request;
use ureq::http::header::{CONTENT_TYPE, USER_AGENT};

/// The maximum length of a response in bytes.
const MAX_ANSWER: u64 = 16 << 10;

/// A hook. Its requests block.
pub(super) struct Hook {
    agent: Agent,
    url: String,
    /// The kind of its log lines.
    kind: &'static str,
    breaker: Mutex<Breaker>,
}

/// The failure of a request.
#[derive(Debug)]
enum HookError {
    Http(Box<ureq::Error>),
    Status(u16),
    Content(String),
}

impl fmt::Display for HookError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Http(error) => write!(f, "{error}"),
            Self::Status(status) => write!(f, "it answers {status}, expected 200 to 299"),
            Self::Content(error) => write!(f, "its answer is not as expected: {error}"),
        }
    }
}

impl Hook {
    /// The hook at `url`, the value of `key`, with a `timeout` of its requests. Its log lines are
    /// of the `kind`. Over TLS the issuers of the system are trusted.
    ///
    /// # Errors
    /// [`Failure`] if the system has no issuers.
    pub(super) fn new(
        url: &str,
        key: &str,
        kind: &'static str,
        timeout: Duration,
    ) -> Result<Self, Failure> {
        let issuers = net::tls::system_issuers();
        if url.starts_with("https") && issuers.is_empty() {
            return Err(Failure::message(format!(
                "{key}: this system trusts no issuers: install ca-certificates"
            )));
        }
        let config = Agent::config_builder()
            .tls_config(http_client::tls(&issuers))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(timeout));
        let (agent, url) = (config.build().into(), url.to_owned());
        Ok(Self { agent, url, kind, breaker: Mutex::default() })
    }

    /// Posts `content` as JSON, and blocks until the hook responds. `read` reads the response, and
    /// `missed` names the consequence of a failure for the log. `None` if the hook fails, or is
    /// left alone since it has failed.
    pub(super) fn ask<T>(
        &self,
        content: &impl Serialize,
        read: impl FnOnce(&[u8]) -> Result<T, String>,
        missed: impl FnOnce() -> String,
    ) -> Option<T> {
        if !self.breaker.lock().permits(Instant::now()) {
            return None;
        }
        let result = self.post(content);
        let result = result.and_then(|answer| read(&answer).map_err(HookError::Content));
        if let Err(error) = &result {
            log::warn(self.kind, || format!("{}: the hook {}: {error}", missed(), self.url));
        }
        match self.breaker.lock().note(result.is_ok(), Instant::now()) {
            Some(true) => log::warn(self.kind, || {
                format!("the hook {} fails: it is left alone for some seconds", self.url)
            }),
            Some(false) => log::info(self.kind, || format!("the hook {} works again", self.url)),
            None => {}
        }
        result.ok()
    }

    fn post(&self, content: &impl Serialize) -> Result<Vec<u8>, HookError> {
        let http = |error: ureq::Error| HookError::Http(Box::new(error));
        let request = Request::post(&self.url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, PRODUCT)
            .body(serde_json::to_vec(content).unwrap_or_default());
        let request = request.map_err(|error| http(error.into()))?;
        let mut response = self.agent.run(request).map_err(http)?;
        if !response.status().is_success() {
            return Err(HookError::Status(response.status().as_u16()));
        }
        response.body_mut().with_config().limit(MAX_ANSWER).read_to_vec().map_err(http)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// Asks a hook that sends `answer` about a call with the `caller`. Returns the content of the
    /// answer, and the request as the hook received it.
    fn ask(caller: &str, answer: String) -> (Option<Vec<u8>>, String) {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/decide?office=1", server.local_addr().unwrap());
        let serving = thread::spawn(move || {
            let (mut socket, _) = server.accept().unwrap();
            let mut request = String::new();
            let mut byte = [0];
            // The content ends with the object.
            while !request.ends_with("\"}") {
                socket.read_exact(&mut byte).unwrap();
                request.push(char::from(byte[0]));
            }
            // The client may not read all of it.
            let _ = socket.write_all(answer.as_bytes());
            request
        });
        let hook = Hook::new(&url, "numbers.hook.url", "hook", Duration::from_secs(60)).unwrap();
        let content = json!({ "caller": caller });
        let answer = hook.ask(&content, |bytes| Ok(bytes.to_vec()), || "a call".to_owned());
        (answer, serving.join().unwrap())
    }

    #[test]
    fn callers_choose_neither_the_place_nor_the_header_fields_of_a_request() {
        let caller = "x\r\nHost: evil.example\r\n\r\nGET http://169.254.169.254/ HTTP/1.1";
        let good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
        let (answer, request) = ask(caller, good.to_owned());
        assert_eq!(answer.as_deref(), Some(&b"{}"[..]));
        let (head, content) = request.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /decide?office=1 HTTP/1.1\r\n"), "{head}");
        assert!(!head.contains("evil") && !head.contains("169.254"), "{head}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(content).unwrap()["caller"], caller);
    }

    #[test]
    fn a_hook_leads_the_server_to_no_other_place() {
        let trap = TcpListener::bind("127.0.0.1:0").unwrap();
        trap.set_nonblocking(true).unwrap();
        let place = trap.local_addr().unwrap();
        for status in [301, 302, 303, 307, 308] {
            let moved = format!(
                "HTTP/1.1 {status} Moved\r\nLocation: http://{place}/\r\nContent-Length: 2\r\n\r\n{{}}"
            );
            assert_eq!(ask("x", moved).0, None, "{status}");
        }
        assert!(trap.accept().is_err(), "a redirection was followed");
        let long = "x".repeat(MAX_ANSWER as usize + 1);
        let long = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{long}", long.len());
        assert_eq!(ask("x", long).0, None);
    }
}
