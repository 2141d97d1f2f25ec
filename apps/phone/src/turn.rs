//! The TURN servers of the command line.

use crate::cli::LineArgs;
use crate::ice::IceSetup;
use crate::secret;
use ice_agent::{TurnCredentials, TurnServer, TurnTransport};
use net::tls::{Client, ServerName, Trust};
use std::net::{SocketAddr, ToSocketAddrs};
use stun::TurnUri;

/// The servers of ICE; `None` if it is not used.
///
/// # Errors
/// A description of the server that cannot be used.
pub(crate) fn ice_setup(
    line: &LineArgs,
    stun: &[SocketAddr],
    trust: &Trust,
) -> Result<Option<IceSetup>, String> {
    if !line.ice && line.turn.is_empty() {
        return Ok(None);
    }
    let (mut turn, mut tls) = (Vec::new(), None);
    if !line.turn.is_empty() {
        let user = line.turn_user.as_deref().unwrap_or_default();
        let password = secret::of_turn(line.turn_password_file.as_deref())?;
        for uri in &line.turn {
            turn.push(server(uri, user, &password)?);
        }
    }
    if turn.iter().any(|(_, name)| name.is_some()) {
        tls = Some(Client::new(trust, None, true).map_err(|error| error.to_string())?);
    }
    Ok(Some(IceSetup { stun: stun.to_vec(), turn, tls }))
}

/// The TURN server at `uri`, and its name if it is reached with TLS.
fn server(
    uri: &TurnUri,
    user: &str,
    password: &str,
) -> Result<(TurnServer, Option<ServerName<'static>>), String> {
    let host = &uri.host;
    let found = (host.as_str(), uri.port).to_socket_addrs();
    let mut found: Vec<SocketAddr> =
        found.map_err(|error| format!("TURN server {host}: {error}"))?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    let address = *found.first().ok_or(format!("TURN server {host} has no address"))?;
    let (transport, is_secure) = match uri.transport {
        stun::TurnTransport::Udp => (TurnTransport::Udp, false),
        stun::TurnTransport::Tcp => (TurnTransport::Stream, false),
        stun::TurnTransport::Tls => (TurnTransport::Stream, true),
        stun::TurnTransport::Dtls => {
            return Err(format!("TURN server {host}: DTLS is not supported; leave transport out"));
        }
    };
    let name = is_secure.then(|| ServerName::try_from(host.clone())).transpose();
    let name = name.map_err(|_| format!("TURN server {host}: TLS needs the name of a host"))?;
    let credentials = TurnCredentials { user: user.to_owned(), password: password.to_owned() };
    Ok((TurnServer { address, transport, credentials }, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_an_address_a_transport_and_a_name_for_tls() {
        let of = |uri: &str| server(&uri.parse().unwrap(), "alice", "x");
        let (found, name) = of("turn:192.0.2.1").unwrap();
        let expected = TurnServer {
            address: ([192, 0, 2, 1], 3478).into(),
            transport: TurnTransport::Udp,
            credentials: TurnCredentials { user: "alice".to_owned(), password: "x".to_owned() },
        };
        assert_eq!((found, name), (expected, None));
        let (found, name) = of("turns:192.0.2.1").unwrap();
        assert_eq!((found.address.port(), found.transport), (5349, TurnTransport::Stream));
        assert!(name.is_some());
        assert_eq!(of("turn:192.0.2.1:9?transport=tcp").unwrap().1, None);
        assert!(of("turns:192.0.2.1?transport=udp").unwrap_err().contains("DTLS"));
    }
}
