//! Traces of calls through the B2BUA, as other programs read them: tshark the file of `barebell
//! trace --pcapng`, and Kamailio the messages in HEP.

use peers::call::establish;
use peers::folder::Folder;
use peers::process::{Process, Program, run, wait_until};
use peers::test_server::TestServer;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use test_support::ports::free_ports;

const TSHARK: Program = Program { name: "tshark", packages: "tshark" };
const KAMAILIO: Program = Program { name: "kamailio", packages: "kamailio" };

const B2BUA: &str = "[calls]\nmode = \"b2bua\"\n";

/// The fields of Kamailio's table that the test reads, and all others that it writes.
const COLUMNS: &str = "date:int micro_ts:int method reply_reason ruri ruri_user ruri_domain from_user \
    from_domain from_tag to_user to_domain to_tag pid_user contact_user auth_user callid \
    callid_aleg via_1 via_1_branch cseq diversion reason content_type auth user_agent source_ip \
    source_port:int destination_ip destination_port:int contact_ip contact_port:int originator_ip \
    originator_port:int expires:int correlation_id custom_field1 custom_field2 custom_field3 \
    proto:int family:int rtp_stat type:int node msg";

/// alice calls bob, which answers, and hangs up. Returns the addresses of their phones.
fn call(exchange: &TestServer) -> [String; 2] {
    let [alice, bob] = ["alice", "bob"].map(|user| exchange.agent(user));
    let ends = [alice.address().to_string(), bob.address().to_string()];
    let (mut alice, mut bob) = establish(alice, bob);
    alice.pass(&mut bob, "BYE", "");
    ends
}

/// The Call-IDs of the legs of the call of alice, that of the caller first.
fn call_ids(exchange: &TestServer) -> [String; 2] {
    exchange.server.wait_for_history(1);
    let records = exchange.server.rows(&["calls", "--history", "--json"]);
    ["call_id", "callee_call_id"].map(|key| records[0][key].as_str().expect("an ID").to_owned())
}

/// The frames of the file at `path`, as tshark reads these `fields`.
fn frames(path: &Path, fields: &[&str]) -> Vec<Vec<String>> {
    let mut command = TSHARK.command();
    command.arg("-r").arg(path).args(["-T", "fields"]);
    fields.iter().for_each(|field| {
        command.args(["-e", field]);
    });
    let text = run(TSHARK, command);
    text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

#[test]
fn tshark_reads_both_legs_of_a_call() {
    let exchange = TestServer::with(B2BUA, &[]);
    let ends = call(&exchange);
    let ids = call_ids(&exchange);
    let rows = exchange.server.rows(&["trace", &ids[1], "--json"]);
    let folder = Folder::new("trace");
    let path = folder.join("call.pcapng");
    let file = path.display().to_string();
    exchange.server.run(&["trace", &ids[0], "--pcapng", &file]);
    let fields = ["sip.Method", "sip.Status-Code", "sip.Call-ID", "udp.srcport", "udp.dstport"];
    let frames = frames(&path, &[&fields[..], &["sip.auth.digest.response"]].concat());
    assert_eq!(frames.len(), rows.len());
    let port =
        |end: &Value| end.as_str().expect("an end").rsplit_once(':').expect("a port").1.to_owned();
    for (frame, row) in frames.iter().zip(&rows) {
        let start =
            row["message"].as_str().expect("a message").split(' ').nth(1).expect("two words");
        assert!(frame[1] == start || !frame[0].is_empty(), "{frame:?} {row}");
        assert_eq!(frame[3..5], [port(&row["from"]), port(&row["to"])]);
        assert_eq!(frame[2], ids[usize::from(row["leg"] == 2)], "{row}");
        assert!(frame[5].chars().all(|letter| letter == 'x'), "{frame:?}");
    }
    let of = |id: &str, method: &str| {
        frames.iter().filter(|frame| frame[2] == id && frame[0] == method).count()
    };
    // The INVITE without and with credentials.
    assert_eq!((of(&ids[0], "INVITE"), of(&ids[1], "INVITE")), (2, 1));
    assert_eq!((of(&ids[0], "BYE"), of(&ids[1], "BYE")), (1, 1));
    assert!(frames.iter().any(|frame| !frame[5].is_empty()), "credentials are there");
    let found: BTreeSet<&str> =
        frames.iter().flat_map(|it| it[3..5].iter().map(|it| &it[..])).collect();
    for end in &ends {
        assert!(found.contains(end.rsplit_once(':').expect("a port").1), "{end}: {found:?}");
    }
}

/// The rows of the table of text in the file at `path`, as the values of its columns.
fn table(path: &Path) -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(path).expect("Kamailio has written its table");
    let row = |line: &str| {
        let (mut fields, mut letters) = (vec![String::new()], line.chars());
        while let Some(letter) = letters.next() {
            match letter {
                ':' => fields.push(String::new()),
                '\\' => fields.last_mut().expect("a field").extend(letters.next()),
                _ => fields.last_mut().expect("a field").push(letter),
            }
        }
        fields
    };
    text.lines().skip(1).map(row).collect()
}

#[test]
fn kamailio_reads_the_messages_in_hep_with_one_correlation_id_for_both_legs() {
    let folder = Folder::new("hep");
    let port = free_ports(1);
    std::fs::create_dir(folder.join("db")).expect("the folder can be created");
    folder.write("db/version", "table_name(string) table_version(int)\nsip_capture:4\n");
    let column = |word: &str| match word.split_once(':') {
        Some((name, kind)) => format!(" {name}({kind},null)"),
        None => format!(" {word}(string,null)"),
    };
    let columns: String = COLUMNS.split_whitespace().map(column).collect();
    folder.write("db/sip_capture", &format!("id(int,auto){columns}\n"));
    let configuration = format!(
        "#!KAMAILIO\ndebug=1\nchildren=1\nlisten=udp:127.0.0.1:{port}\ndisable_tcp=yes\n\
         loadmodule \"db_text.so\"\nloadmodule \"sipcapture.so\"\n\
         modparam(\"db_text\", \"db_mode\", 1)\n\
         modparam(\"sipcapture\", \"db_url\", \"text://{}\")\n\
         modparam(\"sipcapture\", \"capture_on\", 1)\n\
         modparam(\"sipcapture\", \"hep_capture_on\", 1)\n\
         request_route {{ sip_capture(\"sip_capture\"); drop; }}\n\
         onreply_route {{ sip_capture(\"sip_capture\"); drop; }}\n",
        folder.join("db").display()
    );
    folder.write("kamailio.cfg", &configuration);
    let mut command = KAMAILIO.command();
    command.args(["-DD", "-E", "-m", "64", "-M", "8", "-f"]).arg(folder.join("kamailio.cfg"));
    for option in ["-Y", "-w"] {
        command.arg(option).arg(folder.path());
    }
    let mut homer = Process::start(KAMAILIO, command, &folder.join("kamailio.log"));
    wait_until("the port of Kamailio", || {
        homer.assert_running();
        homer.udp_ports().contains(&port).then_some(())
    });
    let settings = format!("{B2BUA}[trace]\nhep = \"127.0.0.1:{port}\"\nhep_id = 77\n");
    let mut exchange = TestServer::with(&settings, &[]);
    let ends = call(&exchange);
    let ids = call_ids(&exchange);
    let messages = exchange.server.rows(&["trace", &ids[0], "--json"]).len();
    // The end of the server sends what is left.
    exchange.server.stop();
    let names: Vec<&str> = ["id"].into_iter().chain(COLUMNS.split_whitespace()).collect();
    let place = |name: &str| {
        names.iter().position(|it| it.split(':').next() == Some(name)).expect("a column")
    };
    let rows = wait_until("all messages of the call in the table", || {
        let rows: Vec<_> = table(&folder.join("db/sip_capture"))
            .into_iter()
            .filter(|row| row.get(place("correlation_id")) == Some(&ids[0]))
            .collect();
        (rows.len() >= messages).then_some(rows)
    });
    let values = |name: &str| -> BTreeSet<String> {
        rows.iter().map(|row| row[place(name)].clone()).collect()
    };
    assert_eq!(rows.len(), messages);
    assert_eq!(values("callid"), ids.into_iter().collect());
    assert!(values("node").iter().all(|node| node.ends_with(":77")), "{:?}", values("node"));
    let sources: BTreeSet<String> = rows
        .iter()
        .map(|row| format!("{}:{}", row[place("source_ip")], row[place("source_port")]))
        .collect();
    let mut expected: BTreeSet<String> = ends.into_iter().collect();
    expected.insert(exchange.server.address().to_string());
    assert_eq!(sources, expected);
    let texts: String = rows.iter().map(|row| row[place("msg")].clone()).collect();
    assert!(texts.contains("response=xxxx") && !texts.contains("response=\""), "{texts}");
}
