//! The path of requests within a dialog: the flow of a message that created or refreshed the
//! dialog, or the location of the next hop (RFC 3261 section 12.2.1.1).

use crate::uac::destination;
use core::net::IpAddr;
use sip::locate::Host;
use sip::{Flow, Transport};

/// The next hop of the requests of a dialog.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NextHop<'a> {
    /// The first route, or the remote target.
    pub(crate) uri: &'a [u8],
    /// True if it is a route, which a server has added.
    pub(crate) is_route: bool,
}

/// Returns true if requests to `next` use `flow`, on which a message of the dialog was received or
/// sent. `asked` is the URI from which the flow was located, if the request was local.
///
/// The flow is kept if it leads to the next hop, and if no location can work: a browser has no
/// address, a certificate names no IP address, and a private address is valid only in its own
/// network. Nothing else leads to the proxy at the other end of an internal flow.
pub(crate) fn keeps(flow: &Flow, asked: Option<&[u8]>, next: NextHop<'_>) -> bool {
    if flow.is_internal() {
        return true;
    }
    let Ok(to) = destination(next.uri) else { return true };
    if asked.and_then(|asked| destination(asked).ok()).is_some_and(|asked| asked == to) {
        return true;
    }
    if matches!(flow.transport, Transport::Ws | Transport::Wss) {
        return true;
    }
    let ip = match &to.host {
        Host::Ip(ip) => ip.to_canonical(),
        Host::Name(name) => return next.is_route || name.ends_with(".invalid"),
    };
    if flow.transport == Transport::Tls || ip.is_unspecified() {
        return true;
    }
    let remote = flow.remote.ip().to_canonical();
    let transport = to.transport.unwrap_or(flow.transport);
    let is_same_transport = transport == flow.transport && !to.sips;
    let is_same_port = to.port.unwrap_or(transport.default_port()) == flow.remote.port();
    // A connection from the other end has any source port.
    let is_theirs = asked.is_none() && flow.transport.is_stream();
    (ip == remote && is_same_transport && (is_same_port || is_theirs))
        || (is_inside(ip) && !is_inside(remote))
        // Another host means itself by such an address, as behind a forwarded port.
        || (ip.is_loopback() && !remote.is_loopback())
}

/// Returns true if an address is valid only in its own network.
fn is_inside(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            ip.is_private() || ip.is_loopback() || ip.is_link_local() || is_shared
        }
        IpAddr::V6(ip) => ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_kept_where_it_leads_to_the_next_hop_or_nothing_else_can() {
        let kept = |transport, remote: &str, asked: Option<&str>, uri: &str, is_route| {
            let local = "192.0.2.1:5060".parse().unwrap();
            let remote = remote.parse().unwrap();
            let flow = Flow { transport, local, remote, connection: None };
            let next = NextHop { uri: uri.as_bytes(), is_route };
            keeps(&flow, asked.map(str::as_bytes), next)
        };
        let (udp, tcp, tls) = (Transport::Udp, Transport::Tcp, Transport::Tls);
        let proxy = "203.0.113.1:5060";
        for (expected, transport, remote, asked, uri, is_route) in [
            // The same location.
            (true, udp, proxy, None, "sip:a@203.0.113.1", false),
            (true, udp, proxy, Some("sip:b"), "sip:203.0.113.1:5060;lr", true),
            (true, udp, proxy, Some("sip:b"), "sip:x@b", false),
            (true, tcp, "203.0.113.1:4711", None, "sip:a@203.0.113.1:5060;transport=tcp", false),
            // Another port, host, transport, name.
            (false, udp, proxy, Some("sip:b"), "sip:a@203.0.113.1:5071", false),
            (false, udp, proxy, None, "sip:a@203.0.113.2", false),
            (false, udp, proxy, Some("sip:b"), "sip:a@203.0.113.1;transport=tcp", false),
            (false, tcp, proxy, Some("sip:b"), "sip:a@203.0.113.1:5071;transport=tcp", false),
            (false, udp, proxy, Some("sip:b"), "sip:c", false),
            (false, udp, proxy, Some("sip:b"), "sip:198.51.100.1;lr", true),
            // No location can work.
            (true, udp, proxy, Some("sip:b"), "sip:a@10.0.0.1:5071", false),
            (true, udp, proxy, Some("sip:b"), "sip:a@0.0.0.0", false),
            (true, udp, "10.0.2.2:5060", Some("sip:b"), "sip:127.0.0.1:5060;lr", true),
            (true, udp, proxy, Some("sip:b"), "sip:a@x.invalid", false),
            (true, tls, proxy, Some("sips:b"), "sip:a@198.51.100.1:5071", false),
            (true, Transport::Wss, proxy, None, "sip:a@c", false),
            (true, udp, proxy, Some("sip:b"), "tel:1", false),
        ] {
            let found = kept(transport, remote, asked, uri, is_route);
            assert_eq!(found, expected, "{transport:?} {remote} {asked:?} {uri}");
        }
    }
}
