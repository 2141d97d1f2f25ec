//! The server side of TLS for connections to the benchmark.

use net::tls::{ClientCertificates, Identity, Server, make_self_signed};

/// Returns the TLS configuration with a self-signed certificate, or the reason of a failure.
pub(crate) fn unsigned() -> Result<Server, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [chain, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
    make_self_signed(&["localhost".to_owned()], &chain, &key).map_err(|error| error.to_string())?;
    let identity = Identity::read(&chain, &key).map_err(|error| error.to_string())?;
    Server::new(vec![identity], &ClientCertificates::Off, None).map(Server::for_both)
}
