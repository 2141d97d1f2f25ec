//! TLS for who calls the benchmark.

use net::tls::{ClientCertificates, Identity, Server, make_self_signed};

/// What connections begin with that a server opens: a certificate that nobody has signed, or the
/// reason why there is none.
pub(crate) fn unsigned() -> Result<Server, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let [chain, key] = ["chain.pem", "key.pem"].map(|name| folder.path().join(name));
    make_self_signed(&["localhost".to_owned()], &chain, &key).map_err(|error| error.to_string())?;
    let identity = Identity::read(&chain, &key).map_err(|error| error.to_string())?;
    Server::new(vec![identity], &ClientCertificates::Off, None).map(Server::for_both)
}
