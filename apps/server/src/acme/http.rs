//! The HTTPS client for ACME.

use crate::failure::Failure;
use crate::http_client::{self, PRODUCT};
use bytes::Bytes;
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use ureq::Agent;
use ureq::http::header::{CONTENT_TYPE, USER_AGENT};
use ureq::http::{Request, Response};

/// The timeout of one request with its response.
const PATIENCE: Duration = Duration::from_secs(30);
/// The maximum length of a response in bytes. A certificate chain has some thousand.
const MAX_ANSWER: u64 = 1 << 20;

/// An HTTPS client with blocking requests, made on threads that may block.
pub(super) struct Http {
    agent: Agent,
}

impl Http {
    /// Creates a client that trusts the certificates in the file `issuers`, or else those of the
    /// system.
    ///
    /// # Errors
    /// [`Failure`] if the file cannot be used, or the system has no certificates.
    pub(super) fn new(issuers: Option<&Path>) -> Result<Self, Failure> {
        let issuers = match issuers {
            Some(file) => net::tls::read_certificates(file)?,
            None => net::tls::system_issuers(),
        };
        if issuers.is_empty() {
            return Err(Failure::message(
                "this system trusts no issuers: install ca-certificates, or name a file in \
                 acme.issuers",
            ));
        }
        let config = Agent::config_builder()
            .tls_config(http_client::tls(&issuers))
            .https_only(true)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE));
        Ok(Self { agent: config.build().into() })
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let agent = self.agent.clone();
        Box::pin(async move {
            let (mut head, body) = request.into_parts();
            // RFC 8555 section 6.1.
            head.headers.insert(USER_AGENT, PRODUCT);
            let Ok(body) = body.collect().await;
            let body = body.to_bytes().to_vec();
            let place = head.uri.clone();
            let ask = move || ask(&agent, Request::from_parts(head, body));
            let answer = tokio::task::spawn_blocking(ask).await;
            let answer = answer.map_err(|error| Error::Other(Box::new(error)))?;
            let (parts, body) = answer.map_err(|error| Error::Other(Box::new(error)))?.into_parts();
            // An error response that is not an ACME problem document becomes a message. It is not
            // parsed as JSON.
            let kind = parts.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
            let is_problem = kind.is_some_and(|kind| kind.starts_with("application/problem+json"));
            if !parts.status.is_success() && !is_problem {
                return Err(Error::Other(format!("{place} answers {}", parts.status).into()));
            }
            Ok(BytesResponse { parts, body: Box::new(Bytes::from(body)) })
        })
    }
}

/// Sends `request`, and blocks until the whole response has been received.
fn ask(agent: &Agent, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, ureq::Error> {
    let (parts, mut body) = agent.run(request)?.into_parts();
    let body = body.with_config().limit(MAX_ANSWER).read_to_vec()?;
    Ok(Response::from_parts(parts, body))
}
