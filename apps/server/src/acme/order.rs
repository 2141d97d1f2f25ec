//! An order of one certificate, up to its file.

use super::account::{forget, write_fresh};
use super::{AcmeSettings, issued};
use crate::failure::{Failure, during};
use instant_acme::{
    AuthorizationStatus, ChallengeType, Error, Identifier, NewOrder, Order, OrderStatus,
    RetryPolicy,
};
use net::tls::Proof;
use std::fs::rename;
use std::path::Path;
use std::time::Duration;

/// The time for an issuer to validate the challenges, and to issue the certificate.
const PATIENCE: Duration = Duration::from_secs(120);

/// The timeout of a whole order.
const ORDER_PATIENCE: Duration = Duration::from_secs(600);

/// Orders the certificate of `wanted` as [`obtain_at_leisure`] does, within [`ORDER_PATIENCE`].
///
/// # Errors
/// [`Failure`] if the issuer cannot be reached, rejects the order, or takes too long.
pub(crate) async fn obtain(
    wanted: &AcmeSettings,
    data: &Path,
    prove: impl Fn(Vec<Proof>),
) -> Result<(), Failure> {
    within(ORDER_PATIENCE, obtain_at_leisure(wanted, data, prove)).await
}

/// Runs `order` with the timeout `patience`.
async fn within(
    patience: Duration,
    order: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    tokio::time::timeout(patience, order).await.unwrap_or_else(|_| {
        let seconds = patience.as_secs();
        Err(Failure::message(format!("no certificate within {seconds} s")))
    })
}

/// Orders the certificate of `wanted` and writes it to its file in the directory `data`. `prove`
/// must have the server present the proofs from then on.
///
/// # Errors
/// [`Failure`] if the issuer cannot be reached, or rejects the order.
async fn obtain_at_leisure(
    wanted: &AcmeSettings,
    data: &Path,
    prove: impl Fn(Vec<Proof>),
) -> Result<(), Failure> {
    let mut order = order(wanted, data).await?;
    prove_all(&mut order, wanted.domains.len(), prove).await?;
    let patience = RetryPolicy::new().timeout(PATIENCE);
    wait_until_ready(&mut order, &patience).await?;
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&patience).await?;
    let file = issued(data);
    let fresh = write_fresh(&file, (wanted.first_line() + &key + &chain).as_bytes())?;
    wanted.judge(&fresh).map_err(during("the received certificate cannot be used"))?;
    rename(fresh, &file).map_err(during(file.display()))
}

/// Creates an order. An account that the issuer no longer knows is replaced.
async fn order(wanted: &AcmeSettings, data: &Path) -> Result<Order, Failure> {
    const GONE: &str = "urn:ietf:params:acme:error:accountDoesNotExist";
    let identifiers: Vec<_> = wanted.domains.iter().cloned().map(Identifier::Dns).collect();
    let new = NewOrder::new(&identifiers);
    match wanted.account(data).await?.new_order(&new).await {
        Err(Error::Api(problem)) if problem.r#type.as_deref() == Some(GONE) => {
            forget(data);
            Ok(wanted.account(data).await?.new_order(&new).await?)
        }
        order => Ok(order?),
    }
}

/// Presents a proof for each domain that is not yet validated, and tells the issuer that the
/// challenges are ready.
///
/// # Errors
/// [`Failure`] if the issuer requires other challenges, or more than `most` authorizations.
async fn prove_all(
    order: &mut Order,
    most: usize,
    prove: impl Fn(Vec<Proof>),
) -> Result<(), Failure> {
    let mut proofs = Vec::new();
    let mut authorizations = order.authorizations();
    let mut asked = 0;
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        asked += 1;
        if asked > most {
            return Err(Failure::message(format!(
                "it requires more than {most} proofs, one for each domain, for this order"
            )));
        }
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let domain = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
            return Err(Failure::message(format!(
                "it does not validate {domain} over TLS (TLS-ALPN-01): use another issuer, or a \
                 client of ACME and tls.certificates"
            )));
        };
        let digest = challenge.key_authorization().digest();
        proofs.push(Proof::new(&domain, digest.as_ref()).map_err(Failure::Message)?);
        prove(proofs.clone());
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Waits until the issuer has validated all challenges.
async fn wait_until_ready(order: &mut Order, patience: &RetryPolicy) -> Result<(), Failure> {
    let said = match order.poll_ready(patience).await {
        Ok(OrderStatus::Invalid) => "it refuses without a reason".to_owned(),
        Err(Error::Api(problem)) => problem.to_string(),
        other => return Ok(other.map(drop)?),
    };
    Err(Failure::Message(refusal(order).await.unwrap_or(said)))
}

/// The domains with a failed validation, with the reasons given by the issuer.
async fn refusal(order: &mut Order) -> Option<String> {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let Ok(mut authorization) = authorization else { continue };
        let domain = authorization.identifier().to_string();
        let Ok(state) = authorization.refresh().await else { continue };
        let errors = state.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(errors.map(|error| format!("{domain}: {error}")));
    }
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use instant_acme::{Account, BodyWrapper, BytesResponse, HttpClient, NewAccount};
    use std::pin::Pin;
    use ureq::http::{Request, Response};

    /// An issuer that requires this number of authorizations for each order, all of them valid
    /// already.
    struct Issuer(usize);

    impl Issuer {
        fn answer(&self, path: &str) -> String {
            let place = |path: &str| format!("\"https://issuer.test/{path}\"");
            match path {
                "/directory" => format!(
                    "{{\"newNonce\":{},\"newAccount\":{},\"newOrder\":{}}}",
                    place("nonce"),
                    place("account"),
                    place("order")
                ),
                "/account" => "{\"status\":\"valid\"}".to_owned(),
                "/order" => {
                    let wanted: Vec<_> =
                        (0..self.0).map(|number| place(&format!("proof/{number}"))).collect();
                    format!(
                        "{{\"status\":\"pending\",\"authorizations\":[{}],\"finalize\":{}}}",
                        wanted.join(","),
                        place("finalize")
                    )
                }
                _ => "{\"identifier\":{\"type\":\"dns\",\"value\":\"a.example\"},\
                      \"status\":\"valid\",\"challenges\":[]}"
                    .to_owned(),
            }
        }
    }

    impl HttpClient for Issuer {
        fn request(
            &self,
            request: Request<BodyWrapper<Bytes>>,
        ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
            let body = self.answer(request.uri().path());
            let answer = Response::builder()
                .header("Replay-Nonce", "n")
                .header("Location", "https://issuer.test/there");
            let (parts, ()) = answer.body(()).unwrap().into_parts();
            Box::pin(async { Ok(BytesResponse { parts, body: Box::new(Bytes::from(body)) }) })
        }
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn an_issuer_may_require_one_proof_per_domain() {
        for (wanted, is_taken) in [(1, true), (2, true), (3, false), (1000, false)] {
            let builder = Account::builder_with_http(Box::new(Issuer(wanted)));
            let new = NewAccount {
                contact: &[],
                terms_of_service_agreed: true,
                only_return_existing: false,
            };
            let proved = run(async {
                let place = "https://issuer.test/directory".to_owned();
                let (account, _) = builder.create(&new, place, None).await.unwrap();
                let domains = [Identifier::Dns("a.example".to_owned())];
                let mut order = account.new_order(&NewOrder::new(&domains)).await.unwrap();
                prove_all(&mut order, 2, |_| ()).await
            });
            let said = proved.err().map(|failure| failure.to_string());
            let words = "it requires more than 2 proofs";
            assert_eq!(said.is_none(), is_taken, "{wanted}: {said:?}");
            assert!(said.is_none_or(|said| said.contains(words)), "{wanted}");
        }
    }

    #[test]
    fn an_order_has_a_deadline() {
        let never = std::future::pending();
        let failure = run(within(Duration::ZERO, never)).unwrap_err();
        assert!(failure.to_string().contains("no certificate within"), "{failure}");
    }
}
