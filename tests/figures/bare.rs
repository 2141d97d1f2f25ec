//! The regularity of the bare-machine phone's stream: delta and jitter of 10,000 packets with SRTP
//! in each direction between the phone in QEMU and barebell-phone on this machine. The variables
//! ACCEL, CPU and CARD select QEMU's accelerator, processor and network card.

use crate::capture::{Capture, Stream};
use crate::setting;
use crate::table::{Table, figure, median, write};
use peers::image::lan::{Lan, SERVER, TAP};
use peers::phone::Kind::{Bare, Barebell};
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::test_server::account;
use peers::transport::Transport;
use std::path::Path;
use std::time::Duration;

/// The number of rounds. The results are medians over all rounds.
const ROUNDS: u64 = 5;
/// The duration of a call in seconds: slightly more than 10,000 packets.
const SECONDS: u64 = 203;

/// Measures, and writes `bare.md`.
pub(crate) fn measure(folder: &Path) {
    std::fs::create_dir_all(folder).expect("the folder of results can be created");
    let span = Duration::from_secs(setting("SECONDS", SECONDS));
    let rounds = setting("ROUNDS", ROUNDS);
    // The network exists as long as the thread that opened it.
    let mut lan = Lan::open();
    lan.serve(&[]);
    let mut measured = Vec::new();
    for round in 1..=rounds {
        eprintln!("round {round} of {rounds}");
        measured.push(call(span, &folder.join(format!("bare-{round}.pcap"))));
    }
    let mut table = Table::new(&[
        "from",
        "#calls",
        "#mean delta, ms",
        "#p99.9, ms",
        "#maximum, ms",
        "#mean jitter, ms",
        "#maximum, ms",
    ]);
    for (at, from) in ["the phone without an operating system", "ours on Linux"].iter().enumerate()
    {
        let of = |of: fn(&Stream) -> Option<f64>| {
            median(measured.iter().filter_map(|streams| of(&streams[at])).collect())
        };
        table.row([
            (*from).to_owned(),
            measured.len().to_string(),
            figure(of(|stream| Some(stream.mean_delta)), 3),
            figure(of(|stream| stream.p999_delta), 2),
            figure(of(|stream| Some(stream.max_delta)), 2),
            figure(of(|stream| Some(stream.mean_jitter)), 3),
            figure(of(|stream| Some(stream.max_jitter)), 2),
        ]);
    }
    write(folder, "bare.md", table.text());
}

/// One call. Returns the streams from and to the phone in QEMU.
fn call(span: Duration, file: &Path) -> [Stream; 2] {
    let options = "sound=tone:440".to_owned();
    let of = |user| Account { srtp: Srtp::Required, ..account(SERVER, user, Transport::Udp) };
    let mut bare = Phone::direct(Bare, Account { options, ..of("alice") });
    let mut other = Phone::direct(Barebell, of("bob"));
    let capture = Capture::start(file.to_owned(), TAP);
    bare.dial_until_it_rings(&other.direct_uri());
    other.wait_for(Event::Incoming);
    other.act(&Action::Answer);
    bare.wait_for(Event::Established);
    other.wait_for(Event::Established);
    std::thread::sleep(span);
    let ports = other.udp_ports();
    bare.act(&Action::HangUp);
    other.wait_for(Event::Ended);
    let streams = capture.finish();
    let find = |is_it: &dyn Fn(&Stream) -> bool| {
        let found = streams.iter().find(|stream| stream.packets > 500 && is_it(stream));
        found.cloned().expect("there is a stream in each direction")
    };
    [
        find(&|stream| ports.contains(&stream.ports.1)),
        find(&|stream| ports.contains(&stream.ports.0)),
    ]
}
