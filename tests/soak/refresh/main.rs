//! Calls of different phones through the B2BUA of a server whose sessions end after 90 seconds
//! without a refresh (RFC 4028). Each of them goes on for the whole time.
//!
//! `refresh-soak [SECONDS]` prints the refreshes of each phone, and fails if there were too few or
//! one was refused.

use peers::phone::Kind::{self, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::server::{Options, ServerProcess, TRUSTS_NOBODY};
use peers::test_server::{PASSWORD, account};
use peers::transport::Transport::{Tcp, Udp};
use std::time::{Duration, Instant};
use std::{env, thread};
use test_support::ports::free_ports;

/// The number of ports of the relay.
const PORTS: u16 = 100;
/// The session interval, the shortest one that RFC 4028 allows.
const INTERVAL: u64 = 90;
/// The calls: the phone of the caller and that of the callee, and their encryption.
const CALLS: [(Kind, Kind, Srtp); 5] = [
    (Barebell, Baresip, Srtp::Off),
    (Linphone, Barebell, Srtp::Off),
    (Baresip, Linphone, Srtp::Off),
    (Twinkle, Barebell, Srtp::Off),
    (Barebell, Linphone, Srtp::Required),
];

/// A call, the caller first.
struct Call {
    phones: [Phone; 2],
    /// The changes of the session of each phone before the call was left alone.
    before: [usize; 2],
}

fn name(call: usize, side: usize) -> String {
    format!("{}{call}", ["caller", "callee"][side])
}

/// The successful responses that a phone has sent or received to INVITE and UPDATE.
fn changes(phone: &Phone) -> usize {
    let statuses = ["INVITE", "UPDATE"].map(|method| phone.statuses(method)).concat();
    statuses.into_iter().filter(|&status| status == 200).count()
}

impl Call {
    fn begin(server: &ServerProcess, number: usize) -> Self {
        let (caller, callee, srtp) = CALLS[number];
        let phone = |kind: Kind, side: usize| {
            let transport = if kind == Barebell { Tcp } else { Udp };
            let account: Account = account(server, &name(number, side), transport);
            let codecs = if kind == Barebell { "PCMU,PCMA" } else { "" };
            Phone::registered(kind, Account { srtp, codecs, ..account })
        };
        let mut phones = [phone(caller, 0), phone(callee, 1)];
        let [caller, callee] = &mut phones;
        caller.dial_until_it_rings(&server.uri(&name(number, 1)));
        callee.wait_for(Event::Incoming);
        callee.act(&Action::Answer);
        caller.wait_for(Event::Established);
        callee.wait_for(Event::Established);
        let before = phones.each_ref().map(changes);
        Self { phones, before }
    }

    /// Ends the call after `time`. Returns the number of refreshes of each phone.
    fn end(mut self, time: Duration) -> [usize; 2] {
        let [caller, callee] = &mut self.phones;
        for phone in [&mut *caller, &mut *callee] {
            assert!(!phone.has_seen(Event::Ended), "{phone} has ended the call");
        }
        let tones = [callee.account.tone, caller.account.tone];
        caller.wait_until_it_hears_more(tones[0]);
        callee.wait_until_it_hears_more(tones[1]);
        let found = [0, 1].map(|side| changes(&self.phones[side]) - self.before[side]);
        for phone in &self.phones {
            for method in ["INVITE", "UPDATE"] {
                let refused: Vec<u16> = phone.statuses(method);
                let refused: Vec<_> = refused.into_iter().filter(|&it| it > 407).collect();
                assert!(refused.is_empty(), "{phone}: {refused:?} to {method}");
            }
        }
        let least = time.as_secs() / INTERVAL;
        for (phone, found) in self.phones.iter().zip(found) {
            println!("{phone}: {found} refreshes");
            assert!(found as u64 >= least, "{phone}: {found} refreshes, {least} are needed");
        }
        let [caller, callee] = &mut self.phones;
        caller.act(&Action::HangUp);
        caller.wait_for(Event::Ended);
        callee.wait_for(Event::Ended);
        found
    }
}

fn main() {
    let seconds = env::args().nth(1).map_or(200, |text| text.parse().expect("a number of seconds"));
    let time = Duration::from_secs(seconds);
    let users: Vec<_> = (0..CALLS.len())
        .flat_map(|call| [0, 1].map(|side| (name(call, side), PASSWORD.to_owned())))
        .collect();
    let calls = format!("[calls]\nmode = \"b2bua\"\nsession_expires = \"{INTERVAL}s\"\n");
    let first = free_ports(PORTS);
    let media = format!("[media]\nports = \"{first}-{}\"\n", first + PORTS - 1);
    let configuration = format!("{TRUSTS_NOBODY}{calls}{media}");
    let options =
        Options { arguments: &[], configuration: &configuration, users: &users, domain: "" };
    let server = ServerProcess::start(&options);
    let standing: Vec<Call> = (0..CALLS.len()).map(|number| Call::begin(&server, number)).collect();
    let end = Instant::now() + time;
    while Instant::now() < end {
        thread::sleep(Duration::from_secs(1));
        let calls = server.rows(&["calls", "--json"]).len();
        assert_eq!(calls, CALLS.len(), "{:?} before the end", end - Instant::now());
        thread::sleep(Duration::from_secs(9));
    }
    let found: Vec<_> = standing.into_iter().map(|call| call.end(time)).collect();
    for ((caller, callee, srtp), [one, other]) in CALLS.iter().zip(found) {
        println!("{caller:?} ({one}) to {callee:?} ({other}), SRTP {srtp:?}");
    }
}
