//! The regularity of phones' streams: delta, jitter and throughput of 10,000 packets in each
//! direction, between equal and different phones, unencrypted and with SRTP.
//!
//! Calls that are compared by their medians run in each of five rounds, all simultaneously and with
//! some of the others, so that other load on the machine affects all of them.

use crate::capture::{Capture, Stream};
use crate::setting;
use crate::table::{Table, figure, median, write};
use crate::timer;
use peers::phone::Kind::{self, Bare, Barebell, Baresip, Linphone, Twinkle};
use peers::phone::{Account, Action, Event, Phone, Srtp};
use peers::transport::Transport;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

/// The number of rounds. The results are medians over all rounds.
const ROUNDS: u64 = 5;
/// The duration of a call in seconds: slightly more than 10,000 packets.
const SECONDS: u64 = 203;
/// The duration of a call with real-time priority in seconds: 2,000 packets.
const SECONDS_REALTIME: u64 = 42;

const AES_80: &str = "AES_CM_128_HMAC_SHA1_80";
const AES_32: &str = "AES_CM_128_HMAC_SHA1_32";
const AES_192_80: &str = "AES_192_CM_HMAC_SHA1_80";
const AES_192_32: &str = "AES_192_CM_HMAC_SHA1_32";
const AES_256_80: &str = "AES_256_CM_HMAC_SHA1_80";
const AES_256_32: &str = "AES_256_CM_HMAC_SHA1_32";
const GCM_256: &str = "AEAD_AES_256_GCM";
const CLEAR: &str = "";

/// A call: the phones of caller and callee, and the suite.
type Pair = (Kind, Kind, &'static str);

/// The calls in each round.
const REPEATED: [Pair; 7] = [
    (Barebell, Barebell, CLEAR),
    (Baresip, Baresip, CLEAR),
    (Linphone, Linphone, CLEAR),
    (Twinkle, Twinkle, CLEAR),
    (Barebell, Barebell, AES_80),
    (Baresip, Baresip, AES_80),
    (Linphone, Linphone, AES_80),
];

/// The calls in a single round. No other phone supports 192 bits, baresip 1.0.0 offers one suite
/// and accepts three, Debian's Twinkle has no SRTP and rejects the offer of linphone (400).
const SINGLE: [Pair; 21] = [
    (Barebell, Barebell, AES_32),
    (Barebell, Barebell, AES_192_80),
    (Barebell, Barebell, AES_192_32),
    (Barebell, Barebell, AES_256_80),
    (Barebell, Barebell, AES_256_32),
    (Linphone, Linphone, AES_32),
    (Linphone, Linphone, AES_256_80),
    (Linphone, Linphone, AES_256_32),
    (Barebell, Baresip, CLEAR),
    (Barebell, Baresip, AES_80),
    (Barebell, Baresip, AES_32),
    (Barebell, Baresip, GCM_256),
    (Barebell, Linphone, CLEAR),
    (Barebell, Linphone, AES_80),
    (Barebell, Linphone, AES_32),
    (Barebell, Linphone, AES_256_80),
    (Barebell, Linphone, AES_256_32),
    (Barebell, Twinkle, CLEAR),
    (Baresip, Linphone, CLEAR),
    (Baresip, Linphone, AES_80),
    (Baresip, Twinkle, CLEAR),
];

/// A captured call: the streams from the caller and to it.
struct Measured {
    pair: Pair,
    streams: [Stream; 2],
}

/// Measures, and writes `quality.md` (medians), `keys.md` (Barebell by length of key and tag) and
/// `pairs.md` (all calls).
pub(crate) fn measure(folder: &Path) {
    std::fs::create_dir_all(folder).expect("the folder of results can be created");
    let rounds = setting("ROUNDS", ROUNDS);
    let span = Duration::from_secs(setting("SECONDS", SECONDS));
    let mut measured = Vec::new();
    for round in 0..rounds {
        let single = SINGLE.iter().enumerate().filter(|(n, _)| *n as u64 % rounds == round);
        let pairs = REPEATED.into_iter().chain(single.map(|(_, pair)| *pair));
        let pairs: Vec<Pair> = pairs.take(setting("PAIRS", 100) as usize).collect();
        eprintln!("round {} of {rounds}: {} simultaneous calls", round + 1, pairs.len());
        measured.extend(talk(&pairs, span, &folder.join(format!("round-{}.pcap", round + 1))));
    }
    write(folder, "quality.md", medians(&measured).text());
    write(folder, "keys.md", keys(&measured).text());
    write(folder, "pairs.md", all(&measured).text());
}

/// Measures the compared calls with real-time priority, and a plain timer without it at the same
/// time. Writes `realtime.md`.
pub(crate) fn measure_realtime(folder: &Path) {
    std::fs::create_dir_all(folder).expect("the folder of results can be created");
    let span = Duration::from_secs(setting("SECONDS", SECONDS_REALTIME));
    let (mut measured, mut wakings) = (Vec::new(), Vec::new());
    for round in 1..=setting("ROUNDS", ROUNDS) {
        eprintln!("round {round}");
        let file = folder.join(format!("realtime-{round}.pcap"));
        let timer = std::thread::spawn(move || timer::wake(span));
        measured.extend(talk(&REPEATED, span, &file));
        wakings.extend(timer.join());
    }
    let mut table = medians(&measured);
    table.row(timer::row(&wakings));
    write(folder, "realtime.md", table.text());
}

/// Runs the calls of all `pairs` simultaneously, and captures them in `file`.
fn talk(pairs: &[Pair], span: Duration, file: &Path) -> Vec<Measured> {
    let capture = Capture::start(file.to_owned(), "lo");
    let all_talk = Barrier::new(pairs.len());
    let ports: Vec<Option<[Vec<u16>; 2]>> = std::thread::scope(|scope| {
        let calls = pairs.iter().map(|&pair| {
            scope.spawn({
                let all_talk = &all_talk;
                move || call(pair, span, all_talk)
            })
        });
        let calls: Vec<_> = calls.collect();
        calls.into_iter().map(|call| call.join().ok()).collect()
    });
    let streams = capture.finish();
    let find = |from: &[u16], to: &[u16]| {
        let is_of = |stream: &&Stream| {
            from.contains(&stream.ports.0) && to.contains(&stream.ports.1) && stream.packets > 500
        };
        streams.iter().find(is_of).cloned()
    };
    let found = pairs.iter().zip(ports).filter_map(|(&pair, ports)| {
        let [caller, callee] = ports?;
        let streams = [find(&caller, &callee)?, find(&callee, &caller)?];
        Some(Measured { pair, streams })
    });
    found.collect()
}

/// Runs one call. Returns the ports of both ends.
fn call(pair: Pair, span: Duration, all_talk: &Barrier) -> [Vec<u16>; 2] {
    let (from, to, suite) = pair;
    // A failed call must not block the others at the barrier.
    let begun = std::panic::catch_unwind(|| {
        let mut callee = Phone::direct(to, account(to, "bob", suite, 1000));
        let mut caller = Phone::direct(from, account(from, "alice", suite, 440));
        caller.dial_until_it_rings(&callee.direct_uri());
        callee.wait_for(Event::Incoming);
        callee.act(&Action::Answer);
        caller.wait_for(Event::Established);
        callee.wait_for(Event::Established);
        (caller, callee)
    });
    all_talk.wait();
    let (mut caller, mut callee) = begun.unwrap_or_else(|cause| std::panic::resume_unwind(cause));
    std::thread::sleep(span);
    let ports = [caller.udp_ports(), callee.udp_ports()];
    caller.act(&Action::HangUp);
    callee.wait_for(Event::Ended);
    ports
}

fn account(kind: Kind, user: &str, suite: &'static str, tone: u32) -> Account {
    Account {
        user: user.to_owned(),
        password: String::new(),
        server: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        proxy: None,
        transport: Transport::Udp,
        issuers: None,
        has_server: false,
        listens: true,
        expires: 600,
        tone,
        srtp: if suite == CLEAR { Srtp::Off } else { Srtp::Required },
        // The other phones accept the offered suite.
        suites: if kind == Barebell || user == "alice" { suite } else { "" },
        codecs: "PCMU,PCMA",
        machine: None,
        stun: Vec::new(),
        options: String::new(),
    }
}

fn name(kind: Kind) -> &'static str {
    match kind {
        Barebell => "ours",
        Bare => "ours, bare",
        Baresip => "baresip",
        Linphone => "linphone",
        Twinkle => "Twinkle",
    }
}

/// The key and tag lengths of a suite, in bits.
fn words(suite: &str) -> &str {
    match suite {
        CLEAR => "none",
        AES_80 => "128, 80",
        AES_32 => "128, 32",
        AES_192_80 => "192, 80",
        AES_192_32 => "192, 32",
        AES_256_80 => "256, 80",
        AES_256_32 => "256, 32",
        GCM_256 => "256, GCM",
        other => other,
    }
}

/// The medians over all rounds of the worse direction of each call.
fn medians(measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        "phones",
        "SRTP: key, tag",
        "#calls",
        "#mean delta, ms",
        "#p99.9, ms",
        "#maximum, ms",
        "#mean jitter, ms",
        "#maximum, ms",
    ]);
    for pair in REPEATED {
        let calls: Vec<&Measured> = measured.iter().filter(|call| call.pair == pair).collect();
        let worse = |of: fn(&Stream) -> Option<f64>| {
            let worst =
                |call: &&Measured| call.streams.iter().filter_map(of).max_by(f64::total_cmp);
            median(calls.iter().filter_map(worst).collect())
        };
        table.row([
            name(pair.0).to_owned(),
            words(pair.2).to_owned(),
            calls.len().to_string(),
            figure(worse(|stream| Some(stream.mean_delta)), 3),
            figure(worse(|stream| stream.p999_delta), 2),
            figure(worse(|stream| Some(stream.max_delta)), 2),
            figure(worse(|stream| Some(stream.mean_jitter)), 3),
            figure(worse(|stream| Some(stream.max_jitter)), 2),
        ]);
    }
    table
}

/// The worse direction of calls between barebell-phones; of several calls the first.
fn keys(measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        "SRTP: key, tag",
        "#p99.9 of delta, ms",
        "#maximum, ms",
        "#mean jitter, ms",
        "#maximum, ms",
    ]);
    for pair in REPEATED.into_iter().chain(SINGLE) {
        let is_ours = pair.0 == Barebell && pair.1 == Barebell;
        let Some(call) = measured.iter().find(|call| is_ours && call.pair == pair) else {
            continue;
        };
        let worse = |of: fn(&Stream) -> Option<f64>| {
            call.streams.iter().filter_map(of).max_by(f64::total_cmp)
        };
        table.row([
            words(pair.2).to_owned(),
            figure(worse(|stream| stream.p999_delta), 2),
            figure(worse(|stream| Some(stream.max_delta)), 2),
            figure(worse(|stream| Some(stream.mean_jitter)), 3),
            figure(worse(|stream| Some(stream.max_jitter)), 2),
        ]);
    }
    table
}

/// All calls; of several calls of a pair the first.
fn all(measured: &[Measured]) -> Table {
    let mut table = Table::new(&[
        "from, to",
        "SRTP: key, tag",
        "codec",
        "#packets",
        "#lost",
        "#mean delta, ms",
        "#p99.9, ms",
        "#maximum, ms",
        "#mean jitter, ms",
        "#maximum, ms",
        "#kbit/s",
    ]);
    for pair in REPEATED.into_iter().chain(SINGLE) {
        let Some(call) = measured.iter().find(|call| call.pair == pair) else { continue };
        let [there, back] = &call.streams;
        assert_eq!(there.suite.as_deref().unwrap_or(CLEAR), pair.2, "the negotiated suite");
        let both = |of: fn(&Stream) -> String| format!("{}, {}", of(there), of(back));
        table.row([
            format!("{}, {}", name(pair.0), name(pair.1)),
            words(pair.2).to_owned(),
            there.encoding.clone(),
            both(|stream| stream.packets.to_string()),
            both(|stream| stream.lost.to_string()),
            both(|stream| figure(Some(stream.mean_delta), 3)),
            both(|stream| figure(stream.p999_delta, 2)),
            both(|stream| figure(Some(stream.max_delta), 2)),
            both(|stream| figure(Some(stream.mean_jitter), 3)),
            both(|stream| figure(Some(stream.max_jitter), 2)),
            both(|stream| figure(Some(stream.kbit_per_s), 2)),
        ]);
    }
    table
}
