//! The file of `barebell trace --pcapng`, as tshark reads it.

use peers::call::establish;
use peers::folder::Folder;
use peers::process::{Program, run};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use serde_json::Value;
use sip::HeaderName;
use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;
use test_support::agent::SESSION;

const TSHARK: Program = Program { name: "tshark", packages: "tshark" };

/// The fields of a frame.
const FIELDS: [&str; 5] =
    ["sip.Method", "sip.Status-Code", "sip.Call-ID", "udp.srcport", "udp.dstport"];

/// The frames of the file at `path`, as the values of [`FIELDS`].
fn frames(path: &Path) -> Vec<Vec<String>> {
    let mut command = TSHARK.command();
    command.arg("-r").arg(path).args(["-T", "fields"]);
    for field in FIELDS {
        command.args(["-e", field]);
    }
    let text = run(TSHARK, command);
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

/// The port of an address in a row.
fn port(address: &Value) -> &str {
    let parts = address.as_str().and_then(|it| it.rsplit_once(':'));
    parts.expect("an address with a port").1
}

#[test]
fn tshark_reads_both_legs_of_a_call_through_the_b2bua() {
    let settings = format!("{TRUSTS_NOBODY}[calls]\nmode = \"b2bua\"\n");
    let exchange = TestServer::with(&settings, &[]);
    let [alice, bob] = ["alice", "bob"].map(|user| exchange.agent(user));
    let (mut alice, mut bob) = establish(alice, bob);
    alice.pass(&mut bob, "BYE", "");
    exchange.server.wait_for_history(1);
    let record = exchange.server.rows(&["calls", "--history", "--json"]).remove(0);
    let ids = ["call_id", "callee_call_id"].map(|key| record[key].as_str().expect("a Call-ID"));
    let rows = exchange.server.rows(&["trace", ids[1], "--json"]);
    let folder = Folder::new("trace");
    let path = folder.join("call.pcapng");
    let file = path.display().to_string();
    let _ = exchange.server.run(&["trace", ids[0], "--pcapng", &file]);
    let frames = frames(&path);
    assert_eq!(frames.len(), rows.len());
    for (frame, row) in frames.iter().zip(&rows) {
        let id = ids[usize::from(row["leg"] == 2)];
        assert_eq!(frame[2..5], [id, port(&row["from"]), port(&row["to"])], "{row}");
    }
    for id in ids {
        let has = |field: usize, value: &str| {
            frames.iter().any(|frame| frame[2] == id && frame[field] == value)
        };
        assert!(has(0, "INVITE") && has(0, "ACK") && has(0, "BYE") && has(1, "200"), "{frames:?}");
    }
}

#[test]
fn a_refusal_of_the_second_leg_is_found_by_the_call_id_of_the_first() {
    let settings = format!("{TRUSTS_NOBODY}[calls]\nmode = \"b2bua\"\n");
    let exchange = TestServer::with(&settings, &[]);
    let [mut alice, mut bob] = ["alice", "bob"].map(|user| exchange.agent(user));
    let mut calling = alice.dialog(&exchange.server.uri("bob"));
    alice.ask(&mut calling, "INVITE", "", SESSION);
    let invite = bob.request("INVITE");
    let called = bob.dialog_with(&invite);
    bob.answer(&invite, &called, 486, "", "");
    let refused = alice.response("INVITE", 486);
    let ids = [&refused, &invite].map(|it| it.value(HeaderName::CallId).to_owned());
    assert_ne!(ids[0], ids[1]);
    let rows = exchange.server.rows(&["why", &ids[0], "--json"]);
    let of = |id: &str, key: &str| {
        let row = rows.iter().find(|row| row["call_id"] == id && row["status"] == 486);
        row.unwrap_or_else(|| panic!("{rows:?}"))[key].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(of(&ids[0], "answered_by"), "the B2BUA of this server");
    assert_eq!(of(&ids[0], "source"), format!("udp:{}", alice.address()));
    assert_eq!(of(&ids[1], "answered_by"), format!("udp:{}", bob.address()));
    assert_eq!(of(&ids[1], "source"), "the B2BUA of this server");
    assert_eq!(exchange.server.rows(&["why", &ids[1], "--json"]), rows);
}

/// A message as Homer gets it: the chunks of HEP 3.
struct Capture {
    ports: [u16; 2],
    agent: u32,
    correlation: String,
    message: String,
}

impl Capture {
    /// Reads a datagram: `HEP3`, its length, and chunks of vendor, type, length and value.
    fn read(datagram: &[u8]) -> Self {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u32::from(byte));
        assert_eq!(&datagram[..4], b"HEP3");
        assert_eq!(number(&datagram[4..6]) as usize, datagram.len());
        let (mut ports, mut agent) = ([0; 2], 0);
        let [mut correlation, mut message] = [const { String::new() }; 2];
        let mut rest = &datagram[6..];
        while !rest.is_empty() {
            assert_eq!(number(&rest[..2]), 0, "the vendor of all chunks is none");
            let (kind, length) = (number(&rest[2..4]), number(&rest[4..6]) as usize);
            let value = &rest[6..length];
            let text = || String::from_utf8(value.to_vec()).expect("a message is text");
            match kind {
                7 | 8 => ports[kind as usize - 7] = number(value) as u16,
                12 => agent = number(value),
                15 => message = text(),
                17 => correlation = text(),
                _ => {}
            }
            rest = &rest[length..];
        }
        Self { ports, agent, correlation, message }
    }

    fn call_id(&self) -> Option<&str> {
        self.message.lines().find_map(|line| line.strip_prefix("Call-ID: "))
    }
}

#[test]
fn homer_gets_both_legs_of_a_call_with_one_correlation_id() {
    let homer = UdpSocket::bind("127.0.0.1:0").expect("a socket can be bound");
    homer.set_read_timeout(Some(Duration::from_secs(10))).expect("a time can be set");
    let place = homer.local_addr().expect("the socket is bound");
    let settings = format!(
        "{TRUSTS_NOBODY}[calls]\nmode = \"b2bua\"\n[trace]\nhep = \"{place}\"\nhep_id = 2001\n"
    );
    let exchange = TestServer::with(&settings, &[]);
    let [alice, bob] = ["alice", "bob"].map(|user| exchange.agent(user));
    let (mut alice, mut bob) = establish(alice, bob);
    alice.pass(&mut bob, "BYE", "");
    exchange.server.wait_for_history(1);
    let record = exchange.server.rows(&["calls", "--history", "--json"]).remove(0);
    let ids = ["call_id", "callee_call_id"].map(|key| record[key].as_str().expect("a Call-ID"));
    let rows = exchange.server.rows(&["trace", ids[0], "--json"]);
    let mut captures = Vec::new();
    let mut buffer = [0; 65_536];
    while captures.len() < rows.len() {
        let length = homer.recv(&mut buffer).expect("all messages are sent to Homer");
        let capture = Capture::read(&buffer[..length]);
        if capture.call_id().is_some_and(|id| ids.contains(&id)) {
            captures.push(capture);
        }
    }
    let legs: BTreeSet<_> = captures.iter().filter_map(Capture::call_id).collect();
    assert_eq!(legs, BTreeSet::from(ids), "both legs have come");
    for capture in &captures {
        assert_eq!((&*capture.correlation, capture.agent), (ids[0], 2001), "{}", capture.message);
        let row = rows.iter().find(|row| {
            let ends = ["from", "to"].map(|key| port(&row[key]).parse().ok());
            ends == capture.ports.map(Some)
        });
        assert!(row.is_some(), "{:?} are no ports of the call: {rows:?}", capture.ports);
    }
}
