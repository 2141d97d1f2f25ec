//! The first server of a trunk in the DNS dies within its work: registration, calls and accepted
//! sources move to the next server of the SRV records together.

use crate::apart::{apart, replace};
use peers::process::wait_until;
use peers::server::{DOMAIN, Options, ServerProcess, TRUSTS_NOBODY};
use peers::test_server::PASSWORD;
use std::net::Ipv4Addr;
use test_support::agent::{Agent, SESSION};
use test_support::dns::{self, srv};

/// The account of the office, and a subscriber of the provider.
const ACCOUNT: &str = "4930111";
const SUBSCRIBER: &str = "4930456789";

/// The domain of the provider, which only the DNS knows.
const PROVIDER: &str = "provider.test";

fn users(names: &[&str]) -> Vec<(String, String)> {
    names.iter().map(|&name| (name.to_owned(), PASSWORD.to_owned())).collect()
}

fn server_of_provider() -> ServerProcess {
    ServerProcess::start(&Options {
        users: &users(&[SUBSCRIBER, ACCOUNT]),
        domain: PROVIDER,
        configuration: TRUSTS_NOBODY,
        arguments: &[],
    })
}

/// True if the account of the office is registered at `provider`.
fn has_account(provider: &ServerProcess) -> bool {
    let account = format!("{ACCOUNT}@{PROVIDER}");
    provider.registrations().iter().any(|binding| binding.address_of_record == account)
}

/// Alice calls the subscriber, whose phone is at `provider` and is busy.
fn call(office: &ServerProcess, provider: &ServerProcess) {
    let mut subscriber = Agent::new(SUBSCRIBER, PASSWORD, PROVIDER, provider.address());
    subscriber.register();
    let mut alice = Agent::new("alice", PASSWORD, DOMAIN, office.address());
    alice.register();
    let mut here = alice.dialog(&office.uri(&format!("+{SUBSCRIBER}")));
    alice.ask(&mut here, "INVITE", "", SESSION);
    let invite = subscriber.request("INVITE");
    let there = subscriber.dialog_with(&invite);
    subscriber.answer(&invite, &there, 486, "", "");
    subscriber.request("ACK");
    assert_eq!(alice.final_response("INVITE").status(), Some(486));
    // A call to the office comes from the same server.
    let mut there = subscriber.dialog(&format!("sip:{ACCOUNT}@{PROVIDER}"));
    subscriber.ask(&mut there, "INVITE", "", SESSION);
    let invite = alice.request("INVITE");
    let here = alice.dialog_with(&invite);
    alice.answer(&invite, &here, 486, "", "");
    alice.request("ACK");
    assert_eq!(subscriber.final_response("INVITE").status(), Some(486));
}

#[test]
fn a_trunk_moves_to_the_next_server_of_its_srv_records() {
    apart(|| {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let file = folder.path().join("resolv.conf");
        std::fs::write(&file, "nameserver 127.0.0.1\n").expect("the file can be written");
        replace("/etc/resolv.conf", &file);
        let (mut first, second) = (server_of_provider(), server_of_provider());
        let [port, other] = [&first, &second].map(|server| server.address().port());
        let here = Ipv4Addr::LOCALHOST.octets().to_vec();
        let service = "_sip._udp.provider.test";
        let records = vec![
            (service, dns::SRV, srv(1, port, "a.provider.test")),
            (service, dns::SRV, srv(2, other, "b.provider.test")),
            ("a.provider.test", dns::A, here.clone()),
            ("b.provider.test", dns::A, here),
        ];
        let _ = dns::serve((Ipv4Addr::LOCALHOST, 53).into(), records).expect("port 53 is free");
        let configuration = format!(
            "{TRUSTS_NOBODY}[media]\nports = \"33200-33299\"\n\
             [[trunks]]\nname = \"uplink\"\nhost = \"{PROVIDER}\"\ntransport = \"udp\"\n\
             register = true\nprobe_interval = \"10s\"\n\
             [[trunks.accounts]]\nuser = \"{ACCOUNT}\"\npassword = \"{PASSWORD}\"\n\
             [numbers]\ncountry = \"49\"\n\
             [[numbers.rules]]\nname = \"out\"\nprefix = \"+49\"\nremove = \"+\"\n\
             trunks = [\"uplink\"]\n\
             [[numbers.did]]\nname = \"in\"\nnumber = \"+{ACCOUNT}\"\nto = \"user:alice\"\n"
        );
        let office = ServerProcess::start(&Options {
            users: &users(&["alice"]),
            configuration: &configuration,
            ..Options::default()
        });
        wait_until("a registration at the first server", || has_account(&first).then_some(()));
        call(&office, &first);
        assert!(!has_account(&second));
        first.crash();
        wait_until("a registration at the second server", || has_account(&second).then_some(()));
        let target = format!("udp:{}", second.address());
        wait_until("the trunk has the second server", || {
            let trunks = office.rows(&["trunks", "--json"]);
            (trunks[0]["target"] == target.as_str()).then_some(())
        });
        let line = office.wait_for_line("has failed: ");
        assert!(line.contains(&port.to_string()), "{line}");
        call(&office, &second);
    });
}
