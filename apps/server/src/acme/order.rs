//! One certificate, from asking for it to its file.

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

/// How long an issuer may take to look at proofs, and to sign.
const PATIENCE: Duration = Duration::from_secs(120);

/// Gets the certificate that `wanted` says into its file in the directory `data`. `prove` has to
/// show proofs to who calls from then on.
///
/// # Errors
/// When the issuer cannot be asked, or does not give it.
pub(crate) async fn obtain(
    wanted: &AcmeSettings,
    data: &Path,
    prove: impl Fn(Vec<Proof>),
) -> Result<(), Failure> {
    let mut order = order(wanted, data).await?;
    prove_all(&mut order, prove).await?;
    let patience = RetryPolicy::new().timeout(PATIENCE);
    wait_until_ready(&mut order, &patience).await?;
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&patience).await?;
    let file = issued(data);
    let fresh = write_fresh(&file, (wanted.first_line() + &key + &chain).as_bytes())?;
    wanted.judge(&fresh).map_err(during("what has come is of no use"))?;
    rename(fresh, &file).map_err(during(file.display()))
}

/// Begins an order.
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

/// Shows a proof for each domain that has none yet, and says so to the issuer.
async fn prove_all(order: &mut Order, prove: impl Fn(Vec<Proof>)) -> Result<(), Failure> {
    let mut proofs = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let domain = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(ChallengeType::TlsAlpn01) else {
            return Err(Failure::said(format!(
                "it does not look at {domain} over TLS (TLS-ALPN-01): use another issuer, or a \
                 client of ACME and tls.certificates"
            )));
        };
        let digest = challenge.key_authorization().digest();
        proofs.push(Proof::new(&domain, digest.as_ref()).map_err(Failure::Said)?);
        prove(proofs.clone());
        challenge.set_ready().await?;
    }
    Ok(())
}

/// Waits until the issuer has looked at all proofs.
async fn wait_until_ready(order: &mut Order, patience: &RetryPolicy) -> Result<(), Failure> {
    let said = match order.poll_ready(patience).await {
        Ok(OrderStatus::Invalid) => "it refuses, and does not say why".to_owned(),
        Err(Error::Api(problem)) => problem.to_string(),
        other => return Ok(other.map(drop)?),
    };
    Err(Failure::Said(refusal(order).await.unwrap_or(said)))
}

/// Which domains do not lead here, as the issuer has seen it, and why.
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
