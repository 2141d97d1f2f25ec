//! The input of a connection, for both framings: streams and WebSocket.

use super::documents::Document;
use super::origins::Origins;
use sip::stream::websocket::{
    self, ClientField, InvalidHops, Kind, Refused, Role, Upgrade, WebSocketItem,
};
use sip::stream::{Fault, FrameError, Input, Progress, StreamItem};
use std::fmt;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The handling of the header field with which a proxy names its client.
#[derive(Clone)]
pub struct Hops {
    /// The header field.
    pub field: ClientField,
    /// True if the proxy must send it.
    pub is_required: bool,
    /// Returns true for the address of a proxy.
    pub is_proxy: Arc<dyn Fn(IpAddr) -> bool + Send + Sync>,
}

impl fmt::Debug for Hops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, is_required, .. } = self;
        f.debug_struct("Hops")
            .field("field", field)
            .field("is_required", is_required)
            .finish_non_exhaustive()
    }
}

impl Hops {
    /// The client of `upgrade`, if it names one.
    fn client(&self, upgrade: &Upgrade) -> Result<Option<Client>, Refused> {
        let hops = upgrade.hops(self.field);
        if hops.is_empty() && !self.is_required {
            return Ok(None);
        }
        let client = self.field.client(hops, |address| (self.is_proxy)(address));
        client.map(Some).map_err(|InvalidHops| Refused::Forwarded)
    }
}

/// The address of a client, with its port if known.
type Client = (IpAddr, Option<u16>);

/// The receiving side of a connection, above TLS.
#[derive(Debug)]
pub enum Reader {
    /// Messages on a stream, framed by Content-Length.
    Stream(Input),
    /// WebSocket in the client role. Contains the nonce of the request.
    WebClient(websocket::Input, [u8; 16]),
    /// WebSocket in the server role. Contains the allowed origins, the documents for GET requests
    /// and, for a proxy, the handling of its header field.
    WebServer(websocket::Input, Arc<Origins>, &'static [Document], Option<Hops>),
}

impl Default for Reader {
    fn default() -> Self {
        Self::Stream(Input::default())
    }
}

/// A reaction of the framing layer, to be passed to [`Wire::reply`](crate::Wire::reply).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// Bytes to be sent unchanged.
    Bytes(Vec<u8>),
    /// A WebSocket frame to be sent.
    Frame(Kind, Vec<u8>),
    /// Nothing to be sent: from now on messages can be sent.
    Open,
    /// Nothing to be sent: the peer is a proxy, and this is its client, with the port if known.
    Client(IpAddr, Option<u16>),
}

impl Reader {
    /// WebSocket in the client role, opened by a request with `nonce`.
    #[must_use]
    pub const fn web_client(nonce: [u8; 16]) -> Self {
        Self::WebClient(websocket::Input::new(Role::Client), nonce)
    }

    /// WebSocket in the server role, for pages of `origins`.
    #[must_use]
    pub const fn web_server(origins: Arc<Origins>) -> Self {
        Self::WebServer(websocket::Input::new(Role::Server), origins, &[], None)
    }

    /// Notes that the peer is a proxy, which names its client as `hops` says. Must be called before
    /// the first [`receive`](Self::receive).
    pub fn expect_hops(&mut self, hops: Hops) {
        if let Self::WebServer(_, _, _, expected) = self {
            *expected = Some(hops);
        }
    }

    /// Answers GET and HEAD requests with `documents`. Must be called before the first
    /// [`receive`](Self::receive).
    pub const fn serve(&mut self, documents: &'static [Document]) {
        if let Self::WebServer(_, _, served, _) = self {
            *served = documents;
        }
    }

    /// Takes the `new` bytes, passes each complete message to `visit` until that breaks off, and
    /// passes the reactions of the framing layer to `reply`.
    ///
    /// # Errors
    /// [`Fault`] if the connection cannot go on.
    pub fn receive(
        &mut self,
        new: &[u8],
        mut visit: impl FnMut(StreamItem<'_>) -> ControlFlow<()>,
        mut reply: impl FnMut(Reply),
    ) -> Result<Progress, Fault> {
        let (input, asks) = match self {
            Self::Stream(input) => return input.receive(new, visit),
            Self::WebClient(input, nonce) => (input, Asks::Client(*nonce)),
            Self::WebServer(input, origins, documents, hops) => {
                (input, Asks::Server(origins, documents, hops.as_ref()))
            }
        };
        let (mut refusal, mut is_page) = (None, false);
        let progress = input.receive(new, |said| match said {
            WebSocketItem::Head(head) => {
                let (answer, verdict, client) = asks.answer(head);
                client.into_iter().for_each(|(address, port)| reply(Reply::Client(address, port)));
                answer.into_iter().for_each(|bytes| reply(Reply::Bytes(bytes)));
                match verdict {
                    Verdict::Open => {
                        reply(Reply::Open);
                        return ControlFlow::Continue(());
                    }
                    Verdict::Page => is_page = true,
                    Verdict::Refused(why) => refusal = Some(why),
                }
                ControlFlow::Break(())
            }
            WebSocketItem::Message(bytes) => {
                match bytes.iter().all(|byte| b"\r\n".contains(byte)) {
                    // Some clients send the keep-alive of streams (RFC 5626 section 3.5.1).
                    true if bytes.len() >= b"\r\n\r\n".len() => visit(StreamItem::Ping),
                    true => ControlFlow::Continue(()),
                    false => visit(StreamItem::Message(bytes)),
                }
            }
            WebSocketItem::Control(Kind::Ping, payload) => {
                reply(Reply::Frame(Kind::Pong, payload.to_vec()));
                ControlFlow::Continue(())
            }
            WebSocketItem::Control(Kind::Close, payload) => {
                reply(Reply::Frame(Kind::Close, payload.to_vec()));
                ControlFlow::Break(())
            }
            WebSocketItem::Control(..) => ControlFlow::Continue(()),
        });
        let fault = match (progress, refusal) {
            (progress, None) if is_page || progress.is_ok() => return progress,
            (_, Some(what)) => Fault { error: FrameError::WebSocket(what), rest: Vec::new() },
            (Err(fault), None) => fault,
            (Ok(progress), None) => return Ok(progress),
        };
        if refusal.is_none() {
            // RFC 6455 section 7.4.1.
            let code: u16 = if fault.error == FrameError::TooLong { 1009 } else { 1002 };
            reply(Reply::Frame(Kind::Close, code.to_be_bytes().to_vec()));
        }
        Err(fault)
    }
}

/// The side of the WebSocket handshake.
enum Asks<'r> {
    Client([u8; 16]),
    Server(&'r Origins, &'static [Document], Option<&'r Hops>),
}

/// The result of an HTTP request or response.
enum Verdict {
    /// The connection becomes WebSocket.
    Open,
    /// The connection ends, because a page was requested.
    Page,
    /// The connection ends, for this reason.
    Refused(&'static str),
}

impl Asks<'_> {
    /// Handles the `head` of a request or response. Returns the answer, if there is one, the
    /// result, and the client of the proxy.
    fn answer(&self, head: &[u8]) -> (Option<Vec<u8>>, Verdict, Option<Client>) {
        match self {
            Self::Client(nonce) if websocket::is_accepted(head, *nonce) => {
                (None, Verdict::Open, None)
            }
            Self::Client(_) => {
                let why = "the other end does not speak SIP over WebSocket there";
                (None, Verdict::Refused(why), None)
            }
            Self::Server(origins, documents, hops) => {
                let upgrade = Upgrade::parse(head).and_then(|upgrade| {
                    let client = hops.map(|hops| hops.client(&upgrade)).transpose()?.flatten();
                    match origins.allow(&upgrade) {
                        true => Ok((upgrade, client)),
                        false => Err(Refused::Origin),
                    }
                });
                match upgrade {
                    Ok((upgrade, client)) => {
                        (Some(websocket::accept(&upgrade)), Verdict::Open, client)
                    }
                    Err(page @ Refused::Page { is_head }) => {
                        let path = websocket::requested_path(head);
                        let document = documents.iter().find(|one| one.path.as_bytes() == path);
                        let answer = document.map(|document| document.answer(is_head));
                        (Some(answer.unwrap_or_else(|| page.answer())), Verdict::Page, None)
                    }
                    Err(refused) => {
                        (Some(refused.answer()), Verdict::Refused(what_was_asked(refused)), None)
                    }
                }
            }
        }
    }
}

const fn what_was_asked(refused: Refused) -> &'static str {
    match refused {
        Refused::Origin => {
            "the page's origin is not allowed, or Host is not a name of this server \
             (websocket.origins)"
        }
        Refused::Forwarded => {
            "the request of a proxy has no client address in X-Forwarded-For, or in the header of \
             limits.proxy_header (limits.proxies)"
        }
        Refused::Malformed => "the data is not an HTTP request",
        _ => "the HTTP request is not for SIP over WebSocket",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Wire;

    /// Passes everything pending in `from` to `reader`, and its reactions to `to`.
    fn carry(from: &mut Wire, reader: &mut Reader, to: &mut Wire) -> (Vec<Vec<u8>>, bool) {
        let bytes = from.pending().to_vec();
        from.consume(bytes.len());
        let mut heard = Vec::new();
        let received = reader.receive(
            &bytes,
            |what| {
                heard.push(match what {
                    StreamItem::Message(bytes) => bytes.to_vec(),
                    StreamItem::Ping => Vec::new(),
                });
                ControlFlow::Continue(())
            },
            |reply| to.reply(reply),
        );
        (heard, received.is_ok_and(|progress| !progress.is_over))
    }

    fn ends(origins: Origins) -> [(Wire, Reader); 2] {
        let nonce = [3; 16];
        let client = Wire::new(None, 1 << 20).web_client("example.org", nonce);
        let server = Wire::new(None, 1 << 20).web_server();
        [(client, Reader::web_client(nonce)), (server, Reader::web_server(Arc::new(origins)))]
    }

    #[test]
    fn messages_go_both_ways_over_web_socket() {
        let [(mut client, mut from_server), (mut server, mut from_client)] =
            ends(Origins::SameHost);
        assert!(!client.is_ready() && !server.is_ready());
        assert_eq!(carry(&mut client, &mut from_client, &mut server), (vec![], true));
        assert_eq!(carry(&mut server, &mut from_server, &mut client), (vec![], true));
        assert!(client.is_ready() && server.is_ready());
        client.push(&[&b"one"[..], b"two", b"\r\n\r\n", b"\r\n"]).unwrap();
        let heard = vec![b"one".to_vec(), b"two".to_vec(), Vec::new()];
        assert_eq!(carry(&mut client, &mut from_client, &mut server), (heard, true));
        server.push(&[&[b'x'; 70][..]]).unwrap();
        server.reply(Reply::Frame(Kind::Ping, b"?".to_vec()));
        assert_eq!(carry(&mut server, &mut from_server, &mut client), (vec![vec![b'x'; 70]], true));
        // The pong, which contains no message.
        assert!(!client.is_empty());
        assert_eq!(carry(&mut client, &mut from_client, &mut server), (vec![], true));
        client.reply(Reply::Frame(Kind::Close, 1000_u16.to_be_bytes().to_vec()));
        assert_eq!(carry(&mut client, &mut from_client, &mut server), (vec![], false));
        assert_eq!(carry(&mut server, &mut from_server, &mut client), (vec![], false));
    }

    #[test]
    fn a_proxy_names_its_client() {
        let asked = String::from_utf8(websocket::request("example.org", [1; 16])).unwrap();
        let with = |hops: &str| asked.replace("\r\n\r\n", &format!("\r\n{hops}\r\n\r\n"));
        let client = |address: &str, port| Some((address.parse().unwrap(), port));
        let forwarded = "X-Forwarded-For: 6.6.6.6, 192.0.2.1:7\r\nX-Forwarded-For: 127.0.0.1";
        let x = ClientField::XForwardedFor;
        let both = "X-Forwarded-For: 6.6.6.6\r\nForwarded: for=192.0.2.2";
        for (field, request, is_required, wanted, status) in [
            (x, with(forwarded), true, client("192.0.2.1", Some(7)), "101"),
            (x, with(forwarded), false, client("192.0.2.1", Some(7)), "101"),
            (x, with("X-Forwarded-For: 127.0.0.1"), true, client("127.0.0.1", None), "101"),
            (x, asked.clone(), false, None, "101"),
            (x, asked.clone(), true, None, "400"),
            (x, with("X-Forwarded-For: unknown"), true, None, "400"),
            (x, with("X-Forwarded-For: unknown"), false, None, "400"),
            (x, "GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), true, None, "200"),
            (x, with("Forwarded: for=192.0.2.1"), true, None, "400"),
            (ClientField::Forwarded, with(forwarded), true, None, "400"),
            (ClientField::Forwarded, with(both), true, client("192.0.2.2", None), "101"),
        ] {
            let [_, (mut server, mut reader)] = ends(Origins::Any);
            let is_proxy = Arc::new(|address: IpAddr| address.is_loopback());
            reader.expect_hops(Hops { field, is_required, is_proxy });
            let mut told = None;
            let _ = reader.receive(
                request.as_bytes(),
                |_| ControlFlow::Continue(()),
                |reply| match reply {
                    Reply::Client(address, port) => told = Some((address, port)),
                    reply => server.reply(reply),
                },
            );
            assert_eq!(told, wanted, "{request}");
            let answer = String::from_utf8_lossy(server.pending()).into_owned();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
    }

    #[test]
    fn documents_are_served_beside_websocket() {
        const PAGE: &[Document] =
            &[Document { path: "/a.js", kind: "text/javascript", text: "let a;" }];
        const NONE: &[Document] = &[];
        for (request, documents, wanted, body) in [
            ("GET /a.js HTTP/1.1", PAGE, true, "let a;"),
            ("GET /a.js?b HTTP/1.1", PAGE, true, "let a;"),
            ("HEAD /a.js HTTP/1.1", PAGE, true, ""),
            ("GET /b.js HTTP/1.1", PAGE, false, "This is a SIP server."),
            ("GET /a.js HTTP/1.1", NONE, false, "This is a SIP server."),
        ] {
            let [_, (mut server, mut reader)] = ends(Origins::SameHost);
            reader.serve(documents);
            let request = format!("{request}\r\nHost: a\r\n\r\n");
            let received = reader.receive(
                request.as_bytes(),
                |_| ControlFlow::Continue(()),
                |reply| server.reply(reply),
            );
            assert!(received.unwrap().is_over, "{request}");
            let answer = String::from_utf8_lossy(server.pending()).into_owned();
            let (head, found) = answer.split_once("\r\n\r\n").unwrap();
            assert!(found.starts_with(body) && found.is_empty() == body.is_empty(), "{answer}");
            assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
            assert_eq!(head.contains("\r\nContent-Length: 6\r\n") || head.ends_with(": 6"), wanted);
            for field in ["default-src 'none';", "frame-ancestors 'none';", "no-store", "nosniff"] {
                assert_eq!(head.contains(field), wanted, "{head}");
            }
        }
    }

    #[test]
    fn other_protocols_than_sip_over_websocket_are_refused() {
        let page = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".to_owned();
        let asked = String::from_utf8(websocket::request("example.org", [1; 16])).unwrap();
        let with =
            |origin: &str| asked.replace("\r\n\r\n", &format!("\r\nOrigin: {origin}\r\n\r\n"));
        let named = || Origins::Named(vec!["https://a.example".to_owned()]);
        let of = |host: &str| Origins::SameHostOf(vec![host.to_owned()]);
        for (origins, request, status) in [
            (Origins::SameHost, &page, "200"),
            (Origins::SameHost, &page.replace("GET", "POST"), "426"),
            (of("example.org"), &with("http://example.org:8080"), "101"),
            (of("example.com"), &with("http://example.org"), "403"),
            (of("example.com"), &asked, "101"),
            (Origins::SameHost, &with("https://example.org"), "101"),
            (Origins::SameHost, &with("https://a.example"), "403"),
            (named(), &with("https://A.example"), "101"),
            (named(), &with("https://example.org"), "403"),
            (named(), &asked, "101"),
            (Origins::Any, &with("null"), "101"),
        ] {
            let [_, (mut server, mut reader)] = ends(origins);
            let received = reader.receive(
                request.as_bytes(),
                |_| ControlFlow::Continue(()),
                |reply| server.reply(reply),
            );
            let is_over = received.as_ref().is_ok_and(|progress| progress.is_over);
            assert_eq!(received.is_ok(), ["101", "200"].contains(&status), "{request}");
            assert!(is_over || status != "200", "{request}");
            let answer = String::from_utf8_lossy(server.pending()).into_owned();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        }
    }
}
