//! Calls of an office through a provider, which is a second server, and from it. Another trunk of
//! the office is silent.

use peers::server::{Options, ServerProcess, TRUSTS_NOBODY};
use std::net::UdpSocket;
use test_support::agent::Agent;
use test_support::ports::free_ports;

/// The domain of the provider, which is also its digest realm.
const PROVIDER: &str = "provider.test";

/// The address of the provider and of the silent trunk. Users and strangers have another one.
const HOST: &str = "127.0.0.2";

const PASSWORD: &str = "secret";

/// A subscriber of the provider, and the account of the office there.
const SUBSCRIBER: &str = "4930456789";
const ACCOUNT: &str = "4930111";

/// The user of the office with a number.
const ALICE: &str = "alice";

/// The session description of both ends.
const SESSION: &str = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n\
                       m=audio 40000 RTP/AVP 0\r\n";

struct Office {
    office: ServerProcess,
    provider: ServerProcess,
    /// The port of the provider at [`HOST`].
    port: u16,
    /// The socket of the silent trunk.
    _silent: UdpSocket,
}

fn users(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|&name| (name.to_owned(), PASSWORD.to_owned())).collect()
}

impl Office {
    fn start() -> Self {
        let port = free_ports(1);
        let provider = ServerProcess::start(&Options {
            users: &users(&[SUBSCRIBER, ACCOUNT]),
            domain: PROVIDER,
            configuration: TRUSTS_NOBODY,
            arguments: &["--listen", &format!("udp:{HOST}:{port}")],
        });
        let silent = UdpSocket::bind((HOST, 0)).expect("a socket can be bound");
        let silent_port = silent.local_addr().expect("the socket is bound").port();
        let configuration = format!(
            "{TRUSTS_NOBODY}\
             [media]\nports = \"33000-33099\"\n\
             [[trunks]]\nname = \"silent\"\nhost = \"{HOST}:{silent_port}\"\n\
             probe_interval = false\nidentity = \"caller\"\n\
             [[trunks]]\nname = \"uplink\"\nhost = \"{HOST}:{port}\"\nprobe_interval = false\n\
             [[trunks.accounts]]\nuser = \"{ACCOUNT}\"\npassword = \"{PASSWORD}\"\n\
             domain = \"{PROVIDER}\"\n\
             [numbers]\ncountry = \"49\"\n\
             classes = [{{ name = \"premium\", prefixes = [\"+49900\"] }}]\n\
             [[numbers.rules]]\nname = \"Germany\"\nprefix = \"+49\"\nremove = \"+\"\n\
             trunks = [\"uplink\"]\n\
             [[numbers.rules]]\nname = \"Berlin\"\nprefix = \"+4930\"\nremove = \"+\"\n\
             trunks = [\"silent\", \"uplink\"]\n\
             [[numbers.did]]\nname = \"desk of alice\"\nnumber = \"+{ACCOUNT}\"\n\
             to = \"user:{ALICE}\"\n"
        );
        let office = ServerProcess::start(&Options {
            users: &users(&[ALICE, "bob"]),
            configuration: &configuration,
            ..Options::default()
        });
        office.wait_for_line("trunk silent: requests go to");
        office.wait_for_line("trunk uplink: requests go to");
        Self { office, provider, port, _silent: silent }
    }

    /// A registered user agent of the office.
    fn user(&self, name: &str) -> Agent {
        let mut agent = Agent::new(name, PASSWORD, peers::server::DOMAIN, self.office.address());
        agent.register();
        agent
    }

    /// The registered user agent of the subscriber of the provider.
    fn subscriber(&self) -> Agent {
        let place = format!("{HOST}:{}", self.port).parse().expect("an address");
        let mut agent = Agent::new(SUBSCRIBER, PASSWORD, PROVIDER, place);
        agent.register();
        agent
    }
}

#[test]
fn a_call_goes_out_after_a_silent_trunk_and_is_recorded() {
    let office = Office::start();
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    let uri = office.office.uri(&format!("+{SUBSCRIBER}"));
    let mut here = alice.dialog(&uri);
    alice.ask(&mut here, "INVITE", "", SESSION);
    let invite = subscriber.request("INVITE");
    let from = invite.value(sip::HeaderName::From);
    assert!(from.starts_with(&format!("<sip:{ACCOUNT}@{PROVIDER}>;tag=")), "{from}");
    assert!(!invite.to_string().contains(ALICE), "{invite}");
    let there = subscriber.dialog_with(&invite);
    subscriber.answer(&invite, &there, 200, "", SESSION);
    let answer = alice.final_response("INVITE");
    assert_eq!(answer.status(), Some(200), "{answer}");
    let mut here = answer.dialog();
    alice.acknowledge(&here, &answer);
    subscriber.request("ACK");
    alice.send(&mut here, "BYE", "", "");
    let bye = subscriber.request("BYE");
    subscriber.answer(&bye, &there, 200, "", "");
    assert_eq!(alice.final_response("BYE").status(), Some(200));
    let said = format!("trunk silent: a call to {SUBSCRIBER} failed: no response; trunk uplink is");
    office.office.wait_for_line(&said);
    assert_eq!(office.office.counter("trunk-call-failures"), 1);
    let records = office.office.data().join("calls.jsonl");
    let records = peers::process::wait_until("the record of the call", || {
        let text = std::fs::read_to_string(&records).ok()?;
        text.contains("\"trunk\":\"uplink\"").then_some(text)
    });
    assert!(records.contains("\"trunk\":\"silent\""), "{records}");
    assert!(records.contains(&format!("\"caller\":\"sip:{ALICE}@")), "{records}");
}

#[test]
fn a_busy_callee_is_not_called_again_and_rights_end_at_the_plan() {
    let office = Office::start();
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    let mut here = alice.dialog(&office.office.uri(&format!("+{SUBSCRIBER}")));
    alice.ask(&mut here, "INVITE", "", SESSION);
    let invite = subscriber.request("INVITE");
    let there = subscriber.dialog_with(&invite);
    subscriber.answer(&invite, &there, 486, "", "");
    subscriber.request("ACK");
    assert_eq!(alice.final_response("INVITE").status(), Some(486));
    assert!(subscriber.request_if_any("INVITE").is_none());
    // A premium number.
    let mut here = alice.dialog(&office.office.uri("+49900123456"));
    alice.ask(&mut here, "INVITE", "", SESSION);
    assert_eq!(alice.final_response("INVITE").status(), Some(403));
    let line = office.office.wait_for_line("is refused: ");
    assert!(line.contains("Germany") && line.contains("premium"), "{line}");
    // The address of the provider, which would take the call for one of the office.
    let direct = format!("sip:{SUBSCRIBER}@{HOST}:{}", office.port);
    let mut here = alice.dialog(&direct);
    alice.ask(&mut here, "INVITE", "", SESSION);
    assert_eq!(alice.final_response("INVITE").status(), Some(480));
    // A stranger, also with the name of a user.
    for domain in ["elsewhere.test", peers::server::DOMAIN] {
        let mut stranger = Agent::stranger(ALICE, domain, office.office.address());
        let mut there = stranger.dialog(&office.office.uri(&format!("+{SUBSCRIBER}")));
        let asserted = format!("P-Asserted-Identity: <sip:{ALICE}@{}>\r\n", peers::server::DOMAIN);
        stranger.send(&mut there, "INVITE", &asserted, SESSION);
        let status = stranger.final_response("INVITE").status();
        assert!(matches!(status, Some(403 | 407)), "{domain}: {status:?}");
    }
    assert!(subscriber.request_if_any("INVITE").is_none());
}

#[test]
fn a_call_comes_in_from_the_trunk_to_the_numbers_of_the_office_alone() {
    let office = Office::start();
    let (mut alice, mut subscriber) = (office.user(ALICE), office.subscriber());
    let uri = office.office.uri(&format!("+{ACCOUNT}"));
    let mut there = subscriber.dialog(&uri);
    subscriber.ask(&mut there, "INVITE", "", SESSION);
    let invite = alice.request("INVITE");
    let here = alice.dialog_with(&invite);
    alice.answer(&invite, &here, 200, "", SESSION);
    let answer = subscriber.final_response("INVITE");
    assert_eq!(answer.status(), Some(200), "{answer}");
    let mut there = answer.dialog();
    subscriber.acknowledge(&there, &answer);
    alice.request("ACK");
    subscriber.send(&mut there, "BYE", "", "");
    let bye = alice.request("BYE");
    alice.answer(&bye, &here, 200, "", "");
    assert_eq!(subscriber.final_response("BYE").status(), Some(200));
    // Another number of the office, and a user by name.
    for name in ["+4930999", "bob"] {
        let mut there = subscriber.dialog(&office.office.uri(name));
        subscriber.ask(&mut there, "INVITE", "", SESSION);
        assert_eq!(subscriber.final_response("INVITE").status(), Some(404), "{name}");
    }
    let mut stranger = Agent::stranger(SUBSCRIBER, PROVIDER, office.office.address());
    let mut there = stranger.dialog(&uri);
    stranger.send(&mut there, "INVITE", "", SESSION);
    // It reaches the user as any stranger does, and not as a call of the trunk.
    let invite = alice.request("INVITE");
    let here = alice.dialog_with(&invite);
    alice.answer(&invite, &here, 486, "", "");
    alice.request("ACK");
    assert_eq!(stranger.final_response("INVITE").status(), Some(486));
    drop(office.provider);
}
