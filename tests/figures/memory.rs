//! The memory of a phone over ten thousand consecutive calls.

use crate::caller::{Caller, PHONE, SUITE};
use crate::setting;
use crate::table::{Table, figure, write};
use peers::folder::Folder;
use peers::process::{Process, built, wait_until};
use peers::transport::Transport;
use serde_json::json;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use test_support::ports::free_ports;

/// The number of consecutive calls.
const CALLS: u64 = 10_000;
/// The duration of each call: two or three packets in each direction.
const STANDS: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(30);

/// Measures, and writes `memory.md`.
pub(crate) fn measure(folder: &Path) {
    let own = Folder::new("memory");
    let port = free_ports(1);
    let mut command = Command::new(built(PHONE.name, "BAREBELL_PHONE_BIN"));
    command.args(["answer", "--auto", "--echo", "--codecs", "PCMU"]);
    command.args(["--srtp", "required", "--suites", SUITE]);
    command.args(["--listen", &format!("127.0.0.1:{port}")]);
    let called = Process::start(PHONE, command, &own.join("phone.log"));
    wait_until("the phone to listen", || {
        Transport::Udp.is_listening(Ipv4Addr::LOCALHOST, port).then_some(())
    });
    let mut caller = Caller::start();
    let uri = format!("sip:bob@127.0.0.1:{port}");
    let calls = setting("CALLS", CALLS);
    let mut table = Table::new(&["after calls", "#callee, MB", "#caller, MB"]);
    for number in 1..=calls {
        caller.call(&uri);
        let answered = caller.wait_for("answered", 1, PATIENCE);
        assert_eq!(answered.len(), 1, "call {number} is not answered");
        std::thread::sleep(STANDS);
        caller.say(&json!({ "command": "hang_up", "call": number }));
        let ended = caller.wait_for("ended", 1, PATIENCE);
        assert_eq!(ended.len(), 1, "call {number} does not end");
        if number == calls / 100 || number % (calls / 10).max(1) == 0 {
            eprintln!("{number} calls");
            let mb = |process: &Process| figure(Some(process.memory() as f64 / 1e6), 2);
            table.row([number.to_string(), mb(&called), mb(&caller.process)]);
        }
    }
    write(folder, "memory.md", table.text());
}
