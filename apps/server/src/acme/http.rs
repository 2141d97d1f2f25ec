//! How an issuer is asked: over HTTPS.

use crate::failure::Failure;
use bytes::Bytes;
use http_body_util::BodyExt;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use ureq::Agent;
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// The longest time for one question and its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest answer in bytes: a chain of certificates has some thousand.
const MAX_ANSWER: u64 = 1 << 20;

/// Asks over HTTPS, where a thread is free to wait.
pub(super) struct Http {
    agent: Agent,
}

impl Http {
    /// Trusts whom the certificates in the file `issuers` have signed, or whom the system trusts.
    ///
    /// # Errors
    /// When the file cannot be used.
    pub(super) fn new(issuers: Option<&Path>) -> Result<Self, Failure> {
        let issuers = match issuers {
            Some(file) => net::tls::read_certificates(file)?,
            None => net::tls::system_issuers(),
        };
        let issuers: Vec<_> =
            issuers.iter().map(|issuer| Certificate::from_der(issuer).to_owned()).collect();
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(net::tls::provider())
            .root_certs(RootCerts::new_with_certs(&issuers))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("barebell/", env!("CARGO_PKG_VERSION")));
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
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let body = body.to_bytes().to_vec();
            let ask = move || ask(&agent, Request::from_parts(head, body));
            let answer = tokio::task::spawn_blocking(ask).await;
            let answer = answer.map_err(|error| Error::Other(Box::new(error)))?;
            let (parts, body) = answer.map_err(|error| Error::Other(Box::new(error)))?.into_parts();
            Ok(BytesResponse { parts, body: Box::new(Bytes::from(body)) })
        })
    }
}

/// Waits for the whole answer to `request`.
fn ask(agent: &Agent, request: Request<Vec<u8>>) -> Result<Response<Vec<u8>>, ureq::Error> {
    let (parts, mut body) = agent.run(request)?.into_parts();
    let body = body.with_config().limit(MAX_ANSWER).read_to_vec()?;
    Ok(Response::from_parts(parts, body))
}
