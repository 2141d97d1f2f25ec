//! The commands for a server elsewhere, by its HTTP API.

mod errands;

use crate::admin::Request;
use crate::admin::ask::Ask;
use crate::admin::sink::Row;
use crate::cli::{Place, RemoteFlags};
use crate::failure::{Failure, during};
use crate::http_client::{self, PRODUCT};
use crate::output::printable;
use errands::{Errand, Shape};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::time::Duration;
use ureq::Agent;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use ureq::http::{self, HeaderValue, Method};

/// The variable of the environment with the token.
const TOKEN: &str = "BAREBELL_TOKEN";
/// The timeout of one request with its response. The server has a timeout for its database.
const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum length of a response in bytes: a list of all calls has no pages.
const MAX_ANSWER: u64 = 64 << 20;
/// The maximum number of rows of a response that is a page.
const PAGE: usize = 500;

/// The HTTP API of a server elsewhere.
#[derive(Debug)]
pub(crate) struct Remote {
    agent: Agent,
    /// The URL of the server, without a path.
    url: String,
    authorization: HeaderValue,
}

impl Remote {
    /// The server that `place` names.
    ///
    /// # Errors
    /// [`Failure`] if the flags contradict each other, or the token or the certificates cannot be
    /// read.
    pub(crate) fn of(place: &Place) -> Result<Self, Failure> {
        let RemoteFlags { server, token_file, ca } = &place.remote;
        let Some(url) = server.clone() else {
            return Err(Failure::message("--token-file and --ca need --server"));
        };
        if place.config.is_some() || place.data.is_some() {
            return Err(Failure::message(
                "--config and --data name a server on this machine, and --server one elsewhere: \
                 only one of them is possible",
            ));
        }
        let token = match token_file {
            Some(file) => token_of(file)?,
            None => std::env::var(TOKEN).map_err(|_| {
                Failure::message(format!(
                    "there is no token: set {TOKEN}, or name its file with --token-file; `barebell \
                     token add NAME --role ROLE` on the machine of the server makes one"
                ))
            })?,
        };
        let mut authorization = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| Failure::message("the token has characters that no token has"))?;
        authorization.set_sensitive(true);
        let issuers = match ca {
            Some(file) => net::tls::read_certificates(file)?,
            None => net::tls::system_issuers(),
        };
        let config = Agent::config_builder()
            .tls_config(http_client::tls(&issuers))
            .https_only(url.starts_with("https:"))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(PATIENCE));
        Ok(Self { agent: config.build().into(), url, authorization })
    }

    /// The object at `path`, behind the root of the API, with the parameters `query` that are not
    /// empty.
    ///
    /// # Errors
    /// [`Failure`] if the server does not answer, or refuses the request.
    pub(crate) fn object(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, Failure> {
        self.send(&Method::GET, &format!("{path}{}", panel::query(query)), None)
    }

    /// Like [`Remote::object`], for a list.
    ///
    /// # Errors
    /// See [`Remote::object`].
    pub(crate) fn list_of<T: DeserializeOwned>(&self, path: &str) -> Result<Vec<T>, Failure> {
        let rows = items(self.object(path, &[])?)?;
        rows.into_iter().map(|row| self.read(row)).collect()
    }

    /// A row of an answer.
    fn read<T: DeserializeOwned>(&self, row: Value) -> Result<T, Failure> {
        serde_json::from_value(row).map_err(during(format!(
            "{} answers otherwise than this version of barebell, {}, expects",
            self.url,
            env!("CARGO_PKG_VERSION")
        )))
    }

    /// The response to a request for `path`, behind the root of the API.
    ///
    /// # Errors
    /// [`Failure`] if the server does not answer, or refuses the request.
    fn send(&self, method: &Method, path: &str, content: Option<&Value>) -> Result<Value, Failure> {
        let Self { agent, url, authorization } = self;
        let head = http::Request::builder()
            .method(method)
            .uri(format!("{url}/api/v1{path}"))
            .header(USER_AGENT, PRODUCT)
            .header(AUTHORIZATION, authorization.clone());
        let answer = match content {
            None => agent.run(head.body(())?),
            Some(content) => {
                let head = head.header(CONTENT_TYPE, "application/json");
                agent.run(head.body(content.to_string())?)
            }
        };
        let mut answer = answer.map_err(|error| unanswered(url, error))?;
        let status = answer.status();
        let text = answer.body_mut().with_config().limit(MAX_ANSWER).read_to_vec();
        let text = text.map_err(during(format!("cannot read the answer of {url}")))?;
        let value = serde_json::from_slice::<Value>(&text).ok();
        let error = value.as_ref().and_then(|value| value["error"].as_str());
        match (status.is_success(), value.as_ref(), error) {
            (true, Some(_), _) => Ok(value.unwrap_or_default()),
            (false, _, Some(error)) => Err(Failure::message(printable(error))),
            _ => Err(Failure::message(format!(
                "{url} has no HTTP API of Barebell: it answers {}; `panel.enabled` of its \
                 configuration turns the API on",
                status.as_u16()
            ))),
        }
    }

    /// The rows of the answer to `errand`, passed to `each`.
    fn run(
        &self,
        errand: &Errand,
        each: &mut dyn FnMut(Value) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let Errand { method, path, query, content, shape } = errand;
        let asked = |more: &[(&str, String)]| {
            let pairs: Vec<_> =
                query.iter().chain(more).map(|(name, value)| (*name, value.as_str())).collect();
            self.send(method, &format!("{path}{}", panel::query(&pairs)), content.as_ref())
        };
        match shape {
            Shape::One => each(asked(&[])?),
            Shape::Latest => {
                let rows = items(asked(&[("limit", PAGE.to_string())])?)?;
                rows.into_iter().rev().try_for_each(&mut *each)
            }
            Shape::List => items(asked(&[])?)?.into_iter().try_for_each(each),
            Shape::Pages(most) => {
                let (mut left, mut after) = (*most, None);
                while left > 0 {
                    let mut more = vec![("limit", left.min(PAGE).to_string())];
                    more.extend(after.take().map(|after| ("after", after)));
                    let page = asked(&more)?;
                    after = page["next"].as_str().map(str::to_owned);
                    let rows = items(page)?;
                    left -= rows.len().min(left);
                    rows.into_iter().try_for_each(&mut *each)?;
                    if after.is_none() {
                        break;
                    }
                }
                Ok(())
            }
        }
    }
}

impl Ask for Remote {
    fn ask_each<T: Row>(
        self,
        request: &Request,
        _file: &[u8],
        each: &mut dyn FnMut(T) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let errand = Errand::of(request)?;
        self.run(&errand, &mut |row| match errands::row(request, row) {
            Some(row) => each(self.read(row)?),
            None => Ok(()),
        })
    }
}

/// The failure of a request without an answer.
fn unanswered(url: &str, error: ureq::Error) -> Failure {
    let inner = match &error {
        ureq::Error::Io(error) => error.get_ref().and_then(|it| it.downcast_ref()),
        _ => None,
    };
    let remedy = match inner {
        Some(rustls::Error::InvalidCertificate(_)) => " (--ca names trusted certificates)",
        _ => "",
    };
    during(format!("cannot ask {url}{remedy}"))(error)
}

/// The rows of a list.
fn items(mut answer: Value) -> Result<Vec<Value>, Failure> {
    match answer["items"].take() {
        Value::Array(rows) => Ok(rows),
        _ => Err(Failure::message("the server answers without a list: is it of another version?")),
    }
}

/// The token in the first line of `file`.
fn token_of(file: &Path) -> Result<String, Failure> {
    let text = fs::read_to_string(file);
    let text = text.map_err(during(format!("cannot read the token in {}", file.display())))?;
    match text.lines().next().map(str::trim) {
        Some(token) if !token.is_empty() => Ok(token.to_owned()),
        _ => Err(Failure::message(format!("{} has no token on its first line", file.display()))),
    }
}
