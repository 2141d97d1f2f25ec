//! Calls to the slots of parked calls with the name of another party, and calls that wait for the
//! hook of an operator, from many sources and in the name of a trunk.

use crate::client::{Client, status};
use peers::server::{DOMAIN, Options, ServerProcess, TRUSTS_NOBODY};
use peers::test_server::{PASSWORD, TestServer};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;
use test_support::agent::{Agent, SESSION};

/// The number of sources of an attack.
const SOURCES: u8 = 20;

/// The clients of strangers, each at an address of its own.
fn strangers(server: &ServerProcess) -> impl Iterator<Item = Client> {
    let server = server.address();
    (1..=SOURCES).map(move |host| Client::udp(([127, 0, 1, host], 0).into(), server))
}

#[test]
fn a_forged_party_of_a_parked_call_gets_nothing_and_loses_no_slot() {
    let exchange = TestServer::with(
        &format!(
            "{TRUSTS_NOBODY}[media]\nports = \"33600-33699\"\n\
             [media_server]\nenabled = true\npark = [\"70\"]\npark_time = \"2s\"\n"
        ),
        &[],
    );
    let server = &exchange.server;
    let (mut alice, mut bob) = (exchange.agent("alice"), exchange.agent("bob"));
    let slot = |digit: usize| format!("sip:70{digit}@{DOMAIN};parked-by=alice");
    for mut client in strangers(server) {
        let referrer = format!("Referred-By: <sip:alice@{DOMAIN}>\r\n");
        for (from, expected) in [("sip:x@foreign.test", 403), ("sip:alice@barebell.test", 407)] {
            let invite = client.request("INVITE", &slot(1), from, &referrer);
            let answer = client.ask(&invite).expect("a response");
            assert_eq!(status(&answer), Some(expected), "{answer}");
        }
    }
    assert_eq!(server.counter("calls-parked"), 0);
    // A user parks its own calls in the name of another one.
    let mut statuses = Vec::new();
    for digit in 1..=6 {
        let mut dialog = bob.dialog(&slot(digit));
        bob.ask(&mut dialog, "INVITE", "", SESSION);
        let answer = bob.final_response("INVITE");
        if answer.status() == Some(200) {
            bob.acknowledge(&answer.dialog(), &answer);
        }
        statuses.extend(answer.status());
    }
    assert_eq!(statuses, [200, 200, 200, 200, 486, 486]);
    assert_eq!(server.counter("calls-parked"), 4);
    // The calls return: bob is asked to call alice, with its own rights.
    let refer = bob.request("REFER");
    assert!(refer.to_string().contains(&format!("Refer-To: <sip:alice@{DOMAIN}>")), "{refer}");
    for method in ["INVITE", "REFER"] {
        assert!(alice.request_if_any(method).is_none(), "{method}");
    }
    let mut dialog = alice.dialog(&server.uri("709"));
    alice.ask(&mut dialog, "INVITE", "", SESSION);
    assert_eq!(alice.final_response("INVITE").status(), Some(200), "her share is her own");
}

/// A hook that answers nothing. Returns its URL, and the contents of its requests.
fn silent_hook() -> (String, Receiver<String>) {
    hook(b"")
}

/// A hook that sends `answer` to each request. Returns its URL, and the contents of its requests.
fn hook(answer: &'static [u8]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a socket can be bound");
    let url = format!("http://{}/", listener.local_addr().expect("the socket is bound"));
    let (seen, contents) = channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            let (mut received, mut part) = (Vec::new(), [0; 4096]);
            while !received.ends_with(b"}") {
                let length = connection.read(&mut part).expect("a request");
                received.extend_from_slice(&part[..length]);
            }
            let _ = connection.write_all(answer);
            let _ = seen.send(String::from_utf8_lossy(&received).into_owned());
            open.push(connection);
        }
    });
    (url, contents)
}

#[test]
fn calls_that_wait_for_the_hook_are_few_in_the_name_of_a_trunk_and_none_of_strangers() {
    const MOST: usize = 8;
    let (url, contents) = silent_hook();
    // The address of the provider, which an attacker forges.
    let forged = UdpSocket::bind(("127.0.0.2", 0)).expect("a socket can be bound");
    let provider = forged.local_addr().expect("the socket is bound");
    let configuration = format!(
        "{TRUSTS_NOBODY}foreign_rate = 1000\n[media]\nports = \"33700-33799\"\n\
         [[trunks]]\nname = \"uplink\"\nhost = \"{provider}\"\nprobe_interval = false\n\
         [numbers]\ncountry = \"49\"\n\
         [[numbers.rules]]\nname = \"out\"\nprefix = \"+49\"\ntrunks = [\"uplink\"]\n\
         [[numbers.did]]\nname = \"in\"\nnumber = \"+4930111\"\nto = \"user:bob\"\n\
         [numbers.hook]\nurl = \"{url}\"\ntimeout = \"5s\"\nfallback = \"refuse\"\n\
         max_waiting = {MOST}\n"
    );
    let users = ["alice", "bob"].map(|name| (name.to_owned(), PASSWORD.to_owned()));
    let options = Options { configuration: &configuration, users: &users, ..Options::default() };
    let server = ServerProcess::start(&options);
    server.wait_for_line("trunk uplink: requests go to");
    let [mut alice, mut bob] = ["alice", "bob"].map(|name| {
        let mut agent = Agent::new(name, PASSWORD, DOMAIN, server.address());
        agent.register();
        agent
    });
    for mut client in strangers(&server) {
        let invite = client.request("INVITE", &server.uri("+4989123"), "sip:x@foreign.test", "");
        let answer = client.ask(&invite).expect("a response");
        assert_eq!(status(&answer), Some(403), "{answer}");
    }
    assert!(contents.try_recv().is_err(), "the hook is not asked");
    forged.connect(server.address()).expect("the server is reachable");
    let mut client = Client::of_socket(forged.try_clone().expect("a second handle"));
    let mut sent = 0;
    for _ in 0..40 {
        let from = "sip:+49151@provider.test";
        let invite = client.request("INVITE", &server.uri("+4930111"), from, "");
        sent += invite.len();
        client.send(&invite).expect("it is sent");
    }
    let next = || contents.recv_timeout(Duration::from_secs(30)).expect("a question");
    let mut dialog = alice.dialog(&server.uri("+4989123"));
    alice.ask(&mut dialog, "INVITE", "", SESSION);
    alice.response("INVITE", 100);
    let mut forgeries = 0;
    while next().contains("\"direction\":\"in\"") {
        forgeries += 1;
    }
    assert!((1..=MOST / 4).contains(&forgeries), "{forgeries} of 40 calls wait");
    assert_eq!(alice.final_response("INVITE").status(), Some(480), "the fallback");
    assert!(bob.request_if_any("INVITE").is_none());
    // The responses are no more than any other source gets.
    let (mut received, mut datagram) = (0, [0; 65_536]);
    forged.set_read_timeout(Some(Duration::from_secs(1))).expect("it can be set");
    while let Ok(length) = forged.recv(&mut datagram) {
        received += length;
    }
    assert!(received <= 3 * sent, "{received} bytes for {sent}");
}

/// The phone of `user` registers on TCP, with a place in a push notification service, and goes to
/// sleep: its connection ends.
fn put_to_sleep(server: &ServerProcess, user: &str) {
    let mut phone = Client::tcp([127, 0, 0, 1].into(), server.address()).expect("a connection");
    let contact = format!(
        "Contact: <sip:{user}@192.0.2.9;transport=tcp;pn-provider=test;pn-prid=of-{user}>\r\n"
    );
    let uri = format!("sip:{DOMAIN}");
    let answer = phone.log_in("REGISTER", &uri, user, PASSWORD, &contact).expect("a response");
    assert_eq!(status(&answer), Some(200), "{answer}");
    drop(phone);
    let _ = server.wait_for_registrations(user, 1);
}

#[test]
fn calls_to_one_user_leave_places_for_calls_to_other_phones_that_sleep() {
    const MOST: u64 = 40;
    const OF_EACH: u64 = 5;
    let (url, contents) = hook(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    let configuration = format!(
        "{TRUSTS_NOBODY}foreign_rate = 1000\n[push]\nurl = \"{url}\"\nproviders = [\"test\"]\n\
         wait = \"30s\"\nmax_waiting = {MOST}\n"
    );
    let users = ["alice", "bob", "carol"].map(|name| (name.to_owned(), PASSWORD.to_owned()));
    let options = Options { configuration: &configuration, users: &users, ..Options::default() };
    let server = ServerProcess::start(&options);
    put_to_sleep(&server, "bob");
    put_to_sleep(&server, "carol");
    for mut client in strangers(&server) {
        for _ in 0..OF_EACH {
            let invite = client.request("INVITE", &server.uri("bob"), "sip:x@foreign.test", "");
            client.send(&invite).expect("it is sent");
        }
    }
    let next = || contents.recv_timeout(Duration::from_secs(30)).expect("a notification");
    assert!(next().contains("of-bob"));
    server.wait_for_count("push-refused", u64::from(SOURCES) * OF_EACH - MOST / 4);
    let mut alice = Agent::new("alice", PASSWORD, DOMAIN, server.address());
    alice.register();
    let mut dialog = alice.dialog(&server.uri("carol"));
    alice.ask(&mut dialog, "INVITE", "", SESSION);
    assert!(next().contains("of-carol"), "the phone of carol is notified");
    alice.cancel();
    alice.response("INVITE", 487);
}
