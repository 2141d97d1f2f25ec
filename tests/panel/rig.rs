//! A server with a panel, and an HTTP client for it.

use net::Wire;
use net::tls::{Client, ServerName, Trust};
use peers::test_server::TestServer;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use test_support::ports::free_ports;

/// The password of the administrator.
pub(crate) const PASSWORD: &str = "correct horse battery";

/// The time limit of waiting for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with a panel.
pub(crate) struct Rig {
    pub(crate) exchange: TestServer,
    pub(crate) address: SocketAddr,
    /// The trust in the listener for HTTP, if it has TLS.
    tls: Option<Client>,
}

/// A response.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Response {
    /// The value of a header field; empty without the field.
    pub(crate) fn field(&self, name: &str) -> &str {
        let fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|it| it.1)
            .next()
            .unwrap_or("")
    }
}

impl Rig {
    /// A server with a panel, and with `more` in its configuration.
    pub(crate) fn new(more: &str) -> Self {
        Self::with(&format!("[panel]\nenabled = true\n{more}"))
    }

    /// A server that listens for HTTP, with `more` in its configuration.
    pub(crate) fn with(more: &str) -> Self {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_ports(1)));
        let settings = format!("[http]\nlisten = \"{address}\"\n{more}");
        Self { exchange: TestServer::with(&settings, &[]), address, tls: None }
    }

    /// A server with a panel, with TLS.
    pub(crate) fn secure(more: &str) -> Self {
        let port = free_ports(1);
        let settings =
            format!("[http]\nlisten = \"0.0.0.0:{port}\"\n[panel]\nenabled = true\n{more}");
        let exchange = TestServer::with(&settings, &[]);
        let trust = Trust::Issuers(exchange.server.certificate());
        let tls = Client::new(&trust, None, false).expect("the server has made a certificate");
        Self { exchange, address: (Ipv4Addr::LOCALHOST, port).into(), tls: Some(tls) }
    }

    /// The link of the log that makes the first administrator: its path.
    pub(crate) fn setup_path(&self) -> String {
        let line = self.exchange.server.wait_for_line("make the first administrator");
        let url = line.rsplit(' ').next().expect("the line has words");
        let root = format!("http://{}", self.address);
        url.strip_prefix(&root).unwrap_or_else(|| panic!("{line}")).to_owned()
    }

    /// The cookie of a new administrator `eve`.
    pub(crate) fn set_up(&self) -> String {
        let path = self.setup_path();
        let key = path.split_once("key=").expect("the link has a key").1;
        let form = format!("key={key}&name=eve&new={PASSWORD}&again={PASSWORD}");
        let response = self.post("/panel/setup", "", &form);
        assert_eq!(response.status, 303, "{response:?}");
        cookie(&response)
    }

    /// The response to the bytes of a request. An empty head if the connection ends without one.
    pub(crate) fn send(&self, text: &str) -> Response {
        let mut socket = TcpStream::connect(self.address).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a time limit can be set");
        let session = self.tls.as_ref().map(|tls| {
            let name = ServerName::from(self.address.ip());
            tls.connect_web(name).expect("a handshake begins")
        });
        let mut wire = Wire::new(session, 1 << 20);
        let (mut request, mut answer, mut chunk) = (Some(text.as_bytes()), Vec::new(), [0; 4096]);
        while !wire.has_ended() {
            if wire.is_ready()
                && let Some(request) = request.take()
            {
                wire.push(&[request]).expect("the request is short");
            }
            // A server that refuses the request may have closed the connection.
            let _ = socket.write_all(wire.pending());
            wire.consume(wire.pending().len());
            let Ok(count @ 1..) = socket.read(&mut chunk) else { break };
            let plain = wire.receive(&chunk[..count]).expect("the server has TLS");
            answer.extend_from_slice(&plain);
        }
        let answer = String::from_utf8(answer).expect("the response is text");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
        Response { status, head: head.to_owned(), body: body.to_owned() }
    }

    /// The response to a request with these lines of header fields.
    pub(crate) fn request(&self, method: &str, path: &str, fields: &str, body: &str) -> Response {
        let (address, length) = (self.address, body.len());
        self.send(&format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{fields}\r\n{body}"
        ))
    }

    pub(crate) fn get(&self, path: &str, cookie: &str) -> Response {
        self.request("GET", path, &format!("Cookie: {cookie}\r\n"), "")
    }

    pub(crate) fn post(&self, path: &str, cookie: &str, form: &str) -> Response {
        let fields = format!(
            "Cookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Origin: http://{}\r\n",
            self.address
        );
        self.request("POST", path, &fields, &form.replace(' ', "+"))
    }

    /// Sends a form of a session, with the value that its pages have.
    pub(crate) fn post_form(&self, path: &str, cookie: &str, form: &str) -> Response {
        let csrf = self.csrf(cookie);
        self.post(path, cookie, &format!("csrf={csrf}&{form}"))
    }

    pub(crate) fn csrf(&self, cookie: &str) -> String {
        self.csrf_of("/panel/calls", cookie)
    }

    /// The value in the forms of the page at `path`.
    pub(crate) fn csrf_of(&self, path: &str, cookie: &str) -> String {
        let fields = format!("Cookie: {cookie}\r\nX-Poll: 1\r\n");
        let page = self.request("GET", path, &fields, "").body;
        let rest = page.split_once("name=\"csrf\" value=\"").expect("a page of a session").1;
        rest.split('"').next().expect("a text has a first part").to_owned()
    }

    /// A new token of `role`.
    pub(crate) fn token(&self, role: &str) -> String {
        let server = &self.exchange.server;
        server.run(&["token", "add", role, "--role", role]).trim().to_owned()
    }

    pub(crate) fn api(&self, token: &str, method: &str, path: &str, body: &str) -> Response {
        let fields = format!("Authorization: Bearer {token}\r\nContent-Type: application/json\r\n");
        self.request(method, &format!("/api/v1{path}"), &fields, body)
    }
}

/// The cookie that a response sets.
pub(crate) fn cookie(response: &Response) -> String {
    response.field("set-cookie").split(';').next().expect("a text has a first part").to_owned()
}
