//! The web origins that may open WebSocket connections.

use sip::stream::websocket::Upgrade;

/// The web origins from which WebSocket connections are accepted. A client without Origin header
/// field is not a browser, and is accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origins {
    /// All origins.
    Any,
    /// The origin of the host that is called.
    #[default]
    SameHost,
    /// The origin of the host that is called, if it is one of these, in lower case. That excludes a
    /// page with a host name redirected to this server (DNS rebinding).
    SameHostOf(Vec<String>),
    /// These origins, such as `https://phone.example.org`.
    Named(Vec<String>),
}

impl Origins {
    /// Returns true if the page that asks for `upgrade` may open a connection.
    pub(crate) fn allow(&self, upgrade: &Upgrade) -> bool {
        match (self, &upgrade.origin) {
            (Self::Any, _) | (_, None) => true,
            (Self::SameHost, _) => upgrade.is_of_same_host(),
            (Self::SameHostOf(hosts), _) => {
                upgrade.is_of_same_host()
                    && hosts.iter().any(|host| host.eq_ignore_ascii_case(upgrade.host_name()))
            }
            (Self::Named(named), Some(origin)) => {
                named.iter().any(|named| named.eq_ignore_ascii_case(origin))
            }
        }
    }
}
