//! The flags of a command for a server elsewhere, which has its HTTP API.

use clap::Args;
use std::path::PathBuf;
use ureq::http::Uri;

/// The flags for a server elsewhere. Each command takes them, before and behind its name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub(crate) struct RemoteFlags {
    /// Ask a server on another machine, by its HTTP API: `https://HOST` or `https://HOST:PORT`. The
    /// token is in the variable BAREBELL_TOKEN, or in the file of --token-file
    #[arg(long, global = true, value_name = "URL", value_parser = server)]
    pub(crate) server: Option<String>,
    /// The file with the token for --server, on its first line
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The certificates in PEM that --server may have, or that have issued its certificate
    /// [default: the issuers that this system trusts]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

impl RemoteFlags {
    /// Returns true if one of the flags is given.
    pub(crate) fn is_used(&self) -> bool {
        *self != Self::default()
    }
}

/// Parses the URL of a server, without a path. Without TLS only this machine is asked: a token must
/// not cross a network in clear.
fn server(text: &str) -> Result<String, String> {
    let expected = "expected https://HOST or https://HOST:PORT";
    let uri: Uri = text.parse().map_err(|error| format!("{error}: {expected}"))?;
    let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
        return Err(expected.to_owned());
    };
    if authority.as_str().contains('@') || uri.path() != "/" || uri.query().is_some() {
        return Err(format!("it has more than a host and a port: {expected}"));
    }
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    let is_here = host.parse::<std::net::IpAddr>().is_ok_and(|it| it.is_loopback());
    match scheme {
        "https" => {}
        "http" if is_here => {}
        "http" => {
            return Err("the token would cross the network in clear: http:// is for a loopback \
                        address, such as the end of a tunnel by ssh -L"
                .to_owned());
        }
        _ => return Err(expected.to_owned()),
    }
    Ok(format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_crosses_no_network_in_clear() {
        for (text, url) in [
            ("https://pbx.example.com", "https://pbx.example.com"),
            ("https://pbx.example.com:8443/", "https://pbx.example.com:8443"),
            ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443"),
            ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"),
            ("http://[::1]:8080", "http://[::1]:8080"),
        ] {
            assert_eq!(server(text).as_deref(), Ok(url));
        }
        for text in [
            "",
            "pbx.example.com",
            "pbx.example.com:8443",
            "http://pbx.example.com",
            "http://192.0.2.1:8080",
            "http://127.0.0.1.example.com",
            "http://localhost",
            "https://eve@pbx.example.com",
            "https://pbx.example.com/panel",
            "https://pbx.example.com/?a",
            "ftp://127.0.0.1",
        ] {
            assert!(server(text).is_err(), "{text}");
        }
    }
}
