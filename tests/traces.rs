//! The file of `barebell trace --pcapng`, as tshark reads it.

use peers::call::establish;
use peers::folder::Folder;
use peers::process::{Program, run};
use peers::server::TRUSTS_NOBODY;
use peers::test_server::TestServer;
use serde_json::Value;
use std::path::Path;

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
