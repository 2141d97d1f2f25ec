//! Phones that are hard to reach: those that sleep until a push notification wakes them, those that
//! are away when a message comes, and those behind mappings and connections that need keep-alives.

use peers::phone::Kind::Barebell;
use peers::phone::{Account, Action, Event, Phone};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use peers::transport::Transport::{Tcp, Udp};
use serde_json::Value;
use sip::HeaderName;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The longest time until the server calls the hook.
const SOON: Duration = Duration::from_secs(10);

/// An HTTP server that a hook of the server calls.
struct Hook {
    address: SocketAddr,
    requests: Receiver<Value>,
}

impl Hook {
    /// Starts a server that answers each request with `status`.
    fn answering(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("a bound socket");
        let (sender, requests) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if serve(stream, status, &sender).is_none() {
                    return;
                }
            }
        });
        Self { address, requests }
    }

    /// The section of the configuration.
    fn section(&self) -> String {
        format!(
            "{TRUSTS_NOBODY}[push]\nurl = \"http://{}/push\"\nproviders = [\"test\"]\n",
            self.address
        )
    }

    /// The next request.
    fn next(&self) -> Value {
        self.requests.recv_timeout(SOON).expect("the server calls the hook")
    }
}

/// Answers the request on `stream`, and passes its JSON to `requests`.
fn serve(stream: TcpStream, status: u16, requests: &Sender<Value>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let response = format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    reader.get_mut().write_all(response.as_bytes()).ok()?;
    requests.send(serde_json::from_slice(&body).ok()?).ok()
}

/// The account of bob's phone, which has a push notification service.
fn sleeper(exchange: &TestServer) -> Account {
    Account { options: "--push test:T0KEN".to_owned(), ..exchange.account("bob", Tcp) }
}

/// Bob's phone registers and goes to sleep: it is killed, and its connection ends.
fn put_to_sleep(exchange: &TestServer) {
    let mut phone = Phone::registered(Barebell, sleeper(exchange));
    phone.kill();
}

#[test]
fn a_phone_that_sleeps_is_woken_and_rings_after_its_register() {
    let hook = Hook::answering(204);
    let exchange = TestServer::with(&hook.section(), &[]);
    put_to_sleep(&exchange);
    let mut alice = exchange.phone(Barebell, "alice", Udp);
    assert_eq!(exchange.server.registrations_of("bob").len(), 1, "the binding stays");
    alice.act(&Action::Dial(exchange.server.uri("bob")));
    let request = hook.next();
    assert_eq!(request["provider"], "test");
    assert_eq!(request["prid"], "T0KEN");
    assert_eq!(request["reason"], "call");
    assert!(request["user"].as_str().is_some_and(|user| user.starts_with("bob@")), "{request}");
    // The notification wakes the phone.
    let mut bob = Phone::start(Barebell, sleeper(&exchange));
    bob.act(&Action::Register);
    bob.wait_for(Event::Incoming);
    alice.wait_for(Event::Ringback);
    bob.act(&Action::Answer);
    alice.wait_for(Event::Established);
    alice.act(&Action::HangUp);
    bob.wait_for(Event::Ended);
    assert_eq!(exchange.server.registrations_of("bob").len(), 1, "its token names the phone");
    assert_eq!(hook.requests.try_recv().ok(), None, "one notification");
}

#[test]
fn a_call_fails_at_once_if_the_hook_fails() {
    let hook = Hook::answering(500);
    let exchange = TestServer::with(&hook.section(), &[]);
    put_to_sleep(&exchange);
    let mut alice = exchange.phone(Barebell, "alice", Udp);
    alice.act(&Action::Dial(exchange.server.uri("bob")));
    hook.next();
    alice.wait_for(Event::Ended);
    alice.wait_for_status("INVITE", &[480]);
    assert_eq!(exchange.server.counter("push-failures"), 1);
}

#[test]
fn a_phone_that_does_not_come_back_is_unavailable_after_the_wait() {
    let hook = Hook::answering(200);
    let exchange = TestServer::with(&format!("{}wait = \"1s\"\n", hook.section()), &[]);
    put_to_sleep(&exchange);
    let mut alice = exchange.phone(Barebell, "alice", Udp);
    alice.act(&Action::Dial(exchange.server.uri("bob")));
    hook.next();
    alice.wait_for(Event::Ended);
    alice.wait_for_status("INVITE", &[480]);
    let late = hook.requests.recv_timeout(Duration::from_millis(10));
    assert_eq!(late, Err(RecvTimeoutError::Timeout));
}

#[test]
fn phones_get_keep_alives_and_a_silent_connection_ends() {
    let keep_alive =
        format!("keepalive = \"options\"\nkeepalive_interval = \"5s\"\n{TRUSTS_NOBODY}");
    let exchange = TestServer::with(&keep_alive, &[]);
    let mut alice = exchange.agent("alice");
    let mut bob = exchange.phone(Barebell, "bob", Tcp);
    let options = alice.request("OPTIONS");
    let own = alice.dialog("sip:server");
    alice.answer(&options, &own, 200, "", "");
    bob.pause();
    let _ = exchange.server.wait_for_registrations("bob", 0);
    assert_eq!(exchange.server.counter("silent-connections"), 1);
    assert!(exchange.server.counter("keep-alive-responses") >= 1);
    assert_eq!(exchange.server.registrations_of("alice").len(), 1, "a datagram needs no response");
}

#[test]
fn the_operator_sees_and_ends_registrations() {
    let exchange = TestServer::without_trusted_sources();
    let _bob = exchange.phone(Barebell, "bob", Tcp);
    let row = exchange.server.rows(&["registrations", "--json"]).remove(0);
    let agent = row["user_agent"].as_str().unwrap_or_default();
    assert!(agent.starts_with("barebell-phone/"), "{row}");
    let said = exchange.server.run(&["registrations", "end", "bob"]);
    assert!(said.starts_with("ended the registration of bob@"), "{said}");
    assert!(exchange.server.registrations_of("bob").is_empty());
}

#[test]
fn messages_wait_for_a_phone_that_is_away_and_come_in_order() {
    let mut exchange = TestServer::with(&format!("{TRUSTS_NOBODY}[messages]\nkeep = true\n"), &[]);
    let mut alice = exchange.agent("alice");
    for text in ["one", "two", "three"] {
        let mut dialog = alice.dialog(&exchange.server.uri("bob"));
        alice.ask(&mut dialog, "MESSAGE", "", text);
        alice.response("MESSAGE", 202);
    }
    exchange.server.stop();
    exchange.server.restart();
    let mut bob = exchange.agent("bob");
    for text in ["one", "two", "three"] {
        let message = bob.request("MESSAGE");
        assert_eq!(message.message().body(), text.as_bytes());
        assert!(message.value(HeaderName::Date).ends_with("GMT"));
        assert!(message.value(HeaderName::From).starts_with("<sip:alice@"));
        let own = bob.dialog("sip:server");
        bob.answer(&message, &own, 200, "", "");
    }
    exchange.server.wait_for_count("messages-delivered", 3);
}
